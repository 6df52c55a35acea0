// The connection to the server, from a small request that is made all the time while the page is visible.
import { useEffect, useRef } from "react";
import { Store, useStore } from "../shared/store";

/** Pause between two requests. With the time for an answer, a lost server is noticed within 3 seconds. */
const PAUSE_MS = 800;
/** Time for an answer. */
const ANSWER_MS = 2000;
/** Time after which requests are given up that were made before the connection was lost. A slow server may answer. */
const GIVE_UP_MS = 6000;

export interface Connection {
  isLost: boolean;
  /** Number of times that the connection was lost and found again. */
  found: number;
}

const state = new Store<Connection>({ isLost: false, found: 0 });
let lost = new AbortController();
let timer = 0;
let givingUp = 0;
let isAsking = false;

/** Returns a signal that ends requests when the connection stays lost: nobody will answer them. */
export function untilLost(signal?: AbortSignal): AbortSignal {
  return signal ? AbortSignal.any([signal, lost.signal]) : lost.signal;
}

function set(isLost: boolean): void {
  const { isLost: was, found } = state.read();
  if (isLost === was) return;
  window.clearTimeout(givingUp);
  if (isLost) givingUp = window.setTimeout(() => lost.abort(new Error("the connection is lost")), GIVE_UP_MS);
  else if (lost.signal.aborted) lost = new AbortController();
  state.set({ isLost, found: isLost ? found : found + 1 });
}

/** Asks the server if it is there, at once, and again after a pause. */
function ask(): void {
  if (isAsking) return;
  isAsking = true;
  window.clearTimeout(timer);
  const next = (isThere: boolean) => {
    isAsking = false;
    // A page that is hidden may have been stopped by the browser.
    if (!document.hidden) set(!isThere);
    timer = window.setTimeout(ask, PAUSE_MS);
  };
  if (document.hidden) return next(true);
  const request = { signal: AbortSignal.timeout(ANSWER_MS), cache: "no-store" as const };
  fetch(new URL("../ok", document.baseURI), request).then(
    ({ status }) => next(status < 502),
    () => next(false),
  );
}

/** Notes that a request got no answer, or that an answer broke off. */
export function noteLoss(): void {
  set(true);
  ask();
}

/** Begins to watch the connection. */
export function watchConnection(): void {
  document.addEventListener("visibilitychange", ask);
  window.addEventListener("online", ask);
  window.addEventListener("offline", noteLoss);
  ask();
}

/** Waits until the server is there. */
export function whenFound(): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (state.read().isLost) return;
      end();
      resolve();
    };
    const end = state.subscribe(look);
    look();
  });
}

export function useConnection(): Connection {
  return useStore(state);
}

/** Calls a function each time that the connection was found again. */
export function useFound(onFound: () => void): void {
  const { found } = useConnection();
  const before = useRef(found);
  const latest = useRef(onFound);
  latest.current = onFound;
  useEffect(() => {
    if (before.current === found) return;
    before.current = found;
    latest.current();
  }, [found]);
}
