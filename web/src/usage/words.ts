import type { UsageSum } from "./data";

/** Returns a cost in dollars, with two digits that say something: `$1.25`, `$0.00045`. */
export function dollarsOf(microUsd: number): string {
  const usd = microUsd / 1e6;
  const digits = usd < 0.095 ? { maximumSignificantDigits: 2 } : {};
  return usd.toLocaleString("en", { style: "currency", currency: "USD", ...digits });
}

/** Returns the cost of usage in words; one that is not known is never 0. */
export function costOf({ cost_micro_usd: cost, unpriced }: UsageSum): string {
  if (cost === null) return "Price unknown";
  return unpriced > 0 ? `${dollarsOf(cost)} + ${unpriced} unpriced` : dollarsOf(cost);
}

/** Returns the tokens of usage in words. */
export function tokensOf({ input_tokens, output_tokens }: UsageSum): string {
  return `${(input_tokens + output_tokens).toLocaleString("en")} tokens`;
}

/** Returns what explains a cost, beside the tokens. */
export function reasonsOf({ estimated, unpriced, retries, retry_cost_micro_usd, saved, saved_micro_usd }: UsageSum): string[] {
  return [
    estimated > 0 ? `tokens of ${callsOf(estimated)} estimated` : "",
    unpriced > 0 ? `${callsOf(unpriced)} of models whose price is not known` : "",
    retries > 0 ? `${retries === 1 ? "1 retry" : `${retries} retries`} for ${dollarsOf(retry_cost_micro_usd)}` : "",
    saved > 0 ? `${saved === 1 ? "1 answer" : `${saved} answers`} without a call, which saved ${dollarsOf(saved_micro_usd)}` : "",
  ].filter(Boolean);
}

function callsOf(count: number): string {
  return count === 1 ? "1 call" : `${count.toLocaleString("en")} calls`;
}
