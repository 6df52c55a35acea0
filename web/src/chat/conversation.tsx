import { AssistantRuntimeProvider, ThreadPrimitive, useAuiState } from "@assistant-ui/react";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { isOwn } from "../api/sent";
import type { StoredMessage, Thread, Waiting } from "../api/types";
import { answeredOn, waitingOn } from "../inbox/data";
import { Steps } from "../orchestration/steps";
import { noteOf } from "../question/first";
import { conversationOf as conversationOfThread, useDefined, type Ask } from "../records/data";
import { ModeOfConversation } from "../records/mode";
import { newestRun } from "../run/log";
import { toast } from "../shared/toast";
import { conversationOf, countAfter, lastOf, openCallsOf, requestOf, useChatRuntime, type ChatThread } from "./assistant";
import { Composer } from "./composer";
import type { Connected } from "./connection";
import { ThreadCost } from "./cost";
import { ActionsContext, type Actions } from "./context";
import type { Said } from "./files";
import { forkBefore } from "./fork";
import { Messages } from "./messages";
import { ReplacedContext } from "./replaced";
import { storedRequestOf } from "./stored";
import { drafts, firstTexts, take, unsentFiles } from "./texts";

interface Props {
  chat: ChatThread;
  thread: Thread;
  connected: Connected;
  onChange: () => void;
}

/** The messages of a thread, and the input. It reads the thread once, and follows what it starts. */
export function Conversation({ chat, thread, connected, onChange }: Props) {
  const [own] = useState(() => conversationOf(chat, connected.events));
  const [earlier, setEarlier] = useState<StoredMessage[]>([]);
  const [replaced, setReplaced] = useState<StoredMessage[]>([]);
  own.onEarlier = setEarlier;
  own.onReplaced = setReplaced;
  own.model = thread.metadata.model;
  const runtime = useChatRuntime(own);
  const at = useRef(thread);
  at.current = thread;
  const { refuse } = connected;
  const before = useRef(earlier);
  before.current = earlier;
  const actions = useMemo<Actions>(() => {
    const fork: Actions["fork"] = (message, text) =>
      forkBefore({ ...message, after: countAfter(runtime, message.id) }, at.current, own.chat.agent, text);
    return {
      agent: own.chat.agent,
      answer: (call, answer) => own.answer(runtime, call, answer),
      refuse,
      retry: (message) => void own.retry(runtime, message).catch(refuse),
      say: (text) => void own.say(runtime, { text, images: [] }).catch(refuse),
      goOn: () => void own.goOn().catch(refuse),
      retryInFork: (answer) => {
        const request = requestOf(runtime, answer) ?? storedRequestOf(before.current, answer);
        if (!request || request.text === "") return toast({ text: "The request of this answer has no text; edit it instead." });
        fork(request, request.text).catch((error: Error) => toast({ text: error.message }));
      },
      fork,
    };
  }, [own, runtime, refuse]);
  const shown = useMemo(() => ({ replaced, earlier }), [replaced, earlier]);
  const defined = useDefined().find(({ slug }) => slug === thread.metadata.graph_id);
  const conversation = conversationOfThread(thread);
  const [ask, setAsk] = useState<Ask>();
  const say = useCallback(
    async (said: Said, asked: Ask | undefined = ask) => {
      if (asked === undefined) return own.say(runtime, said);
      await own.ask(conversation, asked, said);
      setAsk(undefined);
    },
    [own, runtime, conversation, ask],
  );
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ActionsContext value={actions}>
        <ThreadPrimitive.Root className="conversation" data-home=".composer textarea" data-connection={connected.refused ? "refused" : connected.connection}>
          <ThreadPrimitive.Viewport className="viewport" tabIndex={0} role="log" aria-label="Messages">
            <ReplacedContext value={shown}>
              <Messages earlier={earlier} />
            </ReplacedContext>
          </ThreadPrimitive.Viewport>
          {connected.refused && (
            <p className="problem refused" role="alert">
              {connected.refused}
            </p>
          )}
          {connected.noted && !connected.refused && (
            <p className="noted" role="status">
              {connected.noted}
            </p>
          )}
          {defined && <Steps thread={thread} of={{ slug: defined.slug, conversation }} facts={connected.facts} onChange={onChange} />}
          <Composer runtime={runtime} thread={chat.thread} onSay={say} onRefused={refuse}>
            {defined && <ModeOfConversation agent={defined} conversation={conversation} ask={ask} onAsk={setAsk} />}
          </Composer>
          <ThreadCost />
          <FirstText thread={chat.thread} onSay={say} connected={connected} />
          <Watch own={own} thread={thread} onChange={onChange} connected={connected} />
        </ThreadPrimitive.Root>
      </ActionsContext>
    </AssistantRuntimeProvider>
  );
}

interface FirstTextProps {
  thread: string;
  onSay: (said: Said, ask?: Ask) => Promise<void>;
  connected: Connected;
}

/** Sends the text with which a thread begins, once its history was read, which replaces all messages. */
function FirstText({ thread, onSay, connected: { refuse, reload } }: FirstTextProps) {
  const isLoading = useAuiState((state) => state.thread.isLoading);
  const hasBegun = useRef(false);
  useEffect(() => {
    if (isLoading) hasBegun.current = true;
    if (isLoading || !hasBegun.current) return;
    const said = take(firstTexts, thread);
    if (said === undefined) return;
    onSay(said, said.ask).catch((error: Error) => {
      // The input has the text again.
      drafts.set(thread, said.text);
      unsentFiles.set(thread, said.images);
      refuse(error);
      reload();
    });
  }, [isLoading, thread, onSay, refuse, reload]);
  return null;
}

/** Time for which the page and the server may differ, such as between an answer and its run. */
const PATIENCE_MS = 3000;

/** Time after which an answer that ended has the run that the server names. */
const SETTLED_MS = 500;

interface WatchProps {
  own: ReturnType<typeof conversationOf>;
  thread: Thread;
  onChange: () => void;
  connected: Connected;
}

/** Reads the thread again if it has changed elsewhere: it runs or waits, and the page shows neither. */
function Watch({ own, thread: { thread_id, status, updated_at }, onChange, connected: { reload, note, readFor } }: WatchProps) {
  const isRunning = useAuiState((state) => state.thread.isRunning);
  const isWaiting = useAuiState((state) => state.thread.messages.at(-1)?.status?.type === "requires-action");
  const isLoading = useAuiState((state) => state.thread.isLoading);
  // Ids of the questions that are on the screen.
  const asked = useAuiState((state) => {
    const last = state.thread.messages.at(-1);
    return last ? openCallsOf(last).map(({ args, toolCallId }) => String(args.interruptId ?? toolCallId)).join(" ") : "";
  });
  const last = useAuiState((state) => state.thread.messages.at(-1)?.id);
  const stored = useAuiState((state) => state.thread.messages.at(-1)?.metadata.custom["runId"] as string | undefined);
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
      if (here === "interrupted") await noteAnswer(thread_id, asked, note).catch(() => {});
      reload();
    };
    const timer = window.setTimeout(differ, PATIENCE_MS);
    return () => window.clearTimeout(timer);
  }, [thread_id, here, there, isLoading, asked, note, reload]);
  useEffect(() => {
    if (here !== "interrupted" || there !== here || isLoading) return;
    // Somebody may have answered one of several questions on the screen, or another message may have come with
    // questions of its own.
    const compare = async () => {
      const open = await waitingOn(thread_id).catch(() => undefined);
      const isOpen = (id: string) => open?.some((question) => isOneOf(id, question));
      if (open === undefined || asked.split(" ").every(isOpen)) return;
      await noteAnswer(thread_id, asked, note).catch(() => {});
      reload();
    };
    const timer = window.setTimeout(() => void compare(), PATIENCE_MS);
    return () => window.clearTimeout(timer);
  }, [thread_id, here, there, isLoading, asked, updated_at, note, reload]);
  useEffect(() => {
    if (here !== "idle" || there !== here || isLoading) return;
    let isOver = false;
    // A run of somebody else may have begun and ended between two reads of the state.
    const compare = async () => {
      const newest = await newestRun(thread_id).catch(() => undefined);
      const run = own.followed ?? stored;
      if (isOver || newest === undefined || newest === run || newest === readFor.current) return;
      // Some runs have no message, such as changes of the state from outside.
      const there = await lastOf(own.chat).catch(() => undefined);
      if (isOver) return;
      readFor.current = newest;
      const isShown = there === undefined || there.id === last || (run !== undefined && there.metadata?.runId === run);
      if (!isShown) reload();
    };
    const timer = window.setTimeout(() => void compare(), SETTLED_MS);
    return () => {
      isOver = true;
      window.clearTimeout(timer);
    };
  }, [own, thread_id, here, there, isLoading, last, stored, updated_at, readFor, reload]);
  return null;
}

/** Returns `true` for a question that is on the screen. */
function isOneOf(asked: string, { interrupt_id, call }: Pick<Waiting, "interrupt_id" | "call">): boolean {
  const ids = asked.split(" ");
  return ids.includes(interrupt_id) || ids.includes(call?.id ?? "");
}

/** Notes who answered a question elsewhere that is on the screen, and how. */
async function noteAnswer(thread: string, asked: string, note: (text: string) => void): Promise<void> {
  const answered = await answeredOn(thread);
  const found = answered.find((question) => isOneOf(asked, question) && !isOwn(question.idempotency_key));
  if (found) note(noteOf({ value: found.answer, answered_by: found.answered_by }, found.call));
}
