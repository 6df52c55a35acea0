// The answer that counted, of a question that was answered before.
import { HttpError } from "../api/http";
import { hasNoReply, isBusy } from "../api/sent";
import type { Call, Json, JsonObject } from "../api/types";
import { wordsOf } from "./answer";

interface FirstAnswer {
  value: Json;
  answered_by: string;
  /** `true` if it was sent here. */
  isOwn?: boolean;
}

/** Returns a call that an answer fits. */
function callOf(value: Json): Call {
  const isDecision = typeof value === "object" && value !== null && "approved" in value;
  return { id: "", name: isDecision ? "request_approval" : "ask_human", args: {} as JsonObject };
}

/** Returns the sentence for an answer that was first. */
export function sentenceOf({ value, answered_by, isOwn }: FirstAnswer, call?: Call | null): string {
  if (isOwn) return `You answered before: ${wordsOf(call ?? callOf(value), value)}.`;
  return `Answered first by ${answered_by}: ${wordsOf(call ?? callOf(value), value)}.`;
}

/** Returns why an action failed; for a question that was answered before, who answered it and how. */
export function reasonOf(error: Error, call?: Call): string {
  if (!(error instanceof HttpError)) return error.message;
  if (hasNoReply(error)) return "Not sent: the server did not answer. Try again.";
  if (error.status === 404) return "Not sent: this no longer exists. Somebody may have deleted it.";
  if (isBusy(error)) {
    return "Not sent: the agent still works on this thread. Try again when it is done.";
  }
  const body = error.body as { first?: FirstAnswer } | null | undefined;
  return body?.first ? sentenceOf(body.first, call) : error.message;
}
