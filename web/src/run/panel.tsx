import { useEffect, useState, type CSSProperties } from "react";
import type { Thread } from "../api/types";
import { useStore } from "../shared/store";
import { statusOf } from "../threads/data";
import { Checkpoints } from "./checkpoints";
import { PAGE, readHistory, readTopology, useLoaded } from "./data";
import type { RunFacts } from "./facts";
import { Graph } from "./graph";
import { progressOf } from "./progress";
import { Runs } from "./runs";
import { useWidth, WidthHandle } from "./width";

interface Props {
  thread: Thread;
  agent: string;
  facts: RunFacts;
}

/** The details of a thread: the graph of its agent with the state of the nodes, and the checkpoints. */
export function RunPanel({ thread, agent, facts }: Props) {
  const live = useStore(facts);
  const size = useWidth();
  const [limit, setLimit] = useState(PAGE);
  const { thread_id: id, status, updated_at } = thread;
  const topology = useLoaded(agent, (signal) => readTopology(agent, signal));
  // Checkpoints of a fast run are read once for several.
  const seen = useSettled(live.checkpoints, 250);
  const isQuiet = useQuiet(thread.thread_id);
  const version = isQuiet && [id, status, updated_at, seen].join();
  const history = useLoaded(version && `${version},${limit}`, (signal) => readHistory(id, limit + 1, signal));
  const found = history.data ?? [];
  const states = progressOf(found, live, statusOf(thread));
  const problem = topology.problem ?? history.problem;
  return (
    <aside className="run" aria-label="Details" style={{ "--details": `${size.width}px` } as CSSProperties}>
      <WidthHandle {...size} />
      {problem && <p className="problem">{problem}</p>}
      <h2>Graph</h2>
      {topology.data && <Graph topology={topology.data} states={states} />}
      <h2>Runs</h2>
      <Runs thread={thread} version={version} />
      <h2>Checkpoints</h2>
      {history.data && (
        <Checkpoints thread={thread} found={found.slice(0, limit)} all={found} hasMore={found.length > limit} onMore={() => setLimit(limit + PAGE)} />
      )}
    </aside>
  );
}

/** Returns `true` a moment after a thread was opened: its messages are read first. */
function useQuiet(thread: string): boolean {
  const [quiet, setQuiet] = useState<string>();
  useEffect(() => {
    const timer = window.setTimeout(() => setQuiet(thread), 300);
    return () => window.clearTimeout(timer);
  }, [thread]);
  return quiet === thread;
}

/** Returns a value once it has not changed for a time. */
function useSettled(value: number, ms: number): number {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(value), ms);
    return () => window.clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
