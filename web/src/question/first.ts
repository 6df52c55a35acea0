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

/** Returns the sentence for an answer that somebody gave elsewhere, for a person who did not try to answer. */
export function noteOf({ value, answered_by }: FirstAnswer, call?: Call | null): string {
  return `Answered by ${answered_by}: ${wordsOf(call ?? callOf(value), value)}.`;
}

/** Returns the sentence for an answer that was first, for a person who wanted to answer too. */
function sentenceOf({ value, answered_by, isOwn }: FirstAnswer, call?: Call | null): string {
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
  return body?.first ? sentenceOf(body.first, call) : wordsOfProblem(error.message);
}

/** A problem of a value in the words of the schema: where, what was found, and the type that was expected. */
const PROBLEM = /\bat (\/[^\s:]*): (.*?)(?=; at \/|$)/gs;
const TYPES: [schema: RegExp, words: string][] = [
  [/ is not of type "integer"/, " is no whole number"],
  [/ is not of type "number"/, " is no number"],
  [/ is not of type "string"/, " is no text"],
  [/ is not of type "boolean"/, " is neither yes nor no"],
  [/ is not of type "array"/, " is no list"],
  [/ is not of type "object"/, " is no object"],
  [/ is a required property/, " is missing"],
  [/ is not one of /, " is none of "],
  [/ is less than the minimum of /, " is less than "],
  [/ is greater than the maximum of /, " is more than "],
];

/** Returns a problem for people: `at /cents: "many" is not of type "integer"` is `cents: "many" is no whole number`. */
export function wordsOfProblem(text: string): string {
  return text.replace(PROBLEM, (_, place: string, problem: string) => {
    const path = place.split("/").filter((name) => name !== "" && name !== "value");
    const words = TYPES.reduce((words, [schema, known]) => words.replace(schema, known), problem);
    return path.length === 0 ? words : `${path.join(" › ")}: ${words}`;
  });
}
