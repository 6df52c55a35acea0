import { useEffect, useRef, useState } from "react";
import type { Waiting } from "../api/types";
import { plain } from "../shared/json";
import type { Polled } from "../shared/polled";
import { link } from "../shared/route";
import { age, useNow } from "../shared/time";
import { Ask } from "../question/ask";
import { respond } from "./data";
import { useKeys } from "./keys";

interface Props {
  inbox: Polled<Waiting[]>;
  onAnswered: () => void;
}

/** What waits for a person, over all threads. */
export function Inbox({ inbox, onAnswered }: Props) {
  const waiting = inbox.data ?? [];
  const [chosen, setChosen] = useState<string>();
  const at = Math.max(0, waiting.findIndex(({ id }) => id === chosen));
  const detail = useRef<HTMLDivElement>(null);
  const current = waiting[at];
  useEffect(() => void (document.title = `Inbox (${waiting.length}) · Weftwork`), [waiting.length]);
  useKeys(detail, (step) => setChosen(waiting[Math.min(waiting.length - 1, Math.max(0, at + step))]?.id));
  if (!inbox.data) return <p className="empty">{inbox.error?.message ?? "Loading…"}</p>;
  return (
    <section className="inbox" aria-labelledby="inbox-title">
      <header className="head">
        <a className="back" href={link({ view: "threads" })} aria-label="All threads">
          ‹
        </a>
        <div>
          <h1 id="inbox-title">Inbox</h1>
          <p className="facts keys">
            <span>
              <kbd>j</kbd> <kbd>k</kbd> choose
            </span>
            <span>
              <kbd>a</kbd> approve
            </span>
            <span>
              <kbd>e</kbd> edit
            </span>
            <span>
              <kbd>r</kbd> reject
            </span>
          </p>
        </div>
      </header>
      {current === undefined ? (
        <p className="empty">Nothing waits for you.</p>
      ) : (
        <div className="triage">
          <List waiting={waiting} current={current} onChoose={setChosen} />
          <Detail key={current.id} waiting={current} detail={detail} onAnswered={onAnswered} />
        </div>
      )}
    </section>
  );
}

function List({ waiting, current, onChoose }: { waiting: Waiting[]; current: Waiting; onChoose: (id: string) => void }) {
  const now = useNow(10_000);
  return (
    <ul className="waiting" aria-label="Questions">
      {waiting.map((one) => (
        <li key={one.id}>
          <button aria-pressed={one === current} onClick={() => onChoose(one.id)}>
            <span className="title">{subject(one)}</span>
            <time dateTime={one.created_at}>{age(one.created_at, now)}</time>
            <span className="facts">{one.agent ?? "unknown agent"}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

interface DetailProps {
  waiting: Waiting;
  detail: React.RefObject<HTMLDivElement | null>;
  onAnswered: () => void;
}

function Detail({ waiting, detail, onAnswered }: DetailProps) {
  const { id, call, agent, node, thread_id } = waiting;
  return (
    <div className="detail" ref={detail}>
      {call && (
        <Ask
          call={call}
          onAnswer={async (answer) => {
            // A question that was answered elsewhere leaves the list too.
            await respond(id, answer).finally(onAnswered);
          }}
        />
      )}
      <p className="facts">
        Asked by {agent ?? "an agent"} in node {node}. <a href={link({ view: "thread", thread: thread_id })}>Open the thread</a>
      </p>
    </div>
  );
}

/** Returns one line for a question: the exact action, or the text. */
function subject({ call }: Waiting): string {
  if (call === null) return "Waits";
  const { action, args, question } = call.args;
  if (call.name !== "request_approval") return plain(question ?? call.name);
  const values = typeof args === "object" && args !== null ? Object.values(args).map(plain) : [];
  return `${plain(action ?? "")} ${values.join(" ")}`;
}
