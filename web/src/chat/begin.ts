import { request } from "../api/http";
import type { JsonObject } from "../api/types";
import { startRun } from "../graph/graph-view";
import { go } from "../shared/route";
import { newUuid } from "../shared/uuid";
import { wordsOfMarkdown } from "../shared/words";
import { createThread, type Agent } from "../threads/data";
import { contentOf, withoutFiles, type Said } from "./files";
import { drafts, firstTexts, unsentImages } from "./texts";

/** Returns the title of a thread that begins with a text: its words, or the name of its first file. */
function titleOfSaid({ text, images }: Said): string {
  const said = withoutFiles(text);
  return (wordsOfMarkdown(said.text.slice(0, 400)) || said.files[0]?.name || text || images[0]?.name || "").slice(0, 80);
}

/** Creates a thread that begins with a text, which is its title too, and opens it. */
export async function beginThread(agent: Agent, said: Said): Promise<void> {
  const id = newUuid();
  await createThread(id, agent, titleOfSaid(said));
  firstTexts.set(id, said);
  go({ view: "thread", thread: id });
}

/** Creates a thread that begins with a text, and leaves the view as it is. Returns its title. */
export async function beginBeside(agent: Agent, said: Said): Promise<string> {
  const id = newUuid();
  const title = titleOfSaid(said);
  await createThread(id, agent, title);
  const body = { threadId: id, model: agent.model, messages: [{ role: "user", content: contentOf(said) }] };
  try {
    const { body: answer } = await request("POST /chat/{agent}", { path: { agent: agent.assistant_id }, body });
    // The run goes on without a reader.
    await answer?.cancel();
  } catch (error) {
    drafts.set(id, said.text);
    unsentImages.set(id, said.images);
    throw error;
  }
  return title;
}

/** Creates a thread for a graph without messages, runs it, and opens the thread. */
export async function beginRun(agent: Agent, input: JsonObject): Promise<void> {
  const id = newUuid();
  const said = Object.values(input).find((value) => typeof value === "string" && value !== "");
  await createThread(id, agent, [agent.graph_id, said].filter(Boolean).join(": ").slice(0, 80));
  await startRun(id, agent.assistant_id, input);
  go({ view: "thread", thread: id });
}
