import { useEffect, useState } from "react";
import type { Thread } from "../api/types";
import { useConnection } from "../api/connection";
import { Absent } from "../shared/absent";
import type { Polled } from "../shared/polled";
import { link, type Place } from "../shared/route";
import { ThemeChoice } from "../shared/theme";
import { age, clock, useNow } from "../shared/time";
import { agentOf, FILTERS, PAGE, STATUS, statusOf, titleOf, useTitles, type ListQuery, type Status, type ThreadList } from "./data";
import { useDeleted } from "./deleted";

interface Props {
  place: Place;
  threads: Polled<ThreadList>;
  query: ListQuery;
  onQuery: (query: ListQuery) => void;
  /** Number of questions that wait for a person. */
  waiting: number;
}

/** The list of threads, with the ways to a new one, to the inbox and to the usage. */
export function Sidebar({ place, threads, query, onQuery, waiting }: Props) {
  useTitles();
  const deleted = useDeleted();
  const list = threads.data;
  const shown = list?.threads.filter(({ thread_id }) => !deleted.has(thread_id));
  const now = useNow(10_000);
  const open = place.view === "thread" ? place.thread : undefined;
  const isFiltered = query.words.trim() !== "" || query.status !== undefined;
  return (
    <nav className="sidebar" aria-label="Threads">
      <header>
        <a className="brand" href={link({ view: "threads" })}>
          Weftwork
        </a>
        <ThemeChoice />
      </header>
      <div className="ways">
        <a className="primary" href={link({ view: "new" })} aria-current={place.view === "new" ? "page" : undefined}>
          New chat
        </a>
        <a href={link({ view: "inbox", tab: "open" })} aria-current={place.view === "inbox" ? "page" : undefined}>
          Inbox {waiting > 0 && <span className="count">{waiting}</span>}
        </a>
        <a href={link({ view: "usage" })} aria-current={place.view === "usage" ? "page" : undefined}>
          Usage
        </a>
      </div>
      <Filter query={query} onQuery={onQuery} />
      {!list && <Absent of="threads" polled={threads} />}
      {list && threads.error && <Stale polled={threads} />}
      {threads.isOfBefore && <Searching isRefused={threads.error !== undefined} />}
      {shown?.length === 0 && !threads.isOfBefore && <p className="none">{isFiltered ? "No thread fits." : "No threads yet."}</p>}
      <ul className="threads">
        {shown?.map((thread) => (
          <li key={thread.thread_id}>
            <Row thread={thread} words={list?.words.get(thread.thread_id) ?? ""} now={now} isOpen={thread.thread_id === open} />
          </li>
        ))}
        {list?.hasMore && (
          <li>
            <button className="quiet more" onClick={() => onQuery({ ...query, limit: query.limit + PAGE })}>
              Show more
            </button>
          </li>
        )}
      </ul>
    </nav>
  );
}

/** Says that the list is not yet the one that was asked for. */
function Searching({ isRefused }: { isRefused: boolean }) {
  const { isLost } = useConnection();
  if (isLost) return <p className="none" role="status">Not connected: the threads are searched when the server is there.</p>;
  return isRefused ? null : <p className="none">Searching…</p>;
}

/** Says that the list may be old. A connection that is lost is reported for the whole page. */
function Stale({ polled: { error, refresh } }: { polled: Polled<ThreadList> }) {
  const { isLost } = useConnection();
  if (isLost) return null;
  return (
    <div className="problem" role="alert">
      This list may be old: it cannot be read again. {error?.message} <button onClick={refresh}>Try again</button>
    </div>
  );
}

/** Pause in typing after which threads are searched. */
const TYPING_MS = 250;

/** The words and the status of the threads that are listed. The server finds them among all threads. */
function Filter({ query, onQuery }: Pick<Props, "query" | "onQuery">) {
  const [words, setWords] = useState(query.words);
  // A search begins when nothing was typed for a moment.
  useEffect(() => {
    if (words === query.words) return;
    const timer = window.setTimeout(() => onQuery({ ...query, words, limit: PAGE }), TYPING_MS);
    return () => window.clearTimeout(timer);
  }, [words, query, onQuery]);
  const choose = (status: string) => onQuery({ words, status: (status || undefined) as Status | undefined, limit: PAGE });
  return (
    <div className="filter">
      <input
        type="search"
        id="search"
        aria-label="Search threads"
        placeholder="Search"
        value={words}
        onChange={(event) => setWords(event.target.value)}
      />
      <select aria-label="Status" value={query.status ?? ""} onChange={(event) => choose(event.target.value)}>
        <option value="">All</option>
        {FILTERS.map((status) => (
          <option key={status} value={status}>
            {STATUS[status]}
          </option>
        ))}
      </select>
    </div>
  );
}

function Row({ thread, words, now, isOpen }: { thread: Thread; words: string; now: number; isOpen: boolean }) {
  const status = statusOf(thread);
  return (
    <a href={link({ view: "thread", thread: thread.thread_id })} aria-current={isOpen ? "page" : undefined}>
      <span className="title">{titleOf(thread)}</span>
      <time dateTime={thread.updated_at} title={clock(thread.updated_at)}>{age(thread.updated_at, now)}</time>
      <span className="words">{words}</span>
      <span className="facts">
        <span className="status" data-status={status}>
          {STATUS[status]}
        </span>
        <span className="agent">{agentOf(thread) ?? "no agent"}</span>
      </span>
    </a>
  );
}
