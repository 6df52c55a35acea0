import { AssistantRuntimeProvider, ThreadPrimitive, useAuiState } from "@assistant-ui/react";
import { useEffect, useMemo, useRef, useState } from "react";
import type { StoredMessage, Thread } from "../api/types";
import { answeredOn } from "../inbox/data";
import { sentenceOf } from "../question/first";
import { toast } from "../shared/toast";
import { chatHistory, countAfter, requestOf, retry, useChatRuntime, type AssistantRuntime, type ChatThread } from "./assistant";
import { Composer } from "./composer";
import type { Connected } from "./connection";
import { ActionsContext, type Actions } from "./context";
import { forkBefore } from "./fork";
import { Messages } from "./messages";
import { storedRequestOf } from "./stored";
import { firstTexts, take } from "./texts";
import { ThreadTokens } from "./tokens";

interface Props {
  chat: ChatThread;
  thread: Thread;
  connected: Connected;
  onChange: () => void;
}

/** The messages of a thread, and the input. It reads the thread once, and follows what it starts. */
export function Conversation({ chat, thread, connected, onChange }: Props) {
  const [history] = useState(() => chatHistory(chat, connected.events));
  const [earlier, setEarlier] = useState<StoredMessage[]>([]);
  history.onEarlier = setEarlier;
  history.model = thread.metadata.model;
  const runtime = useChatRuntime(history);
  const at = useRef(thread);
  at.current = thread;
  const before = useRef(earlier);
  before.current = earlier;
  const actions = useMemo<Actions>(() => {
    const fork: Actions["fork"] = (message, text) =>
      forkBefore({ ...message, after: countAfter(runtime, message.id) }, at.current, history.chat.agent, text);
    return {
      agent: history.chat.agent,
      retry: (message) => retry(runtime, history, message),
      retryInFork: (answer) => {
        const request = requestOf(runtime, answer) ?? storedRequestOf(before.current, answer);
        if (!request || request.text === "") return toast({ text: "The request of this answer has no text; edit it instead." });
        fork(request, request.text).catch((error: Error) => toast({ text: error.message }));
      },
      fork,
    };
  }, [history, runtime]);
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ActionsContext value={actions}>
        <ThreadPrimitive.Root className="conversation" data-connection={connected.refused ? "refused" : connected.connection}>
          <ThreadPrimitive.Viewport className="viewport" tabIndex={0} role="log" aria-label="Messages">
            <Messages earlier={earlier} />
          </ThreadPrimitive.Viewport>
          {connected.refused && (
            <p className="problem refused" role="alert">
              {connected.refused}
            </p>
          )}
          <Composer runtime={runtime} thread={chat.thread} />
          <ThreadTokens earlier={earlier} />
          <FirstText runtime={runtime} thread={chat.thread} />
          <Watch thread={thread} onChange={onChange} connected={connected} />
        </ThreadPrimitive.Root>
      </ActionsContext>
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
  thread: Thread;
  onChange: () => void;
  connected: Connected;
}

/** Reads the thread again if it has changed elsewhere: it runs or waits, and the page shows neither. */
function Watch({ thread: { thread_id, status }, onChange, connected: { reload, note } }: WatchProps) {
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
    const differ = async () => {
      if (here === "interrupted") await noteAnswer(thread_id, note).catch(() => {});
      reload();
    };
    const timer = window.setTimeout(differ, PATIENCE_MS);
    return () => window.clearTimeout(timer);
  }, [thread_id, here, there, isLoading, note, reload]);
  return null;
}

/** Notes who answered the question of a thread elsewhere, and how. */
async function noteAnswer(thread: string, note: (text: string) => void): Promise<void> {
  const [answered] = await answeredOn(thread);
  if (answered) note(sentenceOf({ value: answered.answer, answered_by: answered.answered_by }));
}
