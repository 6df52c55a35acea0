import { useAuiState, type ToolCallMessagePartProps } from "@assistant-ui/react";
import type { Json, JsonObject, Schema } from "../api/types";
import { useFacts } from "../chat/assistant";
import { approvalOf, wordsOf } from "../question/answer";
import { useUnknownCalls } from "./unknown";

export type CallStatus = "running" | "waiting" | "done" | "failed" | "refused" | "open" | "unknown";

interface CallState {
  status: CallStatus;
  result: Json | undefined;
}

/** Returns the duration of a call in milliseconds, as the server measured it; `undefined` before its end. */
export function useDuration(toolCallId: string): number | undefined {
  const durations = useFacts().filter(({ name }) => name === "tool-duration");
  const found = durations.map(({ data }) => data as unknown as { toolCallId: string; durationMs: number });
  return found.find((one) => one.toolCallId === toolCallId)?.durationMs;
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
  const unknown = useUnknownCalls().find((call) => call.toolCallId === toolCallId);
  const message = useAuiState((state) => state.message.status?.type);
  const fact = facts.find(
    ({ name, data }) => name === "tool-result" && (data as unknown as LateResult).toolCallId === toolCallId,
  );
  const isLast = useAuiState((state) => state.message.isLast);
  const approval = useApproval(toolCallId);
  const late = fact?.data as unknown as LateResult | undefined;
  const found = result === undefined ? late?.result : (result as Json);
  if (unknown) return { status: unknown.mayHaveActed ? "unknown" : "open", result: undefined };
  if (found !== undefined) {
    const hasFailed = result === undefined ? late?.isError : isError;
    // The result of a call that a person decided not to make is what the person said.
    return { status: approval?.isRefused ? "refused" : hasFailed ? "failed" : "done", result: found };
  }
  if (message === "running") return { status: "running", result: undefined };
  // The conversation went on after a later message, and the question with it.
  return { status: message === "requires-action" && isLast ? "waiting" : "open", result: undefined };
}

/** Returns the name of the member of a team that asks with a call; `null` for a question of the agent itself. */
export function useAsker(toolCallId: string): string | null {
  const facts = useFacts().filter(({ name }) => name === "question");
  const questions = facts.map(({ data }) => data as unknown as { toolCallId: string; graph?: string | null });
  return questions.find((question) => question.toolCallId === toolCallId)?.graph ?? null;
}

/** The approval of a call. */
export interface Approved {
  /** `true` while the question is in the place of the call. */
  isOpen: boolean;
  /** `true` if a person decided that the call is not made. */
  isRefused: boolean;
  /** The decision in words. */
  words: string | undefined;
  /** The arguments of the call, or those that a person wrote in their place. */
  args: Json | undefined;
  /** The schema of the arguments. */
  schema: Schema | undefined;
}

/** Returns the approval of a call; `undefined` for a call that needs none. */
export function useApproval(toolCallId: string): Approved | undefined {
  const part = useAuiState((state) =>
    state.message.content.find(
      (part) => part.type === "tool-call" && part.toolName === "request_approval" && part.args.toolCallId === toolCallId,
    ),
  );
  const isLast = useAuiState((state) => state.message.isLast);
  if (part?.type !== "tool-call") return undefined;
  const answer = part.result as Json | undefined;
  const call = { id: part.toolCallId, name: part.toolName, args: part.args as JsonObject };
  const schema = approvalOf(call)?.schema;
  // The question has the arguments exactly; those that a model streams may be rounded.
  const asked = part.args.args as Json | undefined;
  if (answer === undefined) return { isOpen: isLast, isRefused: false, words: undefined, args: asked, schema };
  const words = wordsOf(call, answer);
  return { isOpen: false, isRefused: isRefusal(answer), words, args: (answer as JsonObject | null)?.args ?? asked, schema };
}

/** Returns `true` for a decision after which a call is not made. */
function isRefusal(answer: Json): boolean {
  const { type, approved } = (answer ?? {}) as JsonObject;
  return typeof type === "string" ? type === "reject" || type === "respond" : approved === false;
}
