import { useAuiState } from "@assistant-ui/react";
import { useMemo } from "react";
import type { StoredMessage, Usage } from "../api/types";

interface Counted {
  metadata: { steps?: readonly object[]; custom: Record<string, unknown> };
}

/** Tokens, and their cost in millionths of a US dollar; `undefined` if a price is unknown. */
interface Sum {
  tokens: number;
  cost: number | undefined;
}

const NOTHING: Sum = { tokens: 0, cost: 0 };

function plus(all: Sum, usage: Usage | undefined): Sum {
  if (!usage) return all;
  const { inputTokens, outputTokens, costMicroUsd } = usage;
  const cost = all.cost === undefined || costMicroUsd === undefined ? undefined : all.cost + costMicroUsd;
  return { tokens: all.tokens + inputTokens + outputTokens, cost };
}

/** Adds the usage of a message, as far as it is reported: of what was stored, and of what came since. */
function plusMessage(all: Sum, { metadata }: Counted): Sum {
  const live = (metadata.steps ?? []).map((step) => ("usage" in step ? (step.usage as Usage | undefined) : undefined));
  return [metadata.custom["usage"] as Usage | undefined, ...live].reduce(plus, all);
}

/** Returns a cost in dollars, with two digits that say something: `$1.25`, `$0.00045`. */
export function dollarsOf(microUsd: number): string {
  const usd = microUsd / 1e6;
  const digits = usd < 0.095 ? { maximumSignificantDigits: 2 } : {};
  return usd.toLocaleString("en", { style: "currency", currency: "USD", ...digits });
}

/** The usage of all messages of a thread, also of those that were replaced: the cost where prices are known, and the tokens on demand. `stored` has the messages that the runtime does not have. */
export function ThreadTokens({ stored }: { stored: StoredMessage[] }) {
  const before = useMemo(() => stored.reduce((all, { metadata }) => plus(all, metadata?.usage), NOTHING), [stored]);
  // A text, because a selected value that is made anew draws again and again.
  const counted = useAuiState((state) => JSON.stringify(state.thread.messages.reduce<Sum>(plusMessage, before)));
  const { tokens, cost } = JSON.parse(counted) as Partial<Sum> & { tokens: number };
  if (tokens === 0) return null;
  return (
    <details className="tokens sum">
      <summary>{cost ? `${dollarsOf(cost)} so far` : "Usage"}</summary>
      <p>
        {tokens.toLocaleString("en")} tokens in this thread{cost === undefined ? ", at prices that are not known" : ""}
      </p>
    </details>
  );
}
