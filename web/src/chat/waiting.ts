// Messages of new chats that were sent before the agents were loaded. They go also when the view is left.
import type { Assistant } from "../api/types";
import { Store, useStore } from "../shared/store";
import { readAssistants } from "../threads/data";

/** Pause after which the agents are read again. */
const AGAIN_MS = 1_000;

const waiting = new Store<readonly string[]>([]);

/** Returns the texts that wait. */
export function useWaiting(): readonly string[] {
  return useStore(waiting);
}

/** Returns `true` if texts wait. */
export function hasWaiting(): boolean {
  return waiting.read().length > 0;
}

/** Returns `true` for a draft that waits. */
export function isWaiting(draft: string): boolean {
  return waiting.read().some((text) => isDraftOf(text, draft));
}

/** Returns `true` if a text was sent from a draft: files may follow it. */
export function isDraftOf(text: string, draft: string): boolean {
  return draft.trim() !== "" && text.startsWith(draft.trim());
}

/** Reads the agents until the server has them, and returns the one with a name, or the first one. */
async function agentNamed(name: string | undefined): Promise<Assistant> {
  for (;;) {
    const found = await readAssistants().catch(() => []);
    const agent = agentOf(found, name);
    // Nobody chose the agent that stands in for one that is not there.
    if (agent && name !== undefined && !isNamed(agent, name)) throw new Error(`Not sent: there is no agent “${name}” here. Choose another one.`);
    if (agent) return agent;
    await new Promise((resolve) => window.setTimeout(resolve, AGAIN_MS));
  }
}

/** Returns the agent with a name or an id; the first one if there is none. */
export function agentOf(agents: Assistant[], name: string | undefined): Assistant | undefined {
  return agents.find((agent) => isNamed(agent, name)) ?? agents[0];
}

/** Returns `true` for the agent with a name or an id. */
export function isNamed({ name, assistant_id }: Assistant, wanted: string | undefined): boolean {
  return name === wanted || assistant_id === wanted;
}

/** Waits for the agent of a text. */
export async function awaitAgent(name: string | undefined, text: string): Promise<Assistant> {
  waiting.set([...waiting.read(), text]);
  try {
    return await agentNamed(name);
  } finally {
    waiting.set(waiting.read().filter((one) => one !== text));
  }
}
