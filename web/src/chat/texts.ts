import type { Added } from "./attach";
import type { Ask } from "../records/data";
import type { Said } from "./files";

/** What begins a thread, and the agent and the model that answer. */
export interface First extends Said {
  agent: string;
  model?: string;
  /** What an agent with a definition is asked for, other than its usual answer. */
  ask?: Ask;
}

/** What begins threads that were created, by thread. */
export const firstTexts = new Map<string, First>();

/** Files of messages that are not sent, by thread. */
export const unsentFiles = new Map<string, Added[]>();

/** Prefix of the names under which the tab keeps drafts. */
const DRAFT = "draft:";

/** Name of the draft of a thread that does not exist yet. */
export const NEW_CHAT = "";

/** Texts that were typed and are not sent, by thread. The tab keeps them when the page is loaded again. */
export const drafts = {
  get: (thread: string): string | undefined => sessionStorage.getItem(DRAFT + thread) ?? undefined,
  set(thread: string, text: string) {
    if (text === "") sessionStorage.removeItem(DRAFT + thread);
    else sessionStorage.setItem(DRAFT + thread, text);
  },
};

/** Takes what begins a thread out of a map. */
export function take(texts: Map<string, First>, thread: string): First | undefined {
  const text = texts.get(thread);
  texts.delete(thread);
  return text;
}
