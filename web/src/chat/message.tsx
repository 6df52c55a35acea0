import {
  MessagePrimitive,
  ReadonlyThreadProvider,
  ThreadPrimitive,
  useAuiState,
  type FileMessagePartProps,
  type ReasoningMessagePartProps,
  type TextMessagePartProps,
} from "@assistant-ui/react";
import { Fragment, useContext, useMemo, useState, type FormEvent, type KeyboardEvent } from "react";
import { copyText } from "../shared/copy";
import { nameOfTool } from "../shared/effect";
import { Explained } from "../shared/explained";
import { CARDS } from "../tools";
import { ToolCard } from "../tools/card";
import { useUnknownCalls, type UnknownCall } from "../tools/unknown";
import { UsageContext } from "../usage/data";
import { useActions } from "./context";
import { AnswerCost } from "./cost";
import { FileView, TextFileView, withoutFiles } from "./files";
import { LONG, LongText } from "./long-text";
import { readOnly } from "./assistant";
import { Markdown } from "./markdown";
import { useReplaced, wordsOfAttempts } from "./replaced";

function textOf(content: readonly { type: string; text?: string }[]): string {
  return content.flatMap((part) => (part.type === "text" ? (part.text ?? "") : [])).join("\n\n");
}

/** A message of the user: text as it was written. An edited text is sent in a fork of the thread. */
export function UserMessage() {
  const [isEdited, setIsEdited] = useState(false);
  const isBusy = useAuiState((state) => state.thread.isRunning);
  if (isEdited) return <Edit onEnd={() => setIsEdited(false)} />;
  return (
    <MessagePrimitive.Root className="message user" data-role="user">
      <MessagePrimitive.Parts components={SAID} />
      <div className="acts">
        <Copy />
        {!isBusy && (
          <button className="quiet" onClick={() => setIsEdited(true)}>
            Edit
          </button>
        )}
      </div>
    </MessagePrimitive.Root>
  );
}

/** A message of the user that was replaced with its answer. */
function ReplacedRequest() {
  return (
    <MessagePrimitive.Root className="message user" data-role="user">
      <MessagePrimitive.Parts components={SAID} />
    </MessagePrimitive.Root>
  );
}

const SAID = { Text: Said, File };

/** A text of the user, and the files that were added to it. */
function Said({ text }: TextMessagePartProps) {
  const { text: said, files } = withoutFiles(text);
  return (
    <>
      {said !== "" && (said.length > LONG ? <LongText text={said} /> : <p>{said}</p>)}
      {files.map((file, at) => (
        <TextFileView key={at} file={file} />
      ))}
    </>
  );
}

function Edit({ onEnd }: { onEnd: () => void }) {
  const { fork } = useActions();
  const text = useAuiState((state) => textOf(state.message.content));
  const id = useAuiState((state) => state.message.id);
  const [problem, setProblem] = useState<string>();
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const said = String(new FormData(event.currentTarget).get("text")).trim();
    if (said !== "") fork({ id, text }, said).catch((error: Error) => setProblem(error.message));
  };
  const onKeyDown = (event: KeyboardEvent) => event.key === "Escape" && onEnd();
  return (
    <form className="message edited" onSubmit={submit} onKeyDown={onKeyDown}>
      <label>
        Say this instead, in a fork of the thread
        <textarea name="text" rows={3} defaultValue={text} autoFocus />
      </label>
      {problem && (
        <p role="alert" className="problem">
          {problem}
        </p>
      )}
      <div className="actions">
        <button className="primary">Send in a fork</button>
        <button type="button" onClick={onEnd}>
          Cancel
        </button>
      </div>
    </form>
  );
}

function Copy() {
  const text = useAuiState((state) => textOf(state.message.content));
  if (text === "") return null;
  return (
    <button className="quiet" onClick={() => copyText(text)}>
      Copy
    </button>
  );
}

const PARTS = { Text: Answer, Reasoning, File, tools: { by_name: CARDS, Fallback: ToolCard } };

/** A message of the agent: text, and its calls of tools in their places. */
export function AssistantMessage() {
  return <Spoken isEarlier={false} />;
}

/** A message of the agent before those of the runtime, of which none can be replaced. */
export function EarlierAssistantMessage() {
  return <Spoken isEarlier />;
}

/** A message of the agent that was replaced. */
function ReplacedAnswer() {
  return (
    <MessagePrimitive.Root className="message" data-role="replaced">
      <MessagePrimitive.Parts components={PARTS} />
      <Outcome />
      <div className="acts">
        <Copy />
      </div>
    </MessagePrimitive.Root>
  );
}

const REPLACED = { UserMessage: ReplacedRequest, AssistantMessage: ReplacedAnswer };

/** The answers in whose place the current one stands, closed until wanted. */
function Attempts({ isEarlier }: { isEarlier: boolean }) {
  const replaced = useReplaced(isEarlier);
  const [isOpen, setIsOpen] = useState(false);
  const messages = useMemo(() => readOnly(replaced), [replaced]);
  const answers = replaced.filter(({ role }) => role === "assistant");
  const usage = useContext(UsageContext);
  if (answers.length === 0) return null;
  return (
    <details className="attempts" open={isOpen} onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary>{wordsOfAttempts(answers, usage)}</summary>
      {isOpen && (
        <ReadonlyThreadProvider messages={messages}>
          <ThreadPrimitive.Messages components={REPLACED} />
        </ReadonlyThreadProvider>
      )}
    </details>
  );
}

function Spoken({ isEarlier }: { isEarlier: boolean }) {
  const id = useAuiState((state) => state.message.id);
  return (
    <MessagePrimitive.Root className="message assistant" data-role="assistant" data-message={id}>
      <MessagePrimitive.Parts components={PARTS} />
      <Foot isEarlier={isEarlier} />
    </MessagePrimitive.Root>
  );
}

function Answer({ text }: TextMessagePartProps) {
  return text.length > LONG ? <LongText text={text} /> : <Markdown />;
}

function Reasoning({ text }: ReasoningMessagePartProps) {
  return (
    <details className="reasoning">
      <summary>Reasoning</summary>
      <p>{text}</p>
    </details>
  );
}

function File({ mimeType, data }: FileMessagePartProps) {
  return <FileView mimeType={mimeType} url={data} />;
}

/** Request for the rest of an answer that was cut. */
const GO_ON = "Continue exactly where your answer was cut.";

/** The state of a message, its usage, and its actions. */
function Foot({ isEarlier }: { isEarlier: boolean }) {
  const message = useAuiState((state) => state.message);
  const isBusy = useAuiState((state) => state.thread.isRunning);
  const { retry, retryInFork, say } = useActions();
  const { status } = message;
  // A copy has no checkpoints of the messages that it came with.
  const isCopied = message.metadata.custom["isCopied"] === true;
  const unknown = useUnknownCalls().filter(({ mayHaveActed }) => mayHaveActed);
  // To answer again could make such a call again.
  const isUnsettled = status?.type === "incomplete" && unknown.length > 0;
  const isReplaceable = !isEarlier && message.isLast && !isCopied && !isUnsettled;
  const isCut = status?.type === "incomplete" && status.reason === "length";
  const hasEnded = status?.type === "complete" || status?.type === "incomplete";
  return (
    <footer>
      <Outcome />
      {status?.type === "running" && (
        <p className="working" role="status">
          Working…
        </p>
      )}
      {isUnsettled && <Unsettled calls={unknown} isLast={message.isLast && !isEarlier} />}
      {status?.type !== "running" && (
        <div className="acts">
          <Copy />
          {isReplaceable && !isBusy && isCut && (
            <button className="quiet" onClick={() => say(GO_ON)}>
              Continue
            </button>
          )}
          {isReplaceable && hasEnded && !isBusy && (
            <button className="quiet" onClick={() => retry(message.id)}>
              Retry
            </button>
          )}
          {!isReplaceable && !isUnsettled && (isEarlier || !message.isLast) && !isCopied && !isBusy && (
            <button className="quiet" title="Answers the same request again, in a fork of the thread" onClick={() => retryInFork(message.id)}>
              Retry in a fork
            </button>
          )}
          <AnswerCost />
        </div>
      )}
      <Attempts isEarlier={isEarlier} />
    </footer>
  );
}

/** Why the text of an answer is cut. */
const CUTS: Record<string, string> = {
  length: "The answer was cut at the token limit.",
  "content-filter": "The answer was cut by the content filter of the provider.",
};

/** How a message ended, if it is not complete. */
function Outcome() {
  const status = useAuiState((state) => state.message.status);
  if (status?.type !== "incomplete") return null;
  if (status.reason === "cancelled") return <p className="stopped">Stopped</p>;
  const cause = CUTS[status.reason];
  if (cause !== undefined) return <p className="stopped">{cause}</p>;
  return (
    status.reason === "error" && (
      <div className="problem" role="alert">
        <Explained text={errorText(status.error)} />
      </div>
    )
  );
}

/** Says that calls may have been made, and leads to the question what happened to them. */
function Unsettled({ calls, isLast }: { calls: UnknownCall[]; isLast: boolean }) {
  const { goOn } = useActions();
  const isBusy = useAuiState((state) => state.thread.isRunning);
  const names = [...new Set(calls.map(({ toolName }) => nameOfTool(toolName)))];
  return (
    <div className="problem" role="alert">
      <p>
        {names.map((name, at) => (
          <Fragment key={name}>
            {at > 0 && ", "}
            <code>{name}</code>
          </Fragment>
        ))}{" "}
        may have been made: it was begun, and ended without a result. Look at the other side before you ask for it again.
      </p>
      {isLast && !isBusy && (
        <div className="actions">
          <button onClick={goOn}>Say what happened</button>
        </div>
      )}
    </div>
  );
}

function errorText(error: unknown): string {
  if (typeof error === "string") return error;
  const message = (error as { message?: unknown } | null)?.message;
  return typeof message === "string" ? message : "The run failed.";
}
