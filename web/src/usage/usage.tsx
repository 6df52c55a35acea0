import { useEffect, useState } from "react";
import { Absent } from "../shared/absent";
import { useKept } from "../shared/polled";
import { link } from "../shared/route";
import { Rows } from "../shared/rows";
import { useDays, ZONE, type DayUsage, type Division, type UsageSum } from "./data";
import { costOf, dollarsOf } from "./words";

/** Periods up to today, in days. */
const PERIODS: [days: number, words: string][] = [
  [7, "7 days"],
  [30, "30 days"],
  [90, "90 days"],
];
const DIVISIONS: Record<Division, string> = { agent: "Agent", model: "Model" };

/** Usage and cost of all model calls, by day in the time zone of the browser. */
export function Usage() {
  const [days, setDays] = useState<number | undefined>(30);
  const [division, setDivision] = useState<Division>();
  const usage = useKept(useDays(days, division));
  const { data } = usage;
  useEffect(() => void (document.title = "Usage · Weftwork"), []);
  return (
    <section className="usage" aria-labelledby="usage-title">
      <header className="head">
        <a className="back" href={link({ view: "threads" })} aria-label="All threads">
          ‹
        </a>
        <div>
          <h1 id="usage-title">Usage</h1>
          <p className="facts">Days of {ZONE}</p>
        </div>
      </header>
      <div className="report">
        <form className="filters" aria-label="Report">
          <label>
            Last
            <select value={days ?? ""} onChange={({ target }) => setDays(target.value === "" ? undefined : Number(target.value))}>
              {PERIODS.map(([days, words]) => (
                <option key={days} value={days}>
                  {words}
                </option>
              ))}
              <option value="">all days</option>
            </select>
          </label>
          <label>
            Divided by
            <select value={division ?? ""} onChange={({ target }) => setDivision((target.value || undefined) as Division | undefined)}>
              <option value="">day only</option>
              {Object.entries(DIVISIONS).map(([name, words]) => (
                <option key={name} value={name}>
                  {words.toLowerCase()}
                </option>
              ))}
            </select>
          </label>
        </form>
        {data && usage.error && (
          <p className="problem" role="alert">
            This may be old: it cannot be read again. {usage.error.message}
          </p>
        )}
        {!data && <Absent of="usage" polled={usage} />}
        {data?.rows.length === 0 && <p className="empty">No model was called in these days.</p>}
        {data && data.rows.length > 0 && (
          <>
            <Rows label="Sum of these days" rows={factsOf(data.total)} />
            <Days rows={data.rows} />
          </>
        )}
      </div>
    </section>
  );
}

function factsOf(sum: UsageSum): [name: string, value: string][] {
  const { attempts, failed, retries, retry_cost_micro_usd, saved, saved_micro_usd, input_tokens, output_tokens } = sum;
  const count = (value: number) => value.toLocaleString("en");
  return [
    ["Cost", costOf(sum)],
    ["Tokens", `${count(input_tokens)} in, ${count(output_tokens)} out`],
    ["Calls", failed > 0 ? `${count(attempts)}, of which ${count(failed)} failed` : count(attempts)],
    ["Retries", retries > 0 ? `${count(retries)} for ${dollarsOf(retry_cost_micro_usd)}` : ""],
    ["Saved", saved > 0 ? `${dollarsOf(saved_micro_usd)} by ${count(saved)} answers without a call` : ""],
  ];
}

/** The days, newest first. */
function Days({ rows }: { rows: DayUsage[] }) {
  // The rows may be those of another division, until the present ones are read.
  const division = (Object.keys(DIVISIONS) as Division[]).find((name) => rows.some((row) => name in row));
  const hasRetries = rows.some(({ retries }) => retries > 0);
  const hasSaved = rows.some(({ saved }) => saved > 0);
  const newest = rows.toSorted((a, b) => b.day.localeCompare(a.day));
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Days">
      <table>
        <thead>
          <tr>
            <th scope="col">Day</th>
            {division && <th scope="col">{DIVISIONS[division]}</th>}
            <th scope="col">Cost</th>
            <th scope="col">Tokens</th>
            {hasRetries && <th scope="col">Retries</th>}
            {hasSaved && <th scope="col">Saved</th>}
          </tr>
        </thead>
        <tbody>
          {newest.map((row) => (
            <tr key={`${row.day} ${division && row[division]}`}>
              <th scope="row">
                <time dateTime={row.day}>{dayOf(row.day)}</time>
              </th>
              {division && <td>{row[division] ?? "outside of runs"}</td>}
              <td>{costOf(row)}</td>
              <td>{(row.input_tokens + row.output_tokens).toLocaleString("en")}</td>
              {hasRetries && <td>{row.retries > 0 && dollarsOf(row.retry_cost_micro_usd)}</td>}
              {hasSaved && <td>{row.saved > 0 && dollarsOf(row.saved_micro_usd)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Returns a day for people: `29 Mar 2026`. */
function dayOf(day: string): string {
  return new Date(`${day}T12:00`).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
}
