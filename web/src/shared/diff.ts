// Differences between two values of JSON.
import type { Json } from "../api/types";

export interface Difference {
  /** Names and indexes that lead to the value: `messages[3].content`. */
  path: string;
  before: Json | undefined;
  after: Json | undefined;
}

type Members = { [name: string]: Json };

function isObject(value: Json | undefined): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function step(path: string, name: string | number): string {
  if (typeof name === "number") return `${path}[${name}]`;
  return path === "" ? name : `${path}.${name}`;
}

/** Returns the smallest parts in which two values differ. */
export function differences(before: Json | undefined, after: Json | undefined, path = ""): Difference[] {
  if (before === after) return [];
  if (isObject(before) && isObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return names.flatMap((name) => differences(before[name], after[name], step(path, name)));
  }
  if (Array.isArray(before) && Array.isArray(after)) {
    const length = Math.max(before.length, after.length);
    return Array.from({ length }, (_, at) => differences(before[at], after[at], step(path, at))).flat();
  }
  return [{ path: path === "" ? "value" : path, before, after }];
}
