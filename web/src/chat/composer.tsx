import { useAuiState } from "@assistant-ui/react";
import { useState } from "react";
import { answerOfText } from "../question/answer";
import type { JsonObject } from "../api/types";
import { HUMAN_CALLS, type AssistantRuntime } from "./assistant";
import { TextInput } from "./input";
import { take, unsentTexts } from "./texts";

/** The input. While a question waits, a text answers it, and the message that asked continues. */
export function Composer({ runtime, thread }: { runtime: AssistantRuntime; thread: string }) {
  // A text that did not arrive is in the input again.
  const [unsent] = useState(() => take(unsentTexts, thread));
  const isRunning = useAuiState((state) => state.thread.isRunning);
  const waiting = useAuiState((state) => {
    const last = state.thread.messages.at(-1);
    if (last?.status?.type !== "requires-action") return undefined;
    const open = last.content.filter(
      (part) => part.type === "tool-call" && part.result === undefined && HUMAN_CALLS.includes(part.toolName),
    );
    // One text cannot answer several questions.
    return open.length === 1 ? open[0] : undefined;
  });
  const call = waiting?.type === "tool-call" ? waiting : undefined;
  const send = (text: string) => {
    if (isRunning) return false;
    if (call === undefined) {
      unsentTexts.set(thread, text);
      runtime.thread.append(text);
      return true;
    }
    const answer = answerOfText({ id: call.toolCallId, name: call.toolName, args: call.args as JsonObject }, text);
    const last = runtime.thread.getState().messages.length - 1;
    runtime.thread.getMessageByIndex(last).getMessagePartByToolCallId(call.toolCallId).addToolResult(answer);
    return true;
  };
  const isApproval = call?.toolName === "request_approval";
  const placeholder = isApproval ? "Waits for your decision: “yes”, “no”, or what to do instead" : "Waits for your answer";
  return (
    <TextInput
      label={call ? "Your reply" : "Your message"}
      placeholder={call ? placeholder : isRunning ? "The agent is working…" : "Write a message"}
      initial={unsent}
      onText={send}
      onStop={isRunning ? () => runtime.thread.cancelRun() : undefined}
      focus
    />
  );
}
