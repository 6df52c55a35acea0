import { go } from "../shared/route";
import { newUuid } from "../shared/uuid";
import { wordsOfMarkdown } from "../shared/words";
import { createThread, type Agent } from "../threads/data";
import { withoutFiles } from "./files";
import { firstTexts } from "./texts";

/** Returns the title of a thread that begins with a text: its words, or the name of its first file. */
function titleOfText(text: string): string {
  const said = withoutFiles(text);
  return (wordsOfMarkdown(said.text.slice(0, 400)) || said.files[0]?.name || text).slice(0, 80);
}

/** Creates a thread that begins with a text, which is its title too, and opens it. */
export async function beginThread(agent: Agent, text: string): Promise<void> {
  const id = newUuid();
  await createThread(id, agent, titleOfText(text));
  firstTexts.set(id, text);
  go({ view: "thread", thread: id });
}
