import { HttpError, json, request } from "../api/http";
import { isOwn, sendOnce } from "../api/sent";
import type { Answered, JsonObject, Waiting } from "../api/types";
import { usePolled } from "../shared/polled";
import { bodyOf, type Answer } from "../question/answer";

/** Number of questions in the inbox. */
const LIMIT = 100;

/**
 * Orders questions, oldest first. Those of the same time are by thread, and within one in the order of the server:
 * ages are counted to the moment at which each was read, and differ between two reads.
 */
function byAge(a: Waiting, b: Waiting): number {
  return Date.parse(a.created_at) - Date.parse(b.created_at) || a.thread_id.localeCompare(b.thread_id);
}

/** Returns what waits for a person, oldest first. */
export function useInbox() {
  return usePolled(
    "inbox",
    async (signal) => {
      const found = await json<Waiting[]>("GET /interrupts", { query: { limit: LIMIT }, signal });
      return found.sort(byAge);
    },
    2500,
  );
}

/** Reads the last answers that were given on a thread. */
export function answeredOn(thread: string): Promise<Answered[]> {
  return json("GET /interrupts", { query: { answered: "true", thread_id: thread, limit: LIMIT } });
}

/** Reads the open questions of a thread. */
export function waitingOn(thread: string): Promise<Waiting[]> {
  return json("GET /interrupts", { query: { thread_id: thread, limit: LIMIT } });
}

/** Returns what people answered last, newest first. */
export function useAnswered() {
  const query = { answered: "true", limit: LIMIT };
  return usePolled("answered", (signal) => json<Answered[]>("GET /interrupts", { query, signal }), 5000);
}

/** An answer to a question. */
export interface Given {
  waiting: Waiting;
  answer: Answer;
}

/** Sends the answers to questions of one thread: all are taken, or none. */
export async function respond(given: Given[]): Promise<void> {
  const [first, ...others] = given;
  if (first === undefined) return;
  const { waiting, answer } = first;
  const further = Object.fromEntries(others.map(({ waiting: { id }, answer }) => [id, bodyOf(answer)]));
  const body = { ...(bodyOf(answer) as JsonObject), ...(others.length > 0 && { further }) };
  const { id, thread_id } = waiting;
  const find = (key: string) => isTaken(thread_id, key);
  try {
    await sendOnce({
      what: JSON.stringify(given.map(({ waiting: { id }, answer }) => [id, answer])),
      isAnswer: true,
      send: (key) => request("POST /interrupts/{interrupt_id}/respond", { path: { interrupt_id: id }, body, key }),
      find,
    });
  } catch (error) {
    throw await withOwnFirst(error as Error, thread_id, ({ id }) => given.some(({ waiting }) => waiting.id === id));
  }
}

/** Returns `true` if an answer was taken that was sent under a key. */
export async function isTaken(thread: string, key: string): Promise<boolean> {
  return (await answeredOn(thread)).some(({ idempotency_key }) => idempotency_key === key);
}

/** Returns the refusal of an answer; if the answer that counted was sent here, the refusal says so. */
export async function withOwnFirst(error: Error, thread: string, isAbout: (answered: Answered) => boolean): Promise<Error> {
  if (!(error instanceof HttpError) || error.status !== 409) return error;
  const first = (error.body as { first?: object } | null)?.first;
  if (first === undefined) return error;
  const found = (await answeredOn(thread).catch(() => [])).filter(isAbout);
  return found.some(({ idempotency_key }) => isOwn(idempotency_key)) ? new HttpError(409, error.message, { first: { ...first, isOwn: true } }) : error;
}
