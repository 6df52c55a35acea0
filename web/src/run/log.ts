// Runs of a thread, and their logs.
import { json } from "../api/http";
import type { Json } from "../api/types";

/** A run in the list of a thread. */
export interface RunRow {
  run_id: string;
  status: string;
  created_at: string;
  updated_at: string;
  /** Run that replaced this one. */
  replaced_by?: string;
}

export type RunStatus = "queued" | "pending" | "running" | "completed" | "interrupted" | "cancelled" | "limit_reached" | "failed";

export interface RunLog {
  run_id: string;
  status: RunStatus;
  /** Failure of a run that failed. */
  error: { message: string } | null;
  created_at: string;
  ended_at: string | null;
  events: { seq: number; at: number; event: LogEvent }[];
  /** Number of later events that the server left out, because the log is too large. */
  omitted: number;
}

interface TaskDue {
  id: string;
  node: string;
  finished?: boolean;
}

export interface TaskEnd {
  id: string;
  node: string;
  status?: "ok" | "cached" | "failed" | "asks" | "stopped";
  fault?: { message: string };
}

/** One attempt of a model call. */
export interface UsageFact {
  attempt: number;
  provider: string;
  model: string;
  status: "ok" | "error" | "cancelled";
  error_code?: string;
  tokens: { input: number; output: number };
  cost_micro_usd?: number;
  started_at: number;
  latency_ms: number;
}

export type Ask =
  | { kind: "question"; question: string; tool?: string }
  | { kind: "approval"; tool: string }
  | { kind: "value"; value: Json }
  | { kind: "timer"; until: number };

/** An event of a log, as far as the page reads it. */
export type LogEvent =
  | { type: "run_started"; continues?: string }
  | { type: "taken_over"; claim: number }
  | { type: "released" }
  | { type: "requeued"; by: string }
  | { type: "attempt_reset"; node: string }
  | { type: "call_reused"; kind: string; name: string }
  | { type: "checkpoint"; ns?: string; step: number; ended?: TaskEnd[]; due?: TaskDue[] }
  | { type: "tasks_started"; ns?: string; tasks: TaskDue[] }
  | { type: "tasks_ended"; ns?: string; ended: TaskEnd[] }
  | { type: "tool_call_start"; tool_call_id: string; tool_name: string; task?: string; ns?: string }
  | { type: "tool_call_result"; tool_call_id: string; result: Json; is_error?: boolean; task?: string }
  | { type: "usage_report"; fact: UsageFact }
  | { type: "human_input_required"; ask: Ask }
  | { type: "done" };

/** Number of runs that the list grows by; the server returns as many without a limit. */
export const RUNS = 10;

/** Reads the newest runs of a thread, newest first, with those that were replaced. */
export function readRuns(thread: string, limit: number, signal: AbortSignal): Promise<RunRow[]> {
  return json("GET /threads/{thread_id}/runs", { path: { thread_id: thread }, query: { limit, replaced: "true" }, signal });
}

/** Reads the id of the newest run of a thread that was not replaced. */
export async function newestRun(thread: string): Promise<string | undefined> {
  const path = { thread_id: thread };
  const [row] = await json<RunRow[]>("GET /threads/{thread_id}/runs", { path, query: { limit: 1 } });
  return row?.run_id;
}

const ENDED = ["completed", "interrupted", "cancelled", "limit_reached", "failed"];
/** Logs of runs that have ended, which do not change unless a run is requeued. */
const ended = new Map<string, { updated: string; log: RunLog }>();

/** Reads the log of a run, once for a run that has ended. */
export async function readLog(thread: string, { run_id, updated_at }: RunRow, signal: AbortSignal): Promise<RunLog> {
  const known = ended.get(run_id);
  if (known?.updated === updated_at) return known.log;
  const log = await json<RunLog>("GET /threads/{thread_id}/runs/{run_id}/log", { path: { thread_id: thread, run_id }, signal });
  if (ENDED.includes(log.status)) ended.set(run_id, { updated: updated_at, log });
  return log;
}

/** Returns the event with which a run began. */
export function startOf({ events }: RunLog): { continues?: string } | undefined {
  for (const { event } of events) if (event.type === "run_started") return event;
  return undefined;
}

export function usagesOf({ events }: RunLog): UsageFact[] {
  return events.flatMap(({ event }) => (event.type === "usage_report" ? [event.fact] : []));
}

/** Returns the last thing that a run asked for. */
export function askOf({ events }: RunLog): Ask | undefined {
  const asked = events.flatMap(({ event }) => (event.type === "human_input_required" ? [event.ask] : []));
  return asked.at(-1);
}
