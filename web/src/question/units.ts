// Units of numbers, from the declarations of arguments.
import type { Json, JsonObject, Schema } from "../api/types";
import { isNumber } from "../shared/digits";
import { isObject, plain } from "../shared/json";

const UNITS = "euros?|(?:US )?dollars?|pounds?|francs?|yen|cents?|EUR|USD|GBP|CHF|JPY|percent|milliseconds|seconds|minutes|hours|days|bytes|grams|kilograms|metres|meters";
/** A unit in the description of an argument: "How much, in euros." */
const DESCRIBED = new RegExp(`\\bin (${UNITS})\\b`);

/** Returns the unit of a number; `undefined` for other values, and for a number whose declaration names none. */
export function unitOf(value: Json, schema: Schema | undefined): string | undefined {
  return isNumber(value) ? DESCRIBED.exec(schema?.description ?? "")?.[1] : undefined;
}

/** Returns the values of arguments in one line, numbers with their units. */
export function lineOf(args: Json | undefined, schema?: Schema): string {
  return isObject(args) ? valuesOf(args, schema).join(" ") : "";
}

function valuesOf(args: JsonObject, schema: Schema | undefined): string[] {
  return Object.entries(args).map(([name, value]) => [plain(value), unitOf(value, schema?.properties?.[name])].filter(Boolean).join(" "));
}
