//! Usage facts: tokens, cost and status of each attempt of a model call.

use crate::canonical::Hash;
use crate::{InvocationId, Timestamp};
use serde::{Deserialize, Serialize};

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

/// Token counts of one attempt.
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
