import { useEffect, useRef, useState, type RefObject } from "react";
import type { Waiting } from "../api/types";
import { wordsOf } from "../question/answer";
import { Absent } from "../shared/absent";
import { useIsPhone } from "../shared/phone";
import { usePolled, type Polled } from "../shared/polled";
import { link, type InboxTab } from "../shared/route";
import { Rows } from "../shared/rows";
import { age, clock, useNow } from "../shared/time";
import { Ask } from "../question/ask";
import { useThread } from "../threads/data";
import { Answered } from "./answered";
import { Bulk } from "./bulk";
import { answeredOn, respond } from "./data";
import { Excerpt } from "./excerpt";
import { filtered, Filters, type Filter } from "./filter";
import { useKeys } from "./keys";
import { askerOf, effectOf, subjectOf } from "./subject";

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
  const [filter, setFilter] = useState<Filter>({});
  const all = inbox.data ?? [];
  const waiting = filtered(all, filter);
  // The question that is shown stays until a person chooses another one, also when it is answered.
  const [chosen, setChosen] = useState<Waiting>();
  const [selected, setSelected] = useState<ReadonlyMap<string, Waiting>>(new Map());
  const detail = useRef<HTMLDivElement>(null);
  const isPhone = useIsPhone();
  const first = waiting[0];
  useEffect(() => {
    if (chosen === undefined && first !== undefined) setChosen(first);
  }, [chosen, first]);
  const at = waiting.findIndex(({ id }) => id === chosen?.id);
  // The place of the question in the list, also after it left the list.
  const place = useRef(0);
  if (at >= 0) place.current = at;
  const isGone = at < 0;
  const next = isGone ? waiting[Math.min(place.current, waiting.length - 1)] : waiting[at + 1];
  const before = waiting[Math.max(0, place.current - 1)];
  const toggle = (one: Waiting) =>
    setSelected((all) => new Map(all.has(one.id) ? [...all].filter(([id]) => id !== one.id) : [...all, [one.id, one]]));
  // Keys are about the row that has the focus, or about the question that is shown.
  const list = useRef<HTMLUListElement>(null);
  const focused = () => [...(list.current?.children ?? [])].findIndex((row) => row.contains(document.activeElement));
  useKeys(detail, {
    onStep: (step) => {
      const from = focused();
      const to = from >= 0 ? (waiting[from + step] ?? waiting[from]) : ((step === 1 ? next : before) ?? chosen);
      if (to === undefined) return;
      setChosen(to);
      list.current?.children[waiting.indexOf(to)]?.querySelector("button")?.focus();
    },
    onSelect: () => {
      const one = waiting[focused()] ?? (isGone ? undefined : chosen);
      if (one) toggle(one);
    },
  });
  // On a phone, the card is below the list.
  const choose = (one: Waiting) => {
    setChosen(one);
    if (isPhone) detail.current?.scrollIntoView();
  };
  const narrow = (next: Filter) => {
    setFilter(next);
    setSelected(new Map());
    setChosen(filtered(all, next)[0]);
  };
  if (!inbox.data) return <Absent of="questions" polled={inbox} />;
  const several = [...selected.values()];
  // Decisions are about what is selected.
  const shown = several[0] ?? chosen;
  // A question that the filter hides is open all the same.
  const open = new Set(all.map(({ id }) => id));
  const goOn = () => {
    setSelected(new Map());
    setChosen(next);
  };
  if (shown === undefined && all.length === 0) return <p className="empty">Nothing waits for you.</p>;
  return (
    <div className="triage">
      <div>
        <Filters waiting={all} filter={filter} onFilter={narrow} />
        {waiting.length === 0 && all.length > 0 && <p className="empty">No question fits.</p>}
        <List place={list} waiting={waiting} current={chosen?.id} selected={selected} onChoose={choose} onToggle={toggle} />
      </div>
      <div className="detail" ref={detail} tabIndex={-1} data-home="" role="group" aria-label="Question">
        {shown === undefined ? null : several.length > 1 ? (
          <Bulk chosen={several} open={open} onAnswered={onAnswered} onClear={() => setSelected(new Map())} />
        ) : open.has(shown.id) ? (
          <Detail key={shown.id} waiting={shown} onAnswered={onAnswered} />
        ) : (
          <Settled key={shown.id} waiting={shown} hasNext={next !== undefined} onNext={goOn} />
        )}
      </div>
    </div>
  );
}

interface ListProps {
  place: RefObject<HTMLUListElement | null>;
  waiting: Waiting[];
  /** Id of the question that is shown. */
  current: string | undefined;
  selected: ReadonlyMap<string, Waiting>;
  onChoose: (waiting: Waiting) => void;
  onToggle: (waiting: Waiting) => void;
}

function List({ place, waiting, current, selected, onChoose, onToggle }: ListProps) {
  const now = useNow(10_000);
  return (
    <ul ref={place} className="waiting" aria-label="Questions">
      {waiting.map((one) => (
        <li key={one.id}>
          <input
            type="checkbox"
            aria-label={`Select ${subjectOf(one.call)}`}
            checked={selected.has(one.id)}
            onChange={() => onToggle(one)}
          />
          <button aria-pressed={one.id === current} onClick={() => onChoose(one)}>
            <span className="title">{subjectOf(one.call)}</span>
            <time dateTime={one.created_at} title={clock(one.created_at)}>{age(one.created_at, now)}</time>
            <span className="facts">{[askerOf(one), effectOf(one)].filter(Boolean).join(" · ")}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

/** A question that is no longer open: who answered it, and how. */
function Settled({ waiting, hasNext, onNext }: { waiting: Waiting; hasNext: boolean; onNext: () => void }) {
  const { id, call, thread_id } = waiting;
  const read = async () => (await answeredOn(thread_id)).find((answered) => answered.id === id) ?? null;
  const { data, error } = usePolled(`settled ${id}`, read, 5000);
  const thread = useThread(thread_id).data;
  const works = "The agent works on another answer of this conversation. If it still needs this one, it asks again.";
  const closed = "It is no longer open, and has no answer: its conversation went on without one, or was deleted.";
  return (
    <section className="ask settled" aria-label="Answered question">
      <h2>{subjectOf(call)}</h2>
      <p role="status">
        {data ? `Answered by ${data.answered_by}: ${call ? wordsOf(call, data.answer) : "answered"}.` : data === null && thread?.status === "busy" ? works : error || (data === null && thread !== undefined) ? closed : "…"}
      </p>
      <div className="actions">
        {hasNext && (
          <button className="primary" onClick={onNext}>
            Next question
          </button>
        )}
        <a href={link({ view: "thread", thread: thread_id })}>Open the thread</a>
      </div>
      {!hasNext && <p className="empty">Nothing waits for you.</p>}
    </section>
  );
}

function Detail({ waiting, onAnswered }: { waiting: Waiting; onAnswered: () => void }) {
  const { call, node, graph } = waiting;
  return (
    <>
      {call && (
        <Ask
          call={call}
          member={graph}
          onAnswer={async (answer) => {
            // A question that was answered elsewhere leaves the list too.
            await respond([{ waiting, answer }]).finally(onAnswered);
          }}
        />
      )}
      <Rows
        label="The question"
        rows={[
          ["Asked by", askerOf(waiting)],
          ["Asked at", clock(waiting.created_at)],
          ["For", waiting.run_by],
          ["In node", node],
        ]}
      />
      <Excerpt waiting={waiting} />
    </>
  );
}
