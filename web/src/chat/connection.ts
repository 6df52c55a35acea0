import { useCallback, useMemo, useRef, useState } from "react";
import { noteLoss, useConnection, useFound } from "../api/connection";
import { HttpError } from "../api/http";
import type { Call } from "../api/types";
import { reasonOf } from "../question/first";
import { RunFacts } from "../run/facts";
import type { ChatEvents } from "./assistant";

/** The state of the connection of a chat. */
export type ChatConnection = "live" | "reconnected" | "cut";

export interface Connected {
  connection: ChatConnection;
  /** Why the last action did not happen. */
  refused: string | undefined;
  /** Why the messages changed without an action here. */
  noted: string | undefined;
  /** Grows with each reason to read the messages again. */
  epoch: number;
  events: ChatEvents;
  reload: () => void;
  /** Shows why the messages changed without an action here. */
  note: (reason: string) => void;
  /** The run for which the messages were read again last. */
  readFor: { current: string | undefined };
  /** Shows why an action did not happen. */
  refuse: (error: Error, call?: Call) => void;
  /** Facts of the run beside its message. */
  facts: RunFacts;
}

/** Returns `true` if the server answered a request, and refused it. */
function isRefusal(error: Error): boolean {
  return error instanceof HttpError && error.status !== 0 && error.status < 502;
}

/** Follows the connection of a chat. What a cut broke off is read again when the server is there. */
export function useChatConnection(): Connected {
  const facts = useMemo(() => new RunFacts(), []);
  const { isLost } = useConnection();
  const [wasLost, setWasLost] = useState(false);
  const [refused, setRefused] = useState<string>();
  const [noted, setNoted] = useState<string>();
  const [epoch, setEpoch] = useState(0);
  const isBroken = useRef(false);
  const readFor = useRef<string>(undefined);
  const isAway = useRef(isLost);
  isAway.current = isLost;
  const reload = useCallback(() => {
    // What is on the screen stays until there is something else to show.
    if (isAway.current) isBroken.current = true;
    else setEpoch((epoch) => epoch + 1);
  }, []);
  const refuse = useCallback(
    (error: Error, call?: Call) => {
      setRefused(reasonOf(error, call));
      // What the page shows is not what the server has.
      if (error instanceof HttpError && error.status === 409) reload();
    },
    [reload],
  );
  const events = useMemo<ChatEvents>(
    () => ({
      onSent: () => {
        setRefused(undefined);
        setNoted(undefined);
        facts.begin();
      },
      onFact: (fact) => facts.add(fact),
      onStale: reload,
      onEnd: () => setWasLost(false),
      onError: (error) => {
        if (isRefusal(error)) return refuse(error);
        isBroken.current = true;
        noteLoss();
      },
    }),
    [facts, reload, refuse],
  );
  useFound(() => {
    setWasLost(true);
    if (isBroken.current) reload();
    isBroken.current = false;
  });
  const connection = isLost ? "cut" : wasLost ? "reconnected" : "live";
  return { connection, refused, noted, epoch, events, reload, note: setNoted, readFor, refuse, facts };
}
