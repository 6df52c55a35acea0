// Short messages at the bottom of the page, which leave by themselves.
import { useEffect, useSyncExternalStore } from "react";

export interface Toast {
  text: string;
  /** A way back; without it the message only informs. */
  undo?: () => void;
  /** Called when the message leaves without `undo`. */
  onGone?: () => void;
}

/** Time for which a message is shown. */
export const TOAST_MS = 7000;

let current: Toast | undefined;
const listeners = new Set<() => void>();

function change(next: Toast | undefined): void {
  const before = current;
  current = next;
  listeners.forEach((listener) => listener());
  before?.onGone?.();
}

/** Shows a message in place of the one that is shown. */
export function toast(next: Toast): void {
  change(next);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** The present message. */
export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => current);
  useEffect(() => {
    if (!shown) return;
    const leave = () => current === shown && change(undefined);
    const timer = window.setTimeout(leave, TOAST_MS);
    window.addEventListener("pagehide", leave);
    return () => {
      window.clearTimeout(timer);
      window.removeEventListener("pagehide", leave);
    };
  }, [shown]);
  const undo = () => {
    const toast = current;
    current = toast && { ...toast, onGone: undefined };
    toast?.undo?.();
    change(undefined);
  };
  return (
    <div className="toasts" role="status">
      {shown && (
        <p className="toast">
          {shown.text} {shown.undo && <button onClick={undo}>Undo</button>}
        </p>
      )}
    </div>
  );
}
