// How calls of tools ended without a result: those that failed, and those that a person or a rule refused.
import type { Json } from "../api/types";
import { isObject } from "../shared/json";

/** Code with which the server marks a call that was refused. Such a call was not made. */
const REFUSED = "policy_denied";

/** Code with which the server marks a call that was cut off: its outcome is not known. */
const CUT_OFF = "W0412";

/** Returns how a call ended, from the object that stands for its result. */
export function failureOf(result: Json | undefined): "failed" | "refused" | "stopped" {
  if (!isObject(result)) return "failed";
  return result["code"] === CUT_OFF ? "stopped" : result["error_code"] === REFUSED ? "refused" : "failed";
}

/** Returns how the call of a tool message ended; `undefined` for one with a result, and for other messages. */
export function failureOfMessage(message: Json | undefined): "failed" | "refused" | "stopped" | undefined {
  if (!isObject(message) || message["type"] !== "tool" || message["status"] !== "error") return undefined;
  try {
    return failureOf(JSON.parse(String(message["content"])) as Json);
  } catch {
    return "failed";
  }
}
