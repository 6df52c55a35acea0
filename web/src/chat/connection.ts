import { useCallback, useEffect, useMemo, useState } from "react";
import { HttpError, request } from "../api/http";
import { reasonOf } from "../question/first";
import { RunFacts } from "../run/facts";
import type { ChatEvents } from "./assistant";
import { unsentTexts } from "./texts";

/** The state of the connection to the server. */
export type Connection = "live" | "reconnected" | "cut";

/** Pause between two attempts to reach the server. */
const PAUSE_MS = 1000;

export interface Connected {
  connection: Connection;
  /** The request that the server refused last. */
  refused: string | undefined;
  /** Grows with each new connection: messages are read again. */
  epoch: number;
  events: ChatEvents;
  reload: () => void;
  /** Shows why the messages changed without an action here. */
  note: (reason: string) => void;
  /** Facts of the run beside its message. */
  facts: RunFacts;
}

/** Returns why the server refused a request; `undefined` if it was not reached. */
function refusal(error: Error): string | undefined {
  if (!(error instanceof HttpError) || error.status === 0 || error.status >= 502) return undefined;
  return reasonOf(error);
}

/** Follows the connection of a chat. After a cut it waits for the server, and reads the thread again. */
export function useConnection(thread: string): Connected {
  const facts = useMemo(() => new RunFacts(), []);
  const [connection, setConnection] = useState<Connection>("live");
  const [refused, setRefused] = useState<string>();
  const [epoch, setEpoch] = useState(0);
  const reload = useCallback(() => setEpoch((epoch) => epoch + 1), []);
  const events = useMemo<ChatEvents>(
    () => ({
      onSent: () => {
        unsentTexts.delete(thread);
        setRefused(undefined);
        facts.begin();
      },
      onFact: (fact) => facts.add(fact),
      onStale: reload,
      onEnd: () => setConnection("live"),
      onError: (error) => {
        const reason = refusal(error);
        if (reason === undefined) return setConnection("cut");
        setRefused(reason);
        // What the page shows is not what the server has.
        if ((error as HttpError).status === 409) reload();
      },
    }),
    [facts, reload, thread],
  );
  useEffect(() => {
    if (connection !== "cut") return;
    let timer: number;
    const attempt = () =>
      request("GET /ok", {}).then(
        () => {
          setConnection("reconnected");
          reload();
        },
        () => (timer = window.setTimeout(attempt, PAUSE_MS)),
      );
    timer = window.setTimeout(attempt, PAUSE_MS);
    return () => window.clearTimeout(timer);
  }, [connection, reload]);
  return { connection, refused, epoch, events, reload, note: setRefused, facts };
}
