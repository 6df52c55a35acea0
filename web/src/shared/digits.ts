// JSON with whole numbers of any size. JavaScript rounds those beyond 2^53, so the page has them as their digits.
import type { Json } from "../api/types";

/** Name of the only member of an object that stands for a number. */
const DIGITS = "$weft:digits";

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const MARKED = /\{\s*"\$weft:digits":\s*"(-?\d+)"\s*\}/g;
/** Number of digits from which on a number may be rounded. */
const LONG = /\d{16}/;

/** Returns a text of JSON in which each number that would be rounded is an object with its digits. */
export function marked(text: string): string {
  if (!LONG.test(text)) return text;
  const isRounded = (token: string) => /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token));
  return text.replace(TOKEN, (token) => (isRounded(token) ? `{"${DIGITS}":"${token}"}` : token));
}

/** Reads JSON, with the digits of large numbers. */
export function parse(text: string): unknown {
  return JSON.parse(marked(text));
}

/** Returns the JSON of a value, with the digits of large numbers. */
export function stringify(value: unknown, indent?: number): string {
  // No text within JSON has quotes that are not escaped.
  return (JSON.stringify(value, null, indent) ?? "null").replace(MARKED, "$1");
}

/** Returns the digits that an object stands for; `undefined` for other values. */
export function digitsOf(value: Json | undefined): string | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const digits = value[DIGITS];
  return typeof digits === "string" ? digits : undefined;
}

/** Returns `true` for a number of any size. */
export function isNumber(value: Json | undefined): boolean {
  return typeof value === "number" || digitsOf(value) !== undefined;
}

/** Marks the large numbers in the events of a stream. */
export function markedStream(): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  let rest = "";
  return new TransformStream({
    transform(chunk, controller) {
      const text = rest + decoder.decode(chunk, { stream: true });
      const end = text.lastIndexOf("\n") + 1;
      rest = text.slice(end);
      if (end > 0) controller.enqueue(encoder.encode(text.slice(0, end).split("\n").map(marked).join("\n")));
    },
    flush: (controller) => controller.enqueue(encoder.encode(marked(rest))),
  });
}
