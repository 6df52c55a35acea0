// What an agent may do, and what it asks for, from the declarations of its tools.
import { json } from "../api/http";
import { useLoaded } from "../run/data";
import { nameOfTool } from "../shared/effect";

interface AgentTool {
  name: string;
  /** Name in calls of models. */
  wire_name: string;
  description: string;
  /** Name of the member of a team that has the tool. */
  member: string | null;
  effect: string;
  permission: "allowed" | "asks" | "depends" | "denied";
  /** Why a person is asked. */
  reason: string | null;
}

interface AgentTools {
  tools: AgentTool[];
  /** Requests that the agent is for. */
  requests: string[];
}

export function readTools(assistant: string, signal: AbortSignal): Promise<AgentTools> {
  return json("GET /assistants/{assistant_id}/tools", { path: { assistant_id: assistant }, signal });
}

/** Reads the tools of an assistant. */
export function useTools(assistant: string): AgentTools | undefined {
  return useLoaded(assistant, (signal) => readTools(assistant, signal)).data;
}

/** A line about several tools. */
export interface Ability {
  about: string;
  tools: string;
}

/** Tools that begin a question to the person who uses the agent. */
const ASKS = "ask_human";

const EFFECTS: [effect: string, about: string][] = [
  ["read_only", "Reads and computes"],
  ["state_change", "Changes data here"],
  ["external_side_effect", "Acts outside, which cannot be undone"],
];

/** Returns what an agent may do by effect, and what it asks for before. */
export function abilitiesOf({ tools }: AgentTools): Ability[] {
  const own = tools.filter(({ name, permission }) => name !== ASKS && permission !== "denied");
  const named = (some: AgentTool[], why: (tool: AgentTool) => string = () => "") =>
    [...new Set(some.map((tool) => `${nameOfTool(tool.name)}${why(tool)}`))].join(", ");
  const because = ({ reason }: AgentTool) => (reason ? ` (${reason})` : "");
  const abilities = EFFECTS.map(([effect, about]) => ({ about, tools: named(own.filter((tool) => tool.effect === effect)) }));
  return [
    ...abilities,
    { about: "Asks you each time before", tools: named(own.filter(({ permission }) => permission === "asks"), because) },
    { about: "Asks you or not, depending on the call, before", tools: named(own.filter(({ permission }) => permission === "depends")) },
    { about: "Asks you when something is missing", tools: tools.some(({ name }) => name === ASKS) ? "a question in the conversation" : "" },
  ].filter(({ tools }) => tools !== "");
}
