//! Reads the accounts of answers: token counts and costs, as providers report them.
//!
//! An answer was paid for, so no account is a reason to refuse it. A member of another type, or
//! under a name that is not known here, counts as missing.

use serde_json::Value;
use weftwork_types::usage::Tokens;

/// Names of the count of input tokens, at any server.
const INPUT: [&str; 9] = [
    "/prompt_tokens",
    "/input_tokens",
    "/promptTokens",
    "/inputTokens",
    "/promptTokenCount",
    "/prompt_token_count",
    "/prompt_eval_count",
    "/prompt_n",
    "/tokens/input_tokens",
];
/// Names of the count of output tokens, at any server.
const OUTPUT: [&str; 9] = [
    "/completion_tokens",
    "/output_tokens",
    "/completionTokens",
    "/outputTokens",
    "/candidatesTokenCount",
    "/candidates_token_count",
    "/eval_count",
    "/predicted_n",
    "/tokens/output_tokens",
];
/// Largest count that a server may report as a number with a fraction or as a text.
const COUNT_MAX: f64 = 9_007_199_254_740_992.0;

/// The account of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account<'a>(pub(super) &'a Value);

impl Account<'_> {
    /// Returns the first count that one of these JSON pointers leads to.
    pub(super) fn count(self, paths: &[&str]) -> Option<u64> {
        paths.iter().find_map(|path| {
            let value = self.0.pointer(path)?;
            value.as_u64().or_else(|| {
                let number = number(value)?;
                let is_count = (0.0..=COUNT_MAX).contains(&number) && number.fract() == 0.0;
                is_count.then_some(number as u64)
            })
        })
    }

    /// Returns the count of input tokens.
    pub(super) fn input(self) -> Option<u64> {
        self.count(&INPUT)
    }

    /// Returns the count of output tokens.
    pub(super) fn output(self) -> Option<u64> {
        self.count(&OUTPUT)
    }

    /// Returns the counts of input and output; `None` if neither is known. A count that is missing
    /// beside another one is the rest of the total, or zero.
    pub(super) fn tokens(self) -> Option<Tokens> {
        let total = self.count(&["/total_tokens", "/totalTokens", "/totalTokenCount"]);
        let rest = |known: u64| total.map_or(0, |total| total.saturating_sub(known));
        match (self.input(), self.output()) {
            (None, None) => None,
            (Some(input), None) => Some(Tokens::reported(input, rest(input))),
            (None, Some(output)) => Some(Tokens::reported(rest(output), output)),
            (Some(input), Some(output)) => Some(Tokens::reported(input, output)),
        }
    }

    /// Returns the provider's own cost in millionths of a US dollar, rounded up. A gateway with a
    /// key of the caller's own reports what the provider behind it asks for.
    pub(super) fn cost_micro_usd(self) -> Option<u64> {
        let paths = [
            "/cost/total_cost",
            "/cost_details/upstream_inference_cost",
            "/cost",
            "/estimated_cost",
        ];
        self.cost_at(&paths).or_else(|| self.cost_of_ticks())
    }

    /// Returns the cost of a whole document, as Vercel's gateway reports it.
    pub(super) fn gateway_cost_micro_usd(self) -> Option<u64> {
        self.cost_at(&[
            "/provider_metadata/gateway/cost",
            "/providerMetadata/gateway/cost",
            "/choices/0/delta/provider_metadata/gateway/cost",
            "/choices/0/message/provider_metadata/gateway/cost",
            "/choices/0/provider_metadata/gateway/cost",
        ])
    }

    /// Returns xAI's cost, which has the unit of 1/10,000,000,000 of a US dollar.
    fn cost_of_ticks(self) -> Option<u64> {
        Some(self.count(&["/cost_in_usd_ticks"])?.div_ceil(10_000))
    }

    fn cost_at(self, paths: &[&str]) -> Option<u64> {
        let costs = paths.iter().filter_map(|path| number(self.0.pointer(path)?));
        let mut costs = costs.filter(|cost| cost.is_finite() && *cost >= 0.0);
        let first = costs.next()?;
        // Zero beside another cost is not the whole.
        let cost = if first > 0.0 { first } else { costs.next().unwrap_or(first) };
        // What decimals lose in binary is not a further millionth.
        Some((cost * 1_000_000.0 - 1e-6).ceil().max(0.0) as u64)
    }
}

/// Returns the cost that a text states in US dollars, as LiteLLM's proxy does in a header, in millionths
/// of a US dollar. Zero at the head of a stream is no cost.
pub(super) fn cost_of_header(text: &str) -> Option<u64> {
    let account = serde_json::json!({ "cost": text });
    Account(&account).cost_micro_usd().filter(|cost| *cost > 0)
}

/// Returns a number, which some servers send as a text.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_are_found_under_the_names_of_all_servers() {
        for (account, expected) in [
            (json!({"prompt_tokens": 11, "completion_tokens": 7}), Some((11, 7))),
            (json!({"input_tokens": 11, "output_tokens": 7}), Some((11, 7))),
            (json!({"inputTokens": 11, "outputTokens": 7, "totalTokens": 18}), Some((11, 7))),
            (json!({"prompt_eval_count": 11, "eval_count": 7}), Some((11, 7))),
            (json!({"prompt_tokens": "11", "completion_tokens": 7.0}), Some((11, 7))),
            (json!({"prompt_tokens": 11, "input_tokens": 11, "total_tokens": 18}), Some((11, 7))),
            (json!({"completion_tokens": 7, "total_tokens": 18}), Some((11, 7))),
            (json!({"prompt_tokens": 11}), Some((11, 0))),
            (json!({"prompt_tokens": -1, "completion_tokens": 1e300}), None),
            (json!({"billed_units": 11}), None),
            (json!("18 tokens"), None),
            (json!([11, 7]), None),
            (json!(null), None),
        ] {
            let expected = expected.map(|(input, output)| Tokens::reported(input, output));
            assert_eq!(Account(&account).tokens(), expected, "{account}");
        }
        for (account, expected) in [
            (json!({"cost": 0.000_012}), Some(12)),
            (json!({"cost": "0.000012"}), Some(12)),
            (json!({"cost": {"total": 1}}), None),
            (json!({"cost_in_usd_ticks": 37_756_000}), Some(3776)),
            (json!({"estimated_cost": 0.000_42}), Some(420)),
            (json!({"cost": -1}), None),
        ] {
            assert_eq!(Account(&account).cost_micro_usd(), expected, "{account}");
        }
    }
}
