import { json, request } from "../api/http";
import type { Answered, Waiting } from "../api/types";
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

export async function respond(id: string, answer: Answer): Promise<void> {
  await request("POST /interrupts/{interrupt_id}/respond", { path: { interrupt_id: id }, body: bodyOf(answer) });
}
