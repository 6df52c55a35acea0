import { useState } from "react";
import type { Waiting } from "../api/types";
import { Comment } from "../question/approval";
import { reasonOf } from "../question/first";
import { unitOf } from "../question/units";
import { plain } from "../shared/json";
import { alikeOf, type Alike } from "./subject";
import { respond } from "./data";

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
  const alike = alikeOf(chosen);
  const undecided = alike?.filter(({ waiting }) => open.has(waiting.id)) ?? [];
  const [isRejected, setIsRejected] = useState(false);
  /** Approves the calls, or rejects them for a reason. */
  const decide = async (reason?: string) => {
    setIsSent(true);
    const answers = undecided.map(({ waiting, approval: { args, binding } }) =>
      respond(waiting.id, reason === undefined ? { type: "approve", args, binding } : { type: "reject", message: reason, binding }),
    );
    const ended = await Promise.allSettled(answers);
    const failed = ended.flatMap((end) => (end.status === "rejected" ? [reasonOf(end.reason as Error)] : []));
    setProblems(failed);
    setIsSent(false);
    if (failed.length === 0) onClear();
    onAnswered();
  };
  return (
    <section className="ask" aria-label="Several calls">
      {alike ? <Calls alike={alike} open={open} /> : <p>The selected questions are of different kinds. Answer them one by one.</p>}
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
                Approve {undecided.length} calls
              </button>
              <button className="danger" data-decision="reject" disabled={isSent} onClick={() => setIsRejected(true)}>
                Reject {undecided.length} calls
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

function Calls({ alike, open }: { alike: Alike[]; open: ReadonlySet<string> }) {
  const hasGone = alike.some(({ waiting }) => !open.has(waiting.id));
  const names = [...new Set(alike.flatMap(({ approval }) => Object.keys(approval.args)))];
  return (
    <>
      <h2>
        May the agent make {alike.length} calls of <code>{alike[0]?.approval.action}</code>?
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
              <tr key={waiting.id} className={open.has(waiting.id) ? undefined : "gone"}>
                {names.map((name) => (
                  <td key={name}>{approval.args[name] === undefined ? "" : plain(approval.args[name])}</td>
                ))}
                {hasGone && <td>{open.has(waiting.id) ? "" : "Decided already"}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
