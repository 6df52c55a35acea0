//! The structure of responses, lenient enough for the differences between servers.

use crate::protocol::account::Account;
use crate::protocol::decoder::{if_readable, or_default};
use serde::Deserialize;
use serde_json::Value;
use weftwork_types::usage::Tokens;

/// A chunk of a stream, or a complete answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk {
    #[serde(deserialize_with = "if_readable")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) choices: Vec<Choice>,
    pub(super) usage: Value,
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

/// Returns the counts of an account; `None` if it has none that is known.
pub(super) fn tokens(usage: &Value) -> Option<Tokens> {
    let account = Account(usage);
    let tokens = account.tokens()?;
    let reasoning = account.count(&["/completion_tokens_details/reasoning_tokens"]);
    let reasoning = reasoning.unwrap_or_default();
    // DeepSeek and Moonshot report the cached part of the prompt under names of their own.
    let cached =
        ["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens", "/cached_tokens"];
    let cached = cached.iter().filter_map(|path| account.count(&[path])).max();
    let written = account.count(&["/prompt_tokens_details/cache_write_tokens"]);
    // Some servers report reasoning beside the completion instead of within it.
    let total = account.count(&["/total_tokens"]);
    let is_beside = reasoning > 0 && total == Some(tokens.total().saturating_add(reasoning));
    let output = tokens.output.saturating_add(if is_beside { reasoning } else { 0 });
    let counts = Tokens::reported(tokens.input, output).cached(cached.unwrap_or_default());
    Some(counts.cache_written(written.unwrap_or_default()).reasoning(reasoning))
}
