// Answers that were replaced. What they called was called, and what they cost was paid.
import { useAuiState } from "@assistant-ui/react";
import { createContext, useContext, useMemo } from "react";
import type { StoredMessage } from "../api/types";
import { sumOf, type ThreadUsage } from "../usage/data";
import { costOf } from "../usage/words";

interface Replaced {
  /** The messages of the thread that were replaced. */
  replaced: StoredMessage[];
  /** The messages before those of the runtime. */
  earlier: StoredMessage[];
}

export const ReplacedContext = createContext<Replaced>({ replaced: [], earlier: [] });

/** Returns the messages in whose place the current one stands. Those without a successor that is known here are of the last one. */
export function useReplaced(isEarlier: boolean): StoredMessage[] {
  const { replaced, earlier } = useContext(ReplacedContext);
  const id = useAuiState((state) => state.message.id);
  const isLast = useAuiState((state) => state.message.isLast);
  // An answer that was followed here has another id than the stored one, and the same run.
  const run = useAuiState((state) => state.message.metadata.custom["runId"]);
  const ids = useAuiState((state) => state.thread.messages.flatMap((message) => [message.id, String(message.metadata.custom["runId"])]).join(" "));
  return useMemo(() => {
    const shown = new Set([...ids.split(" "), ...earlier.map((message) => message.id)]);
    return replaced.filter(({ metadata }) => {
      const by = metadata?.replacedBy ?? "";
      return by === id || by === run || (!isEarlier && isLast && !shown.has(by));
    });
  }, [replaced, earlier, isEarlier, id, run, isLast, ids]);
}

/** Returns the number of answers, their calls and their cost in words. */
export function wordsOfAttempts(answers: StoredMessage[], usage: ThreadUsage): string {
  const calls = answers.flatMap(({ parts }) => parts.filter(isCall)).length;
  const runs = answers.flatMap(({ metadata }) => metadata?.runId ?? []);
  const sum = sumOf(runs.map((run) => usage.ofAnswer(run, new Set())));
  const facts = [
    answers.length === 1 ? "1 earlier attempt" : `${answers.length} earlier attempts`,
    calls > 0 && (calls === 1 ? "1 call" : `${calls} calls`),
    sum.attempts > 0 && costOf(sum),
  ];
  return facts.filter(Boolean).join(" · ");
}

/** Returns `true` for a call of a tool; questions to people are calls too. */
function isCall({ type }: { type: string }): boolean {
  return type.startsWith("tool-") && type !== "tool-ask_human" && type !== "tool-request_approval";
}
