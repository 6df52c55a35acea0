import { useEffect, useRef, useState } from "react";
import { useConnection } from "../api/connection";
import type { Call, Json } from "../api/types";
import { span, useNow } from "../shared/time";
import { approvalOf, questionOf, type Answer } from "./answer";
import { ApprovalCard } from "./approval";
import { begunOf, forgetBegun, keepBegun, QuestionContext } from "./begun";
import { reasonOf } from "./first";
import { QuestionCard } from "./question";
import { lineOf } from "./units";
import { unknownOf } from "./unknown";
import { UnknownCard } from "./unknown-card";

interface Props {
  call: Call;
  /** Name of the member of a team that asks. */
  member: string | null;
  /** Sends an answer. Rejects if the server does not take it: then the question stays as it is. */
  onAnswer: (answer: Answer) => Promise<void>;
}

/** A question or an approval that waits, with the ways to answer it. */
export function Ask({ call, member, onAnswer }: Props) {
  const [state, setState] = useState<{ sent?: boolean; problem?: string }>({});
  const approval = approvalOf(call);
  const unknown = unknownOf(call);
  const id = String(call.args.interruptId ?? call.id);
  const card = useRef<HTMLElement>(null);
  useEffect(() => restoreFocus(card.current, begunOf(id, FOCUS)), [id]);
  const send = (answer: Answer) => {
    setState({ sent: true });
    onAnswer(answer).then(
      () => forgetBegun(id),
      (error: Error) => setState({ problem: reasonOf(error, call) }),
    );
  };
  const name = approval ? `Approval of ${approval.action}: ${lineOf(approval.args, approval.schema)}` : unknown ? `Unknown outcome of ${unknown.name}` : "Question";
  return (
    <section
      ref={card}
      className="ask"
      data-call={call.id}
      aria-label={name}
      aria-busy={state.sent}
      // Both are called for what a person does, and not when the card leaves the page.
      onFocus={({ target }) => keepBegun(id, FOCUS, target.getAttribute("name"))}
      onBlur={() => keepBegun(id, FOCUS, null)}
    >
      {member !== null && <p className="asker">{member} asks</p>}
      <QuestionContext value={id}>
        <fieldset disabled={state.sent}>
          {approval && <ApprovalCard approval={approval} onAnswer={send} />}
          {unknown && <UnknownCard unknown={unknown} interrupt={String(call.args.interruptId)} onAnswer={send} />}
          {!approval && !unknown && <QuestionCard question={questionOf(call)} onAnswer={send} />}
        </fieldset>
      </QuestionContext>
      <Expiry at={call.args.expiresAt} />
      {state.sent && <Sending />}
      {state.problem && (
        <p role="alert" className="problem">
          {state.problem}
        </p>
      )}
    </section>
  );
}

/** Name under which it is stored which field has the focus. */
const FOCUS = "focus";

/** Gives the focus to the field of a card that had it when the card was drawn before. */
function restoreFocus(card: HTMLElement | null, name: unknown): void {
  if (typeof name !== "string") return;
  const field = card?.querySelector<HTMLElement>(`[name="${CSS.escape(name)}"]`);
  field?.focus();
  if (field instanceof HTMLTextAreaElement) field.setSelectionRange(field.value.length, field.value.length);
}

/** The state of something that was sent and has no reply yet. */
export function Sending() {
  const { isLost } = useConnection();
  if (!isLost) return <p role="status">Sending…</p>;
  return (
    <p role="alert" className="problem">
      The server did not answer. It is looked up if this was sent, when the server is there again.
    </p>
  );
}

/** The time that is left for an answer. */
function Expiry({ at }: { at: Json | undefined }) {
  const now = useNow(1000);
  const end = typeof at === "number" ? at : typeof at === "string" ? Date.parse(at) : NaN;
  if (Number.isNaN(end)) return null;
  return <p className="expiry">{end > now ? `Expires in ${span(end - now)}` : "Expired"}</p>;
}
