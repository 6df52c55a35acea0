import type { ThreadMessageLike } from "@assistant-ui/react";
import type { Json, JsonObject, StoredMessage, StoredPart } from "../api/types";

type Part = Exclude<ThreadMessageLike["content"], string>[number];
type Status = NonNullable<ThreadMessageLike["status"]>;

function call(part: StoredPart): Part {
  const { toolCallId, input, output, errorText, state } = part;
  const known: { result?: Json; isError?: boolean } =
    state === "output-error"
      ? { result: errorText ?? "failed", isError: true }
      : state === "output-available"
        ? { result: output ?? null }
        : {};
  const args = (input ?? {}) as JsonObject;
  return { type: "tool-call", toolCallId, toolName: part.type.slice("tool-".length), args, ...known };
}

function content(part: StoredPart): Part[] {
  if (part.type === "text" || part.type === "reasoning") {
    return part.text ? [{ type: part.type, text: part.text }] : [];
  }
  if (part.type.startsWith("tool-")) return [call(part)];
  if (part.type === "file") {
    return [{ type: "file", data: part.url ?? "", mimeType: part.mediaType ?? "application/octet-stream" }];
  }
  return [];
}

/** Returns the facts beside a message, as a stream reports them. */
function facts(parts: StoredPart[]) {
  const found = parts.filter(({ type }) => type.startsWith("data-"));
  return found.map(({ type, data }) => ({ name: type.slice("data-".length), data: data ?? null }));
}

function status({ parts, metadata }: StoredMessage): Status {
  switch (metadata?.finishReason) {
    case "tool-calls":
      return { type: "requires-action", reason: "tool-calls" };
    case "error":
      return { type: "incomplete", reason: "error", error: metadata.error ?? "the run failed" };
    case "length":
    case "content-filter":
      return { type: "incomplete", reason: metadata.finishReason };
    case "other":
      // It was stopped, or waits for a time.
      return parts.some(({ type }) => type === "data-timer") ? { type: "complete", reason: "unknown" } : { type: "incomplete", reason: "cancelled" };
    default:
      return { type: "complete", reason: "stop" };
  }
}

/** Returns a stored message in the shape of assistant-ui. */
export function fromStored(message: StoredMessage): ThreadMessageLike {
  const { id, role, parts, metadata } = message;
  const shown = { id, role, content: parts.flatMap(content) };
  if (role === "user") return shown;
  const custom = { runId: metadata?.runId, isReplaced: metadata?.replacedBy !== undefined, isCopied: metadata?.runId === undefined };
  return { ...shown, status: status(message), metadata: { custom, unstable_data: facts(parts) } };
}

/** Returns the message of the user that a stored answer is for, with its text. */
export function storedRequestOf(stored: StoredMessage[], answer: string): { id: string; text: string } | undefined {
  const at = stored.findIndex(({ id }) => id === answer);
  const request = stored.slice(0, Math.max(0, at)).findLast(({ role }) => role === "user");
  return request && { id: request.id, text: request.parts.map(({ text }) => text ?? "").join("").trim() };
}
