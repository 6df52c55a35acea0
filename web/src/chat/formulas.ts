// The notations of formulas that models write, in the one that the Markdown parser reads.

/** Code, which stays as it is, and formulas: `\[…\]`, `\(…\)`, `$$…$$` and `$…$`. */
const PARTS = new RegExp(
  [
    /(?<code>(?:^|\n)[ \t]*(?<fence>`{3,}|~{3,})[^]*?(?:\n[ \t]*\k<fence>[`~]*[ \t]*(?=\n|$)|$)|(?<ticks>`+)(?!`)(?:(?!\n\s*\n)[^])*?[^`]\k<ticks>(?!`))/,
    /\\\[(?<brackets>(?:(?!\n\s*\n)[^])+?)\\\]/,
    /\\\((?<parentheses>(?:(?!\n\s*\n)[^])+?)\\\)/,
    /(?<!\\)\$\$(?<double>(?:(?!\n\s*\n|\$\$)[^])+?)\$\$/,
    // An amount of money ends no formula: no space is inside its signs, and no digit follows.
    /(?<![\\$\w])\$(?<single>[^\s$`](?:[^$\n`]*[^\s$\\`])?)\$(?![\d$\w])/,
  ]
    .map(({ source }) => source)
    .join("|"),
  "g",
);

/** Returns a text with each formula between two `$$`: alone on its lines, or within one. */
export function withFormulas(text: string): string {
  if (!/[$]|\\[([]/.test(text)) return text;
  return text.replace(PARTS, (whole: string, ...rest: unknown[]) => {
    const groups = rest.at(-1) as Record<string, string | undefined>;
    const at = rest.at(-3) as number;
    if (groups.code !== undefined) return whole;
    const formula = groups.brackets ?? groups.parentheses ?? groups.double ?? groups.single ?? "";
    const isDisplay = groups.brackets !== undefined || groups.double !== undefined;
    const before = text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
    const isAlone = /^[ \t]*$/.test(before) && /^[ \t]*(\n|$)/.test(text.slice(at + whole.length));
    if (!isDisplay || !isAlone) return `$$${formula.trim().replaceAll("\n", " ")}$$`;
    return ["$$", ...formula.trim().split("\n"), "$$"].join(`\n${before}`);
  });
}
