// Usage of model calls, from the bill of the server.
import { createContext, useMemo } from "react";
import { useConnection } from "../api/connection";
import { json } from "../api/http";
import type { Thread } from "../api/types";
import { useLoaded } from "../run/data";
import { usePolled, type Polled } from "../shared/polled";

/** Sums of attempts of model calls. Costs are in millionths of a US dollar. */
export interface UsageSum {
  attempts: number;
  /** Number of attempts without an answer. */
  failed: number;
  input_tokens: number;
  output_tokens: number;
  /** Number of attempts whose tokens are estimated. */
  estimated: number;
  /** Cost without unpriced attempts; `null` if it is not known. */
  cost_micro_usd: number | null;
  /** Number of attempts whose price is not known. */
  unpriced: number;
  retries: number;
  retry_cost_micro_usd: number;
  /** Number of answers that were given without an attempt. */
  saved: number;
  saved_micro_usd: number;
}

export const NOTHING: UsageSum = {
  attempts: 0,
  failed: 0,
  input_tokens: 0,
  output_tokens: 0,
  estimated: 0,
  cost_micro_usd: 0,
  unpriced: 0,
  retries: 0,
  retry_cost_micro_usd: 0,
  saved: 0,
  saved_micro_usd: 0,
};

/** Usage of a run. */
export interface RunUsage extends UsageSum {
  run_id: string;
  /** First run of the answer of which the run is a part. */
  answer: string;
}

/** Returns the sum of usage. */
export function sumOf(usages: readonly UsageSum[]): UsageSum {
  const add = (name: Exclude<keyof UsageSum, "cost_micro_usd">) => usages.reduce((sum, usage) => sum + usage[name], 0);
  const cost = usages.reduce((sum, { cost_micro_usd }) => sum + (cost_micro_usd ?? 0), 0);
  const unpriced = add("unpriced");
  return {
    attempts: add("attempts"),
    failed: add("failed"),
    input_tokens: add("input_tokens"),
    output_tokens: add("output_tokens"),
    estimated: add("estimated"),
    cost_micro_usd: unpriced > 0 && cost === 0 ? null : cost,
    unpriced,
    retries: add("retries"),
    retry_cost_micro_usd: add("retry_cost_micro_usd"),
    saved: add("saved"),
    saved_micro_usd: add("saved_micro_usd"),
  };
}

/** Usage of a thread. */
export class ThreadUsage {
  private readonly answers = new Map<string, RunUsage[]>();
  private readonly runs = new Map<string, RunUsage>();

  /** `rows` are in the order of the execution of their runs. */
  constructor(
    rows: RunUsage[],
    readonly total: UsageSum,
  ) {
    for (const row of rows) {
      const answer = this.answers.get(row.answer);
      if (answer) answer.push(row);
      else this.answers.set(row.answer, [row]);
      this.runs.set(row.run_id, row);
    }
  }

  /** Returns the usage of a run; `undefined` if it was not read yet. */
  ofRun(run: string): RunUsage | undefined {
    return this.runs.get(run);
  }

  /** Returns the usage of an answer by its last run, without the runs of answers that are shown by themselves. */
  ofAnswer(run: string, shown: ReadonlySet<string>): UsageSum {
    const rows = this.answers.get(this.runs.get(run)?.answer ?? "") ?? [];
    const end = rows.findIndex(({ run_id }) => run_id === run);
    const before = rows.slice(0, Math.max(0, end));
    const start = before.findLastIndex(({ run_id }) => shown.has(run_id)) + 1;
    return sumOf(rows.slice(start, end + 1));
  }
}

/** The usage of the thread that is shown. */
export const UsageContext = createContext(new ThreadUsage([], NOTHING));

/** Reads the usage of a thread, and again when a run of it has ended. */
export function useThreadUsage(id: string, thread: Thread | null | undefined): ThreadUsage {
  const { found } = useConnection();
  const ended = thread && thread.status !== "busy" ? `${id} ${thread.updated_at} ${found}` : false;
  const { data } = useLoaded(ended, (signal) =>
    json<{ rows: RunUsage[]; total: UsageSum }>("GET /threads/{thread_id}/usage", { path: { thread_id: id }, signal }),
  );
  return useMemo(() => new ThreadUsage(data?.rows ?? [], data?.total ?? NOTHING), [data]);
}

/** A property by which the usage of a day is divided. */
export type Division = "agent" | "model";

/** Usage of a day, or of an agent or a model on that day. */
export interface DayUsage extends UsageSum {
  day: string;
  agent?: string | null;
  model?: string;
}

export interface UsageReport {
  rows: DayUsage[];
  total: UsageSum;
}

/** The time zone of the browser. */
export const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** Time after which usage is read again. */
const PAUSE_MS = 60_000;

/** Reads the usage of the last days; of all days with `undefined`. */
export function useDays(days: number | undefined, division: Division | undefined): Polled<UsageReport> {
  const by = division === undefined ? "day" : `day,${division}`;
  const read = (signal: AbortSignal) => {
    const query: Record<string, string> = { by, zone: ZONE };
    if (days !== undefined) query.from = dayBefore(days - 1);
    return json<UsageReport>("GET /usage", { query, signal });
  };
  return usePolled(`usage ${by} ${days}`, read, PAUSE_MS);
}

/** Returns the day some days before today, as `2026-03-29`. */
function dayBefore(days: number): string {
  const day = new Date();
  day.setDate(day.getDate() - days);
  const [year, month, date] = [day.getFullYear(), day.getMonth() + 1, day.getDate()].map((part) => String(part).padStart(2, "0"));
  return `${year}-${month}-${date}`;
}
