// The view and its subject are in the fragment of the address, so that each has a link.
import { useSyncExternalStore } from "react";

export type Place =
  | { view: "threads" }
  | { view: "new"; agent?: string }
  | { view: "thread"; thread: string }
  | { view: "inbox"; tab: InboxTab }
  | { view: "error"; code: string };

export type InboxTab = "open" | "answered";

function read(hash: string): Place {
  const [, view, subject] = hash.slice(1).split("/").map(decodeURIComponent);
  if (view === "thread" && subject) return { view, thread: subject };
  if (view === "error" && subject) return { view, code: subject };
  if (view === "new") return { view, agent: subject || undefined };
  if (view === "inbox") return { view, tab: subject === "answered" ? "answered" : "open" };
  return { view: "threads" };
}

/** Returns the link of a place. */
export function link(place: Place): string {
  switch (place.view) {
    case "threads":
      return "#/";
    case "inbox":
      return place.tab === "open" ? "#/inbox" : "#/inbox/answered";
    case "new":
      return place.agent === undefined ? "#/new" : `#/new/${encodeURIComponent(place.agent)}`;
    case "error":
      return `#/error/${encodeURIComponent(place.code)}`;
    default:
      return `#/thread/${encodeURIComponent(place.thread)}`;
  }
}

/** Opens a place; `replace` leaves no entry in the history. */
export function go(place: Place, replace = false): void {
  if (replace) window.location.replace(link(place));
  else window.location.hash = link(place);
}

function subscribe(listener: () => void): () => void {
  window.addEventListener("hashchange", listener);
  return () => window.removeEventListener("hashchange", listener);
}

/** Returns the current place. */
export function usePlace(): Place {
  return read(useSyncExternalStore(subscribe, () => window.location.hash));
}
