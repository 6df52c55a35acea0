//! The structure of responses, lenient enough for the differences between servers.

use crate::protocol::decoder::or_default;
use serde::Deserialize;
use serde_json::Value;
use weftwork_types::usage::Tokens;

/// A chunk of a stream, or a complete answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk {
    #[serde(deserialize_with = "or_default")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) choices: Vec<Choice>,
    pub(super) usage: Option<Usage>,
    pub(super) error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice {
    #[serde(deserialize_with = "or_default")]
    pub(super) index: u64,
    /// Set in a stream.
    pub(super) delta: Option<Delta>,
    /// Set in a complete answer.
    pub(super) message: Option<Delta>,
    pub(super) finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta {
    content: Value,
    reasoning_content: Value,
    reasoning: Value,
    refusal: Value,
    #[serde(deserialize_with = "or_default")]
    pub(super) tool_calls: Vec<CallDelta>,
}

impl Delta {
    /// The reasoning text, under either of its two names or as a part of the content.
    pub(super) fn reasoning(&self) -> String {
        let direct = [&self.reasoning_content, &self.reasoning];
        match direct.iter().find_map(|value| value.as_str()) {
            Some(text) => text.to_owned(),
            None => parts(&self.content, "thinking"),
        }
    }

    /// The text of the answer; a refusal counts as text.
    pub(super) fn text(&self) -> String {
        let mut text = match &self.content {
            Value::String(text) => text.clone(),
            other => parts(other, "text"),
        };
        text.push_str(self.refusal.as_str().unwrap_or_default());
        text
    }
}

/// The text of content that is a list of parts.
fn parts(content: &Value, kind: &str) -> String {
    let items = content.as_array().map(Vec::as_slice).unwrap_or_default();
    items
        .iter()
        .filter(|part| part.get("type").and_then(Value::as_str) == Some(kind))
        .filter_map(|part| part.get(kind))
        .map(|inner| match inner {
            Value::String(text) => text.clone(),
            nested => parts(nested, "text"),
        })
        .collect()
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta {
    pub(super) index: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    pub(super) id: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) function: FunctionDelta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionDelta {
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    arguments: Value,
}

impl FunctionDelta {
    /// A fragment of the arguments' JSON text; some servers send the object itself.
    pub(super) fn arguments(&self) -> String {
        match &self.arguments {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    #[serde(deserialize_with = "or_default")]
    prompt_tokens: u64,
    #[serde(deserialize_with = "or_default")]
    completion_tokens: u64,
    #[serde(deserialize_with = "or_default")]
    total_tokens: u64,
    #[serde(deserialize_with = "or_default")]
    prompt_tokens_details: PromptDetails,
    #[serde(deserialize_with = "or_default")]
    completion_tokens_details: CompletionDetails,
    /// The cached part of the prompt, as DeepSeek reports it.
    #[serde(deserialize_with = "or_default")]
    prompt_cache_hit_tokens: u64,
    /// The cached part of the prompt, as Moonshot reports it.
    #[serde(deserialize_with = "or_default")]
    cached_tokens: u64,
    /// The cost in US dollars, as OpenRouter reports it.
    cost: Option<f64>,
}

impl Usage {
    /// The provider's own cost in millionths of a US dollar, rounded up.
    pub(super) fn cost_micro_usd(&self) -> Option<u64> {
        let cost = self.cost.filter(|cost| cost.is_finite() && *cost >= 0.0)?;
        Some((cost * 1_000_000.0).ceil() as u64)
    }
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    #[serde(deserialize_with = "or_default")]
    cached_tokens: u64,
    #[serde(deserialize_with = "or_default")]
    cache_write_tokens: u64,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    #[serde(deserialize_with = "or_default")]
    reasoning_tokens: u64,
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        let reasoning = usage.completion_tokens_details.reasoning_tokens;
        let cached = [usage.prompt_cache_hit_tokens, usage.cached_tokens];
        let cached = cached.into_iter().fold(usage.prompt_tokens_details.cached_tokens, u64::max);
        // Some servers report reasoning beside the completion instead of within it.
        let sum = usage.prompt_tokens.saturating_add(usage.completion_tokens);
        let beside = reasoning > 0 && usage.total_tokens == sum.saturating_add(reasoning);
        let output = usage.completion_tokens.saturating_add(if beside { reasoning } else { 0 });
        let written = usage.prompt_tokens_details.cache_write_tokens;
        Self::reported(usage.prompt_tokens, output)
            .cached(cached)
            .cache_written(written)
            .reasoning(reasoning)
    }
}
