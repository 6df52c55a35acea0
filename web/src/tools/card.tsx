import type { ToolCallMessagePartProps } from "@assistant-ui/react";
import type { ReactNode } from "react";
import type { Json, Schema } from "../api/types";
import { unitOf } from "../question/units";
import { nameOfTool } from "../shared/effect";
import { isObject, JsonView, plain } from "../shared/json";
import { lengthOf } from "../shared/time";
import { Result } from "./result";
import { useApproval, useCallState, useDuration, type CallStatus } from "./state";

const WORDS: Record<CallStatus, string> = {
  running: "Running",
  waiting: "Waits",
  done: "Done",
  failed: "Failed",
  refused: "Not called",
  // Nobody knows if it took effect.
  unknown: "May have been made",
  open: "No result",
};

/** The frame of a call: name, status and duration in one line, and what is in it below. */
export function CallFrame({ call, summary, children }: { call: ToolCallMessagePartProps; summary: ReactNode; children: ReactNode }) {
  const { status } = useCallState(call);
  const approval = useApproval(call.toolCallId);
  const ms = useDuration(call.toolCallId);
  return (
    <details className="call" data-call={call.toolCallId} data-status={status} open={status === "failed" || status === "unknown" || undefined}>
      <summary>
        <span className="mark" aria-hidden="true" />
        <code>{nameOfTool(call.toolName)}</code>
        <span className="summary">{summary}</span>
        <span className="state">
          {approval?.words !== undefined && `${approval.words} · `}
          {WORDS[status]}
          {ms !== undefined && <span className="duration"> · {lengthOf(ms)}</span>}
        </span>
      </summary>
      <div className="inside">{children}</div>
    </details>
  );
}

/** The arguments with which a call is made, and its result. */
export function CallDetails({ call }: { call: ToolCallMessagePartProps }) {
  const { result } = useCallState(call);
  const approval = useApproval(call.toolCallId);
  return (
    <>
      <h2>Arguments</h2>
      <JsonView value={approval?.args ?? (call.args as unknown as Json)} label="Arguments" />
      {result !== undefined && (
        <>
          <h2>Result</h2>
          <Result value={result} />
        </>
      )}
    </>
  );
}

/** Returns arguments in one line: `order_id A1002 · amount 40`. */
function line(args: Json, schema: Schema | undefined): string {
  if (!isObject(args)) return plain(args);
  return Object.entries(args)
    .map(([name, value]) => [name, plain(value), unitOf(value, schema?.properties?.[name])].filter(Boolean).join(" "))
    .join(" · ");
}

/** The card of a tool without one of its own: arguments and result as they are. */
export function ToolCard(call: ToolCallMessagePartProps) {
  const approval = useApproval(call.toolCallId);
  // The question has the call with all its arguments.
  if (approval?.isOpen) return null;
  const args = approval?.args ?? (call.args as unknown as Json);
  return (
    <CallFrame call={call} summary={line(args, approval?.schema)}>
      <CallDetails call={call} />
    </CallFrame>
  );
}
