// Formulas as MathML, which browsers draw with the fonts of the system. Loaded when the first one is drawn.
import katex from "katex";

/** Size above which a formula is shown as it is written. */
const CHARACTERS_MAX = 4_000;

/** Draws a formula into an element; returns `false` for one that cannot be read, and leaves it out. */
export function typeset(formula: string, isDisplay: boolean, into: HTMLElement): boolean {
  if (formula.length > CHARACTERS_MAX) return false;
  try {
    katex.render(formula, into, { displayMode: isDisplay, output: "mathml", throwOnError: true, trust: false, strict: "ignore", maxExpand: 200, errorColor: "currentcolor" });
    return true;
  } catch {
    return false;
  }
}
