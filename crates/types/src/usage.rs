//! One fact per attempt of a model call: what it used, what it cost, how it ended.

use crate::canonical::Hash;
use crate::{InvocationId, Timestamp};
use serde::{Deserialize, Serialize};

/// What one attempt of a model call used. Failed attempts have one too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageFact {
    /// Unique per attempt.
    pub invocation_id: InvocationId,
    /// The attempt within its call, from 1.
    pub attempt: u32,
    /// The provider, such as `openai` or `local`.
    pub provider: String,
    /// The model as named on the wire.
    pub model: String,
    /// How it ended.
    pub status: UsageStatus,
    /// The error code of a failed attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// Tokens used.
    pub tokens: Tokens,
    /// Cost in millionths of a US dollar, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// The provider's own id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_call_id: Option<String>,
    /// Hash of model, messages, temperature, max tokens and tools.
    pub prompt_hash: Hash,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// How long it took, in milliseconds.
    pub latency_ms: u64,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageStatus {
    /// A whole answer arrived.
    Ok,
    /// It failed.
    Error,
    /// It was cut short by us.
    Cancelled,
}

/// Token counts of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tokens {
    /// Tokens read.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
    /// Whether the counts are our estimate because the provider gave none.
    #[serde(default)]
    pub estimated: bool,
}
