import { useEffect, useRef, useState, type FormEvent, type ReactNode } from "react";
import type { JsonObject, Schema } from "../api/types";
import { changedMembers } from "../shared/diff";
import { isNumber } from "../shared/digits";
import { sentenceOfEffect, sentenceOfReason } from "../shared/effect";
import { focusFirst, onEscape } from "../shared/focus";
import { isObject, JsonView, plain } from "../shared/json";
import { Rows } from "../shared/rows";
import { Changes } from "./changes";
import type { Answer, Approval, Decision } from "./answer";
import { useBegun } from "./begun";
import { Fields, valueOfForm } from "./fields";
import { unitOf } from "./units";

const LABELS: Record<Decision, string> = {
  approve: "Approve",
  edit: "Edit",
  reject: "Reject",
  respond: "Answer instead",
};

interface Props {
  approval: Approval;
  onAnswer: (answer: Answer) => void;
}

/** A call that waits for a decision, with exactly the arguments that it will be made with. */
export function ApprovalCard({ approval, onAnswer }: Props) {
  const [mode, setMode] = useBegun<Decision>("mode", "approve");
  const { action, args, effect, reason, binding, allowed } = approval;
  // The button that opened a form has the focus again when the form is left.
  const opened = useRef<Decision>(undefined);
  const back = () => {
    opened.current = mode;
    setMode("approve");
  };
  return (
    <>
      <h2>
        May the agent call <code>{action}</code>?
      </h2>
      {mode !== "edit" && <Arguments args={args} schema={approval.schema} />}
      <Rows
        label="Before you decide"
        rows={[
          ["Why it asks", sentenceOfReason(reason)],
          ["Effect", sentenceOfEffect(effect)],
        ]}
      />
      {mode === "edit" && <Edit approval={approval} onAnswer={onAnswer} onBack={back} />}
      {(mode === "reject" || mode === "respond") && (
        <Comment mode={mode} onBack={back} onText={(message) => onAnswer({ type: mode, message, binding })} />
      )}
      {mode === "approve" && (
        <div className="actions">
          {allowed.map((decision) => (
            <button
              key={decision}
              data-decision={decision}
              autoFocus={decision === opened.current}
              className={decision === "approve" ? "primary" : undefined}
              onClick={() => (decision === "approve" ? onAnswer({ type: "approve", args, binding }) : setMode(decision))}
            >
              {LABELS[decision]}
            </button>
          ))}
        </div>
      )}
    </>
  );
}

/** The arguments of a call, numbers with their units, or with what is declared about them. */
function Arguments({ args, schema }: { args: JsonObject; schema: Schema | undefined }) {
  if (Object.keys(args).length === 0) return <JsonView value={args} label="Arguments" />;
  const rows = Object.entries(args).map(([name, value]): [string, ReactNode] => {
    const declared = schema?.properties?.[name];
    if (isObject(value) || Array.isArray(value)) return [name, <JsonView value={value} label={name} />];
    if (!isNumber(value)) return [name, <span>{plain(value)}</span>];
    return [
      name,
      <>
        <span>{plain(value)}</span> <span>{unitOf(value, declared) ?? declared?.description}</span>
      </>,
    ];
  });
  return <Rows label="Arguments" rows={rows} />;
}

/** A form for the arguments, and what it changes. */
function Edit({ approval, onAnswer, onBack }: Props & { onBack: () => void }) {
  const { args, schema, binding } = approval;
  const [edited, setEdited] = useBegun<JsonObject>("args", args);
  const [initial] = useState(edited);
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => focusFirst(form.current), []);
  const changes = changedMembers(args, edited);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onAnswer({ type: "edit", args: edited, binding });
  };
  return (
    <form
      ref={form}
      onSubmit={submit}
      onKeyDown={onEscape(onBack)}
      onChange={(event) => setEdited(valueOfForm(event.currentTarget, schema, args))}
    >
      <Fields schema={schema} value={initial} />
      <Changes changes={changes} />
      <div className="actions">
        <button className="primary" disabled={changes.length === 0}>
          Approve with changes
        </button>
        <button type="button" onClick={onBack}>
          Back
        </button>
      </div>
    </form>
  );
}

interface CommentProps {
  mode: "reject" | "respond";
  onText: (text: string) => void;
  onBack: () => void;
}

/** The reason of a rejection, or the text that the agent gets in place of the result. */
export function Comment({ mode, onText, onBack }: CommentProps) {
  const [text, setText] = useBegun(`text of ${mode}`, "");
  const [isBegun] = useState(text !== "");
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    onText(text.trim());
  };
  const label = mode === "reject" ? "Reason, which the agent reads (may be empty)" : "What the agent reads in place of the result";
  return (
    <form onSubmit={submit} onKeyDown={onEscape(onBack)}>
      <label>
        {label}
        <textarea
          name="text"
          rows={2}
          value={text}
          onChange={(event) => setText(event.target.value)}
          autoFocus={!isBegun}
          required={mode === "respond"}
        />
      </label>
      <div className="actions">
        <button className={mode === "reject" ? "danger" : "primary"}>{LABELS[mode]}</button>
        <button type="button" onClick={onBack}>
          Back
        </button>
      </div>
    </form>
  );
}
