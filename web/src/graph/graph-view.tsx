import { useState } from "react";
import { json, request } from "../api/http";
import type { Json, JsonObject, Thread, Waiting } from "../api/types";
import { respond } from "../inbox/data";
import { Ask } from "../question/ask";
import { reasonOf } from "../question/first";
import { useLoaded } from "../run/data";
import { readLog, readRuns } from "../run/log";
import { ValueTree } from "../run/tree";
import { stringify } from "../shared/digits";
import { copyText } from "../shared/copy";
import { toast } from "../shared/toast";
import { InputForm } from "./input-form";
import type { Shape } from "./shape";
import { startOnce } from "./start";

interface Props {
  thread: Thread;
  agent: string;
  shape: Shape;
  onChange: () => void;
}

/** What a thread of a graph has now. */
interface Present {
  values: Json;
  waiting: Waiting[];
  /** Why the last run failed. */
  error: string | undefined;
  run: string | undefined;
}

async function readPresent(thread: string, signal: AbortSignal): Promise<Present> {
  const [state, [row], waiting] = await Promise.all([
    json<{ values?: Json }>("GET /threads/{thread_id}/state", { path: { thread_id: thread }, signal }),
    readRuns(thread, 1, signal),
    json<Waiting[]>("GET /interrupts", { query: { thread_id: thread, limit: 100 }, signal }),
  ]);
  const log = row && (await readLog(thread, row, signal));
  return { values: state.values ?? {}, waiting, error: log?.error?.message, run: row?.run_id };
}

/** A thread of a graph without messages: its output, its questions, and the form of its input. */
export function GraphView({ thread, agent, shape, onChange }: Props) {
  const { thread_id: id, status, updated_at } = thread;
  const [answers, setAnswers] = useState(0);
  const { data, problem } = useLoaded([id, status, updated_at, answers].join(), (signal) => readPresent(id, signal));
  const report = (error: Error) => toast({ text: reasonOf(error) });
  const start = (input: JsonObject) => startOnce({ thread: id, agent, input }).then(onChange, report);
  const stop = () => {
    if (!data?.run) return;
    const path = { thread_id: id, run_id: data.run };
    request("POST /threads/{thread_id}/runs/{run_id}/cancel", { path, body: {} }).then(onChange, report);
  };
  const answered = () => {
    setAnswers(answers + 1);
    onChange();
  };
  return (
    <div className="conversation">
      <div className="viewport" tabIndex={0} role="group" aria-label="Output and questions">
        <div className="graph-view">
          {problem && <p className="problem">{problem}</p>}
          {status === "error" && data?.error && (
            <p className="problem" role="alert">
              {data.error}
            </p>
          )}
          {data?.waiting.map((one) => one.call && <Ask key={one.id} call={one.call} member={one.graph} onAnswer={(answer) => respond([{ waiting: one, answer }]).finally(answered)} />)}
          <Output values={data?.values} isBusy={status === "busy"} />
          <h2>Input</h2>
          <InputForm schema={shape.input} onInput={start} isBusy={status === "busy"} onStop={status === "busy" ? stop : undefined} />
        </div>
      </div>
    </div>
  );
}

function Output({ values, isBusy }: { values: Json | undefined; isBusy: boolean }) {
  if (values === undefined) return <p className="none">Loading…</p>;
  const isEmpty = typeof values === "object" && values !== null && Object.keys(values).length === 0;
  return (
    <>
      <h2>Output</h2>
      {isBusy && (
        <p className="working" role="status">
          Working…
        </p>
      )}
      {isEmpty ? (
        <p className="none">Nothing has run yet.</p>
      ) : (
        <>
          <ValueTree value={values} label="Output" />
          <button className="quiet" onClick={() => copyText(stringify(values, 2))}>
            Copy as JSON
          </button>
        </>
      )}
    </>
  );
}
