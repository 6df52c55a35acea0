import type { ToolCallMessagePartProps } from "@assistant-ui/react";
import { HttpError } from "../api/http";
import type { Call, Json, JsonObject } from "../api/types";
import { useActions } from "../chat/context";
import { useAsker, useCallState } from "../tools/state";
import { approvalOf, questionOf, wordsOf, type Answer } from "./answer";
import { Ask } from "./ask";
import { unknownOf } from "./unknown";

/** A question in the place of its call. Its answer continues the message. */
export function QuestionPart(part: ToolCallMessagePartProps) {
  const { status, result } = useCallState(part);
  const member = useAsker(part.toolCallId);
  const { answer, refuse } = useActions();
  const call: Call = { id: part.toolCallId, name: part.toolName, args: part.args as JsonObject };
  const send = async (given: Answer) => {
    try {
      await answer(call, given);
    } catch (error) {
      // Somebody else was first.
      if (error instanceof HttpError && error.status === 409) refuse(error, call);
      throw error;
    }
  };
  if (status === "waiting") {
    return <Ask call={call} member={member} onAnswer={send} />;
  }
  if (status === "running" && part.status.type === "running") return null;
  return <Answered call={call} answer={result} />;
}

/** A question that was answered. The decision about a call is in the card of the call. */
function Answered({ call, answer }: { call: Call; answer: Json | undefined }) {
  if (approvalOf(call)) return null;
  const unknown = unknownOf(call);
  const text = unknown ? `Did the call of ${unknown.name} happen?` : questionOf(call).text;
  return (
    <p className="answered" data-call={call.id}>
      <span>{text}</span>
      <strong>{answer === undefined ? "Not answered" : wordsOf(call, answer)}</strong>
    </p>
  );
}
