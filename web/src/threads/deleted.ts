// Threads that were deleted here a moment ago. The server deletes them when the way back is over.
import { useSyncExternalStore } from "react";
import type { Thread } from "../api/types";
import { toast } from "../shared/toast";
import { deleteThread, titleOf } from "./data";

let hidden: ReadonlySet<string> = new Set();
const listeners = new Set<() => void>();

function change(id: string, isHidden: boolean): void {
  const next = new Set(hidden);
  if (isHidden) next.add(id);
  else next.delete(id);
  hidden = next;
  listeners.forEach((listener) => listener());
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Returns the threads that the list does not show. */
export function useDeleted(): ReadonlySet<string> {
  return useSyncExternalStore(subscribe, () => hidden);
}

/** Hides a thread, and deletes it unless that is undone. */
export function deleteWithUndo(thread: Thread): void {
  const id = thread.thread_id;
  change(id, true);
  const onGone = () => {
    // The page may be closing.
    deleteThread(id, true).catch((error: Error) => {
      change(id, false);
      toast({ text: `“${titleOf(thread)}” was not deleted: ${error.message}` });
    });
  };
  toast({ text: `“${titleOf(thread)}” is deleted.`, undo: () => change(id, false), onGone });
}
