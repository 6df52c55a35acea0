// Questions as the server sends them, and answers as it takes them.
import type { Call, Json, JsonObject, Schema } from "../api/types";
import { parse } from "../shared/digits";
import { isObject, plain } from "../shared/json";
import { unknownOf, wordsOfUnknown } from "./unknown";

/** An answer: a decision about a call, or a value. */
export type Answer = Json;

export type Decision = "approve" | "edit" | "reject" | "respond";

/** A call that waits for approval. */
export interface Approval {
  action: string;
  args: JsonObject;
  effect: string | undefined;
  reason: string | undefined;
  binding: Json;
  allowed: Decision[];
  /** The schema of edited arguments. */
  schema: Schema | undefined;
  expiresAt: Json | undefined;
}

function text(value: Json | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** Returns the first form of an answer that has a member, and the schema of that member. */
function member(schema: Schema | undefined, name: string): Schema | undefined {
  return schema?.oneOf?.map((form) => form.properties?.[name]).find((found) => found !== undefined);
}

/** Reads an approval; `undefined` for other questions. */
export function approvalOf({ name, args }: Call): Approval | undefined {
  if (name !== "request_approval") return undefined;
  return {
    action: text(args.action) ?? "",
    args: (args.args ?? {}) as JsonObject,
    effect: text(args.effect),
    reason: text(args.reason),
    binding: args.binding ?? null,
    allowed: (args.allowed ?? []) as Decision[],
    schema: member(args.schema as Schema | undefined, "args"),
    expiresAt: args.expiresAt,
  };
}

/** A question with a free answer, choices or a form. */
export interface Question {
  text: string;
  /** The schema of the answer; any text without one. */
  schema: Schema | undefined;
  /** `true` if a tool asks, which a person can refuse. */
  canDecline: boolean;
  expiresAt: Json | undefined;
}

export function questionOf({ args }: Call): Question {
  const schema = args.schema as Schema | undefined;
  return {
    text: text(args.question) ?? "The agent asks for an answer.",
    schema: args.tool === undefined ? schema : member(schema, "content"),
    canDecline: args.tool !== undefined,
    expiresAt: args.expiresAt,
  };
}

const YES = ["yes", "y", "approve", "approved", "accept"];
const NO = ["no", "n", "reject", "rejected", "deny"];

/** Returns the answer that a typed text means. A text about a call other than yes or no is its result. */
export function answerOfText(call: Call, typed: string): Answer {
  const approval = approvalOf(call);
  if (approval === undefined) return { answer: valueOfText(questionOf(call).schema, typed) };
  const { binding } = approval;
  const word = typed.toLowerCase();
  if (YES.includes(word)) return { type: "approve", binding };
  if (NO.includes(word)) return { type: "reject", binding };
  return { type: "respond", message: typed, binding };
}

/** Returns the value that a text stands for: the text, or its JSON if texts do not fit. */
function valueOfText(schema: Schema | undefined, typed: string): Json {
  if (schema?.type === undefined || [schema.type].flat().includes("string")) return typed;
  try {
    return parse(typed) as Json;
  } catch {
    return typed;
  }
}

/** Returns the body of an answer for the route of questions, which takes objects. */
export function bodyOf(answer: Answer): Json {
  return typeof answer === "object" && answer !== null ? answer : { answer };
}

/** Returns the words for an answer that was given. */
export function wordsOf(call: Call, answer: Json): string {
  const given: JsonObject = isObject(answer) ? answer : { answer };
  if (unknownOf(call)) return wordsOfUnknown(given);
  if (call.name !== "request_approval") {
    const value = given.answer ?? given.content ?? given;
    return given.action === "decline" ? "Declined" : plain(value);
  }
  const comment = text(given.message ?? given.comment ?? given.reason) || undefined;
  const because = comment === undefined ? "" : `: ${comment}`;
  if (given.type === "edit" || (given.approved === true && given.args)) return "Approved with changes";
  if (given.type === "approve" || given.approved === true) return "Approved";
  if (given.type === "respond" || given.respond !== undefined) return `Answered instead: ${comment ?? text(given.respond) ?? ""}`;
  return `Rejected${because}`;
}
