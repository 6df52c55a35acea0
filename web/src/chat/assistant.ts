// The runtime of assistant-ui over the chat route. All names of it that may change are in this file.
import {
  ExportedMessageRepository,
  useAuiState,
  type AssistantRuntime,
  type ChatModelRunOptions,
  type ChatModelRunResult,
  type ThreadHistoryAdapter,
  type ThreadMessage,
} from "@assistant-ui/react";
import { useDataStreamRuntime } from "@assistant-ui/react-data-stream";
import { AssistantMessageAccumulator, UIMessageStreamDecoder } from "assistant-stream";
import { asAsyncIterableStream } from "assistant-stream/utils";
import { accepted, address, json, request } from "../api/http";
import type { Json, StoredMessage } from "../api/types";
import { fromStored } from "./stored";

/** Calls that people answer. */
export const HUMAN_CALLS = ["ask_human", "request_approval"];

export type { AssistantRuntime };

/** A fact of the server beside the message. */
interface Fact {
  name: string;
  data: Json;
}

export interface ChatEvents {
  /** The server took what was sent. */
  onSent: () => void;
  /** The server reports a fact of the run. */
  onFact: (fact: Fact) => void;
  /** The server has messages that were not read. */
  onStale: () => void;
  /** The stream has its last part. */
  onEnd: () => void;
  /** The connection broke, or the request was refused. */
  onError: (error: Error) => void;
}

/** The agent and the thread of a chat. */
export interface ChatThread {
  agent: string;
  thread: string;
}

function pathOf({ agent, thread }: ChatThread) {
  return { agent, thread_id: thread };
}

interface Follower extends ChatEvents {
  /** Run that the stream is of, for its cancellation. */
  run?: string;
  /** `true` if the next request replaces the last answer. */
  replaces?: boolean;
}

function note(follower: Follower, fact: Fact): void {
  follower.onFact(fact);
  if (fact.name !== "run") return;
  const id = (fact.data as { runId?: unknown } | null)?.runId;
  if (typeof id === "string") follower.run = id;
}

function cancel(thread: string, follower: Follower): void {
  const run = follower.run;
  if (run === undefined) return;
  const path = { thread_id: thread, run_id: run };
  request("POST /threads/{thread_id}/runs/{run_id}/cancel", { path, body: {} }).catch(follower.onError);
}

/** Number of turns at the end of a thread that the runtime has: each change of one costs time for all of them. */
const TURNS = 12;

/** Returns the number of turns: of messages of the user, and of answers without one. */
function turnsIn(stored: StoredMessage[]): number {
  return stored.filter(({ role }, at) => role === "user" || stored[at - 1]?.role !== "user").length;
}

/** Returns stored messages as those of a thread that does not change. */
export function readOnly(stored: StoredMessage[]): readonly ThreadMessage[] {
  return ExportedMessageRepository.fromArray(stored.map(fromStored)).messages.map(({ message }) => message);
}

/** Reads the messages of a thread, and follows the one that is being produced. */
class History implements ThreadHistoryAdapter {
  /** Takes the messages that the runtime does not get. */
  onEarlier: (messages: StoredMessage[]) => void = () => {};
  /** The model of the next answers; that of the agent without one. */
  model: string | undefined;

  constructor(
    readonly chat: ChatThread,
    readonly follower: Follower,
  ) {}

  async load() {
    const stored = await this.newest().catch((error: Error) => {
      this.follower.onError(error);
      throw error;
    });
    const first = stored[0];
    if (first && turnsIn(stored) >= TURNS) void this.loadEarlier(first.id);
    const messages = ExportedMessageRepository.fromArray(stored.map(fromStored));
    return { ...messages, unstable_resume: stored.at(-1)?.role === "user" };
  }

  private newest(): Promise<StoredMessage[]> {
    return json("GET /chat/{agent}/{thread_id}", { path: pathOf(this.chat), query: { limit: TURNS } });
  }

  /** Reads the messages before one. */
  private async loadEarlier(id: string): Promise<void> {
    try {
      const all = await json<StoredMessage[]>("GET /chat/{agent}/{thread_id}", { path: pathOf(this.chat) });
      this.onEarlier(all.slice(0, Math.max(0, all.findIndex((message) => message.id === id))));
    } catch (error) {
      this.follower.onError(error as Error);
    }
  }

  async *resume({ abortSignal }: ChatModelRunOptions): AsyncGenerator<ChatModelRunResult, void, unknown> {
    const { chat, follower } = this;
    const stop = () => {
      if (!(abortSignal.reason as { detach?: boolean } | undefined)?.detach) cancel(chat.thread, follower);
    };
    abortSignal.addEventListener("abort", stop, { once: true });
    try {
      const url = address("GET /chat/{agent}/{thread_id}/stream", { path: pathOf(chat) });
      const response = await accepted(await fetch(url, { signal: abortSignal }));
      if (response.status === 204 || response.body === null) {
        // The message ended after the others were read.
        if ((await this.newest()).at(-1)?.role === "assistant") follower.onStale();
        return;
      }
      const decoder = new UIMessageStreamDecoder({ onData: (fact) => note(follower, fact as Fact) });
      const stream = response.body.pipeThrough(decoder).pipeThrough(new AssistantMessageAccumulator());
      yield* asAsyncIterableStream(stream) as AsyncIterable<ChatModelRunResult>;
      follower.onEnd();
    } catch (error) {
      if (!(error instanceof Error && error.name === "AbortError")) follower.onError(error as Error);
      throw error;
    } finally {
      abortSignal.removeEventListener("abort", stop);
    }
  }

  // The server has all messages.
  async append() {}
}

/** Returns the runtime of a thread. `follower` and `history` stay the same for its whole life. */
export function useChatRuntime(history: History): AssistantRuntime {
  const { chat, follower } = history;
  return useDataStreamRuntime({
    api: address("POST /chat/{agent}", { path: { agent: chat.agent } }).href,
    protocol: "ui-message-stream",
    body: () => {
      const { replaces } = follower;
      follower.replaces = false;
      return { threadId: chat.thread, model: history.model, ...(replaces ? { trigger: "regenerate-message" } : {}) };
    },
    // Each model call is a step; the server limits them.
    maxSteps: Number.MAX_SAFE_INTEGER,
    unstable_humanToolNames: HUMAN_CALLS,
    adapters: { history },
    onData: (fact) => note(follower, fact as Fact),
    onResponse: async (response) => {
      try {
        await accepted(response);
      } catch (error) {
        // The runtime reports only that a connection broke.
        follower.onError(error as Error);
        throw error;
      }
      follower.onSent();
    },
    onFinish: () => follower.onEnd(),
    onCancel: () => cancel(chat.thread, follower),
    onError: (error) => follower.onError(error),
  });
}

/** Makes the agent answer the last message of the user again. */
export function retry(runtime: AssistantRuntime, { follower }: History, message: string): void {
  const found = runtime.thread.getMessageById(message);
  // Fails for a message that the runtime does not have, before the next request is marked.
  found.getState();
  follower.replaces = true;
  found.reload();
}

/** Returns the message of the user that an answer is for; `undefined` for an answer that the runtime does not have. */
export function requestOf(runtime: AssistantRuntime, answer: string): { id: string; text: string } | undefined {
  const { messages } = runtime.thread.getState();
  const at = messages.findIndex(({ id }) => id === answer);
  const request = messages.slice(0, Math.max(0, at)).findLast(({ role }) => role === "user");
  return request && { id: request.id, text: request.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n") };
}

/** Returns the number of messages of the user after one of them; `undefined` for one that the runtime does not have. */
export function countAfter(runtime: AssistantRuntime, message: string): number | undefined {
  const said = runtime.thread.getState().messages.filter(({ role }) => role === "user");
  const at = said.findIndex(({ id }) => id === message);
  return at < 0 ? undefined : said.length - 1 - at;
}

export type { History as ChatHistory };

export function chatHistory(chat: ChatThread, events: ChatEvents): History {
  return new History(chat, { ...events });
}

/** Returns the facts that the current message has. */
export function useFacts(): readonly Fact[] {
  return useAuiState((state) => state.message.metadata.unstable_data as unknown as Fact[]);
}
