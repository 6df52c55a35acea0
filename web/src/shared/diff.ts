// Differences between two values of JSON.
import type { Json, JsonObject } from "../api/types";
import { digitsOf } from "./digits";
import { isObject } from "./json";

export interface Difference {
  /** Names and indexes that lead to the value: `messages[3].content`. */
  path: string;
  before: Json | undefined;
  after: Json | undefined;
}

function step(path: string, name: string | number): string {
  if (typeof name === "number") return `${path}[${name}]`;
  return path === "" ? name : `${path}.${name}`;
}

/** Returns the members in which two objects differ, each as a whole. */
export function changedMembers(before: JsonObject, after: JsonObject): Difference[] {
  return namesOf(before, after)
    .map((name) => ({ path: name, before: before[name], after: after[name] }))
    .filter((change) => differences(change.before, change.after).length > 0);
}

function namesOf(before: JsonObject, after: JsonObject): string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])];
}

/** Returns the smallest parts in which two values differ. */
export function differences(before: Json | undefined, after: Json | undefined, path = ""): Difference[] {
  if (before === after) return [];
  const digits = digitsOf(before);
  if (digits !== undefined && digits === digitsOf(after)) return [];
  if (isObject(before) && isObject(after)) {
    return namesOf(before, after).flatMap((name) => differences(before[name], after[name], step(path, name)));
  }
  if (Array.isArray(before) && Array.isArray(after)) {
    const length = Math.max(before.length, after.length);
    return Array.from({ length }, (_, at) => differences(before[at], after[at], step(path, at))).flat();
  }
  return [{ path: path === "" ? "value" : path, before, after }];
}
