import { useEffect, useRef, useState, type FormEvent } from "react";
import { json } from "../api/http";
import type { Json, JsonObject, Schema, Waiting } from "../api/types";
import { parse, stringify } from "../shared/digits";
import { focusFirst, onEscape } from "../shared/focus";
import { isObject, JsonView } from "../shared/json";
import { Rows } from "../shared/rows";
import { usePolled } from "../shared/polled";
import { age, clock, useNow } from "../shared/time";
import type { Answer } from "./answer";
import { useBegun } from "./begun";
import { Fields, valueOfForm, withoutDefaults } from "./fields";
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
  const [mode, setMode] = useBegun<Mode>("mode", "choose");
  const { name, args, idempotencyKey } = unknown;
  const opened = useRef<Mode>(undefined);
  const back = () => {
    opened.current = mode;
    setMode("choose");
  };
  return (
    <>
      <h2>
        Did the call of <code>{name}</code> happen?
      </h2>
      <p className="why">
        The call was begun, and was cut off, or its server stopped, before it had a result. Look at the other side before you decide.
      </p>
      <JsonView value={isObject(args) ? args : { input: args }} label="Called with" />
      <Origin interrupt={interrupt} idempotencyKey={idempotencyKey} />
      {mode === "choose" && (
        <div className="actions">
          <button autoFocus={opened.current === "happened"} onClick={() => setMode("happened")}>
            It happened
          </button>
          <button autoFocus={opened.current === "again"} onClick={() => setMode("again")}>
            Call it again
          </button>
          <button onClick={() => onAnswer({ answer: "give_up" })}>Give up</button>
        </div>
      )}
      {mode === "happened" && <Happened schema={unknown.result} onAnswer={onAnswer} onBack={back} />}
      {mode === "again" && <Again name={name} onAnswer={onAnswer} onBack={back} />}
    </>
  );
}

/** The time of a call, for whom it was made, and its key. */
function Origin({ interrupt, idempotencyKey }: { interrupt: string; idempotencyKey: string }) {
  const read = async (signal: AbortSignal) => {
    const found = await json<Waiting[]>("GET /interrupts", { query: { limit: 1000 }, signal });
    return found.find(({ interrupt_id }) => interrupt_id === interrupt) ?? null;
  };
  const { data } = usePolled(`origin ${interrupt}`, read, 60_000);
  const now = useNow(10_000);
  const began = data && (
    <time dateTime={data.run_created_at}>
      {clock(data.run_created_at)} ({age(data.run_created_at, now)})
    </time>
  );
  return (
    <Rows
      label="The call"
      rows={[
        ["Called by", data && (data.graph ?? data.agent ?? "a program")],
        ["For", data?.run_by],
        ["In the run of", began],
        ["Idempotency key", <code>{idempotencyKey}</code>],
      ]}
    />
  );
}

interface ModeProps {
  onAnswer: (answer: Answer) => void;
  onBack: () => void;
}

/** The result that the call had: a form from the schema of the tool, or JSON. */
function Happened({ schema: declared, onAnswer, onBack }: ModeProps & { schema: Schema | undefined }) {
  // What happened is said by the person, in each of its parts.
  const schema = withoutDefaults(declared);
  const hasForm = schema?.properties !== undefined;
  const [isJson, setIsJson] = useState(!hasForm);
  const [value, setValue] = useBegun<JsonObject>("value", {});
  const place = useRef<HTMLFormElement>(null);
  useEffect(() => focusFirst(place.current), []);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const given = isJson ? valueOfText(String(new FormData(form).get("result"))) : valueOfForm(form, schema, {});
    onAnswer({ answer: "happened", value: given });
  };
  return (
    <form ref={place} onSubmit={submit} onKeyDown={onEscape(onBack)} onChange={(event) => !isJson && setValue(valueOfForm(event.currentTarget, schema, {}))}>
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
      <div className="actions" onKeyDown={onEscape(onBack)}>
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
