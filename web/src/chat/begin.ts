import { go } from "../shared/route";
import { newUuid } from "../shared/uuid";
import { createThread, type Agent } from "../threads/data";
import { firstTexts } from "./texts";

/** Creates a thread that begins with a text, which is its title too, and opens it. */
export async function beginThread(agent: Agent, text: string): Promise<void> {
  const id = newUuid();
  await createThread(id, agent, text.slice(0, 80));
  firstTexts.set(id, text);
  go({ view: "thread", thread: id });
}
