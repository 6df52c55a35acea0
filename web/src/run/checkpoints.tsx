import { useState } from "react";
import type { Checkpoint, Json, Thread } from "../api/types";
import { copyText } from "../shared/copy";
import { differences } from "../shared/diff";
import { stringify } from "../shared/digits";
import { go } from "../shared/route";
import { clock } from "../shared/time";
import { toast } from "../shared/toast";
import { copyThread, statusOf } from "../threads/data";
import { readState, useLoaded, type Loaded } from "./data";
import { DiffTree, ValueTree } from "./tree";
import { dueAt, wordsOf } from "./words";

interface Props {
  thread: Thread;
  /** Newest first. */
  found: Checkpoint[];
  /** The checkpoints, and those that were read beyond them. */
  all: Checkpoint[];
  hasMore: boolean;
  onMore: () => void;
}

/** The checkpoints of a thread; the chosen one has its state, and what differs from another one. */
export function Checkpoints({ thread, found, all, hasMore, onMore }: Props) {
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
              <span>
                {wordsOf(checkpoint, all)} <span className="due">{dueAt(checkpoint, checkpoint === all[0] ? statusOf(thread) : "done")}</span>
              </span>
              {checkpoint.created_at && <time dateTime={checkpoint.created_at}>{clock(checkpoint.created_at)}</time>}
            </button>
            {isOpen && <Detail thread={thread} checkpoint={checkpoint} all={all} />}
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
                {`${one.created_at ? clock(one.created_at) : ""} ${wordsOf(one, all)}`}
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
  if (data === undefined) return <p className="none">Loading…</p>;
  return (
    <>
      <ValueTree value={data} label="State" />
      <button className="quiet" onClick={() => copyText(stringify(data, 2))}>
        Copy as JSON
      </button>
    </>
  );
}

function Diff({ before, after }: { before: LoadedState; after: LoadedState }) {
  const problem = before.problem ?? after.problem;
  if (problem) return <p className="problem">{problem}</p>;
  if (before.data === undefined || after.data === undefined) return <p className="none">Loading…</p>;
  if (differences(before.data, after.data).length === 0) return <p className="none">The states are equal.</p>;
  return <DiffTree before={before.data} after={after.data} label="Changes" />;
}
