// The answer that counted, of a question that was answered before.
import { HttpError } from "../api/http";
import type { Call, Json, JsonObject } from "../api/types";
import { wordsOf } from "./answer";

interface FirstAnswer {
  value: Json;
  answered_by: string;
}

function callOf(value: Json): Call {
  const isDecision = typeof value === "object" && value !== null && "approved" in value;
  return { id: "", name: isDecision ? "request_approval" : "ask_human", args: {} as JsonObject };
}

/** Returns the sentence for an answer that somebody else gave. */
export function sentenceOf({ value, answered_by }: FirstAnswer): string {
  return `Answered first by ${answered_by}: ${wordsOf(callOf(value), value)}.`;
}

/** Returns why a request failed; for a question that was answered before, who answered it and how. */
export function reasonOf(error: Error): string {
  const body = error instanceof HttpError ? (error.body as { first?: FirstAnswer } | undefined) : undefined;
  return body?.first ? sentenceOf(body.first) : error.message;
}
