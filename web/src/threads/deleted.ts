// Threads that were deleted here a moment ago. The server deletes them when the time for an undo is over.
import type { Thread } from "../api/types";
import { Store, useStore } from "../shared/store";
import { toast, TOAST_MS } from "../shared/toast";
import { deleteThread, titleOf } from "./data";

const hidden = new Store<ReadonlySet<string>>(new Set());
/** Timers of the deletions that can be undone, by thread. */
const pending = new Map<Thread, number>();

function hide({ thread_id }: Thread, isHidden: boolean): void {
  const next = new Set(hidden.read());
  if (isHidden) next.add(thread_id);
  else next.delete(thread_id);
  hidden.set(next);
}

/** Returns the threads that the list does not show. */
export function useDeleted(): ReadonlySet<string> {
  return useStore(hidden);
}

/** Returns `true` if the deletion of a thread was pending, which it is no longer. */
function take(thread: Thread): boolean {
  window.clearTimeout(pending.get(thread));
  return pending.delete(thread);
}

function remove(thread: Thread): void {
  if (!take(thread)) return;
  // The page may be closing.
  deleteThread(thread.thread_id, true).catch((error: Error) => {
    hide(thread, false);
    toast({ text: `“${titleOf(thread)}” was not deleted: ${error.message}` });
  });
}

window.addEventListener("pagehide", () => [...pending.keys()].forEach(remove));

/** Hides a thread, and deletes it unless that is undone. */
export function deleteWithUndo(thread: Thread): void {
  hide(thread, true);
  pending.set(thread, window.setTimeout(() => remove(thread), TOAST_MS));
  const undo = () => {
    if (take(thread)) hide(thread, false);
  };
  toast({ text: `“${titleOf(thread)}” is deleted.`, undo });
}
