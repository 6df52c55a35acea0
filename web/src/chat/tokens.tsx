import { useAuiState } from "@assistant-ui/react";
import { useMemo } from "react";
import type { StoredMessage } from "../api/types";

interface Usage {
  inputTokens: number;
  outputTokens: number;
}

interface Counted {
  metadata: { steps?: readonly object[]; custom: Record<string, unknown> };
}

/** Returns the tokens of a message, as far as they are reported: of what was stored, and of what came since. */
export function tokensOf({ metadata }: Counted): number {
  const live = (metadata.steps ?? []).map((step) => ("usage" in step ? (step.usage as Usage | undefined) : undefined));
  const stored = metadata.custom["usage"] as Usage | undefined;
  return [stored, ...live].reduce((all, usage) => all + sum(usage), 0);
}

function sum(usage: Usage | undefined): number {
  return usage ? usage.inputTokens + usage.outputTokens : 0;
}

/** The tokens of all messages of a thread. */
export function ThreadTokens({ earlier }: { earlier: StoredMessage[] }) {
  const before = useMemo(() => earlier.reduce((all, { metadata }) => all + sum(metadata?.usage), 0), [earlier]);
  const tokens = before + useAuiState((state) => state.thread.messages.reduce((all, message) => all + tokensOf(message), 0));
  if (tokens === 0) return null;
  return <p className="tokens sum">{tokens.toLocaleString("en")} tokens in this thread</p>;
}
