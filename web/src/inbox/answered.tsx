import type { Answered as Row } from "../api/types";
import { wordsOf } from "../question/answer";
import { link } from "../shared/route";
import { age, useNow } from "../shared/time";
import { useAnswered } from "./data";
import { askerOf, subjectOf } from "./subject";

/** The questions that people answered last: who, when, and what. */
export function Answered() {
  const { data, error } = useAnswered();
  const now = useNow(10_000);
  if (!data) return <p className="empty">{error?.message ?? "Loading…"}</p>;
  if (data.length === 0) return <p className="empty">Nothing was answered yet.</p>;
  return (
    <ul className="decisions" aria-label="Answered questions">
      {data.map((row) => (
        <li key={row.id}>
          <Decision row={row} now={now} />
        </li>
      ))}
    </ul>
  );
}

function Decision({ row, now }: { row: Row; now: number }) {
  const { call, answer, answered_by, answered_at, thread_id } = row;
  const at = new Date(answered_at);
  return (
    <>
      <a className="title" href={link({ view: "thread", thread: thread_id })}>
        {subjectOf(call)}
      </a>
      <strong>{call ? wordsOf(call, answer) : "Answered"}</strong>
      <p className="facts">
        <span>by {answered_by}</span>
        <time dateTime={answered_at} title={at.toLocaleString()}>
          {age(answered_at, now)}
        </time>
        <span>{askerOf(row)}</span>
      </p>
    </>
  );
}
