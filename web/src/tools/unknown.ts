// Calls that were begun and have no result.
import { readTools } from "../agents/abilities";
import { useFacts } from "../chat/assistant";
import { useActions } from "../chat/context";
import { useLoaded } from "../run/data";

export interface UnknownCall {
  toolCallId: string;
  /** Name of the tool, as the model has it. */
  toolName: string;
  /** `true` if nobody knows if the call took effect; `false` for one that only reads. */
  mayHaveActed: boolean;
}

/** Returns the calls of the current message that were begun and have no result. */
export function useUnknownCalls(): UnknownCall[] {
  const { agent } = useActions();
  const calls = useFacts().flatMap(({ name, data }) => (name === "unknown-outcome" ? [data as unknown as UnknownCall] : []));
  const { data, problem } = useLoaded(calls.length > 0 && agent, (signal) => readTools(agent, signal));
  const reads = data?.tools.filter(({ effect }) => effect === "read_only").map(({ wire_name }) => wire_name);
  const isKnown = data !== undefined || problem !== undefined;
  return calls.map((call) => ({ ...call, mayHaveActed: isKnown && !reads?.includes(call.toolName) }));
}
