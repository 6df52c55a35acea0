import type { Answered, Call, Waiting } from "../api/types";
import { approvalOf, type Approval } from "../question/answer";
import { unknownOf } from "../question/unknown";
import { lineOf } from "../question/units";
import { plain } from "../shared/json";

/** Returns one line for a question: the exact action, or the text. */
export function subjectOf(call: Call | null): string {
  if (call === null) return "Waits";
  const { question } = call.args;
  const unknown = unknownOf(call);
  if (unknown) return `Did ${unknown.name} happen? ${lineOf(unknown.args)}`;
  const approval = approvalOf(call);
  if (approval === undefined) return plain(question ?? call.name);
  return `${approval.action} ${lineOf(approval.args, approval.schema)}`;
}

/** Returns the name of the tool that a question is about; `question` for one that no call is behind. */
export function toolOf({ call }: Pick<Waiting, "call">): string {
  const tool = call && (approvalOf(call)?.action ?? unknownOf(call)?.name);
  return tool ?? "question";
}

/** Effects of calls that wait, in a few words. */
const EFFECTS: Record<string, string> = {
  read_only: "only reads",
  state_change: "changes data here",
  external_side_effect: "cannot be undone",
};

/** Returns the effect of the call that a question is about in a few words: `it moves money, cannot be undone`. */
export function effectOf({ call }: Pick<Waiting, "call">): string {
  const approval = call && approvalOf(call);
  return [approval?.reason, EFFECTS[approval?.effect ?? ""]].filter(Boolean).join(", ");
}

/** Returns the names of the agent and of its member that asks. */
export function askerOf({ agent, graph }: Pick<Waiting | Answered, "agent" | "graph">): string {
  const name = agent ?? "unknown agent";
  return graph === null ? name : `${name} › ${graph}`;
}

export interface Alike {
  waiting: Waiting;
  approval: Approval;
}

/** Returns the approvals of questions that are alike: calls of one tool. `undefined` for others. */
export function alikeOf(chosen: Waiting[]): Alike[] | undefined {
  const found = chosen.flatMap((waiting) => {
    const approval = waiting.call && approvalOf(waiting.call);
    return approval ? [{ waiting, approval }] : [];
  });
  const action = found[0]?.approval.action;
  const areAlike = found.length === chosen.length && found.every(({ approval }) => approval.action === action);
  return areAlike ? found : undefined;
}
