import { lengthOf } from "../shared/time";
import type { RunLog } from "./log";
import { timelineOf, type Entry, type EntryStatus } from "./steps";

const STATUS: Record<EntryStatus, string> = {
  running: "running",
  done: "done",
  failed: "failed",
  refused: "not called",
  waiting: "waits",
  stopped: "stopped",
  note: "",
};
const KINDS: Partial<Record<Entry["kind"], string>> = { model: "model", tool: "tool" };

/** The first and the last moment of a run, in milliseconds. */
interface Span {
  begin: number;
  end: number;
}

/** The supersteps of a run, their tasks, and the calls of these, each with its part of the time of the run. */
export function Timeline({ log }: { log: RunLog }) {
  const entries = timelineOf(log);
  const begin = Date.parse(log.created_at);
  const ends = flat(entries).map((entry) => entry.end ?? entry.begin);
  const span = { begin, end: Math.max(begin + 1, log.ended_at ? Date.parse(log.ended_at) : Date.now(), ...ends) };
  if (entries.length === 0) return <p className="none">No superstep ran.</p>;
  return (
    <>
      <Entries entries={entries} span={span} label="Timeline" />
      {log.omitted > 0 && <p className="none">The log is too large for the page: its last {log.omitted.toLocaleString("en")} events are not shown.</p>}
    </>
  );
}

function flat(entries: Entry[]): Entry[] {
  return entries.flatMap((entry) => [entry, ...flat(entry.within)]);
}

function Entries({ entries, span, label }: { entries: Entry[]; span: Span; label?: string }) {
  return (
    <ol className="timeline" aria-label={label}>
      {entries.map((entry, at) => (
        <li key={at} data-kind={entry.kind} data-status={entry.status}>
          <Row entry={entry} span={span} />
          {entry.within.length > 0 && <Entries entries={entry.within} span={span} />}
        </li>
      ))}
    </ol>
  );
}

function Row({ entry, span }: { entry: Entry; span: Span }) {
  const { kind, name, detail, status, begin, end = span.end } = entry;
  // The attempt of a model says itself how it ended.
  const state = kind === "wait" || kind === "model" || status === "done" ? "" : STATUS[status];
  const words = [KINDS[kind] ?? "", ...detail, state].filter(Boolean);
  const whole = span.end - span.begin;
  const left = Math.min(99, Math.max(0, ((begin - span.begin) / whole) * 100));
  const width = Math.max(1, Math.min(100 - left, ((end - begin) / whole) * 100));
  const isMoment = kind === "wait" || kind === "note";
  return (
    <div className="entry">
      <span className="name">{name}</span>
      {words.length > 0 && <span className="words">{words.join(" · ")}</span>}
      {!isMoment && <span className="took">{lengthOf(end - begin)}</span>}
      {!isMoment && (
        <span className="bar" aria-hidden="true">
          <span style={{ marginLeft: `${left}%`, width: `${width}%` }} />
        </span>
      )}
    </div>
  );
}
