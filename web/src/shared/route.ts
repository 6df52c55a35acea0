// The view and its subject are in the fragment of the address, so that each has a link.
import { useSyncExternalStore } from "react";

export type Place =
  | { view: "threads" }
  | { view: "new"; agent?: string }
  | { view: "agent"; slug: string }
  | { view: "thread"; thread: string }
  | { view: "inbox"; tab: InboxTab }
  | { view: "usage" }
  | { view: "error"; code: string }
  | { view: "unknown" };

export type InboxTab = "open" | "answered";

function read(hash: string): Place {
  const [start, view = "", subject = "", ...more] = partsOf(hash);
  if (start !== "" || more.length > 0) return { view: "unknown" };
  if (view === "" && subject === "") return { view: "threads" };
  if (view === "thread" && subject) return { view, thread: subject };
  if (view === "agent" && subject) return { view, slug: subject };
  if (view === "error" && subject) return { view, code: subject };
  if (view === "new") return { view, agent: subject || undefined };
  if (view === "inbox" && (subject === "" || subject === "answered")) return { view, tab: subject === "" ? "open" : subject };
  if (view === "usage" && subject === "") return { view };
  return { view: "unknown" };
}

/** Returns the parts of a fragment; of one that is no text, a part that is no start. */
function partsOf(hash: string): string[] {
  try {
    return hash.slice(1).split("/").map(decodeURIComponent);
  } catch {
    return [hash];
  }
}

/** Returns the link of a place. */
export function link(place: Place): string {
  switch (place.view) {
    case "threads":
    case "unknown":
      return "#/";
    case "inbox":
      return place.tab === "open" ? "#/inbox" : "#/inbox/answered";
    case "usage":
      return "#/usage";
    case "new":
      return place.agent === undefined ? "#/new" : `#/new/${encodeURIComponent(place.agent)}`;
    case "agent":
      return `#/agent/${encodeURIComponent(place.slug)}`;
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
