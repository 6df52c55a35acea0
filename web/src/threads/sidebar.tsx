import { useMemo, useState } from "react";
import type { Thread } from "../api/types";
import type { Polled } from "../shared/polled";
import { link, type Place } from "../shared/route";
import { ThemeChoice } from "../shared/theme";
import { age, useNow } from "../shared/time";
import { agentOf, lastWordsOf, STATUS, statusOf, titleOf } from "./data";

interface Props {
  place: Place;
  threads: Polled<Thread[]>;
  /** Number of questions that wait for a person. */
  waiting: number;
}

/** The list of threads, with the ways to a new one and to the inbox. */
export function Sidebar({ place, threads, waiting }: Props) {
  const [words, setWords] = useState("");
  const shown = useMemo(() => matching(threads.data ?? [], words), [threads.data, words]);
  const now = useNow(10_000);
  const open = place.view === "thread" ? place.thread : undefined;
  return (
    <nav className="sidebar" aria-label="Threads">
      <header>
        <a className="brand" href={link({ view: "threads" })}>
          Weftwork
        </a>
        <ThemeChoice />
      </header>
      <div className="ways">
        <a className="primary" href={link({ view: "threads" })} aria-current={place.view === "threads" ? "page" : undefined}>
          New chat
        </a>
        <a href={link({ view: "inbox" })} aria-current={place.view === "inbox" ? "page" : undefined}>
          Inbox{waiting > 0 && <span className="count">{waiting}</span>}
        </a>
      </div>
      <input
        type="search"
        aria-label="Search threads"
        placeholder="Search threads"
        value={words}
        onChange={(event) => setWords(event.target.value)}
      />
      {threads.error && !threads.data && <p className="problem">{threads.error.message}</p>}
      {threads.data && shown.length === 0 && (
        <p className="none">{words === "" ? "No threads yet." : "No thread has these words."}</p>
      )}
      <ul className="threads">
        {shown.map((thread) => (
          <li key={thread.thread_id}>
            <Row thread={thread} now={now} isOpen={thread.thread_id === open} />
          </li>
        ))}
      </ul>
    </nav>
  );
}

function Row({ thread, now, isOpen }: { thread: Thread; now: number; isOpen: boolean }) {
  const status = statusOf(thread);
  return (
    <a href={link({ view: "thread", thread: thread.thread_id })} aria-current={isOpen ? "page" : undefined}>
      <span className="title">{titleOf(thread)}</span>
      <time dateTime={thread.updated_at}>{age(thread.updated_at, now)}</time>
      <span className="words">{lastWordsOf(thread)}</span>
      <span className="facts">
        <span className="status" data-status={status}>
          {STATUS[status]}
        </span>
        <span className="agent">{agentOf(thread) ?? "no agent"}</span>
      </span>
    </a>
  );
}

/** Returns the threads that have all words in their title, agent, status or messages. */
function matching(threads: Thread[], words: string): Thread[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return threads;
  return threads.filter((thread) => {
    const text = [titleOf(thread), agentOf(thread), STATUS[statusOf(thread)], lastWordsOf(thread)].join(" ").toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}
