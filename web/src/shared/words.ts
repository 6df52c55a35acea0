/** Marks of Markdown, and what is left of them in a line of text. */
const MARKS: [marks: RegExp, left: string][] = [
  [/^(`{3,}|~{3,}).*$/gm, " "],
  [/!?\[([^\]]*)\]\([^)\s]*(?:\s"[^"]*")?\)/g, "$1"],
  [/^\s{0,3}(?:#{1,6}\s+|>\s?|[-*+]\s+|\d+[.)]\s+)/gm, ""],
  [/^\s*\|?[\s:|-]*-{3,}[\s:|-]*$/gm, " "],
  [/\s*\|\s*/g, " "],
  [/(\*\*|__|~~)(?=\S)(.+?)(?<=\S)\1/g, "$2"],
  [/(?<![\w*])([*_])(?=\S)(.+?)(?<=\S)\1(?![\w*])/g, "$2"],
  [/`+([^`]+)`+/g, "$1"],
  [/\$\$|\\[()[\]]/g, ""],
];

/** Returns the words of a Markdown text in one line, without its marks. */
export function wordsOfMarkdown(text: string): string {
  return MARKS.reduce((words, [marks, left]) => words.replace(marks, left), text).replace(/\s+/g, " ").trim();
}
