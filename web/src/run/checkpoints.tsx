import { useState } from "react";
import type { Checkpoint, Json, Thread } from "../api/types";
import { Changes } from "../question/changes";
import { differences } from "../shared/diff";
import { go } from "../shared/route";
import { toast } from "../shared/toast";
import { copyThread } from "../threads/data";
import { readState, useLoaded, type Loaded } from "./data";

/** Maximum number of differences that are shown. */
const SHOWN_MAX = 50;

interface Props {
  thread: Thread;
  /** Newest first. */
  found: Checkpoint[];
  hasMore: boolean;
  onMore: () => void;
}

/** The checkpoints of a thread; the chosen one has its state, and what differs from another one. */
export function Checkpoints({ thread, found, hasMore, onMore }: Props) {
  const [chosen, setChosen] = useState<string>();
  if (found.length === 0) return <p className="none">Nothing has run yet.</p>;
  return (
    <ol className="checkpoints">
      {found.map((checkpoint) => {
        const { checkpoint_id: id } = checkpoint;
        const isOpen = id === chosen;
        return (
          <li key={id}>
            <button aria-expanded={isOpen} onClick={() => setChosen(isOpen ? undefined : id)}>
              <span>{nameOf(checkpoint)}</span>
              {checkpoint.created_at && <time dateTime={checkpoint.created_at}>{clock(checkpoint.created_at)}</time>}
            </button>
            {isOpen && <Detail thread={thread} checkpoint={checkpoint} all={found} />}
          </li>
        );
      })}
      {hasMore && (
        <li>
          <button className="quiet" onClick={onMore}>
            Show older
          </button>
        </li>
      )}
    </ol>
  );
}

function clock(time: string): string {
  return new Date(time).toLocaleTimeString("en-GB");
}

const SOURCES: Record<string, string> = { input: "input", update: "changed by hand", fork: "fork" };

/** Returns the step of a checkpoint, and what is due at it. */
function nameOf({ metadata, next, tasks }: Checkpoint): string {
  const step = `Step ${metadata?.step ?? "?"}`;
  const source = SOURCES[metadata?.source ?? ""];
  const waits = tasks.some(({ interrupts }) => interrupts.length > 0);
  if (next.includes("__start__")) return [step, source].filter(Boolean).join(" · ");
  const due = next.length > 0 ? `${waits ? "waits in" : "next"} ${next.join(", ")}` : tasks.length > 0 ? tasks.map(({ name }) => name).join(", ") : "end";
  return [step, source, due].filter(Boolean).join(" · ");
}

function Detail({ thread, checkpoint, all }: { thread: Thread; checkpoint: Checkpoint; all: Checkpoint[] }) {
  const { checkpoint_id: id, parent_checkpoint_id: parent } = checkpoint;
  const [other, setOther] = useState(parent ?? "");
  const [isWhole, setIsWhole] = useState(false);
  const here = useStateAt(thread.thread_id, id);
  const there = useStateAt(thread.thread_id, other);
  const fork = () =>
    copyThread(thread, "fork", id).then(
      (copy) => go({ view: "thread", thread: copy }),
      (error: Error) => toast({ text: error.message }),
    );
  return (
    <div className="inside">
      <label>
        Compare with
        <select value={other} onChange={(event) => setOther(event.target.value)}>
          <option value="">nothing</option>
          {all
            .filter(({ checkpoint_id }) => checkpoint_id !== id)
            .map((one) => (
              <option key={one.checkpoint_id} value={one.checkpoint_id}>
                {nameOf(one)}
              </option>
            ))}
        </select>
      </label>
      {other !== "" && <Diff before={there} after={here} />}
      <div className="actions">
        <button aria-expanded={isWhole} onClick={() => setIsWhole(!isWhole)}>
          State
        </button>
        <button onClick={fork}>Fork a thread here</button>
      </div>
      {isWhole && <State loaded={here} />}
    </div>
  );
}

type LoadedState = Loaded<Json>;

function useStateAt(thread: string, checkpoint: string): Loaded<Json> {
  const key = `${thread}/${checkpoint}`;
  const loaded = useLoaded(key, async (signal): Promise<Json> => {
    if (checkpoint === "") return {};
    return (await readState(thread, checkpoint, signal)).values ?? {};
  });
  return loaded.of === key ? loaded : { problem: loaded.problem };
}

function State({ loaded: { data, problem } }: { loaded: LoadedState }) {
  if (problem) return <p className="problem">{problem}</p>;
  return (
    <pre className="json" tabIndex={0} role="group" aria-label="State">
      {data === undefined ? "Loading…" : JSON.stringify(data, null, 2)}
    </pre>
  );
}

/** Returns a value without the members that are empty, which messages have many of. */
function compact(value: Json | undefined): Json | undefined {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => compact(item) ?? null);
  const isEmpty = (member: Json) => member === null || (typeof member === "object" && Object.keys(member).length === 0);
  const full = Object.entries(value).filter(([, member]) => !isEmpty(member));
  return Object.fromEntries(full.map(([name, member]) => [name, compact(member) ?? null]));
}

function Diff({ before, after }: { before: LoadedState; after: LoadedState }) {
  const problem = before.problem ?? after.problem;
  if (problem) return <p className="problem">{problem}</p>;
  if (before.data === undefined || after.data === undefined) return <p className="none">Loading…</p>;
  const all = differences(before.data, after.data);
  const changes = all.slice(0, SHOWN_MAX).map(({ path, before, after }) => ({ path, before: compact(before), after: compact(after) }));
  return (
    <>
      <Changes changes={changes} none="The states are equal." />
      {all.length > SHOWN_MAX && <p className="none">{all.length - SHOWN_MAX} further differences.</p>}
    </>
  );
}
