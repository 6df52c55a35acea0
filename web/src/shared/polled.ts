import { useCallback, useEffect, useRef, useState } from "react";
import { useConnection } from "../api/connection";

export interface Polled<T> {
  data: T | undefined;
  error: Error | undefined;
  /** Reads again at once. */
  refresh: () => void;
  /** Replaces the value by a newer one, such as the answer to a change. One that is being read is ignored. */
  replace: (data: T) => void;
  /** `true` for data of another key, while that of the present one is read for the first time. */
  isOfBefore?: boolean;
}

/** Returns the last value that was read, as long as another one is being read for the first time. */
export function useKept<T>(polled: Polled<T>): Polled<T> {
  const kept = useRef(polled.data);
  if (polled.data !== undefined) kept.current = polled.data;
  return { ...polled, data: kept.current, isOfBefore: polled.data === undefined && kept.current !== undefined };
}

/** Reads a value again and again, while the page is visible. `key` names what is read. */
export function usePolled<T>(key: string, read: (signal: AbortSignal) => Promise<T>, interval: number): Polled<T> {
  const [state, setState] = useState<{ key: string; data?: T; error?: Error }>({ key });
  const [round, setRound] = useState(0);
  const { found } = useConnection();
  const reader = useRef(read);
  reader.current = read;
  useEffect(() => {
    const controller = new AbortController();
    let timer: number | undefined;
    const next = async () => {
      if (!document.hidden) {
        try {
          const data = await reader.current(controller.signal);
          if (!controller.signal.aborted) setState({ key, data });
        } catch (error) {
          if (!controller.signal.aborted)
            setState((before) => ({ key, data: before.key === key ? before.data : undefined, error: error as Error }));
        }
      }
      if (!controller.signal.aborted) timer = window.setTimeout(next, interval);
    };
    void next();
    return () => {
      controller.abort();
      window.clearTimeout(timer);
    };
  }, [key, interval, round, found]);
  const refresh = useCallback(() => setRound((round) => round + 1), []);
  const replace = useCallback(
    (data: T) => {
      setState({ key, data });
      setRound((round) => round + 1);
    },
    [key],
  );
  const current = state.key === key ? state : undefined;
  return { data: current?.data, error: current?.error, refresh, replace };
}
