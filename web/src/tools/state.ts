import { useAuiState, type ToolCallMessagePartProps } from "@assistant-ui/react";
import type { Json } from "../api/types";
import { useFacts } from "../chat/assistant";

export type CallStatus = "running" | "waiting" | "done" | "failed" | "unmade";

export interface CallState {
  status: CallStatus;
  result: Json | undefined;
}

/** A result that came in a later response than its call. */
interface LateResult {
  toolCallId: string;
  result: Json;
  isError: boolean;
}

/** Returns the state of a call; its result is in the call, or beside the message if it came later. */
export function useCallState({ toolCallId, result, isError }: ToolCallMessagePartProps): CallState {
  const facts = useFacts();
  const message = useAuiState((state) => state.message.status?.type);
  const fact = facts.find(
    ({ name, data }) => name === "tool-result" && (data as unknown as LateResult).toolCallId === toolCallId,
  );
  const late = fact?.data as unknown as LateResult | undefined;
  const found = result === undefined ? late?.result : (result as Json);
  if (found !== undefined) {
    return { status: (result === undefined ? late?.isError : isError) ? "failed" : "done", result: found };
  }
  if (message === "running") return { status: "running", result: undefined };
  return { status: message === "requires-action" ? "waiting" : "unmade", result: undefined };
}

/** Returns `true` if a question about a call is in its place. */
export function useIsAsked(toolCallId: string): boolean {
  return useAuiState((state) =>
    state.message.content.some(
      (part) =>
        part.type === "tool-call" &&
        part.toolName === "request_approval" &&
        part.result === undefined &&
        (part.args as { toolCallId?: unknown }).toolCallId === toolCallId,
    ),
  );
}
