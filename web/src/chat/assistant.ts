// The runtime of assistant-ui over the chat route. All names of it that may change are in this file.
import {
  ExportedMessageRepository,
  useAuiState,
  useLocalRuntime,
  type AssistantRuntime,
  type ChatModelAdapter,
  type ChatModelRunOptions,
  type ChatModelRunResult,
  type ThreadHistoryAdapter,
  type ThreadMessage,
  type ToolCallMessagePart,
} from "@assistant-ui/react";
import { AssistantMessageAccumulator, UIMessageStreamDecoder } from "assistant-stream";
import { asAsyncIterableStream } from "assistant-stream/utils";
import { HttpError, json, request } from "../api/http";
import { sendOnce } from "../api/sent";
import type { Call, Json, StoredMessage } from "../api/types";
import { isTaken, withOwnFirst } from "../inbox/data";
import { askInMode, type Ask } from "../records/data";
import { markedStream } from "../shared/digits";
import { contentOf, type Said } from "./files";
import { fromStored } from "./stored";
import { Voids } from "./voids";

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
  /** The connection broke, or a request to read was refused. */
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

/** Cancels the run of a thread, and reads what it left once it has ended: its last words, and the calls that it had begun. */
function cancel(chat: ChatThread, { onStale, onError }: ChatEvents): void {
  request("POST /chat/{agent}/{thread_id}/cancel", { path: pathOf(chat), query: { wait: "1" } }).then(onStale, (error: Error) =>
    // It has ended by itself.
    error instanceof HttpError && error.status === 404 ? onStale() : onError(error),
  );
}

/** Reads the messages of a thread that the runtime has. */
function newestOf(chat: ChatThread): Promise<StoredMessage[]> {
  return json("GET /chat/{agent}/{thread_id}", { path: pathOf(chat), query: { limit: TURNS } });
}

/** Reads the last message of a thread. */
export async function lastOf(chat: ChatThread): Promise<StoredMessage | undefined> {
  const found = await json<StoredMessage[]>("GET /chat/{agent}/{thread_id}", { path: pathOf(chat), query: { limit: 1 } });
  return found.at(-1);
}

/** Returns `true` if a thread has a message that was sent under a key. */
export async function isSaid(chat: ChatThread, key: string): Promise<boolean> {
  return (await newestOf(chat)).some(({ metadata }) => metadata?.idempotencyKey === key);
}

/** Asks an agent with a definition once, also if the reply is lost. */
export async function askOnce(chat: ChatThread, conversation: string, ask: Ask, { text, images }: Said): Promise<void> {
  if (images.length > 0) throw new Error("Not sent: plans and builds take a text. Remove the images.");
  await sendOnce({
    what: JSON.stringify(["ask", conversation, ask, text]),
    send: (key) => askInMode(ask, conversation, text, key),
    find: (key) => isSaid(chat, key),
  });
}

/** Reads the messages of a thread that were replaced. */
export function replacedOf(chat: ChatThread): Promise<StoredMessage[]> {
  return json("GET /chat/{agent}/{thread_id}", { path: pathOf(chat), query: { replaced: "true" } });
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

interface SendOptions {
  trigger?: "regenerate-message" | "continue-message";
  isAnswer?: boolean;
  /** Returns `true` if the server has what was sent under a key. */
  find: (key: string) => Promise<boolean>;
}

/** How the server took what was sent: with a response that is followed, or one that was lost. */
type Sent = "followed" | "found";

/** A request that the server took, until the runtime reads its response. */
interface Taken {
  response: Response;
  controller: AbortController;
}

/** Text of a message whose stream broke off. */
const CUT = "The connection was cut. The answer is read again when the server is there.";

/** The thread as the server has it: it reads messages, follows the one that is being produced, and sends. */
class Conversation implements ThreadHistoryAdapter, ChatModelAdapter {
  /** Takes the messages that the runtime does not get. */
  onEarlier: (messages: StoredMessage[]) => void = () => {};
  /** Takes the messages that were replaced. */
  onReplaced: (messages: StoredMessage[]) => void = () => {};
  /** The model of the next answers; that of the agent without one. */
  model: string | undefined;
  /** The last run whose answer was followed here. */
  followed: string | undefined;
  private taken: Taken | undefined;

  constructor(
    readonly chat: ChatThread,
    readonly follower: ChatEvents,
  ) {}

  async load() {
    const stored = await newestOf(this.chat).catch((error: Error) => {
      this.follower.onError(error);
      throw error;
    });
    const first = stored[0];
    if (first && turnsIn(stored) >= TURNS) void this.loadEarlier(first.id);
    void this.loadReplaced();
    const messages = ExportedMessageRepository.fromArray(stored.map(fromStored));
    return { ...messages, unstable_resume: stored.at(-1)?.role === "user" };
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

  /** Reads the messages that were replaced. */
  private async loadReplaced(): Promise<void> {
    try {
      this.onReplaced(await replacedOf(this.chat));
    } catch (error) {
      this.follower.onError(error as Error);
    }
  }

  /**
   * Sends messages, and keeps the response for the runtime. The page shows nothing of them before the server
   * took them.
   */
  private async send(messages: object[], { find, isAnswer, ...more }: SendOptions): Promise<Sent> {
    const { agent, thread: threadId } = this.chat;
    const controller = new AbortController();
    const body = { threadId, model: this.model, messages, ...more };
    const response = await sendOnce({
      what: JSON.stringify(body),
      isAnswer,
      send: (key) => request("POST /chat/{agent}", { path: { agent }, body, key, signal: controller.signal }),
      find,
    });
    this.follower.onSent();
    if (response === undefined) return "found";
    this.taken = { response, controller };
    return "followed";
  }

  /** Says something. Rejects if the server does not take it. */
  async say(runtime: AssistantRuntime, said: Said): Promise<void> {
    const sent = await this.send([{ role: "user", content: contentOf(said) }], { find: (key) => isSaid(this.chat, key) });
    if (sent === "followed") {
      const { text, images } = said;
      const files = images.map(({ mimeType, url }) => ({ type: "file" as const, mimeType, data: url }));
      return runtime.thread.append({ role: "user", content: text === "" ? files : [{ type: "text", text }, ...files] });
    }
    this.follower.onStale();
  }

  /** Asks an agent with a definition for something else than its usual answer. Rejects if the server does not take it. */
  async ask(conversation: string, ask: Ask, said: Said): Promise<void> {
    await askOnce(this.chat, conversation, ask, said);
    this.follower.onSent();
    this.readAgain();
  }

  /** Answers a question of the last message. Rejects if the server does not take the answer. */
  async answer(runtime: AssistantRuntime, { id, name, args }: Call, answer: Json): Promise<void> {
    const call = { toolCallId: id, toolName: name };
    const output = { type: "json", value: answer };
    const messages = [
      { role: "assistant", content: [{ type: "tool-call", ...call, input: args }] },
      { role: "tool", content: [{ type: "tool-result", ...call, output }] },
    ];
    const { thread } = this.chat;
    const sent = await this.send(messages, { isAnswer: true, find: (key) => isTaken(thread, key) }).catch(async (error: Error) => {
      throw await withOwnFirst(error, thread, (answered) => answered.interrupt_id === args.interruptId || answered.call?.id === id);
    });
    const last = runtime.thread.getState().messages.at(-1);
    if (sent === "followed" && last && openCallsOf(last).length === 1) {
      runtime.thread.getMessageById(last.id).getMessagePartByToolCallId(id).addToolResult(answer);
      return;
    }
    // The runtime continues a message when all its questions are answered.
    this.readAgain();
  }

  /** Goes on with the last answer, whose run was stopped or failed. Rejects if the server does not take that. */
  async goOn(): Promise<void> {
    // The messages say if it was taken.
    await this.send([], { trigger: "continue-message", find: () => Promise.resolve(true) });
    this.readAgain();
  }

  /** Reads the messages in place of the response to what was sent. */
  private readAgain(): void {
    this.taken?.controller.abort();
    this.taken = undefined;
    this.follower.onStale();
  }

  /** Makes the agent answer the last message of the user again. Rejects if the server does not take that. */
  async retry(runtime: AssistantRuntime, message: string): Promise<void> {
    const answer = runtime.thread.getMessageById(message);
    // Fails for a message that the runtime does not have.
    const { parentId } = answer.getState();
    const said = runtime.thread.getState().messages.find(({ id }) => id === parentId);
    const messages = [{ role: "user", content: said?.content.map(partOf) ?? [] }];
    const sent = await this.send(messages, { trigger: "regenerate-message", find: (key) => isSaid(this.chat, key) });
    if (sent === "found") return this.follower.onStale();
    answer.reload();
    void this.loadReplaced();
  }

  async *run({ abortSignal }: ChatModelRunOptions): AsyncGenerator<ChatModelRunResult, void, unknown> {
    const { taken } = this;
    this.taken = undefined;
    if (taken === undefined) return this.follower.onStale();
    const { response, controller } = taken;
    abortSignal.addEventListener("abort", () => controller.abort(), { once: true });
    yield* this.follow(response, abortSignal);
  }

  async *resume({ abortSignal }: ChatModelRunOptions): AsyncGenerator<ChatModelRunResult, void, unknown> {
    const { chat, follower } = this;
    let response: Response;
    try {
      response = await request("GET /chat/{agent}/{thread_id}/stream", { path: pathOf(chat), signal: abortSignal });
      if (response.status === 204) {
        // The message ended after the others were read.
        if ((await newestOf(chat)).at(-1)?.role === "assistant") follower.onStale();
        return;
      }
    } catch (error) {
      if (!abortSignal.aborted) follower.onError(error as Error);
      throw error;
    }
    yield* this.follow(response, abortSignal);
  }

  /** Yields the message of a response as it grows. The reader cancels the run, unless it only goes away. */
  private async *follow({ body }: Response, signal: AbortSignal): AsyncGenerator<ChatModelRunResult, void, unknown> {
    const { chat, follower } = this;
    if (body === null) return;
    const stop = () => {
      if ((signal.reason as { detach?: boolean } | undefined)?.detach) return;
      cancel(chat, follower);
    };
    signal.addEventListener("abort", stop, { once: true });
    try {
      const voids = new Voids();
      const decoder = new UIMessageStreamDecoder({
        onData: (fact) => {
          voids.add(fact as Fact);
          this.note(fact as Fact);
        },
      });
      const stream = body.pipeThrough(markedStream()).pipeThrough(decoder).pipeThrough(new AssistantMessageAccumulator());
      for await (const result of asAsyncIterableStream(stream) as AsyncIterable<ChatModelRunResult>) {
        yield withRun(withEnd(voids.removeFrom(result)), this.followed);
      }
      follower.onEnd();
    } catch (error) {
      if (signal.aborted) throw error;
      follower.onError(error as Error);
      yield { status: { type: "incomplete", reason: "error", error: CUT } };
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }

  private note(fact: Fact): void {
    if (fact.name === "run") this.followed = (fact.data as { runId?: string } | null)?.runId;
    this.follower.onFact(fact);
  }

  // The server has all messages.
  async append() {}
}

/** Returns an answer with its run, as stored answers have it. */
function withRun(result: ChatModelRunResult, runId: string | undefined): ChatModelRunResult {
  return { ...result, metadata: { ...result.metadata, custom: { ...result.metadata?.custom, runId } } };
}

/** Returns an answer that ended for another reason than its last word: its run was stopped, unless it waits for a time. */
function withEnd(result: ChatModelRunResult): ChatModelRunResult {
  if (result.status?.type !== "incomplete" || result.status.reason !== "other") return result;
  const facts = (result.metadata?.unstable_data ?? []) as readonly unknown[] as readonly Fact[];
  const waits = facts.some(({ name }) => name === "timer");
  return { ...result, status: waits ? { type: "complete", reason: "unknown" } : { type: "incomplete", reason: "cancelled" } };
}

/** Returns the questions of a message that are open. */
export function openCallsOf({ status, content }: Pick<ThreadMessage, "status" | "content">): ToolCallMessagePart[] {
  if (status?.type !== "requires-action") return [];
  return content.flatMap((part) =>
    part.type === "tool-call" && part.result === undefined && HUMAN_CALLS.includes(part.toolName) ? [part] : [],
  );
}

/** Returns a part of a message of the user as the server reads it. */
function partOf(part: ThreadMessage["content"][number]): object {
  if (part.type === "file") return { type: "file", mediaType: part.mimeType, url: part.data };
  return { type: "text", text: part.type === "text" ? part.text : "" };
}

/** Returns the runtime of a thread. `conversation` stays the same for its whole life. */
export function useChatRuntime(conversation: Conversation): AssistantRuntime {
  return useLocalRuntime(conversation, {
    // Each model call is a step; the server limits them.
    maxSteps: Number.MAX_SAFE_INTEGER,
    unstable_humanToolNames: HUMAN_CALLS,
    adapters: { history: conversation },
  });
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

export function conversationOf(chat: ChatThread, events: ChatEvents): Conversation {
  return new Conversation(chat, events);
}

/** Returns the facts that the current message has. */
export function useFacts(): readonly Fact[] {
  return useAuiState((state) => state.message.metadata.unstable_data as unknown as Fact[]);
}
