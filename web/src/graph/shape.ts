// The input of agents: messages, or a value with a schema of its own.
import { json } from "../api/http";
import type { Schema } from "../api/types";
import { useLoaded } from "../run/data";

export interface Shape {
  takesMessages: boolean;
  /** Schema of the input of a graph without messages. */
  input: Schema;
}

/** Input of agents whose schemas cannot be read: those of other servers, and agents that are gone. */
const CHAT: Shape = { takesMessages: true, input: {} };
const known = new Map<string, Shape>();

/** Returns a schema without the defaults that stand for none. */
function withoutNulls(schema: Schema): Schema {
  const members = Object.entries(schema.properties ?? {}).map(([name, member]): [string, Schema] => {
    const { default: usual, ...rest } = member;
    return [name, usual === null || usual === undefined ? rest : member];
  });
  return { ...schema, properties: Object.fromEntries(members) };
}

async function readShape(agent: string, signal: AbortSignal): Promise<Shape> {
  const before = known.get(agent);
  if (before) return before;
  try {
    const path = { assistant_id: agent };
    const found = await json<{ input_schema: Schema | null; state_schema: Schema | null }>("GET /assistants/{assistant_id}/schemas", { path, signal });
    // A graph that declares no input of its own takes its state.
    const input = found.input_schema ?? found.state_schema ?? {};
    const shape = !input.properties || "messages" in input.properties ? CHAT : { takesMessages: false, input: withoutNulls(input) };
    known.set(agent, shape);
    return shape;
  } catch (error) {
    if (signal.aborted) throw error;
    return CHAT;
  }
}

/** Returns the input of an agent; `undefined` until it was read. */
export function useShape(agent: string | undefined): Shape | undefined {
  const loaded = useLoaded(agent ?? false, (signal) => readShape(agent ?? "", signal));
  if (agent === undefined) return undefined;
  return known.get(agent) ?? (loaded.of === agent ? loaded.data : undefined);
}
