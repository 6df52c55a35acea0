import { useEffect, useRef, useState } from "react";
import type { Waiting } from "../api/types";
import type { Polled } from "../shared/polled";
import { link, type InboxTab } from "../shared/route";
import { age, useNow } from "../shared/time";
import { Ask } from "../question/ask";
import { Answered } from "./answered";
import { Bulk } from "./bulk";
import { respond } from "./data";
import { useKeys } from "./keys";
import { askerOf, subjectOf } from "./subject";

interface Props {
  tab: InboxTab;
  inbox: Polled<Waiting[]>;
  onAnswered: () => void;
}

/** Questions of all threads: those that wait for a person, and those that were answered. */
export function Inbox({ tab, inbox, onAnswered }: Props) {
  const count = inbox.data?.length ?? 0;
  useEffect(() => void (document.title = `Inbox (${count}) · Weftwork`), [count]);
  return (
    <section className="inbox" aria-labelledby="inbox-title">
      <header className="head">
        <a className="back" href={link({ view: "threads" })} aria-label="All threads">
          ‹
        </a>
        <div>
          <h1 id="inbox-title">Inbox</h1>
          <p className="facts keys">
            <kbd>?</kbd> shows all keys
          </p>
        </div>
        <nav className="tabs" aria-label="Inbox">
          <a href={link({ view: "inbox", tab: "open" })} aria-current={tab === "open" ? "page" : undefined}>
            Open ({count})
          </a>
          <a href={link({ view: "inbox", tab: "answered" })} aria-current={tab === "answered" ? "page" : undefined}>
            Answered
          </a>
        </nav>
      </header>
      {tab === "open" ? <Open inbox={inbox} onAnswered={onAnswered} /> : <Answered />}
    </section>
  );
}

function Open({ inbox, onAnswered }: Omit<Props, "tab">) {
  const waiting = inbox.data ?? [];
  const [chosen, setChosen] = useState<string>();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const at = Math.max(0, waiting.findIndex(({ id }) => id === chosen));
  const detail = useRef<HTMLDivElement>(null);
  const current = waiting[at];
  const toggle = (id: string) => setSelected((before) => new Set(before.has(id) ? [...before].filter((one) => one !== id) : [...before, id]));
  useKeys(detail, {
    onStep: (step) => setChosen(waiting[Math.min(waiting.length - 1, Math.max(0, at + step))]?.id),
    onSelect: () => current && toggle(current.id),
  });
  if (!inbox.data) return <p className="empty">{inbox.error?.message ?? "Loading…"}</p>;
  if (current === undefined) return <p className="empty">Nothing waits for you.</p>;
  const several = waiting.filter(({ id }) => selected.has(id));
  // Decisions are about what is selected.
  const shown = several[0] ?? current;
  return (
    <div className="triage">
      <List waiting={waiting} current={current} selected={selected} onChoose={setChosen} onToggle={toggle} />
      <div className="detail" ref={detail}>
        {several.length > 1 ? (
          <Bulk chosen={several} onAnswered={onAnswered} onClear={() => setSelected(new Set())} />
        ) : (
          <Detail key={shown.id} waiting={shown} onAnswered={onAnswered} />
        )}
      </div>
    </div>
  );
}

interface ListProps {
  waiting: Waiting[];
  current: Waiting;
  selected: ReadonlySet<string>;
  onChoose: (id: string) => void;
  onToggle: (id: string) => void;
}

function List({ waiting, current, selected, onChoose, onToggle }: ListProps) {
  const now = useNow(10_000);
  return (
    <ul className="waiting" aria-label="Questions">
      {waiting.map((one) => (
        <li key={one.id}>
          <input
            type="checkbox"
            aria-label={`Select ${subjectOf(one.call)}`}
            checked={selected.has(one.id)}
            onChange={() => onToggle(one.id)}
          />
          <button aria-pressed={one === current} onClick={() => onChoose(one.id)}>
            <span className="title">{subjectOf(one.call)}</span>
            <time dateTime={one.created_at}>{age(one.created_at, now)}</time>
            <span className="facts">{askerOf(one)}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

function Detail({ waiting, onAnswered }: { waiting: Waiting; onAnswered: () => void }) {
  const { id, call, node, graph, thread_id } = waiting;
  return (
    <>
      {call && (
        <Ask
          call={call}
          member={graph}
          onAnswer={async (answer) => {
            // A question that was answered elsewhere leaves the list too.
            await respond(id, answer).finally(onAnswered);
          }}
        />
      )}
      <p className="facts">
        Asked by {askerOf(waiting)} in node {node}. <a href={link({ view: "thread", thread: thread_id })}>Open the thread</a>
      </p>
    </>
  );
}
