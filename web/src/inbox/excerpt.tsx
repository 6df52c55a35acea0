import { json } from "../api/http";
import type { StoredMessage, StoredPart, Waiting } from "../api/types";
import { withoutFiles } from "../chat/files";
import { useLoaded } from "../run/data";
import { link } from "../shared/route";
import { wordsOfMarkdown } from "../shared/words";
import { nameOfTool } from "../shared/effect";

/** Number of turns before a question that are read. */
const TURNS = 4;
/** Parts that stand for the question itself. */
const QUESTIONS = ["tool-ask_human", "tool-request_approval"];

/** Returns what a part of a message says in a line. */
function lineOf(part: StoredPart): string {
  if (part.type === "text") return wordsOfMarkdown(withoutFiles(part.text ?? "").text);
  if (!part.type.startsWith("tool-") || QUESTIONS.includes(part.type)) return "";
  const name = nameOfTool(part.type.slice("tool-".length));
  if (part.state === "output-error") return `${name}: without a result`;
  return part.state === "output-available" ? `${name}: done` : `${name}: waits`;
}

/** The end of the conversation in which a question was asked. */
export function Excerpt({ waiting: { id, agent, thread_id } }: { waiting: Waiting }) {
  const read = (signal: AbortSignal) =>
    json<StoredMessage[]>("GET /chat/{agent}/{thread_id}", { path: { agent: agent ?? "", thread_id }, query: { limit: TURNS }, signal });
  const { data, problem } = useLoaded(agent === null ? false : id, read);
  const said = (data ?? []).map(({ id, role, parts }) => ({ id, role, lines: parts.map(lineOf).filter(Boolean) }));
  return (
    <section className="excerpt" aria-label="Conversation">
      <h2>
        Conversation <a href={link({ view: "thread", thread: thread_id })}>Open the thread</a>
      </h2>
      {problem && <p className="problem">The conversation cannot be read. {problem}</p>}
      {data?.length === 0 && <p className="facts">This thread has no messages.</p>}
      <ol>
        {said
          .filter(({ lines }) => lines.length > 0)
          .map(({ id, role, lines }) => (
            <li key={id} data-role={role}>
              <strong>{role === "user" ? "Person" : (agent ?? "Agent")}</strong>
              {lines.map((line, at) => (
                <p key={at}>{line}</p>
              ))}
            </li>
          ))}
      </ol>
    </section>
  );
}
