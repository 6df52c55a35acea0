// What was sent under a key, also if the reply was lost.
import { noteLoss, whenFound } from "./connection";
import { HttpError } from "./http";
import { newUuid } from "../shared/uuid";

/** Name under which the tab keeps the keys of what it sent. */
const OWN = "sent";
/** Number of keys that are kept. */
const OWN_MAX = 100;
/** Pause before the server is asked again for what it did not have, and for a thread on which an agent works. */
const PAUSE_MS = 800;
/** Time for which an answer waits for an agent that works. */
const BUSY_MS = 60_000;

/** Keys of what is sent again until it is taken. */
const pending = new Map<string, string>();

function ownKeys(): string[] {
  return JSON.parse(sessionStorage.getItem(OWN) ?? "[]") as string[];
}

/** Returns `true` for the key of something that was sent here. */
export function isOwn(key: string | null | undefined): boolean {
  return key != null && ownKeys().includes(key);
}

/** Returns the key of something that is sent: the same one until it is taken. */
function keyOf(what: string): string {
  let key = pending.get(what);
  if (key === undefined) {
    key = newUuid();
    pending.set(what, key);
    sessionStorage.setItem(OWN, JSON.stringify([...ownKeys(), key].slice(-OWN_MAX)));
  }
  return key;
}

/** Returns `true` if nobody knows if the server took a request: it gave no reply, or one of a gateway. */
export function hasNoReply(error: unknown): boolean {
  return error instanceof HttpError && (error.status === 0 || error.status >= 502);
}

/** Returns `true` if the server took nothing because an agent works on the thread. */
export function isBusy(error: unknown): boolean {
  // The text of the server is for programs, which choose a strategy.
  return error instanceof HttpError && error.status === 409 && error.message.includes("multitask strategy");
}

const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

/** Reads something, as soon as the server is there. */
async function readWhenFound<T>(read: () => Promise<T>): Promise<T> {
  for (;;) {
    await whenFound();
    try {
      return await read();
    } catch (error) {
      if (!hasNoReply(error)) throw error;
      noteLoss();
      await pause();
    }
  }
}

interface Sending<T> {
  /** Words that identify what is sent. */
  what: string;
  /** `true` for an answer, which waits for the agent if it works on an answer before. */
  isAnswer?: boolean;
  send: (key: string) => Promise<T>;
  /** Returns `true` if the server has what was sent under a key. */
  find: (key: string) => Promise<boolean>;
}

/**
 * Sends something once. If the reply is lost, it is looked up when the server is there again: the result is
 * `undefined` if the server took it, and an error otherwise.
 */
export async function sendOnce<T>({ what, isAnswer = false, send, find }: Sending<T>): Promise<T | undefined> {
  const key = keyOf(what);
  const end = Date.now() + BUSY_MS;
  for (;;) {
    try {
      const sent = await send(key);
      pending.delete(what);
      return sent;
    } catch (error) {
      if (isAnswer && isBusy(error) && Date.now() < end) {
        await pause();
        continue;
      }
      if (!hasNoReply(error)) throw error;
      noteLoss();
      // What was on its way may arrive after the connection.
      const isTaken = (await readWhenFound(() => find(key))) || (await pause().then(() => readWhenFound(() => find(key))));
      if (!isTaken) throw error;
      pending.delete(what);
      return undefined;
    }
  }
}
