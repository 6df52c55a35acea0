import { useState, type CSSProperties } from "react";
import type { Thread } from "../api/types";
import { useWidth, WidthHandle } from "../run/width";
import { Absent } from "../shared/absent";
import { conversationOf, timeOf, useRecords, type Kind, type Made } from "./data";
import { MadeVersion } from "./version";

const NAMES: Record<Kind, string> = { deliverable: "Deliverables", plan: "Plans" };

/** The plans and deliverables of a conversation. The chosen one has its versions, of which one is shown. */
export function RecordsPanel({ thread }: { thread: Thread }) {
  const conversation = conversationOf(thread);
  const polled = useRecords(conversation);
  const size = useWidth();
  const [chosen, setChosen] = useState<string>();
  const records = polled.data;
  // The newest one, until a person chooses.
  const shown = records?.find(({ id }) => id === (chosen ?? records[0]?.id));
  return (
    <aside className="run records" aria-label="Deliverables" style={{ "--details": `${size.width}px` } as CSSProperties}>
      <WidthHandle {...size} />
      {records === undefined && <Absent of="deliverables" polled={polled} />}
      {records?.length === 0 && <p className="none">Nothing has been made in this conversation. Choose “Build” or “Plan” beside the input, and say what to make.</p>}
      {(["deliverable", "plan"] as const).map((kind) => {
        const all = records?.filter((one) => one.kind === kind) ?? [];
        if (all.length === 0) return null;
        return (
          <section key={kind} aria-label={NAMES[kind]}>
            <h2>{NAMES[kind]}</h2>
            <ul className="checkpoints" aria-label={NAMES[kind]}>
              {all.map((made) => (
                <li key={made.id}>
                  <button aria-expanded={made === shown} onClick={() => setChosen(made.id)}>
                    <span>
                      {titleOf(made)} <span className="due">{wordsOf(made)}</span>
                    </span>
                  </button>
                  {made === shown && <MadeVersion key={made.id} conversation={conversation} made={made} onChange={polled.refresh} />}
                </li>
              ))}
            </ul>
          </section>
        );
      })}
    </aside>
  );
}

/** Returns the title of the current version. */
export function titleOf({ versions, current }: Made): string {
  return versions.find(({ number }) => number === current)?.title || "Untitled";
}

function wordsOf({ versions, current }: Made): string {
  const newest = versions.at(-1);
  const count = versions.length === 1 ? "1 version" : `${versions.length} versions`;
  return [count, `${current} is current`, newest && timeOf(newest)].filter(Boolean).join(" · ");
}
