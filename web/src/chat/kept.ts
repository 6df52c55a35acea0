// Texts of answers that were stopped. The server stores a text when it is complete, so this tab keeps them.
import type { StoredMessage } from "../api/types";

/** Name under which the tab keeps them. */
const NAME = "stopped";
/** Number of texts that are kept. */
const TEXTS_MAX = 20;

export const KEPT = "Its text is not stored: this tab alone has it.";
export const NOT_KEPT = "The text that it had by then is not stored.";

interface Kept {
  run: string;
  text: string;
}

function read(): Kept[] {
  return JSON.parse(sessionStorage.getItem(NAME) ?? "[]") as Kept[];
}

/** Keeps the text of an answer whose run is stopped. */
export function keepText(run: string, text: string): void {
  if (text.trim() === "") return;
  const kept = read().filter((one) => one.run !== run);
  sessionStorage.setItem(NAME, JSON.stringify([...kept, { run, text }].slice(-TEXTS_MAX)));
}

/** Returns a stored answer with the text that it had when it was stopped, as far as this tab has it. */
export function withKeptText(message: StoredMessage): StoredMessage {
  const { id, role, parts, metadata } = message;
  if (role !== "assistant" || metadata?.finishReason !== "other") return message;
  const kept = read().find(({ run }) => run === id || run === metadata.runId);
  const stored = parts.map(({ type, text }) => (type === "text" ? (text ?? "") : "")).join("");
  if (!kept || !kept.text.startsWith(stored) || kept.text === stored) return message;
  const text = kept.text.slice(stored.length);
  return { ...message, parts: [...parts, { type: "text", text }], metadata: { ...metadata, isKept: true } };
}
