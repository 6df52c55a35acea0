// The answer that counted, of a question that was answered before.
import { HttpError } from "../api/http";
import type { Call, Json, JsonObject } from "../api/types";
import { wordsOf } from "./answer";

interface FirstAnswer {
  value: Json;
  answered_by: string;
}

/** Returns a call that an answer fits. */
function callOf(value: Json): Call {
  const isDecision = typeof value === "object" && value !== null && "approved" in value;
  return { id: "", name: isDecision ? "request_approval" : "ask_human", args: {} as JsonObject };
}

/** Returns the sentence for an answer that somebody gave elsewhere, for a person who did not try to answer. */
export function noteOf({ value, answered_by }: FirstAnswer, call?: Call | null): string {
  return `Answered by ${answered_by}: ${wordsOf(call ?? callOf(value), value)}.`;
}

/** Returns the sentence for an answer that somebody else gave, for a person who wanted to answer too. */
function sentenceOf({ value, answered_by }: FirstAnswer, call?: Call | null): string {
  return `Answered first by ${answered_by}: ${wordsOf(call ?? callOf(value), value)}.`;
}

/** Returns why an action failed; for a question that was answered before, who answered it and how. */
export function reasonOf(error: Error, call?: Call): string {
  if (!(error instanceof HttpError)) return error.message;
  if (error.status === 0 || error.status >= 502) return "Not sent: the server did not answer. Try again.";
  if (error.status === 404) return "Not sent: this no longer exists. Somebody may have deleted it.";
  // The text of the server is for programs, which choose a strategy.
  if (error.status === 409 && error.message.includes("multitask strategy")) {
    return "Not sent: the agent still works on this thread. Try again when it is done.";
  }
  const body = error.body as { first?: FirstAnswer } | null | undefined;
  return body?.first ? sentenceOf(body.first, call) : error.message;
}
