import { json } from "../api/http";
import type { StoredMessage, Thread } from "../api/types";
import { go } from "../shared/route";
import { copyThread } from "../threads/data";
import { beginThread } from "./begin";
import type { Image } from "./files";
import { firstTexts } from "./texts";

/** A message of the user, as the page has it. */
export interface Before {
  id: string;
  text: string;
  /** Number of messages of the user after it; `undefined` if that is not known, for a message with a stored id. */
  after: number | undefined;
}

/** Returns the stored message. One that was sent here has another id, and is counted from the end. */
function storedOf({ id, text, after }: Before, stored: StoredMessage[]): StoredMessage | undefined {
  const said = stored.filter(({ role }) => role === "user");
  const found = said.find((one) => one.id === id);
  if (found || after === undefined) return found;
  const counted = said.at(-1 - after);
  return counted && textOf(counted) === text.trim() ? counted : undefined;
}

function textOf({ parts }: StoredMessage): string {
  return parts.map(({ text }) => text ?? "").join("").trim();
}

/** Returns the images of a message. Throws for other files, which the page does not have. */
function imagesOf({ parts }: StoredMessage): Image[] {
  const files = parts.filter(({ type }) => type === "file");
  return files.map(({ mediaType = "", url = "" }, at) => {
    if (!mediaType.startsWith("image/") || !url.startsWith("data:")) {
      throw new Error("This message has files, which the page cannot send again; begin a new chat.");
    }
    return { name: `image ${at + 1}`, mimeType: mediaType, url };
  });
}

/** Forks a thread before a message of the user, and says another text there. */
export async function forkBefore(message: Before, thread: Thread, agent: string, text: string): Promise<void> {
  const path = { agent, thread_id: thread.thread_id };
  const found = storedOf(message, await json<StoredMessage[]>("GET /chat/{agent}/{thread_id}", { path }));
  if (!found) throw new Error("The messages of this thread have changed since they were read here; reload the page and edit the message again.");
  const said = { text, images: imagesOf(found) };
  const before = found.metadata?.checkpointId;
  if (before === undefined) {
    throw new Error("This thread is a copy and has no checkpoint before this message; edit the message in the thread that was copied.");
  }
  const { assistant_id = agent, graph_id = agent, model } = thread.metadata;
  if (before === null) return beginThread({ assistant_id, graph_id, model }, said);
  const id = await copyThread(thread, "fork", before);
  firstTexts.set(id, { ...said, agent: assistant_id, model });
  go({ view: "thread", thread: id });
}
