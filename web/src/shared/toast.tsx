// Short messages at the bottom of the page, which leave by themselves.
import { useEffect } from "react";
import { Store, useStore } from "./store";

interface Toast {
  text: string;
  /** Undoes what the message reports; without it the message only informs. */
  undo?: () => void;
}

/** Time for which a message is shown. */
export const TOAST_MS = 7000;

interface Shown extends Toast {
  key: number;
}

const shown = new Store<readonly Shown[]>([]);
let last = 0;

/** Shows a message. It takes the place of one that only informs; those that offer an undo stay until their time. */
export function toast(next: Toast): void {
  shown.set([...shown.read().filter(({ undo }) => undo), { ...next, key: (last += 1) }]);
}

function leave({ key }: Shown): void {
  shown.set(shown.read().filter((one) => one.key !== key));
}

/** The present messages. */
export function Toasts() {
  const toasts = useStore(shown);
  return (
    <div className="toasts" role="status">
      {toasts.map((toast) => (
        <Message key={toast.key} toast={toast} />
      ))}
    </div>
  );
}

function Message({ toast }: { toast: Shown }) {
  useEffect(() => {
    const timer = window.setTimeout(() => leave(toast), TOAST_MS);
    return () => window.clearTimeout(timer);
  }, [toast]);
  const undo = () => {
    leave(toast);
    toast.undo?.();
  };
  return (
    <p className="toast">
      {toast.text} {toast.undo && <button onClick={undo}>Undo</button>}
    </p>
  );
}
