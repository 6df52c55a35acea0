// Plans and deliverables: what agents with definitions make in a conversation, with their versions.
import { HttpError, json, request } from "../api/http";
import { sendOnce } from "../api/sent";
import type { Json, Thread } from "../api/types";
import { parse, stringify } from "../shared/digits";
import { usePolled, type Polled } from "../shared/polled";
import { clock } from "../shared/time";
import { titleOfText } from "../shared/words";

export type Kind = "deliverable" | "plan";

/** A version of a record, without its content. */
export interface Version {
  number: number;
  title: string;
  format: "markdown" | "json" | "html" | "yaml";
  type?: string;
  agent?: string;
  by: string;
  /** Time in milliseconds. */
  at: number;
  /** Version that it was made from. */
  parent?: number;
  bytes: number;
  /** Run that made it; a version of a person has none. */
  run?: string;
}

/** A plan or a deliverable. */
export interface Made {
  kind: Kind;
  id: string;
  /** Number of the current version. */
  current: number;
  versions: Version[];
}

/** An agent with a definition. */
export interface Defined {
  slug: string;
  name: string;
  type: string;
  description: string;
  modes: Mode[];
  /** Beginning of the hash of its definition. */
  version: string;
  /** Version as the definition has it. */
  semver?: string;
  /** Organisation, if the agent is not for all. */
  organization?: string;
  /** Why it cannot be asked here. */
  problem?: string;
}

export type Mode = "converse" | "plan" | "build";

/** Time after which the list of agents is read again. */
const AGENTS_MS = 60_000;
/** Time after which records are read again: others change them, too. */
const AGAIN_MS = 2_500;

/** Returns the agents with definitions. */
export function useDefined(): Defined[] {
  const read = async (signal: AbortSignal) => (await json<{ agents: Defined[] }>("GET /agents", { signal })).agents;
  return usePolled("defined agents", read, AGENTS_MS).data ?? [];
}

/** Returns the id of the conversation of a thread. */
export function conversationOf({ thread_id, metadata }: Thread): string {
  return metadata["weft:conversation"]?.id ?? thread_id;
}

function routeOf(kind: Kind) {
  return kind === "plan" ? ("/plans" as const) : ("/deliverables" as const);
}

async function listOf(kind: Kind, conversation: string, signal?: AbortSignal): Promise<Made[]> {
  const { content } = await json<{ content: Made[] }>(`GET ${routeOf(kind)}`, { query: { conversationId: conversation }, signal });
  return content;
}

/** Returns the plans and the deliverables of a conversation. */
export function useRecords(conversation: string): Polled<Made[]> {
  return usePolled(
    `records ${conversation}`,
    async (signal) => {
      const [deliverables, plans] = await Promise.all([listOf("deliverable", conversation, signal), listOf("plan", conversation, signal)]);
      return [...deliverables, ...plans];
    },
    AGAIN_MS,
  );
}

/** A version of a record in a conversation. */
export interface Place {
  conversation: string;
  made: Pick<Made, "kind" | "id">;
  version: number;
}

/** Returns the value of a content: the text of JSON is its value. */
export function valueOf(format: Version["format"], content: Json): Json {
  if (format !== "json" || typeof content !== "string") return content;
  try {
    return parse(content) as Json;
  } catch {
    return content;
  }
}

/** Reads the content of a version. */
export async function readContent({ conversation, made: { kind, id }, version }: Place, signal?: AbortSignal): Promise<Json> {
  const query = { conversationId: conversation, id, version };
  const found = await json<{ content: { content: Json } }>(`GET ${routeOf(kind)}`, { query, signal });
  return found.content.content;
}

function bodyOf({ conversation, made: { kind, id }, version }: Place, action: string) {
  return { conversationId: conversation, action, [kind === "plan" ? "planId" : "deliverableId"]: id, version };
}

/** Returns who made a version: an agent, or a person. */
export function makerOf({ run, agent, by }: Version): string {
  return run !== undefined && agent !== undefined ? agent : by;
}

/** Returns the time at which a version was made. */
export function timeOf({ at }: Version): string {
  return clock(new Date(at).toISOString());
}

/** Makes a version the current one. */
export async function makeCurrent(place: Place): Promise<void> {
  const { conversation, made, version } = place;
  await sendOnce({
    what: JSON.stringify(["current", conversation, made.id, version]),
    send: () => request(`POST ${routeOf(made.kind)}`, { body: bodyOf(place, "set_current") }),
    find: async () => (await listOf(made.kind, conversation)).some(({ id, current }) => id === made.id && current === version),
  });
}

/** Adds a version that was edited, and returns its number. Throws if the version it was made from is not the current one. */
export async function addEdited(place: Place, content: Json): Promise<number> {
  const { conversation, made, version } = place;
  let added = 0;
  const find = async () => {
    const found = (await listOf(made.kind, conversation)).find(({ id }) => id === made.id);
    for (const { number } of found?.versions.filter(({ parent }) => parent === version) ?? []) {
      if (stringify(await readContent({ ...place, version: number })) === stringify(content)) added = number;
    }
    return added > 0;
  };
  const send = async () => {
    const body = { ...bodyOf(place, "edit"), content };
    added = (await json<{ content: Made }>(`POST ${routeOf(made.kind)}`, { body })).content.current;
  };
  try {
    await sendOnce({ what: stringify(["edit", conversation, made.id, version, content]), send, find });
    return added;
  } catch (error) {
    const current = error instanceof HttpError && (error.body as { metadata?: { conflict?: { current?: Version } } } | null)?.metadata?.conflict?.current;
    if (current) throw new Error(`Not saved: version ${current.number} is the current one by now. Compare it with yours, and edit that one.`);
    throw error;
  }
}

/** A request for what an agent makes, or for a further version of it. */
export interface Ask {
  /** Name of the agent. */
  slug: string;
  mode: Mode;
  /** Record of which a further version is made. */
  of?: Pick<Made, "kind" | "id">;
}

/** Asks an agent with a definition, in a conversation. The run goes on without a reader. */
export async function askInMode({ slug, mode, of }: Ask, conversation: string, text: string, key: string): Promise<void> {
  // A further version keeps the title.
  const payload = { stream: true, ...(of ? { [of.kind === "plan" ? "planId" : "deliverableId"]: of.id } : { title: titleOfText(text) }) };
  const body = { mode, userMessage: text, conversationId: conversation, payload };
  await request("POST /agents/{slug}/tasks", { path: { slug }, body, key });
}
