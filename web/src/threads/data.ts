import { useEffect, useRef } from "react";
import { json, request } from "../api/http";
import { sendOnce } from "../api/sent";
import type { Assistant, Json, Thread } from "../api/types";
import { usePolled } from "../shared/polled";
import { Store, useStore } from "../shared/store";
import { clock } from "../shared/time";
import { wordsOfMarkdown } from "../shared/words";

/** Number of threads that the list grows by. */
export const PAGE = 50;
/** Maximum number of threads that the server returns at once. */
const LIMIT_MAX = 1000;
/** Maximum number of words that the server searches for. */
const WORDS_MAX = 16;

export type Status = "running" | "waiting" | "timed" | "failed" | "limited" | "stopped" | "new" | "done";

/** The status of a thread in the words of the page. */
export const STATUS: Record<Status, string> = {
  running: "Running",
  waiting: "Waits for you",
  timed: "Waits for a time",
  failed: "Failed",
  limited: "Reached its limit",
  stopped: "Stopped",
  new: "Nothing sent",
  done: "Done",
};

const WORDS = { busy: "running", interrupted: "waiting", error: "failed", idle: "done" } as const;
/** Ends of the last run after which a thread is done. */
const DONE = ["completed", "interrupted", "failed", "copied"];
/** Conditions of a search by status. */
const CONDITIONS: Record<Status, { status?: Thread["status"]; timed?: boolean; last_run?: string | string[] }> = {
  running: { status: "busy", timed: false },
  waiting: { status: "interrupted", timed: false },
  timed: { timed: true },
  failed: { status: "error" },
  limited: { status: "idle", last_run: "limit_reached" },
  stopped: { status: "idle", last_run: "cancelled" },
  new: { status: "idle", last_run: "none" },
  done: { status: "idle", last_run: DONE },
};

export function statusOf(thread: Thread): Status {
  if (thread.waits_until) return "timed";
  if (thread.status === "idle" && thread.last_run === "cancelled") return "stopped";
  if (thread.status === "idle" && thread.last_run === "limit_reached") return "limited";
  if (thread.status === "idle" && thread.last_run === null) return "new";
  return WORDS[thread.status];
}

/** Returns the status of a thread in words, with the time for which it waits. */
export function statusWordsOf(thread: Thread): string {
  const words = STATUS[statusOf(thread)];
  return thread.waits_until ? `${words}: ${clock(thread.waits_until)}` : words;
}

/** Ids that say nothing to a person. */
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** First requests of threads without a title, by thread. */
const requests = new Store<ReadonlyMap<string, string>>(new Map());

function keepRequest(thread: string, request: string): void {
  if (requests.read().get(thread) !== request) requests.set(new Map(requests.read()).set(thread, request));
}

/** Returns the title that a thread was given: as such, or as an id that says something. */
function givenTitle({ thread_id, metadata }: Thread): string | undefined {
  return metadata.title || (UUID.test(thread_id) ? undefined : thread_id);
}

/** Returns the title of a thread: the one it was given, or its first request. */
export function titleOf(thread: Thread): string {
  return givenTitle(thread) ?? requests.read().get(thread.thread_id) ?? "Untitled thread";
}

/** Draws the titles of threads again when a first request was read. */
export function useTitles(): void {
  useStore(requests);
}

/** Reads the first request of a thread that has no title, and returns its title. */
export function useTitle(thread: Thread | null | undefined): string | undefined {
  useTitles();
  const id = thread && givenTitle(thread) === undefined && !requests.read().get(thread.thread_id) ? thread.thread_id : undefined;
  const updated = thread?.updated_at;
  useEffect(() => {
    if (id === undefined) return;
    const controller = new AbortController();
    // The thread has another title then.
    lastWords([id], controller.signal).catch(() => {});
    return () => controller.abort();
  }, [id, updated]);
  return thread ? titleOf(thread) : undefined;
}

export function agentOf(thread: Thread): string | undefined {
  return thread.metadata.graph_id;
}

/** Members of threads without their values, which may be large. */
const SELECT = ["thread_id", "created_at", "updated_at", "metadata", "status", "last_run", "waits_until"];

/** The states by which threads can be selected. */
export const FILTERS = Object.keys(CONDITIONS) as Status[];

/** The selection of the threads that are listed. */
export interface ListQuery {
  words: string;
  status: Status | undefined;
  limit: number;
}

export interface ThreadList {
  threads: Thread[];
  /** Last words by thread. */
  words: Map<string, string>;
  /** `true` if there are further threads. */
  hasMore: boolean;
}

/** Text of a message that was extracted; empty for calls and their results. */
function textOf(content: Json | undefined, type: Json | undefined): string {
  if (type === "tool") return "";
  if (typeof content === "string") return content.trim();
  if (!Array.isArray(content)) return "";
  const texts = content.map((part) => (part as { text?: Json } | null)?.text);
  return texts.filter((text) => typeof text === "string").join("").trim();
}

const LAST = Object.fromEntries([
  ["problem", "error.message"],
  ["request", "values.messages[0].content"],
  ...[1, 2, 3].flatMap((back) => ["content", "type"].map((name) => [`${name}${back}`, `values.messages[-${back}].${name}`])),
]);

/** Maximum length of the words of a thread. */
const SHOWN_MAX = 160;

/** Reads the last words of threads, and their first requests: of one that cannot be read, the reason. */
async function lastWords(ids: string[], signal: AbortSignal): Promise<[string, string][]> {
  const body = { ids, limit: ids.length, select: ["thread_id"], extract: LAST };
  const found = await json<{ thread_id: string; extracted: Record<string, Json> }[]>("POST /threads/search", { body, signal });
  return found.map(({ thread_id, extracted }) => {
    const request = wordsOfMarkdown(textOf(extracted.request, undefined).slice(0, 4 * SHOWN_MAX)).slice(0, SHOWN_MAX / 2);
    if (request !== "") keepRequest(thread_id, request);
    const texts = [1, 2, 3].map((back) => textOf(extracted[`content${back}`], extracted[`type${back}`]));
    const problem = typeof extracted.problem === "string" ? extracted.problem : "";
    const words = wordsOfMarkdown((texts.find((text) => text !== "") ?? problem).slice(0, 4 * SHOWN_MAX));
    return [thread_id, words.slice(0, SHOWN_MAX)];
  });
}

/** Reads the list of threads, newest first. The last words are read again only of threads that changed. */
export function useThreads({ words, status, limit }: ListQuery) {
  const known = useRef(new Map<string, { at: string; words: string }>());
  const read = async (signal: AbortSignal): Promise<ThreadList> => {
    const query = words.trim().split(/\s+/).slice(0, WORDS_MAX).join(" ") || undefined;
    const order = { sort_by: "updated_at", sort_order: "desc" };
    const body = { limit: Math.min(limit + 1, LIMIT_MAX), ...order, select: SELECT, query, ...(status && CONDITIONS[status]) };
    const found = await json<Thread[]>("POST /threads/search", { body, signal });
    const threads = found.slice(0, limit);
    const changed = threads.filter(({ thread_id, updated_at }) => known.current.get(thread_id)?.at !== updated_at);
    if (changed.length > 0) {
      const at = new Map(changed.map(({ thread_id, updated_at }) => [thread_id, updated_at]));
      const ids = [...at.keys()];
      // Threads without their last words are better than none.
      const found = await lastWords(ids, signal).catch(() => []);
      for (const [id, words] of found) known.current.set(id, { at: at.get(id)!, words });
    }
    const shown = new Map(threads.map(({ thread_id: id }) => [id, known.current.get(id)?.words ?? ""]));
    return { threads, words: shown, hasMore: found.length > limit };
  };
  return usePolled(JSON.stringify(["threads", words, status, limit]), read, 2500);
}

/** Reads the agents, by name. */
export function readAssistants(signal?: AbortSignal): Promise<Assistant[]> {
  return json("POST /assistants/search", { body: { limit: 100, sort_by: "name", sort_order: "asc" }, signal });
}

export function useAssistants() {
  return usePolled("assistants", readAssistants, 30_000);
}

/** Reads a thread without its values; `null` if it does not exist. */
export function useThread(id: string) {
  const body = { ids: [id], limit: 1, select: SELECT };
  return usePolled(
    id,
    async (signal) => (await json<Thread[]>("POST /threads/search", { body, signal }))[0] ?? null,
    1500,
  );
}

/** Time after which it is read again if a thread without changes can be read. */
const PROBLEM_MS = 600_000;

/** Reads why a thread cannot be read; `null` if it can. It is read once for each change of a thread at rest. */
export function useProblem({ thread_id: id, updated_at, status }: Thread) {
  const body = { ids: [id], limit: 1, select: ["error"] };
  const read = async (signal: AbortSignal) => {
    // The error of such a thread is that of its last run.
    if (status === "error") return null;
    const [thread] = await json<{ error?: { message: string } | null }[]>("POST /threads/search", { body, signal });
    return thread?.error?.message ?? null;
  };
  const key = ["problem", id, status, status === "busy" ? "" : updated_at];
  return usePolled(JSON.stringify(key), read, PROBLEM_MS);
}

/** An agent, and the model that answers in place of its own. */
export interface Agent extends Pick<Assistant, "assistant_id" | "graph_id"> {
  model?: string;
}

/** Creates a thread for an agent; one that exists stays as it is. */
export async function createThread(id: string, { assistant_id, graph_id, model }: Agent, title: string): Promise<void> {
  const metadata = { assistant_id, graph_id, title, model };
  await request("POST /threads", { body: { thread_id: id, metadata, if_exists: "do_nothing" } });
}

/** Creates a thread for an agent once, also if a reply is lost. Returns its id. */
export async function beginOnce(agent: Agent, title: string): Promise<string> {
  let id = "";
  await sendOnce({
    what: JSON.stringify(["thread", agent, title]),
    send: (key) => createThread((id = key), agent, title),
    find: isThread,
  });
  return id;
}

/** Returns `true` if a thread exists. */
async function isThread(id: string): Promise<boolean> {
  return (await json<Thread[]>("POST /threads/search", { body: { ids: [id], limit: 1, select: ["thread_id"] } })).length > 0;
}

/** Sets the model of the next answers; empty for that of the agent. */
export async function setModel(id: string, model: string): Promise<void> {
  await request("PATCH /threads/{thread_id}", { path: { thread_id: id }, body: { metadata: { model } } });
}

export async function deleteThread(id: string, keepalive = false): Promise<void> {
  await request("DELETE /threads/{thread_id}", { path: { thread_id: id }, keepalive });
}

export async function renameThread(id: string, title: string): Promise<void> {
  await request("PATCH /threads/{thread_id}", { path: { thread_id: id }, body: { metadata: { title } } });
}

/** Copies a thread once, or the part of it up to a checkpoint, and returns the id of the copy. */
export async function copyThread(thread: Thread, suffix: string, checkpoint?: string): Promise<string> {
  const path = { thread_id: thread.thread_id };
  let id = "";
  await sendOnce({
    what: JSON.stringify(["copy", thread.thread_id, checkpoint]),
    send: (key) => {
      id = key;
      return request("POST /threads/{thread_id}/copy", { path, body: { thread_id: key, checkpoint_id: checkpoint } });
    },
    find: isThread,
  });
  // A copy with the title of the other thread is better than none.
  await renameThread(id, `${titleOf(thread)} (${suffix})`).catch(() => {});
  return id;
}
