import { useAuiState } from "@assistant-ui/react";
import { useState, type ReactNode } from "react";
import type { Call, JsonObject } from "../api/types";
import { answerOfText } from "../question/answer";
import { unknownOf } from "../question/unknown";
import { openCallsOf, type AssistantRuntime } from "./assistant";
import { useActions } from "./context";
import type { Said } from "./files";
import { TextInput } from "./input";
import { drafts, unsentFiles } from "./texts";

interface Props {
  runtime: AssistantRuntime;
  thread: string;
  /** Says something. Rejects if the server does not take it. */
  onSay: (said: Said) => Promise<void>;
  onRefused: (error: Error) => void;
  /** What stands above the input. */
  children?: ReactNode;
}

/** The input. While a question waits, a text answers it, and the message that asked continues. */
export function Composer({ runtime, thread, onSay, onRefused, children }: Props) {
  const { answer } = useActions();
  const [draft] = useState(() => drafts.get(thread));
  const [files] = useState(() => unsentFiles.get(thread));
  const isRunning = useAuiState((state) => state.thread.isRunning);
  const waiting = useAuiState((state) => {
    const last = state.thread.messages.at(-1);
    const open = last ? openCallsOf(last) : [];
    // One text cannot answer several questions.
    return open.length === 1 ? open[0] : undefined;
  });
  const questions = useAuiState((state) => {
    const last = state.thread.messages.at(-1);
    return last ? openCallsOf(last).length : 0;
  });
  const hasSeveral = questions > 1;
  const call: Call | undefined = waiting && { id: waiting.toolCallId, name: waiting.toolName, args: waiting.args as JsonObject };
  const isUnknown = call !== undefined && unknownOf(call) !== undefined;
  const send = async (said: Said) => {
    try {
      if (isRunning) throw new Error("Not sent: the agent still works on its answer. Send it when that has ended, or stop it.");
      if (hasSeveral) throw new Error(`Not sent: ${questions} questions wait. Answer each of them above, on its card.`);
      if (isUnknown) throw new Error("Not sent: say above what happened to the call. The agent goes on after that.");
      if (call && said.images.length > 0) throw new Error("Not sent: an image is no answer to the question. Remove it, or answer first.");
      await (call ? answer(call, answerOfText(call, said.text)) : onSay(said));
      return true;
    } catch (error) {
      onRefused(error as Error);
      return false;
    }
  };
  const isApproval = call?.name === "request_approval";
  const asked = isUnknown ? "Say above what happened to the call" : isApproval ? "Waits for your decision: “yes”, “no”, or what to do instead" : "Waits for your answer";
  return (
    <TextInput
      label={call ? "Your reply" : "Your message"}
      placeholder={hasSeveral ? `Answer the ${questions} questions above, each on its card` : call ? asked : isRunning ? "The agent is working…" : "Write a message"}
      initial={draft}
      initialFiles={files}
      onSaid={send}
      onDraft={(text, files) => {
        drafts.set(thread, text);
        unsentFiles.set(thread, files);
      }}
      onStop={isRunning ? () => runtime.thread.cancelRun() : undefined}
      focus
    >
      {children}
    </TextInput>
  );
}
