import { useAuiState } from "@assistant-ui/react";
import { useContext } from "react";
import { UsageContext, type UsageSum } from "../usage/data";
import { costOf, reasonsOf, tokensOf } from "../usage/words";

/** Returns `true` if nothing was asked of a model. */
function isNothing({ attempts, saved }: UsageSum): boolean {
  return attempts + saved === 0;
}

/** The cost of all answers of a thread, also of those that were replaced, and their tokens on demand. */
export function ThreadCost() {
  const { total } = useContext(UsageContext);
  if (isNothing(total)) return null;
  return (
    <details className="tokens sum">
      <summary>{total.cost_micro_usd === null ? costOf(total) : `${costOf(total)} so far`}</summary>
      <p>{[`${tokensOf(total)} in this thread`, ...reasonsOf(total)].join(" · ")}</p>
    </details>
  );
}

/** The cost of the current answer, and its tokens on demand. */
export function AnswerCost() {
  const usage = useContext(UsageContext);
  const run = useAuiState((state) => state.message.metadata.custom["runId"] as string | undefined);
  const shown = useAuiState((state) => state.thread.messages.map((message) => String(message.metadata.custom["runId"])).join(" "));
  if (run === undefined) return null;
  const sum = usage.ofAnswer(run, new Set(shown.split(" ")));
  if (isNothing(sum)) return null;
  return (
    <details className="tokens">
      <summary>{costOf(sum)}</summary>
      <p>{[tokensOf(sum), ...reasonsOf(sum)].join(" · ")}</p>
    </details>
  );
}
