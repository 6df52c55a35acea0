// The orchestration of a conversation: its steps, from the state of the thread and from events, and its actions.
import { json, request } from "../api/http";
import { hasNoReply } from "../api/sent";
import type { Checkpoint, Json, JsonObject, Thread } from "../api/types";
import { isObject } from "../shared/json";

/** A step, or an item of a loop. */
export interface Step {
  /** Names of the steps around it, and its own. */
  path: string[];
  status: string;
  agent?: string;
  /** Text of its last failure. */
  failure?: string;
}

/** The words for the statuses of steps. */
export const STEP_STATUS: Record<string, string> = {
  not_begun: "Not begun",
  started: "Working…",
  looping: "Working…",
  asked: "Waits for you",
  asking: "Waits for you",
  waiting: "Waits for a time",
  retrying: "Tries again",
  done: "Done",
  skipped: "Skipped",
  rejected: "Rejected",
  not_reached: "Not reached",
  failed: "Failed",
  rolled_back: "Rolled back",
};

/** The steps of a thread as it is stored. */
export interface Stored {
  steps: Step[];
  /** `true` until the orchestration has ended. */
  isOpen: boolean;
}

/** Reads the steps of the last orchestration of a thread; `null` without one. */
export async function readSteps(thread: string, signal?: AbortSignal): Promise<Stored | null> {
  const state = await json<Checkpoint>("GET /threads/{thread_id}/state", { path: { thread_id: thread }, signal });
  return stepsOf(state);
}

function stepsOf({ values, tasks }: Checkpoint): Stored | null {
  if (!isObject(values)) return null;
  const { orchestration, answer } = values;
  if (isObject(orchestration)) return { steps: openSteps(orchestration, tasks), isOpen: true };
  const metadata = isObject(answer) ? answer.metadata : undefined;
  const ended = isObject(metadata) ? metadata.steps : undefined;
  if (!Array.isArray(ended)) return null;
  const steps = ended.filter(isObject).map(({ id, status }): Step => ({ path: [String(id)], status: String(status) }));
  return { steps, isOpen: false };
}

/** Returns the steps that the state of a thread has, in the order of the definition. */
function openSteps({ request, records }: JsonObject, tasks: Checkpoint["tasks"]): Step[] {
  const order = isObject(request) && Array.isArray(request.steps) ? request.steps.map(String) : [];
  const statusOf = (id: string) => {
    const own = tasks.filter(({ name }) => name === `step_${id}`);
    if (own.some(({ interrupts }) => interrupts.length > 0)) return "asked";
    const record = isObject(records) ? records[id] : undefined;
    if (isObject(record)) return String(record.status);
    return own.length > 0 ? "started" : "not_begun";
  };
  return order.map((id) => ({ path: [id], status: statusOf(id) }));
}

/** A change of a step as the server reports it. */
interface StepEvent {
  step: string;
  status: string;
  path?: string[];
  agent?: string;
  failure?: { safe_message: string };
}

/** Returns the step of an event; `undefined` for a value of something else. */
export function stepOfEvent(data: unknown): Step | undefined {
  const value = (data as { value?: { orchestration?: StepEvent } } | null)?.value;
  const event = isObject(value as Json) ? value?.orchestration : undefined;
  if (event === undefined) return undefined;
  const { step, status, path = [], agent, failure } = event;
  return { path: [...path, step], status, agent, failure: failure?.safe_message };
}

/** Key of a step among those of a thread. */
export function keyOf({ path }: Pick<Step, "path">): string {
  return path.join("/");
}

/** Returns the stored steps with their agents and failures, and behind each one its items and nested steps, which only events have. */
export function merged({ steps, isOpen }: Stored, live: ReadonlyMap<string, Step>): Step[] {
  const known = [...live.values()];
  return steps.flatMap((step) => {
    const [id = ""] = step.path;
    const isWithin = ({ path }: Step) => path[0]?.split(".")[0] === id && keyOf({ path }) !== id;
    return [{ ...live.get(id), ...step }, ...(isOpen ? known.filter(isWithin) : [])];
  });
}

/** An answer to an action. */
interface Acted {
  success: boolean;
  error?: string;
  content: Json;
  metadata: JsonObject;
}

/** What a rollback does to the effects of a step. */
export interface Effects {
  step: string;
  agent?: string;
  status: string;
  undo?: string;
  calls?: { tool: string; arguments: Json; outcome: string }[];
}

/** A plan or a deliverable that was written since. */
export interface Changed {
  kind: string;
  id: string;
  current: number;
  /** Version that becomes the current one again; `null` if the record stays as it is. */
  former: number | null;
}

/** What a rollback would do, and the word that confirms it. */
export interface Preview {
  step: string;
  effects: Effects[];
  records?: Changed[];
  confirm: string;
}

export interface Orchestrated {
  slug: string;
  conversation: string;
}

async function act({ slug, conversation }: Orchestrated, payload: JsonObject): Promise<Acted> {
  const body = { conversationId: conversation, payload };
  const response = await request("POST /agents/{slug}/tasks", { path: { slug }, body });
  const acted = (await response.json()) as Acted;
  if (!acted.success) throw new Error(acted.error);
  return acted;
}

/** Name under which the tab keeps the token of a pause. */
const tokenName = (conversation: string) => `pause ${conversation}`;

/** Returns the token of a pause that was made here. */
export function tokenOf(conversation: string): string | null {
  return sessionStorage.getItem(tokenName(conversation));
}

/** Pauses an orchestration, and keeps the token that resumes it. */
export async function pause(of: Orchestrated): Promise<void> {
  const { content, metadata } = await act(of, { orchestrationAction: "pause" });
  const token = metadata.token ?? (isObject(content) ? content.token : undefined);
  if (typeof token !== "string") throw new Error("The server paused it, and gave no token to resume it.");
  sessionStorage.setItem(tokenName(of.conversation), token);
}

/** Resumes an orchestration that was paused here. The token is used once: one that is refused is of no use. */
export async function resume(of: Orchestrated): Promise<void> {
  const forget = () => sessionStorage.removeItem(tokenName(of.conversation));
  await act(of, { orchestrationAction: "resume", token: tokenOf(of.conversation) }).catch((error: Error) => {
    if (!hasNoReply(error)) forget();
    throw error;
  });
  forget();
}

/** Returns what a rollback to the step before the last one would do. Nothing is changed. */
export async function previewRollback(of: Orchestrated): Promise<Preview> {
  const { content, metadata } = await act(of, { orchestrationAction: "rollback" });
  return { ...(content as unknown as Preview), confirm: String(metadata.confirm) };
}

/** Carries out a rollback that was shown. */
export async function rollBack(of: Orchestrated, { confirm }: Preview): Promise<void> {
  await act(of, { orchestrationAction: "rollback", confirm });
}

/** Key of the steps of a thread: they may differ once it changes. */
export function versionOf({ thread_id, status, updated_at }: Thread, checkpoints: number): string {
  return [thread_id, status, updated_at, checkpoints].join();
}
