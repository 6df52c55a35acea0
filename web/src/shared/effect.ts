/** Effects of tools in words, for a sentence about the tool. */
const EFFECTS: Record<string, string> = {
  read_only: "It only reads.",
  state_change: "It changes data of this program.",
  external_side_effect: "It acts outside of this program, which cannot be undone.",
};

/** Returns the effect of a tool as a sentence. */
export function sentenceOfEffect(effect: string | undefined): string | undefined {
  return effect && (EFFECTS[effect] ?? `Its effect is ${effect.replaceAll("_", " ")}.`);
}

/** Returns the reason for which a policy asks as a sentence: `it moves money` is `It moves money.` */
export function sentenceOfReason(reason: string | undefined | null): string | undefined {
  return reason ? `${reason.charAt(0).toUpperCase()}${reason.slice(1)}${/[.!?]$/.test(reason) ? "" : "."}` : undefined;
}

/** Returns the name of a tool as rules and approvals have it: models call the tool `pay` of a server `lab__pay`. */
export function nameOfTool(name: string): string {
  return name.replace("__", "/");
}
