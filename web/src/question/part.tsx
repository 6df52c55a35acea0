import type { ToolCallMessagePartProps } from "@assistant-ui/react";
import type { Call, Json, JsonObject } from "../api/types";
import { useCallState } from "../tools/state";
import { approvalOf, wordsOf } from "./answer";
import { Ask } from "./ask";

/** A question in the place of its call. Its answer continues the message. */
export function QuestionPart(part: ToolCallMessagePartProps) {
  const { status, result } = useCallState(part);
  const call: Call = { id: part.toolCallId, name: part.toolName, args: part.args as JsonObject };
  if (status === "waiting") {
    return <Ask call={call} onAnswer={async (answer) => part.addResult(answer)} />;
  }
  if (status === "running" && part.status.type === "running") return null;
  return <Answered call={call} answer={result} />;
}

/** A question that was answered. */
function Answered({ call, answer }: { call: Call; answer: Json | undefined }) {
  const approval = approvalOf(call);
  const asked = approval ? approval.action : String(call.args.question ?? "");
  return (
    <p className="answered" data-call={call.id}>
      <span>{approval ? <code>{asked}</code> : asked}</span>
      <strong>{answer === undefined ? "Not answered" : wordsOf(call, answer)}</strong>
    </p>
  );
}
