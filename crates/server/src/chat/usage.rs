//! Usage of the model calls of a message.

use serde_json::{Value, json};
use std::ops::Add;
use weftwork_types::usage::{Tokens, UsageFact};

/// Tokens of model calls, and their cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CallUsage {
    tokens: Tokens,
    /// Cost in millionths of a US dollar; `None` if the price of a call is unknown.
    cost_micro_usd: Option<u64>,
}

impl CallUsage {
    /// Returns the usage as clients read it, without a cost that is unknown.
    pub(crate) fn shown(self) -> Value {
        let Self { tokens, cost_micro_usd } = self;
        let mut shown = json!({"inputTokens": tokens.input, "outputTokens": tokens.output});
        if let Some(cost) = cost_micro_usd {
            shown["costMicroUsd"] = json!(cost);
        }
        shown
    }

    /// Returns the usage as [`shown`](Self::shown), with the sum of the tokens.
    pub(crate) fn with_total(self) -> Value {
        let mut shown = self.shown();
        shown["totalTokens"] = json!(self.tokens.total());
        shown
    }
}

impl Default for CallUsage {
    fn default() -> Self {
        Self { tokens: Tokens::default(), cost_micro_usd: Some(0) }
    }
}

impl From<&UsageFact> for CallUsage {
    fn from(fact: &UsageFact) -> Self {
        // An attempt without tokens costs nothing, whatever the price.
        let free = (fact.tokens.total() == 0).then_some(0);
        Self { tokens: fact.tokens, cost_micro_usd: fact.cost_micro_usd.or(free) }
    }
}

impl Add for CallUsage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let costs = self.cost_micro_usd.zip(other.cost_micro_usd);
        Self {
            tokens: self.tokens + other.tokens,
            cost_micro_usd: costs.map(|(one, two)| one.saturating_add(two)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_has_a_cost_only_if_all_prices_are_known() {
        let usage = |input, cost_micro_usd| {
            let tokens = Tokens::reported(input, 1);
            CallUsage { tokens, cost_micro_usd }
        };
        let known = CallUsage::default() + usage(3, Some(40)) + usage(2, Some(2));
        assert_eq!(
            known.with_total(),
            json!({"inputTokens": 5, "outputTokens": 2, "costMicroUsd": 42, "totalTokens": 7})
        );
        let unknown = known + usage(1, None) + usage(1, Some(1));
        assert_eq!(unknown.shown(), json!({"inputTokens": 7, "outputTokens": 4}));
    }
}
