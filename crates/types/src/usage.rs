//! Usage facts: tokens, cost and status of each attempt of a model call.

use crate::canonical::Hash;
use crate::{InvocationId, Timestamp};
use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign};

/// Usage of one attempt of a model call. Failed attempts are recorded too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageFact {
    /// Id of the attempt, unique.
    pub invocation_id: InvocationId,
    /// Number of the attempt within its call, from 1.
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
    /// Cost in millionths of a US dollar, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// Call id assigned by the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_call_id: Option<String>,
    /// Hash of model, messages, temperature, maximum tokens and tools.
    pub prompt_hash: Hash,
    /// Start of the attempt.
    pub started_at: Timestamp,
    /// Duration in milliseconds.
    pub latency_ms: u64,
}

/// The result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
pub struct Tokens {
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// `true` if the counts were estimated locally because the provider reported none.
    #[serde(default)]
    pub estimated: bool,
}

impl Tokens {
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
        }
    }
}

/// Amounts that a budget counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
}

impl Usage {
    /// Returns the usage of one attempt of a model call.
    #[must_use]
    pub fn model_call(tokens: Tokens) -> Self {
        Self { model_calls: 1, tool_calls: 0, tokens }
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
                ..Tokens::default()
            },
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
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
