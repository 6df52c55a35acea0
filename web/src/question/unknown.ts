// Questions about calls that were begun and have no result.
import type { Call, Json, JsonObject, Schema } from "../api/types";
import { isObject } from "../shared/json";

/** A call of unknown outcome. */
export interface UnknownOutcome {
  /** Name of the tool, or of the effect of a node. */
  name: string;
  args: Json;
  idempotencyKey: string;
  /** The schema of the result, as far as it is declared. */
  result: Schema | undefined;
}

/** Reads a question about a call of unknown outcome; `undefined` for other questions. */
export function unknownOf({ args }: Pick<Call, "args">): UnknownOutcome | undefined {
  const { value, schema } = args;
  if (!isObject(value)) return undefined;
  const isTool = value.kind === "tool_outcome_unknown";
  if (!isTool && value.kind !== "once_outcome_unknown") return undefined;
  const result = (schema as Schema | undefined)?.oneOf?.find(({ properties }) => properties?.value)?.properties?.value;
  return {
    name: String(isTool ? value.tool : value.name),
    args: (isTool ? value.args : value.input) ?? null,
    idempotencyKey: String(value.idempotency_key),
    result: isObject(result as Json | undefined) ? result : undefined,
  };
}

const WORDS: Record<string, string> = { happened: "It happened", call_again: "Call it again", give_up: "Given up" };

/** Returns the words for an answer about such a call. */
export function wordsOfUnknown({ answer }: JsonObject): string {
  return (typeof answer === "string" && WORDS[answer]) || "Answered";
}
