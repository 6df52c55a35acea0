import { json } from "../api/http";
import type { StoredMessage, Thread } from "../api/types";
import { go } from "../shared/route";
import { newUuid } from "../shared/uuid";
import { copyThread, createThread } from "../threads/data";
import { firstTexts } from "./texts";

/** Begins a thread with the messages before one of the user, and says another text there. */
export async function branchOf(thread: Thread, agent: string, place: number, text: string): Promise<void> {
  const path = { agent, thread_id: thread.thread_id };
  const stored = await json<StoredMessage[]>("GET /chat/{agent}/{thread_id}", { path });
  const before = stored.filter(({ role }) => role === "user")[place]?.metadata?.checkpointId;
  if (before === undefined) throw new Error("This message came with a copy of its thread; branch the thread it was copied from.");
  const id = before === null ? await begun(thread, agent, text) : await copyThread(thread, "branch", before);
  firstTexts.set(id, text);
  go({ view: "thread", thread: id });
}

async function begun(thread: Thread, agent: string, text: string): Promise<string> {
  const id = newUuid();
  const { assistant_id = agent, graph_id = agent } = thread.metadata;
  await createThread(id, { assistant_id, graph_id }, text.slice(0, 80));
  return id;
}
