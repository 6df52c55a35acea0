import type { ToolCallMessagePartProps } from "@assistant-ui/react";
import type { Call, Json, JsonObject } from "../api/types";
import { useAsker, useCallState } from "../tools/state";
import { approvalOf, questionOf, wordsOf } from "./answer";
import { Ask } from "./ask";

/** A question in the place of its call. Its answer continues the message. */
export function QuestionPart(part: ToolCallMessagePartProps) {
  const { status, result } = useCallState(part);
  const member = useAsker(part.toolCallId);
  const call: Call = { id: part.toolCallId, name: part.toolName, args: part.args as JsonObject };
  if (status === "waiting") {
    return <Ask call={call} member={member} onAnswer={async (answer) => part.addResult(answer)} />;
  }
  if (status === "running" && part.status.type === "running") return null;
  return <Answered call={call} answer={result} />;
}

/** A question that was answered. The decision about a call is in the card of the call. */
function Answered({ call, answer }: { call: Call; answer: Json | undefined }) {
  if (approvalOf(call)) return null;
  return (
    <p className="answered" data-call={call.id}>
      <span>{questionOf(call).text}</span>
      <strong>{answer === undefined ? "Not answered" : wordsOf(call, answer)}</strong>
    </p>
  );
}
