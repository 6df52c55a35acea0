import { useState, type FormEvent } from "react";
import type { JsonObject } from "../api/types";
import { changedMembers } from "../shared/diff";
import { sentenceOfEffect, sentenceOfReason } from "../shared/effect";
import { JsonView } from "../shared/json";
import { Changes } from "./changes";
import type { Answer, Approval, Decision } from "./answer";
import { useBegun } from "./begun";
import { Fields, valueOfForm } from "./fields";

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
  const back = () => setMode("approve");
  return (
    <>
      <h2>
        May the agent call <code>{action}</code>?
      </h2>
      <p className="why">
        {[sentenceOfReason(reason), sentenceOfEffect(effect)].filter(Boolean).join(" ")}
      </p>
      {mode !== "edit" && <JsonView value={args} label="Arguments" />}
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

/** A form for the arguments, and what it changes. */
function Edit({ approval, onAnswer, onBack }: Props & { onBack: () => void }) {
  const { args, schema, binding } = approval;
  const [edited, setEdited] = useBegun<JsonObject>("args", args);
  const [initial] = useState(edited);
  const changes = changedMembers(args, edited);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onAnswer({ type: "edit", args: edited, binding });
  };
  return (
    <form onSubmit={submit} onChange={(event) => setEdited(valueOfForm(event.currentTarget, schema, args))}>
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
    <form onSubmit={submit}>
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
