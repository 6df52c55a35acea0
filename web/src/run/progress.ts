import type { Checkpoint, Json } from "../api/types";
import { isObject } from "../shared/json";
import type { Status } from "../threads/data";
import type { Live, RunState } from "./facts";
import { failureOfMessage } from "./failure";

export type NodeState = "idle" | "running" | "waiting" | "stopped" | "failed" | "done";

export const NODE_STATES: Record<NodeState, string> = {
  idle: "not run",
  running: "running",
  waiting: "waits for you",
  stopped: "stopped",
  failed: "failed",
  done: "done",
};

/** Returns the state of each node since the last input, from the checkpoints, newest first, and from the stream. */
export function progressOf(history: Checkpoint[], live: RunState, status: Status): Map<string, NodeState> {
  const isBusy = status === "running";
  const states = new Map<string, NodeState>();
  const newest = history[0];
  for (const task of newest?.tasks ?? []) {
    if (task.error) states.set(task.name, "failed");
    else if (task.result || !newest?.next.includes(task.name)) continue;
    else if (isBusy) states.set(task.name, "running");
    else if (status === "stopped") states.set(task.name, "stopped");
    else if (task.interrupts.length > 0) states.set(task.name, "waiting");
  }
  for (const { tasks, metadata } of history) {
    const ended = new Map<string, NodeState>();
    for (const { name, result } of tasks) {
      if (result === undefined || result === null) continue;
      if (ended.get(name) !== "failed") ended.set(name, hasFailedCall(result) ? "failed" : "done");
    }
    // What a node did last counts.
    for (const [name, state] of ended) if (!states.has(name)) states.set(name, state);
    if (metadata?.source === "input") break;
  }
  if (!isBusy) return states;
  for (const [node, state] of live.nodes as ReadonlyMap<string, Live>) {
    // The stream says that a node ended, and its checkpoint says how.
    if (state === "running" || states.get(node) !== "failed") states.set(node, state);
  }
  return states;
}

/** Returns `true` if a task wrote the failure of a call. A call that was refused has not failed: it was not made. */
function hasFailedCall(result: Json): boolean {
  const messages = isObject(result) ? result["messages"] : undefined;
  return Array.isArray(messages) && messages.some((message) => failureOfMessage(message) === "failed");
}
