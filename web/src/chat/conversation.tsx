import { AssistantRuntimeProvider, ThreadPrimitive, useAuiState } from "@assistant-ui/react";
import { useEffect, useRef, useState } from "react";
import type { Thread } from "../api/types";
import { chatHistory, useChatRuntime, type AssistantRuntime, type ChatPlace } from "./assistant";
import { Composer } from "./composer";
import type { Connected } from "./connection";
import { AssistantMessage, UserMessage } from "./message";
import { firstTexts, take } from "./texts";

interface Props {
  place: ChatPlace;
  /** Status of the thread on the server. */
  status: Thread["status"];
  connected: Connected;
  onChange: () => void;
}

/** The messages of a thread, and the input. It reads the thread once, and follows what it starts. */
export function Conversation({ place, status, connected, onChange }: Props) {
  const [history] = useState(() => chatHistory(place, connected.events));
  const runtime = useChatRuntime(history);
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Root className="conversation" data-connection={connected.refused ? "refused" : connected.connection}>
        <ThreadPrimitive.Viewport className="viewport" tabIndex={0} role="log" aria-label="Messages">
          <ThreadPrimitive.Messages components={{ UserMessage, AssistantMessage }} />
        </ThreadPrimitive.Viewport>
        {connected.refused && (
          <p className="problem refused" role="alert">
            {connected.refused}
          </p>
        )}
        <Composer runtime={runtime} thread={place.thread} />
        <FirstText runtime={runtime} thread={place.thread} />
        <Watch status={status} onChange={onChange} reload={connected.reload} />
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

/** Sends the text with which a thread begins, once its history was read, which replaces all messages. */
function FirstText({ runtime, thread }: { runtime: AssistantRuntime; thread: string }) {
  const isLoading = useAuiState((state) => state.thread.isLoading);
  const hasBegun = useRef(false);
  useEffect(() => {
    if (isLoading) hasBegun.current = true;
    if (isLoading || !hasBegun.current) return;
    const text = take(firstTexts, thread);
    if (text !== undefined) runtime.thread.append(text);
  }, [isLoading, runtime, thread]);
  return null;
}

/** Time for which the page and the server may differ, such as between an answer and its run. */
const PATIENCE_MS = 3000;

interface WatchProps {
  status: Thread["status"];
  onChange: () => void;
  reload: () => void;
}

/** Reads the thread again if it has changed elsewhere: it runs or waits, and the page shows neither. */
function Watch({ status, onChange, reload }: WatchProps) {
  const isRunning = useAuiState((state) => state.thread.isRunning);
  const isWaiting = useAuiState((state) => state.thread.messages.at(-1)?.status?.type === "requires-action");
  const isLoading = useAuiState((state) => state.thread.isLoading);
  const here = isRunning ? "busy" : isWaiting ? "interrupted" : "idle";
  const there = status === "error" ? "idle" : status;
  const before = useRef(here);
  useEffect(() => {
    if (before.current !== here) onChange();
    before.current = here;
  }, [here, onChange]);
  useEffect(() => {
    if (here === "busy" || here === there || isLoading) return;
    const timer = window.setTimeout(reload, PATIENCE_MS);
    return () => window.clearTimeout(timer);
  }, [here, there, isLoading, reload]);
  return null;
}
