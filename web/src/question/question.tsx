import { useState, type FormEvent } from "react";
import type { JsonObject } from "../api/types";
import type { Answer, Question } from "./answer";
import { useBegun } from "./begun";
import { choicesOf, Fields, valueOfForm } from "./fields";

interface Props {
  question: Question;
  onAnswer: (answer: Answer) => void;
}

/** A question: choices, a form, or a text. */
export function QuestionCard({ question, onAnswer }: Props) {
  const { schema, canDecline } = question;
  const choices = choicesOf(schema);
  const decline = canDecline && (
    <button type="button" onClick={() => onAnswer({ action: "decline" })}>
      Decline
    </button>
  );
  return (
    <>
      <h2>{question.text}</h2>
      {choices ? (
        <div className="actions">
          {choices.map(({ value, label }) => (
            <button key={label} onClick={() => onAnswer({ answer: value })}>
              {label}
            </button>
          ))}
          {decline}
        </div>
      ) : (
        <AnswerForm question={question} onAnswer={onAnswer}>
          {decline}
        </AnswerForm>
      )}
    </>
  );
}

function AnswerForm({ question: { schema }, onAnswer, children }: Props & { children: React.ReactNode }) {
  const hasFields = schema?.properties !== undefined;
  const own = { properties: { answer: { type: "string", ...schema, title: "Your answer" } }, required: ["answer"] };
  const fields = hasFields ? schema : own;
  const [begun, setBegun] = useBegun<JsonObject>("answer", {});
  const [initial] = useState(begun);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    if (hasFields) return onAnswer({ answer: valueOfForm(form, schema, {}) });
    const { answer } = valueOfForm(form, { properties: { answer: schema ?? { type: "string" } }, required: ["answer"] }, {});
    onAnswer({ answer: answer ?? "" });
  };
  return (
    <form onSubmit={submit} onChange={(event) => setBegun(valueOfForm(event.currentTarget, fields, {}))}>
      <Fields schema={fields} value={initial} />
      <div className="actions">
        <button className="primary">Answer</button>
        {children}
      </div>
    </form>
  );
}
