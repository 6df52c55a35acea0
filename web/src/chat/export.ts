// A thread as a file: the stored messages as JSON, or as Markdown.
import { json } from "../api/http";
import type { StoredMessage, StoredPart, Thread } from "../api/types";
import { stringify } from "../shared/digits";
import { nameOfTool } from "../shared/effect";
import { fenced } from "../shared/fence";
import { saveFile } from "../shared/file";
import { titleOf } from "../threads/data";
import { replacedOf } from "./assistant";

function block(value: unknown): string {
  return fenced(typeof value === "string" ? value : stringify(value, 2));
}

function markdownOfPart(part: StoredPart): string {
  const { type, text, input, output, errorText } = part;
  if (type === "text") return text ?? "";
  if (type === "reasoning") return `> ${(text ?? "").replaceAll("\n", "\n> ")}`;
  if (!type.startsWith("tool-")) return "";
  const ended = errorText === undefined ? output : `failed: ${errorText}`;
  return [`Call of \`${nameOfTool(type.slice(5))}\`:`, block(input ?? {}), ended === undefined ? "" : `Result:\n\n${block(ended)}`].join("\n\n");
}

/** Returns messages as Markdown. */
function markdownOf(title: string, agent: string, messages: StoredMessage[], replaced: StoredMessage[]): string {
  const said = [...messages, ...replaced].map(({ role, parts, metadata }) => {
    const texts = parts.map(markdownOfPart).map((text) => text.trim()).filter(Boolean);
    const marks = [metadata?.replacedBy && "replaced by another answer", metadata?.finishReason === "other" && "stopped"];
    const known = marks.filter(Boolean).join("; ");
    const mark = known === "" ? "" : ` (${known})`;
    return [`## ${role === "user" ? "User" : agent}${mark}`, ...texts].join("\n\n");
  });
  return `${[`# ${title}`, ...said].join("\n\n")}\n`;
}

/** Saves a thread as a file. */
export async function exportThread(thread: Thread, agent: string, format: "json" | "md"): Promise<void> {
  const path = { agent, thread_id: thread.thread_id };
  const [messages, replaced] = await Promise.all([
    json<StoredMessage[]>("GET /chat/{agent}/{thread_id}", { path }),
    replacedOf({ agent, thread: thread.thread_id }),
  ]);
  const title = titleOf(thread);
  const text = format === "json" ? stringify({ thread, messages, replaced }, 2) : markdownOf(title, thread.metadata.graph_id ?? agent, messages, replaced);
  saveFile(title, format, text);
}
