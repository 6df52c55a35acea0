import { json, request } from "../api/http";
import type { Assistant, StateMessage, Thread } from "../api/types";
import { usePolled } from "../shared/polled";

/** Number of threads in the list. */
const LIMIT = 50;

export type Status = "running" | "waiting" | "failed" | "done";

/** The status of a thread in the words of the page. */
export const STATUS: Record<Status, string> = {
  running: "Running",
  waiting: "Waits for you",
  failed: "Failed",
  done: "Done",
};

export function statusOf(thread: Thread): Status {
  const words = { busy: "running", interrupted: "waiting", error: "failed", idle: "done" } as const;
  return words[thread.status];
}

function textOf(message: StateMessage): string {
  const { content } = message;
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "text" ? (part.text ?? "") : "")).join("");
}

/** Returns the title of a thread: its own, or the first words of its user. */
export function titleOf(thread: Thread): string {
  const first = thread.values?.messages?.find((message) => message.type === "human");
  return thread.metadata.title ?? ((first && textOf(first).slice(0, 80)) || "Untitled thread");
}

/** Returns the last words of a thread. */
export function lastWordsOf(thread: Thread): string {
  const texts = (thread.values?.messages ?? []).map((message) => (message.type === "tool" ? "" : textOf(message)));
  return texts.findLast((text) => text !== "")?.slice(0, 160) ?? "";
}

export function agentOf(thread: Thread): string | undefined {
  return thread.metadata.graph_id;
}

export function useThreads() {
  const body = { limit: LIMIT, sort_by: "updated_at", sort_order: "desc" };
  return usePolled("threads", (signal) => json<Thread[]>("POST /threads/search", { body, signal }), 2500);
}

export function useAssistants() {
  const body = { limit: 100 };
  return usePolled("assistants", (signal) => json<Assistant[]>("POST /assistants/search", { body, signal }), 30_000);
}

export function useThread(id: string) {
  const path = { thread_id: id };
  return usePolled(id, (signal) => json<Thread>("GET /threads/{thread_id}", { path, signal }), 1500);
}

/** Creates a thread for an agent. */
export async function createThread(id: string, assistant: Assistant, title: string): Promise<void> {
  const { assistant_id, graph_id } = assistant;
  await request("POST /threads", { body: { thread_id: id, metadata: { assistant_id, graph_id, title } } });
}

export async function deleteThread(id: string): Promise<void> {
  await request("DELETE /threads/{thread_id}", { path: { thread_id: id } });
}
