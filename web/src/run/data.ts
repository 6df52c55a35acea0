import { useEffect, useState } from "react";
import { json } from "../api/http";
import type { Checkpoint, Topology } from "../api/types";

/** Number of checkpoints that the list grows by. */
export const PAGE = 10;

/** Members of checkpoints without the state, which is read on request. */
const SELECT = ["checkpoint_id", "parent_checkpoint_id", "created_at", "next", "tasks", "metadata"];

export interface Loaded<T> {
  /** The key of the data. */
  of?: string;
  data?: T;
  problem?: string;
}

/** Reads a value once for each key, and none for `false`. The value before stays until the next one is there. */
export function useLoaded<T>(key: string | false, read: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<Loaded<T>>({});
  useEffect(() => {
    if (key === false) return;
    const controller = new AbortController();
    read(controller.signal).then(
      (data) => setState({ of: key, data }),
      (error: Error) => !controller.signal.aborted && setState((before) => ({ ...before, problem: error.message })),
    );
    return () => controller.abort();
  }, [key]);
  return state;
}

export function readTopology(agent: string, signal: AbortSignal): Promise<Topology> {
  return json("GET /assistants/{assistant_id}/graph", { path: { assistant_id: agent }, signal });
}

/** Reads the newest checkpoints of a thread, newest first. */
export function readHistory(thread: string, limit: number, signal: AbortSignal): Promise<Checkpoint[]> {
  return json("POST /threads/{thread_id}/history", { path: { thread_id: thread }, body: { limit, select: SELECT }, signal });
}

/** Reads the state at a checkpoint. */
export function readState(thread: string, checkpoint: string, signal: AbortSignal): Promise<Checkpoint> {
  return json("GET /threads/{thread_id}/state/{checkpoint_id}", {
    path: { thread_id: thread, checkpoint_id: checkpoint },
    signal,
  });
}
