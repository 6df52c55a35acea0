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

/** Largest length of a title that is made of a text. */
export const TITLE_MAX = 80;

/** Returns the title of what begins with a text: its first words, without markup. */
export function titleOfText(text: string): string {
  return wordsOfMarkdown(text.slice(0, 400)).slice(0, TITLE_MAX);
}
