/** Texts that begin threads which were created, by thread. */
const texts = new Map<string, string>();

export function keepFirstText(thread: string, text: string): void {
  texts.set(thread, text);
}

/** Returns the text with which a thread begins, once. */
export function takeFirstText(thread: string): string | undefined {
  const text = texts.get(thread);
  texts.delete(thread);
  return text;
}
