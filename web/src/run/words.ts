// Checkpoints in words: what had happened when one was stored.
import type { Checkpoint, Json } from "../api/types";
import { nameOfTool } from "../shared/effect";
import { isObject } from "../shared/json";
import type { Status } from "../threads/data";
import { failureOfMessage } from "./failure";

type Task = Checkpoint["tasks"][number];

const ENDS = { answered: "answered", failed: "failed", refused: "was refused", stopped: "was stopped" };

/** Returns the messages that a task wrote. */
function messagesOf({ result }: Task): Json[] {
  const messages = isObject(result) ? result["messages"] : undefined;
  return Array.isArray(messages) ? messages : [];
}

function isCall(value: Json): value is { name: string } {
  return isObject(value) && typeof value["name"] === "string";
}

function listed(names: string[]): string {
  const all = [...new Set(names)];
  return all.length < 2 ? (all[0] ?? "") : `${all.slice(0, -1).join(", ")} and ${all.at(-1)}`;
}

/** Returns what a task did in words: `the model called refund_order`. */
function deedOf(task: Task): string {
  const last = messagesOf(task).at(-1);
  const who = task.name === "model" ? "the model" : task.name;
  if (task.error) return `${who} failed`;
  if (!isObject(last)) return `${who} ran`;
  const calls = Array.isArray(last["tool_calls"]) ? last["tool_calls"].filter(isCall).map(({ name }) => nameOfTool(name)) : [];
  if (last["type"] === "human") return "your message";
  if (last["type"] === "tool") return `${nameOfTool(String(last["name"] ?? "a tool"))} ${ENDS[failureOfMessage(last) ?? "answered"]}`;
  return calls.length > 0 ? `${who} called ${listed(calls)}` : `${who} answered`;
}

/** Returns what several tasks did; tools that answered are named together. */
function deedsOf(tasks: Task[]): string {
  const deeds = [...new Set(tasks.map(deedOf))];
  const answered = deeds.filter((deed) => deed.endsWith(" answered") && !deed.startsWith("the model")).map((deed) => deed.slice(0, -" answered".length));
  if (answered.length === deeds.length && deeds.length > 1) return `${listed(answered)} answered`;
  return listed(deeds);
}

/** Returns what had happened when a checkpoint was stored. `all` has the checkpoint before it, if it was read. */
export function wordsOf(checkpoint: Checkpoint, all: Checkpoint[]): string {
  const { metadata, parent_checkpoint_id: parent, next } = checkpoint;
  if (metadata?.source === "update") return "After a change by hand";
  if (metadata?.source === "fork") return "Fork";
  if (next.includes("__start__")) return "Before your message";
  const before = all.find(({ checkpoint_id }) => checkpoint_id === parent);
  if (!before || before.tasks.length === 0) return `After step ${metadata?.step ?? "?"}`;
  return `After ${deedsOf(before.tasks)}`;
}

/** Returns what is due at a checkpoint of a thread with a status: `waits for you`, `next: tool`. */
export function dueAt({ next, tasks }: Checkpoint, status: Status): string {
  if (status === "stopped" && next.length > 0) return `stopped in ${listed(next)}`;
  if (status === "waiting" && tasks.some(({ interrupts, result }) => interrupts.length > 0 && !result)) return "waits for you";
  if (next.includes("__start__")) return "";
  return next.length > 0 ? `next: ${[...new Set(next)].join(", ")}` : "end";
}
