//! Usage facts: tokens, cost and status of each attempt of a model call.

use crate::canonical::Hash;
use crate::event::AiEvent;
use crate::{InvocationId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// Usage of one attempt of a model call. Failed attempts are recorded too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsageFact {
    /// Id of the attempt, unique.
    pub invocation_id: InvocationId,
    /// Number of the attempt within its call, from 1; 0 for an answer of the response cache or of the
    /// journal, which used nothing.
    pub attempt: u32,
    /// Provider, such as `openai` or `local`.
    pub provider: String,
    /// Model name on the wire.
    pub model: String,
    /// Result of the attempt.
    pub status: UsageStatus,
    /// Error code of a failed attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// Token counts.
    pub tokens: Tokens,
    /// Cost in millionths of a US dollar, if known: that of the provider, or else that of the price
    /// table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// Cost that the provider stated, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_cost_micro_usd: Option<u64>,
    /// Cost by the price table, if the provider stated a cost and the price is known; see
    /// [`price_micro_usd`](Self::price_micro_usd).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared_micro_usd: Option<u64>,
    /// Cost of the answer that this call got without an attempt, from the response cache or the
    /// journal, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_micro_usd: Option<u64>,
    /// Call id assigned by the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_call_id: Option<String>,
    /// Hash of model, messages, temperature, `top_p`, `stop`, `seed`, maximum tokens and tools.
    pub prompt_hash: Hash,
    /// Start of the attempt.
    pub started_at: Timestamp,
    /// Duration in milliseconds.
    pub latency_ms: u64,
    /// Time from the start to the first part of the answer, in milliseconds, if one came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<u64>,
}

impl UsageFact {
    /// Returns the cost by the price table, whatever the provider stated; `None` if the price is
    /// unknown.
    #[must_use]
    pub fn price_micro_usd(&self) -> Option<u64> {
        match self.provider_cost_micro_usd {
            Some(_) => self.compared_micro_usd,
            None => self.cost_micro_usd,
        }
    }

    /// Returns `true` if the attempt used something that is paid for.
    #[must_use]
    pub fn is_paid(&self) -> bool {
        self.tokens.total() > 0 || self.cost_micro_usd.is_some_and(|cost| cost > 0)
    }
}

/// The result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UsageStatus {
    /// A complete answer arrived.
    Ok,
    /// The attempt failed.
    Error,
    /// The attempt was cancelled by this program.
    Cancelled,
}

/// Token counts of one or more attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tokens {
    /// Input tokens, those read from a cache included.
    pub input: u64,
    /// Output tokens, those spent on reasoning included.
    pub output: u64,
    /// `true` if the counts were estimated locally because the provider reported none.
    #[serde(default)]
    pub estimated: bool,
    /// The part of `input` that the provider read from its cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached: u64,
    /// The part of `input` that the provider wrote to its cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_written: u64,
    /// The part of `output` that the model spent on reasoning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning: u64,
}

impl Tokens {
    /// Creates counts that a provider reported.
    #[must_use]
    pub const fn reported(input: u64, output: u64) -> Self {
        Self { input, output, estimated: false, cached: 0, cache_written: 0, reasoning: 0 }
    }

    /// Creates counts that were estimated.
    #[must_use]
    pub const fn estimated(input: u64, output: u64) -> Self {
        Self { estimated: true, ..Self::reported(input, output) }
    }

    /// Sets the part of the input that was read from a cache, at most all of it.
    #[must_use]
    pub fn cached(mut self, cached: u64) -> Self {
        self.cached = cached.min(self.input);
        self
    }

    /// Sets the part of the input that was written to a cache, at most what was not read from it.
    #[must_use]
    pub fn cache_written(mut self, written: u64) -> Self {
        self.cache_written = written.min(self.input.saturating_sub(self.cached));
        self
    }

    /// Sets the part of the output that was spent on reasoning, at most all of it.
    #[must_use]
    pub fn reasoning(mut self, reasoning: u64) -> Self {
        self.reasoning = reasoning.min(self.output);
        self
    }

    /// Returns the number of input and output tokens.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl Add for Tokens {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            estimated: self.estimated || other.estimated,
            cached: self.cached.saturating_add(other.cached),
            cache_written: self.cache_written.saturating_add(other.cache_written),
            reasoning: self.reasoning.saturating_add(other.reasoning),
        }
    }
}

/// Amounts that a budget counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// Attempts of model calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub model_calls: u64,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tool_calls: u64,
    /// Tokens of the model calls.
    #[serde(default)]
    pub tokens: Tokens,
    /// Cost of the model calls in millionths of a US dollar, without those whose price is unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost_micro_usd: u64,
    /// Wall time in milliseconds for which runs were executed; 0 where nothing limits it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wall_ms: u64,
}

impl Usage {
    /// Returns the usage of one attempt of a model call.
    #[must_use]
    pub fn model_call(tokens: Tokens) -> Self {
        Self { model_calls: 1, tokens, ..Self::default() }
    }

    /// Returns the usage with a cost in millionths of a US dollar.
    #[must_use]
    pub fn costing(self, cost_micro_usd: Option<u64>) -> Self {
        Self { cost_micro_usd: cost_micro_usd.unwrap_or_default(), ..self }
    }

    /// Returns the usage of one tool call.
    #[must_use]
    pub fn tool_call() -> Self {
        Self { tool_calls: 1, ..Self::default() }
    }

    /// Returns the difference of each amount, at least zero.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self {
            model_calls: self.model_calls.saturating_sub(other.model_calls),
            tool_calls: self.tool_calls.saturating_sub(other.tool_calls),
            tokens: Tokens {
                input: self.tokens.input.saturating_sub(other.tokens.input),
                output: self.tokens.output.saturating_sub(other.tokens.output),
                estimated: self.tokens.estimated,
                cached: self.tokens.cached.saturating_sub(other.tokens.cached),
                cache_written: self.tokens.cache_written.saturating_sub(other.tokens.cache_written),
                reasoning: self.tokens.reasoning.saturating_sub(other.tokens.reasoning),
            },
            cost_micro_usd: self.cost_micro_usd.saturating_sub(other.cost_micro_usd),
            wall_ms: self.wall_ms.saturating_sub(other.wall_ms),
        }
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            model_calls: self.model_calls.saturating_add(other.model_calls),
            tool_calls: self.tool_calls.saturating_add(other.tool_calls),
            tokens: self.tokens + other.tokens,
            cost_micro_usd: self.cost_micro_usd.saturating_add(other.cost_micro_usd),
            wall_ms: self.wall_ms.saturating_add(other.wall_ms),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl From<&UsageFact> for Usage {
    fn from(fact: &UsageFact) -> Self {
        Self::model_call(fact.tokens).costing(fact.cost_micro_usd)
    }
}

/// Usage of a run, counted from its events. A usage fact that a log has twice counts once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageCount {
    used: Usage,
    facts: BTreeSet<InvocationId>,
    /// Tool calls that were announced and had a recorded result.
    reused: u64,
    /// Time for which the runs were executed, in milliseconds.
    wall_ms: u64,
    /// Time of the event before, of a run that is executed.
    executed: Option<Timestamp>,
}

impl UsageCount {
    /// Counts an event of a stored log, and the time since the one before it, if the run was
    /// executed in between.
    pub fn read_logged(&mut self, at: Timestamp, event: &AiEvent) {
        self.read(event);
        let before = match event {
            // How long a worker that died had worked is not known.
            AiEvent::RunStarted { .. } | AiEvent::TakenOver { .. } => None,
            _ => self.executed,
        };
        if let Some(before) = before {
            self.add_time(at.since(before));
        }
        let is_executed = !matches!(
            event,
            AiEvent::Done { .. } | AiEvent::Released { .. } | AiEvent::Requeued { .. }
        );
        self.executed = is_executed.then_some(at);
    }

    /// Counts an event.
    pub fn read(&mut self, event: &AiEvent) {
        match event {
            AiEvent::UsageReport { fact, .. } => self.add_fact(fact),
            AiEvent::ToolCallStart { charged: true, .. } => self.add_tool_call(),
            AiEvent::CallReused { kind, .. } if kind == "tool" => self.reused += 1,
            _ => {}
        }
    }

    /// Counts a usage fact.
    pub fn add_fact(&mut self, fact: &UsageFact) {
        if self.facts.insert(fact.invocation_id.clone()) {
            self.used += Usage::from(fact);
        }
    }

    /// Counts a tool call.
    pub fn add_tool_call(&mut self) {
        self.used += Usage::tool_call();
    }

    /// Counts time for which a run was executed.
    pub fn add_time(&mut self, passed: Duration) {
        let passed = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        self.wall_ms = self.wall_ms.saturating_add(passed);
    }

    /// Returns the usage so far. Tool calls that took nothing from the budget do not count.
    #[must_use]
    pub fn used(&self) -> Usage {
        Usage { tool_calls: self.used.tool_calls.saturating_sub(self.reused), ..self.used }
    }

    /// Returns the usage so far with the time for which the runs were executed, of those whose
    /// logs were read.
    #[must_use]
    pub fn used_with_time(&self) -> Usage {
        Usage { wall_ms: self.wall_ms, ..self.used() }
    }
}

/// Formats millionths of a US dollar as dollars, without zeros at the end.
///
/// ```
/// assert_eq!(weftwork_types::usage::dollars(1_250_000), "1.25");
/// ```
#[must_use]
pub fn dollars(micro_usd: u64) -> String {
    let text = format!("{}.{:06}", micro_usd / 1_000_000, micro_usd % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_without_parts_are_stored_as_before() {
        let plain = json!({"input": 7, "output": 3, "estimated": false});
        assert_eq!(json!(Tokens::reported(7, 3)), plain);
        let read: Tokens = serde_json::from_value(plain).expect("an old record");
        assert_eq!(read, Tokens::reported(7, 3));
        let parts = Tokens::reported(7, 3).cached(9).reasoning(2);
        assert_eq!((parts.cached, parts.total()), (7, 10), "a part is at most the whole");
        let read: Tokens = serde_json::from_value(json!(parts)).expect("a new record");
        assert_eq!(read, parts);
    }

    #[test]
    fn the_time_of_runs_is_that_for_which_workers_execute_them() {
        let started = || AiEvent::RunStarted { graph: "g".to_owned(), continues: None };
        let step = || AiEvent::Step { step: 1, nodes: Vec::new() };
        let log = [
            (1_000, started(), 0),
            (4_000, step(), 3_000),
            (5_000, AiEvent::Released { claim: 1 }, 4_000),
            (65_000, AiEvent::TakenOver { claim: 2 }, 4_000),
            (66_000, step(), 5_000),
            // That worker died; how long it had worked is not known.
            (90_000, AiEvent::TakenOver { claim: 3 }, 5_000),
            (90_500, step(), 5_500),
            // The next run.
            (200_000, started(), 5_500),
            (201_000, step(), 6_500),
        ];
        let mut count = UsageCount::default();
        for (at, event, wall_ms) in log {
            count.read_logged(Timestamp(at), &event);
            assert_eq!(count.used_with_time(), Usage { wall_ms, ..Usage::default() }, "{at}");
        }
        assert_eq!(count.used(), Usage::default());
    }

    #[test]
    fn a_fact_counts_once_and_a_reused_tool_call_not_at_all() {
        let fact = |id: u128| UsageFact {
            invocation_id: InvocationId::from_uuid(uuid::Uuid::from_u128(id)),
            attempt: 1,
            provider: "p".to_owned(),
            model: "m".to_owned(),
            status: UsageStatus::Ok,
            error_code: None,
            tokens: Tokens::reported(7, 3),
            cost_micro_usd: Some(5),
            provider_call_id: None,
            prompt_hash: crate::canonical::hash_bytes(b"p"),
            started_at: Timestamp(0),
            latency_ms: 0,
            provider_cost_micro_usd: None,
            compared_micro_usd: None,
            saved_micro_usd: None,
            first_token_ms: None,
        };
        let mut count = UsageCount::default();
        for id in [1, 2, 1] {
            count.read(&AiEvent::UsageReport {
                fact: fact(id),
                message: None,
                finish: None,
                task: None,
            });
        }
        let start = || AiEvent::ToolCallStart {
            tool_call_id: crate::ToolCallId::new("c").expect("an id"),
            tool_name: "t".to_owned(),
            args: json!({}),
            charged: true,
            task: None,
            ns: String::new(),
        };
        count.read(&start());
        count.read(&start());
        let mut refused = json!(start());
        refused["charged"] = json!(false);
        count.read(&serde_json::from_value(refused).expect("an event"));
        count.read(&AiEvent::CallReused { kind: "tool".to_owned(), name: "t".to_owned() });
        let used = count.used();
        assert_eq!((used.model_calls, used.tool_calls), (2, 1));
        assert_eq!((used.tokens.total(), used.cost_micro_usd), (20, 10));
    }

    #[test]
    fn sums_and_differences_include_the_parts() {
        let one = Usage::model_call(Tokens::reported(7, 3).cached(5).reasoning(2));
        let two = one + Usage::model_call(Tokens::estimated(1, 1));
        let tokens = Tokens { estimated: true, ..Tokens::reported(8, 4).cached(5).reasoning(2) };
        assert_eq!((two.model_calls, two.tokens), (2, tokens));
        assert_eq!(two.saturating_sub(one).tokens, Tokens::estimated(1, 1));
        let paid = one.costing(Some(7)) + two.costing(None) + two.costing(Some(5));
        assert_eq!((paid.cost_micro_usd, paid.saturating_sub(paid).cost_micro_usd), (12, 0));
    }
}
