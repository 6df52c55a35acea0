import type { Answered as Row } from "../api/types";
import { wordsOf } from "../question/answer";
import { Absent } from "../shared/absent";
import { link } from "../shared/route";
import { age, clock, useNow } from "../shared/time";
import { useAnswered } from "./data";
import { askerOf, subjectOf } from "./subject";

/** The questions that people answered last: who, when, and what. */
export function Answered() {
  const answered = useAnswered();
  const { data } = answered;
  const now = useNow(10_000);
  if (!data) return <Absent of="answers" polled={answered} />;
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
  return (
    <>
      <a className="title" href={link({ view: "thread", thread: thread_id })}>
        {subjectOf(call)}
      </a>
      <strong>{call ? wordsOf(call, answer) : "Answered"}</strong>
      <p className="facts">
        <span>by {answered_by}</span>
        <time dateTime={answered_at} title={clock(answered_at)}>
          {age(answered_at, now)}
        </time>
        <span>{askerOf(row)}</span>
      </p>
    </>
  );
}
