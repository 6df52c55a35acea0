import type { ToolCallMessagePartProps } from "@assistant-ui/react";
import { CallDetails, CallFrame, ToolCard } from "./card";
import { useCallState } from "./state";

/** The tool `lookup_order` of the order desk: the order, and its status beside it. */
export function LookupOrder(call: ToolCallMessagePartProps) {
  const { result } = useCallState(call);
  const order = result as { item?: unknown; status?: unknown } | undefined;
  if (typeof order?.item !== "string" || typeof order.status !== "string") return <ToolCard {...call} />;
  const { order_id } = call.args as { order_id?: unknown };
  return (
    <CallFrame call={call} summary={`${String(order_id)}: ${order.item}, ${order.status}`}>
      <CallDetails call={call} />
    </CallFrame>
  );
}
