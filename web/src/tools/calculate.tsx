import type { ToolCallMessagePartProps } from "@assistant-ui/react";
import { CallDetails, CallFrame, ToolCard } from "./card";
import { useCallState } from "./state";

/** The built-in tool `calculate`: the expression and its value in one line. */
export function Calculate(call: ToolCallMessagePartProps) {
  const { status, result } = useCallState(call);
  const { expression } = call.args as { expression?: unknown };
  const value = (result as { value?: unknown } | undefined)?.value;
  if (typeof expression !== "string") return <ToolCard {...call} />;
  return (
    <CallFrame call={call} summary={status === "done" ? `${expression} = ${String(value)}` : expression}>
      <CallDetails call={call} />
    </CallFrame>
  );
}
