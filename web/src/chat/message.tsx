import { MessagePrimitive, useAuiState, type FileMessagePartProps, type ReasoningMessagePartProps } from "@assistant-ui/react";
import { CARDS } from "../tools";
import { ToolCard } from "../tools/card";
import { Markdown } from "./markdown";

/** A message of the user: text as it was written. */
export function UserMessage() {
  return (
    <MessagePrimitive.Root className="message user" data-role="user">
      <MessagePrimitive.Parts components={{ Text: ({ text }) => <p>{text}</p> }} />
    </MessagePrimitive.Root>
  );
}

/** A message of the agent: text, and its calls of tools in their places. */
export function AssistantMessage() {
  const id = useAuiState((state) => state.message.id);
  return (
    <MessagePrimitive.Root className="message assistant" data-role="assistant" data-message={id}>
      <MessagePrimitive.Parts
        components={{ Text: Markdown, Reasoning, File, tools: { by_name: CARDS, Fallback: ToolCard } }}
      />
      <Foot />
    </MessagePrimitive.Root>
  );
}

function Reasoning({ text }: ReasoningMessagePartProps) {
  return (
    <details className="reasoning">
      <summary>Reasoning</summary>
      <p>{text}</p>
    </details>
  );
}

/** A file is named, and not loaded. */
function File({ mimeType }: FileMessagePartProps) {
  return <p className="file">File ({mimeType})</p>;
}

interface Usage {
  inputTokens: number;
  outputTokens: number;
}

/** The state of a message, and its tokens. */
function Foot() {
  const message = useAuiState((state) => state.message);
  const { status, metadata } = message;
  const steps = metadata.steps ?? [];
  const live = steps.map((step) => ("usage" in step ? step.usage : undefined));
  const stored = metadata.custom["usage"] as Usage | undefined;
  const tokens = [stored, ...live].reduce((all, usage) => all + (usage ? usage.inputTokens + usage.outputTokens : 0), 0);
  const error = status?.type === "incomplete" && status.reason === "error" ? errorText(status.error) : undefined;
  return (
    <footer>
      {error !== undefined && (
        <p className="problem" role="alert">
          {error}
        </p>
      )}
      {status?.type === "running" && (
        <p className="working" role="status">
          Working…
        </p>
      )}
      {status?.type === "incomplete" && status.reason === "cancelled" && <p className="stopped">Stopped</p>}
      {tokens > 0 && status?.type !== "running" && <p className="tokens">{tokens.toLocaleString("en")} tokens</p>}
    </footer>
  );
}

function errorText(error: unknown): string {
  if (typeof error === "string") return error;
  const message = (error as { message?: unknown } | null)?.message;
  return typeof message === "string" ? message : "The run failed.";
}
