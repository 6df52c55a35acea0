import { useState, type FormEvent } from "react";
import { useConnection } from "../api/connection";
import type { Json, JsonObject, Schema } from "../api/types";
import { Sending } from "../question/ask";
import { Fields, valueOfForm } from "../question/fields";
import { parse, stringify } from "../shared/digits";
import { isObject } from "../shared/json";

interface Props {
  schema: Schema;
  /** Takes an input; the form waits for the end of it. */
  onInput: (input: JsonObject) => Promise<void>;
  isBusy?: boolean;
  onStop?: () => void;
}

/** The input of a graph: a form from its schema, or the same as JSON. */
export function InputForm({ schema, onInput, isBusy = false, onStop }: Props) {
  const [input, setInput] = useState<JsonObject>({});
  const [isJson, setIsJson] = useState(false);
  const [problem, setProblem] = useState<string>();
  const [isSending, setIsSending] = useState(false);
  const { isLost } = useConnection();
  const read = (form: HTMLFormElement): JsonObject | undefined => {
    if (!isJson) return valueOfForm(form, schema, {});
    try {
      const value = parse(String(new FormData(form).get("json"))) as Json;
      if (isObject(value)) return value;
      setProblem("The input is an object, such as {\"name\": \"value\"}.");
    } catch (error) {
      setProblem(`This is no JSON: ${(error as Error).message}.`);
    }
    return undefined;
  };
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    setProblem(undefined);
    const value = read(event.currentTarget);
    if (isSending || value === undefined || !event.currentTarget.checkValidity()) return;
    setInput(value);
    setIsSending(true);
    void onInput(value).finally(() => setIsSending(false));
  };
  const turn = (form: HTMLFormElement | null) => {
    const value = form && read(form);
    if (!value) return;
    setProblem(undefined);
    setInput(value);
    setIsJson(!isJson);
  };
  return (
    <form className="graph-input" aria-label="Input" onSubmit={submit}>
      {isJson ? (
        <label className="field">
          Input as JSON
          <textarea key="json" name="json" rows={8} className="code" defaultValue={stringify(input, 2)} />
        </label>
      ) : (
        <Fields schema={schema} value={input} />
      )}
      {problem && (
        <p role="alert" className="problem">
          {problem}
        </p>
      )}
      <div className="actions">
        {onStop ? (
          <button type="button" onClick={onStop}>
            Stop
          </button>
        ) : (
          <button className="primary" disabled={isBusy || isSending}>
            Run
          </button>
        )}
        <button type="button" aria-pressed={isJson} onClick={(event) => turn(event.currentTarget.form)}>
          JSON
        </button>
      </div>
      {isSending && isLost && <Sending />}
    </form>
  );
}
