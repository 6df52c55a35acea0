import { request } from "../api/http";
import { sendOnce } from "../api/sent";
import type { JsonObject } from "../api/types";
import { isStarted, requestRun } from "../graph/start";
import type { Ask } from "../records/data";
import { reasonOf } from "../question/first";
import { go } from "../shared/route";
import { toast } from "../shared/toast";
import { TITLE_MAX, titleOfText } from "../shared/words";
import { beginOnce, createThread, type Agent } from "../threads/data";
import { askOnce, isSaid } from "./assistant";
import { contentOf, withoutFiles, type Said } from "./files";
import { drafts, firstTexts, take, unsentFiles, type First } from "./texts";

/** Returns the title of a thread that begins with a text: its words, or the name of its first file. */
function titleOfSaid({ text, images }: Said): string {
  const said = withoutFiles(text);
  return titleOfText(said.text) || (said.files[0]?.name || text || images[0]?.name || "").slice(0, TITLE_MAX);
}

/** Creates a thread that begins with a text, which is its title too, and opens it. */
export async function beginThread(agent: Agent, said: Said, ask?: Ask): Promise<void> {
  const id = await beginOnce(agent, titleOfSaid(said));
  firstTexts.set(id, { ...said, agent: agent.assistant_id, model: agent.model, ask });
  go({ view: "thread", thread: id });
}

/** Creates a thread that begins with a text, and leaves the view as it is. Returns its title. */
export async function beginBeside(agent: Agent, said: Said, ask?: Ask): Promise<string> {
  const title = titleOfSaid(said);
  const id = await beginOnce(agent, title);
  await sendBeside(id, { ...said, agent: agent.assistant_id, model: agent.model, ask });
  return title;
}

/** Sends what begins a thread, whose view is not open. What the server does not take is in its input. */
async function sendBeside(id: string, { agent, model, ask, ...said }: First): Promise<void> {
  const body = { threadId: id, model, messages: [{ role: "user", content: contentOf(said) }] };
  try {
    if (ask) return await askOnce({ agent, thread: id }, id, ask, said);
    const response = await sendOnce({
      what: JSON.stringify(body),
      send: (key) => request("POST /chat/{agent}", { path: { agent }, body, key }),
      find: (key) => isSaid({ agent, thread: id }, key),
    });
    // The run goes on without a reader.
    await response?.body?.cancel();
  } catch (error) {
    drafts.set(id, said.text);
    unsentFiles.set(id, said.images);
    throw error;
  }
}

/** Sends what begins a thread if its view is left before that was sent. */
export function leaveFirst(thread: string): void {
  const first = take(firstTexts, thread);
  if (first) sendBeside(thread, first).catch((error: Error) => toast({ text: `“${titleOfSaid(first)}”: ${reasonOf(error)}` }));
}

/** Creates a thread for a graph without messages, runs it, and opens the thread. */
export async function beginRun(agent: Agent, input: JsonObject): Promise<void> {
  const said = Object.values(input).find((value) => typeof value === "string" && value !== "");
  const title = [agent.graph_id, said].filter(Boolean).join(": ").slice(0, 80);
  let id = "";
  await sendOnce({
    what: JSON.stringify(["run", agent, input]),
    // The thread has the key as its id, so that a thread without a run is used again.
    send: async (key) => {
      id = key;
      await createThread(id, agent, title);
      await requestRun({ thread: id, agent: agent.assistant_id, input }, key);
    },
    find: (key) => isStarted(key, key),
  });
  go({ view: "thread", thread: id });
}
