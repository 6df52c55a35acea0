import { useState, type FormEvent } from "react";
import type { Json } from "../api/types";
import { reasonOf } from "../question/first";
import { parse } from "../shared/digits";
import { addEdited, valueOf, type Place, type Version } from "./data";
import { textOf } from "./version";

interface Props {
  place: Place;
  format: Version["format"];
  content: Json;
  /** Ends with the number of the version that was added; without one if nothing was saved. */
  onEnd: (added?: number) => void;
}

/** The form of a content that is edited: it becomes a further version. */
export function EditVersion({ place, format, content, onEnd }: Props) {
  const [problem, setProblem] = useState<string>();
  const [isSending, setIsSending] = useState(false);
  const value = valueOf(format, content);
  // JSON is stored in the form that it had, as its text or as its value.
  const read = (text: string): Json => {
    const edited = format === "json" ? (parse(text) as Json) : text;
    return typeof content === "string" ? text : edited;
  };
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const text = String(new FormData(event.currentTarget).get("content"));
    setProblem(undefined);
    let edited: Json;
    try {
      edited = read(text);
    } catch (error) {
      return setProblem(`This is no JSON: ${(error as Error).message}.`);
    }
    setIsSending(true);
    try {
      onEnd(await addEdited(place, edited));
    } catch (error) {
      setProblem(reasonOf(error as Error));
    } finally {
      setIsSending(false);
    }
  };
  return (
    <form className="edit-version" onSubmit={submit}>
      <label className="field">
        Content of the next version
        <textarea name="content" rows={14} className="code" defaultValue={textOf(value)} autoFocus />
      </label>
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      <div className="actions">
        <button className="primary" disabled={isSending}>
          Save as a version
        </button>
        <button type="button" onClick={() => onEnd()}>
          Cancel
        </button>
      </div>
    </form>
  );
}
