import { useSyncExternalStore } from "react";

/** Windows with one screen at a time; the rules of `style` have the same width. */
const phone = window.matchMedia("(max-width: 760px)");

function subscribe(listener: () => void): () => void {
  phone.addEventListener("change", listener);
  return () => phone.removeEventListener("change", listener);
}

/** Returns `true` in a window that has one screen at a time. */
export function useIsPhone(): boolean {
  return useSyncExternalStore(subscribe, () => phone.matches);
}
