import { useState, type FormEvent } from "react";
import { json } from "../api/http";
import type { Json, JsonObject, Schema, Waiting } from "../api/types";
import { parse, stringify } from "../shared/digits";
import { isObject, JsonView } from "../shared/json";
import { usePolled } from "../shared/polled";
import { age, useNow } from "../shared/time";
import type { Answer } from "./answer";
import { Fields, valueOfForm } from "./fields";
import type { UnknownOutcome } from "./unknown";

interface Props {
  unknown: UnknownOutcome;
  /** Id of the question. */
  interrupt: string;
  onAnswer: (answer: Answer) => void;
}

type Mode = "choose" | "happened" | "again";

/** A call that was begun and has no result: a person says what happened. */
export function UnknownCard({ unknown, interrupt, onAnswer }: Props) {
  const [mode, setMode] = useState<Mode>("choose");
  const { name, args, idempotencyKey } = unknown;
  const back = () => setMode("choose");
  return (
    <>
      <h2>
        Did the call of <code>{name}</code> happen?
      </h2>
      <p className="why">
        The call was begun, and was cut off, or its server stopped, before it had a result. Look at the other side before you decide.
      </p>
      <JsonView value={isObject(args) ? args : { input: args }} label="Called with" />
      <Origin interrupt={interrupt} />
      <p className="why">
        Idempotency key: <code>{idempotencyKey}</code>
      </p>
      {mode === "choose" && (
        <div className="actions">
          <button onClick={() => setMode("happened")}>It happened</button>
          <button onClick={() => setMode("again")}>Call it again</button>
          <button onClick={() => onAnswer({ answer: "give_up" })}>Give up</button>
        </div>
      )}
      {mode === "happened" && <Happened schema={unknown.result} onAnswer={onAnswer} onBack={back} />}
      {mode === "again" && <Again name={name} onAnswer={onAnswer} onBack={back} />}
    </>
  );
}

/** The time of a call, and for whom it was made. */
function Origin({ interrupt }: { interrupt: string }) {
  const read = async (signal: AbortSignal) => {
    const found = await json<Waiting[]>("GET /interrupts", { query: { limit: 1000 }, signal });
    return found.find(({ interrupt_id }) => interrupt_id === interrupt) ?? null;
  };
  const { data } = usePolled(`origin ${interrupt}`, read, 60_000);
  const now = useNow(10_000);
  if (!data) return null;
  const { agent, graph, run_by, run_created_at } = data;
  const at = new Date(run_created_at);
  return (
    <p className="why">
      Called by {graph ?? agent ?? "a program"}, for {run_by}, in the run that began{" "}
      <time dateTime={run_created_at} title={at.toLocaleString()}>
        {at.toLocaleTimeString()} ({age(run_created_at, now)})
      </time>
      .
    </p>
  );
}

interface ModeProps {
  onAnswer: (answer: Answer) => void;
  onBack: () => void;
}

/** The result that the call had: a form from the schema of the tool, or JSON. */
function Happened({ schema, onAnswer, onBack }: ModeProps & { schema: Schema | undefined }) {
  const hasForm = schema?.properties !== undefined;
  const [isJson, setIsJson] = useState(!hasForm);
  const [value, setValue] = useState<JsonObject>({});
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const given = isJson ? valueOfText(String(new FormData(form).get("result"))) : valueOfForm(form, schema, {});
    onAnswer({ answer: "happened", value: given });
  };
  return (
    <form onSubmit={submit} onChange={(event) => !isJson && setValue(valueOfForm(event.currentTarget, schema, {}))}>
      {isJson ? (
        <label className="field">
          <span>Its result, as JSON or text</span>
          <textarea name="result" rows={4} required autoFocus defaultValue={hasForm ? stringify(value, 2) : ""} />
        </label>
      ) : (
        <Fields schema={schema} value={value} />
      )}
      <div className="actions">
        <button className="primary">It happened, with this result</button>
        {hasForm && (
          <button type="button" onClick={() => setIsJson(!isJson)}>
            {isJson ? "Use the form" : "Write JSON"}
          </button>
        )}
        <button type="button" onClick={onBack}>
          Back
        </button>
      </div>
    </form>
  );
}

/** Returns the JSON of a text, or the text. */
function valueOfText(text: string): Json {
  try {
    return parse(text) as Json;
  } catch {
    return text;
  }
}

/** Asks for a confirmation: only tools that are not idempotent lead to this question. */
function Again({ name, onAnswer, onBack }: ModeProps & { name: string }) {
  return (
    <>
      <p className="warning" role="alert">
        If the first call took effect, <code>{name}</code> takes effect twice, unless the other side knows the idempotency key.
      </p>
      <div className="actions">
        <button className="danger" autoFocus onClick={() => onAnswer({ answer: "call_again" })}>
          Call it again, even if it happens twice
        </button>
        <button type="button" onClick={onBack}>
          Back
        </button>
      </div>
    </>
  );
}
