// Starts of graphs without messages, each of which happens once.
import { HttpError, json, request } from "../api/http";
import { sendOnce } from "../api/sent";
import type { JsonObject } from "../api/types";

interface Start {
  thread: string;
  agent: string;
  input: JsonObject;
}

/** Starts a run of a graph on a thread under a key, which its metadata has too. */
export async function requestRun({ thread, agent, input }: Start, key: string): Promise<void> {
  const body = { assistant_id: agent, input, multitask_strategy: "reject", metadata: { idempotency_key: key } };
  await request("POST /threads/{thread_id}/runs", { path: { thread_id: thread }, body, key });
}

/** Returns `true` if a run of a thread was started under a key. */
export async function isStarted(thread: string, key: string): Promise<boolean> {
  const path = { thread_id: thread };
  try {
    const runs = await json<{ metadata: { idempotency_key?: string } }[]>("GET /threads/{thread_id}/runs", { path });
    return runs.some(({ metadata }) => metadata.idempotency_key === key);
  } catch (error) {
    // The thread was not created.
    if (error instanceof HttpError && error.status === 404) return false;
    throw error;
  }
}

/** Starts a run of a graph on a thread once, also if the reply is lost. */
export async function startOnce(start: Start): Promise<void> {
  await sendOnce({
    what: JSON.stringify(["run", start]),
    send: (key) => requestRun(start, key),
    find: (key) => isStarted(start.thread, key),
  });
}
