import { useEffect, useRef } from "react";
import { JsonView } from "../shared/json";
import type { Changed, Effects, Preview } from "./data";

/** The words for what a rollback does to the effects of a step. */
const WORDS: Record<string, string> = {
  reused: "stays, and its result is used again",
  undone: "is undone",
  reversible: "changed nothing that is left",
  irreversible: "cannot be undone",
  unknown: "may have changed something",
};

interface Props {
  preview: Preview;
  isSent: boolean;
  onConfirm: () => void;
  onLeave: () => void;
}

/** What a rollback would do, step by step, before it is confirmed. */
export function RollbackList({ preview: { step, effects, records = [] }, isSent, onConfirm, onLeave }: Props) {
  const first = useRef<HTMLHeadingElement>(null);
  useEffect(() => first.current?.focus(), []);
  return (
    <section className="rollback" aria-label={`Rollback to ${step}`}>
      <h2 ref={first} tabIndex={-1}>
        Roll back to <code>{step}</code>?
      </h2>
      <ul aria-label="Effects">
        {effects.map((one) => (
          <EffectsRow key={one.step} effects={one} />
        ))}
        {records.map((one) => (
          <RecordRow key={one.id} record={one} />
        ))}
      </ul>
      <div className="actions">
        <button className="danger" disabled={isSent} onClick={onConfirm}>
          Roll back
        </button>
        <button disabled={isSent} onClick={onLeave}>
          Leave it
        </button>
      </div>
    </section>
  );
}

function EffectsRow({ effects: { step, agent, status, undo, calls = [] } }: { effects: Effects }) {
  return (
    <li data-effect={status}>
      <p>
        <strong>{step}</strong> {agent} {WORDS[status] ?? status}
        {undo !== undefined && `, by the agent ${undo}`}
      </p>
      {calls.map((call, at) => (
        <div key={at}>
          <code>{call.tool}</code> <span className="state">{call.outcome}</span>
          <JsonView value={call.arguments} label={`Arguments of ${call.tool}`} />
        </div>
      ))}
    </li>
  );
}

function RecordRow({ record: { kind, id, current, former } }: { record: Changed }) {
  const words = former === null ? `stays at version ${current}` : `has version ${former} as the current one again, in place of ${current}`;
  return (
    <li data-effect={former === null ? "irreversible" : "reversible"}>
      <p>
        <strong>{kind}</strong> <code>{id}</code> {words}
      </p>
    </li>
  );
}
