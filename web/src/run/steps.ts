// The timeline of a run, from the events of its log.
import { dollarsOf } from "../usage/words";
import { nameOfTool } from "../shared/effect";
import { clock } from "../shared/time";
import { failureOf } from "./failure";
import type { Ask, LogEvent, RunLog, TaskEnd, UsageFact } from "./log";

export type EntryStatus = "running" | "done" | "failed" | "refused" | "waiting" | "stopped" | "note";

/** A superstep, a task, a call, a wait, or an event of a run. */
export interface Entry {
  kind: "step" | "task" | "model" | "tool" | "wait" | "note";
  name: string;
  /** What is known beside the name, such as the number of the attempt. */
  detail: string[];
  status: EntryStatus;
  begin: number;
  /** `undefined` while it goes on. */
  end: number | undefined;
  within: Entry[];
}

interface Step extends Entry {
  ns: string;
  tasks: Map<string, Entry>;
}

const TASK_STATUS: Record<NonNullable<TaskEnd["status"]>, EntryStatus> = {
  ok: "done",
  cached: "done",
  failed: "failed",
  asks: "waiting",
  stopped: "stopped",
};

/** Returns what a run asked for in words. */
export function wordsOfAsk(ask: Ask): string {
  switch (ask.kind) {
    case "approval":
      return `Waits for approval of ${ask.tool}`;
    case "question":
      return `Asks: ${ask.question}`;
    case "timer":
      return `Waits until ${clock(new Date(ask.until).toISOString())}`;
    case "value":
      return "Waits for an answer";
  }
}

/** Returns the name of a graph for people: the nodes on the way to it, without the ids of tasks. */
function pathOf(ns: string): string {
  return ns
    .split("|")
    .map((part) => part.split(":")[0])
    .join(" › ");
}

class Timeline {
  readonly entries: Entry[] = [];
  /** Open supersteps by the namespace of their graph. */
  private readonly open = new Map<string, Step>();
  private readonly all: Step[] = [];
  private readonly tools = new Map<string, Entry>();
  private readonly attempts = new Map<string, number>();

  add(at: number, event: LogEvent): void {
    switch (event.type) {
      case "checkpoint":
        this.close(event.ns ?? "", at, event.ended ?? [], event.step);
        return this.begin(event.ns ?? "", at, event.due ?? [], event.step + 1);
      case "tasks_started":
        return this.begin(event.ns ?? "", at, event.tasks, undefined);
      case "tasks_ended":
        return this.end(event.ns ?? "", at, event.ended);
      case "tool_call_start":
        return this.beginTool(at, event);
      case "tool_call_result":
        return this.endTool(at, `${event.task ?? ""} ${event.tool_call_id}`, event.is_error === true ? failureOf(event.result) : "done");
      case "usage_report":
        return this.addModel(event.fact);
      case "human_input_required":
        return this.place(at, { kind: "wait", name: wordsOfAsk(event.ask), detail: [], status: "waiting", begin: at, end: at, within: [] });
      default:
        return this.addNote(at, event);
    }
  }

  /** Ends what is open when the run ended. */
  finish(at: number, status: EntryStatus): void {
    for (const step of this.all) {
      for (const entry of [step, ...step.tasks.values()]) {
        if (entry.end !== undefined) continue;
        entry.end = at;
        if (entry.status === "running") entry.status = [...step.tasks.values()].find(({ status }) => status !== "running" && status !== "done")?.status ?? status;
      }
    }
    for (const tool of this.tools.values()) {
      tool.end ??= at;
      if (tool.status === "running") tool.status = "stopped";
    }
  }

  private begin(ns: string, at: number, due: { id: string; node: string; finished?: boolean }[], number: number | undefined): void {
    const nodes = due.filter(({ finished, node }) => !finished && node !== "__start__");
    if (nodes.length === 0) return;
    const around = this.taskAround(ns);
    const graph = ns === "" || around ? [] : [`in ${pathOf(ns)}`];
    const name = number === undefined ? "Superstep, continued" : `Superstep ${number}`;
    const step: Step = { kind: "step", name, detail: graph, status: "running", begin: at, end: undefined, within: [], ns, tasks: new Map() };
    for (const { id, node } of nodes) {
      const task: Entry = { kind: "task", name: node, detail: [], status: "running", begin: at, end: undefined, within: [] };
      step.tasks.set(id, task);
      step.within.push(task);
    }
    this.open.set(ns, step);
    this.all.push(step);
    (around?.within ?? this.entries).push(step);
  }

  /** Returns the task that runs a subgraph, if its superstep is open. */
  private taskAround(ns: string): Entry | undefined {
    const parts = ns.split("|");
    const [node] = (parts.pop() ?? "").split(":");
    const tasks = ns === "" ? [] : [...(this.open.get(parts.join("|"))?.tasks.values() ?? [])];
    const named = tasks.filter(({ name }) => name === node);
    return named.length === 1 ? named[0] : undefined;
  }

  private end(ns: string, at: number, ended: TaskEnd[]): void {
    const step = this.open.get(ns);
    for (const { id, status = "ok", fault } of ended) {
      const task = step?.tasks.get(id);
      if (!task || task.end !== undefined) continue;
      task.end = at;
      task.status = TASK_STATUS[status];
      if (status === "cached") task.detail.push("result of an earlier run");
      if (fault) task.detail.push(fault.message);
    }
  }

  private close(ns: string, at: number, ended: TaskEnd[], number: number): void {
    this.end(ns, at, ended);
    const step = this.open.get(ns);
    if (!step) return;
    if (step.name === "Superstep, continued") step.name = `Superstep ${number}, continued`;
    step.end = at;
    step.status = [...step.tasks.values()].some(({ status }) => status === "failed") ? "failed" : "done";
    this.open.delete(ns);
  }

  private beginTool(at: number, event: Extract<LogEvent, { type: "tool_call_start" }>): void {
    const key = `${event.task ?? ""} ${event.tool_call_id}`;
    const attempt = (this.attempts.get(key) ?? 0) + 1;
    this.attempts.set(key, attempt);
    const detail = attempt > 1 ? [`attempt ${attempt}`] : [];
    const entry: Entry = { kind: "tool", name: nameOfTool(event.tool_name), detail, status: "running", begin: at, end: undefined, within: [] };
    this.tools.set(key, entry);
    this.place(at, entry, event.task);
  }

  private endTool(at: number, key: string, end: "done" | "failed" | "refused" | "stopped"): void {
    const tool = this.tools.get(key);
    if (!tool) return;
    tool.end = at;
    tool.status = end;
  }

  private addModel(fact: UsageFact): void {
    const { attempt, provider, model, status, error_code, tokens, cost_micro_usd, started_at, latency_ms } = fact;
    const sum = tokens.input + tokens.output;
    const detail = [
      attempt === 0 ? "answer of the cache" : attempt > 1 ? `attempt ${attempt}` : "",
      status === "error" ? `failed${error_code ? ` (${error_code})` : ""}` : status === "cancelled" ? "stopped" : "",
      sum > 0 ? `${sum.toLocaleString("en")} tokens` : "",
      cost_micro_usd ? dollarsOf(cost_micro_usd) : "",
    ].filter(Boolean);
    const ended: EntryStatus = status === "ok" ? "done" : status === "error" ? "failed" : "stopped";
    this.place(started_at, { kind: "model", name: `${provider}:${model}`, detail, status: ended, begin: started_at, end: started_at + latency_ms, within: [] });
  }

  private addNote(at: number, event: LogEvent): void {
    const note = noteOf(event);
    if (note === undefined) return;
    const entry: Entry = { kind: "note", name: note, detail: [], status: "note", begin: at, end: at, within: [] };
    // What happens to a run as a whole belongs to no superstep.
    if (event.type === "attempt_reset" || event.type === "call_reused") this.place(at, entry);
    else this.entries.push(entry);
  }

  /** Puts a call under its task; under its superstep if its task is not known. */
  private place(at: number, entry: Entry, task?: string): void {
    const step = this.all.findLast(({ tasks, begin, end }) => (task === undefined ? begin <= at && (end === undefined || end >= at) : tasks.has(task))) ?? this.all.at(-1);
    if (!step) return void this.entries.push(entry);
    const found = task === undefined ? undefined : step.tasks.get(task);
    const only = step.tasks.size === 1 ? [...step.tasks.values()][0] : undefined;
    (found ?? only ?? step).within.push(entry);
  }
}

function noteOf(event: LogEvent): string | undefined {
  switch (event.type) {
    case "taken_over":
      return "Continued by another process";
    case "released":
      return "Given back by its process";
    case "requeued":
      return `Started again by ${event.by}`;
    case "attempt_reset":
      return `An attempt of ${event.node} failed; its text is void`;
    case "call_reused":
      return `The recorded call of ${nameOfTool(event.name)} was used again`;
    default:
      return undefined;
  }
}

/** Returns the supersteps of a run with their tasks and calls, and what happened between them. */
export function timelineOf(log: RunLog): Entry[] {
  const timeline = new Timeline();
  for (const { at, event } of log.events) timeline.add(at, event);
  if (log.ended_at) timeline.finish(Date.parse(log.ended_at), log.status === "failed" ? "failed" : log.status === "interrupted" ? "waiting" : "stopped");
  return timeline.entries.map(compact);
}

/** Returns a superstep of one task as one entry with the calls of the task. */
function compact(entry: Entry): Entry {
  const within = entry.within.map(compact);
  const [task, ...others] = within;
  if (entry.kind !== "step" || task?.kind !== "task" || others.length > 0) return { ...entry, within };
  return { ...entry, name: `${entry.name} · ${task.name}`, detail: [...entry.detail, ...task.detail], status: task.status, within: task.within };
}
