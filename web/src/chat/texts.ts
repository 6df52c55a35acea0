/** Texts that begin threads which were created, by thread. */
export const firstTexts = new Map<string, string>();

/** Texts that were typed and are not sent, by thread. */
export const drafts = new Map<string, string>();

/** Takes the text of a thread out of a map. */
export function take(texts: Map<string, string>, thread: string): string | undefined {
  const text = texts.get(thread);
  texts.delete(thread);
  return text;
}
