import { useContext, useEffect, useState } from "react";
import type { Thread } from "../api/types";
import { clock, lengthOf } from "../shared/time";
import { UsageContext, type UsageSum } from "../usage/data";
import { costOf, tokensOf } from "../usage/words";
import { useLoaded } from "./data";
import { askOf, readLog, readRuns, RUNS, startOf, usagesOf, type RunLog, type RunRow, type RunStatus } from "./log";
import { Timeline } from "./timeline";

const OUTCOMES: Record<RunStatus, string> = {
  queued: "Queued",
  pending: "Queued",
  running: "Running",
  completed: "Done",
  interrupted: "Waits for you",
  cancelled: "Stopped",
  limit_reached: "Reached its limit of steps",
  failed: "Failed",
};

type State = "running" | "waiting" | "failed" | "done" | "stopped";
const STATES: Record<RunStatus, State> = {
  queued: "running",
  pending: "running",
  running: "running",
  completed: "done",
  interrupted: "waiting",
  cancelled: "stopped",
  limit_reached: "failed",
  failed: "failed",
};

interface Props {
  thread: Thread;
  /** Changes when the runs are to be read again. */
  version: string | false;
}

/** The runs of a thread, newest first, each with its outcome, its duration, its models and its cost. */
export function Runs({ thread: { thread_id: id }, version }: Props) {
  const [limit, setLimit] = useState(RUNS);
  const rows = useLoaded(version && `${version},${limit}`, (signal) => readRuns(id, limit + 1, signal));
  const [logs, setLogs] = useState<ReadonlyMap<string, RunLog>>(new Map());
  const [problem, setProblem] = useState<string>();
  const shown = rows.data?.slice(0, limit);
  useEffect(() => {
    if (!shown) return;
    const controller = new AbortController();
    Promise.all(shown.map((row) => readLog(id, row, controller.signal))).then(
      (found) => setLogs(new Map(found.map((log) => [log.run_id, log]))),
      (error: Error) => !controller.signal.aborted && setProblem(error.message),
    );
    return () => controller.abort();
  }, [id, rows.data]);
  const failure = rows.problem ?? problem;
  if (failure) return <p className="problem">{failure}</p>;
  if (!shown) return <p className="none">Loading…</p>;
  if (shown.length === 0) return <p className="none">Nothing has run yet.</p>;
  return (
    <ol className="runs" aria-label="Runs">
      {shown.map((row) => (
        <li key={row.run_id}>
          <Run row={row} log={logs.get(row.run_id)} logs={logs} isNewest={row === shown[0]} />
        </li>
      ))}
      {(rows.data?.length ?? 0) > limit && (
        <li>
          <button className="quiet" onClick={() => setLimit(limit + RUNS)}>
            Show older
          </button>
        </li>
      )}
    </ol>
  );
}

interface RunProps {
  row: RunRow;
  log: RunLog | undefined;
  logs: ReadonlyMap<string, RunLog>;
  isNewest: boolean;
}

function Run({ row, log, logs, isNewest }: RunProps) {
  const [isOpen, setIsOpen] = useState(false);
  const usage = useContext(UsageContext).ofRun(row.run_id);
  const before = log && logs.get(startOf(log)?.continues ?? "");
  return (
    <>
      <button aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
        <span className="status" data-status={log && (isNewest || log.status !== "interrupted" ? STATES[log.status] : "done")}>
          {log ? outcomeOf(log, isNewest) : "…"}
        </span>
        <time dateTime={row.created_at}>{clock(row.created_at)}</time>
        {log && <span className="facts">{[...(row.replaced_by ? ["replaced"] : []), ...factsOf(log, usage)].join(" · ")}</span>}
      </button>
      {isOpen && log && (
        <div className="inside">
          {before?.ended_at && <p className="none">After a wait of {lengthOf(Date.parse(row.created_at) - Date.parse(before.ended_at))} for an answer.</p>}
          {log.error && <p className="problem">{log.error.message}</p>}
          <Timeline log={log} />
        </div>
      )}
    </>
  );
}

/** Returns the outcome of a run in words. A question of an older run was answered. */
function outcomeOf(log: RunLog, isNewest: boolean): string {
  if (log.status !== "interrupted") return OUTCOMES[log.status];
  const ask = askOf(log);
  if (!isNewest) return ask?.kind === "timer" ? "Waited for a time" : ask ? "Asked" : "Paused";
  return ask?.kind === "timer" ? "Waits for a time" : ask ? OUTCOMES.interrupted : "Paused";
}

/** Returns the duration, the models, and the usage of a run. */
function factsOf(log: RunLog, usage: UsageSum | undefined): string[] {
  const end = log.ended_at ? Date.parse(log.ended_at) : Date.now();
  const models = [...new Set(usagesOf(log).map(({ provider, model }) => `${provider}:${model}`))];
  const costs = usage && usage.attempts > 0 ? [tokensOf(usage), costOf(usage)] : [];
  return [lengthOf(end - Date.parse(log.created_at)), ...models, ...costs];
}
