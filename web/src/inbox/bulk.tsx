import { useState } from "react";
import type { Waiting } from "../api/types";
import type { Answer } from "../question/answer";
import { Comment } from "../question/approval";
import { Sending } from "../question/ask";
import { reasonOf } from "../question/first";
import { unitOf } from "../question/units";
import { plain } from "../shared/json";
import { alikeOf, type Alike } from "./subject";
import { respond, type Given } from "./data";

interface Props {
  chosen: Waiting[];
  /** Ids of the questions that are open. */
  open: ReadonlySet<string>;
  onAnswered: () => void;
  onClear: () => void;
}

/** A single decision about several calls of one tool, with the exact arguments of each. */
export function Bulk({ chosen, open, onAnswered, onClear }: Props) {
  const [isSent, setIsSent] = useState(false);
  const [problems, setProblems] = useState<string[]>([]);
  // Decisions that were taken from here, in words.
  const [decided, setDecided] = useState<ReadonlyMap<string, string>>(new Map());
  const alike = alikeOf(chosen);
  const undecided = alike?.filter(({ waiting }) => open.has(waiting.id) && !decided.has(waiting.id)) ?? [];
  const [isRejected, setIsRejected] = useState(false);
  /** Approves the calls, or rejects them for a reason. */
  const decide = async (reason?: string) => {
    setIsSent(true);
    // A thread takes the answers to its questions at once.
    const given = new Map<string, Given[]>();
    for (const { waiting, approval } of undecided) {
      const { args, binding } = approval;
      const answer: Answer = reason === undefined ? { type: "approve", args, binding } : { type: "reject", message: reason, binding };
      given.set(waiting.thread_id, [...(given.get(waiting.thread_id) ?? []), { waiting, answer }]);
    }
    const threads = [...given.values()];
    const ended = await Promise.allSettled(threads.map(respond));
    const failed = ended.flatMap((end) => (end.status === "rejected" ? [reasonOf(end.reason as Error)] : []));
    const taken = threads.flatMap((of, at) => (ended[at]?.status === "fulfilled" ? of : []));
    setDecided((before) => new Map([...before, ...taken.map(({ waiting }) => [waiting.id, reason === undefined ? "Approved" : "Rejected"] as const)]));
    setProblems(failed);
    setIsSent(false);
    if (failed.length === 0) onClear();
    onAnswered();
  };
  return (
    <section className="ask" aria-label="Several calls">
      {alike ? <Calls alike={alike} open={open} decided={decided} /> : <p>The selected questions are of different kinds. Answer them one by one.</p>}
      {isSent && <Sending />}
      {problems.length > 0 && (
        <p role="alert" className="problem">
          {problems.join("; ")}
        </p>
      )}
      {isRejected && alike ? (
        <fieldset disabled={isSent}>
          <Comment mode="reject" onText={decide} onBack={() => setIsRejected(false)} />
        </fieldset>
      ) : (
        <div className="actions">
          {undecided.length > 0 && (
            <>
              <button className="primary" data-decision="approve" disabled={isSent} onClick={() => decide()}>
                Approve {callsIn(undecided.length)}
              </button>
              <button className="danger" data-decision="reject" disabled={isSent} onClick={() => setIsRejected(true)}>
                Reject {callsIn(undecided.length)}
              </button>
            </>
          )}
          <button onClick={onClear}>Clear the selection</button>
        </div>
      )}
    </section>
  );
}

/** Returns the unit that an argument has in all calls. */
function unitIn(alike: Alike[], name: string): string | undefined {
  const units = new Set(alike.map(({ approval: { args, schema } }) => unitOf(args[name] ?? null, schema?.properties?.[name])));
  return units.size === 1 ? [...units][0] : undefined;
}

function callsIn(count: number): string {
  return count === 1 ? "1 call" : `${count} calls`;
}

interface CallsProps {
  alike: Alike[];
  open: ReadonlySet<string>;
  decided: ReadonlyMap<string, string>;
}

function Calls({ alike, open, decided }: CallsProps) {
  const stateOf = (id: string) => decided.get(id) ?? (open.has(id) ? "" : "Decided already");
  const count = alike.filter(({ waiting }) => stateOf(waiting.id) === "").length;
  const hasGone = count < alike.length;
  const names = [...new Set(alike.flatMap(({ approval }) => Object.keys(approval.args)))];
  return (
    <>
      <h2>
        {count > 0 ? `May the agent make ${callsIn(count)} of ` : `${callsIn(alike.length)} that nobody has to decide about: `}
        <code>{alike[0]?.approval.action}</code>
        {count > 0 && "?"}
      </h2>
      <div className="scroll" tabIndex={0} role="group" aria-label="Arguments">
        <table>
          <thead>
            <tr>
              {names.map((name) => (
                <th key={name} scope="col">
                  {[name, unitIn(alike, name)].filter(Boolean).join(", ")}
                </th>
              ))}
              {hasGone && <th scope="col">State</th>}
            </tr>
          </thead>
          <tbody>
            {alike.map(({ waiting, approval }) => (
              <tr key={waiting.id} className={stateOf(waiting.id) === "" ? undefined : "gone"}>
                {names.map((name) => (
                  <td key={name}>{approval.args[name] === undefined ? "" : plain(approval.args[name])}</td>
                ))}
                {hasGone && <td>{stateOf(waiting.id)}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
