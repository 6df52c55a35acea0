import type { Checkpoint } from "../api/types";
import type { Live, RunState } from "./facts";

export type NodeState = "idle" | "running" | "waiting" | "failed" | "done";

export const NODE_STATES: Record<NodeState, string> = {
  idle: "not run",
  running: "running",
  waiting: "waits for you",
  failed: "failed",
  done: "done",
};

/** Returns the state of each node since the last input, from the checkpoints, newest first, and from the stream. */
export function progressOf(history: Checkpoint[], live: RunState, isBusy: boolean): Map<string, NodeState> {
  const states = new Map<string, NodeState>();
  const newest = history[0];
  for (const task of newest?.tasks ?? []) {
    if (task.error) states.set(task.name, "failed");
    else if (task.interrupts.length > 0) states.set(task.name, "waiting");
    else if (isBusy && newest?.next.includes(task.name)) states.set(task.name, "running");
  }
  for (const { tasks, metadata } of history) {
    for (const { name, result } of tasks) {
      if (result !== undefined && result !== null && !states.has(name)) states.set(name, "done");
    }
    if (metadata?.source === "input") break;
  }
  if (!isBusy) return states;
  for (const [node, state] of live.nodes as ReadonlyMap<string, Live>) states.set(node, state);
  return states;
}
