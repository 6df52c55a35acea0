//! The structure of responses, lenient enough for the differences between servers.

use crate::protocol::account::Account;
use crate::protocol::fields::{fragment, if_readable, index, list, text_or_default};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use weftwork_types::usage::Tokens;

/// A chunk of a stream, or a complete answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk {
    #[serde(deserialize_with = "if_readable")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "list")]
    pub(super) choices: Vec<Choice>,
    pub(super) usage: Value,
    pub(super) error: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice {
    #[serde(deserialize_with = "index")]
    pub(super) index: Option<u64>,
    /// Set in a stream.
    pub(super) delta: Option<Delta>,
    /// Set in a complete answer.
    pub(super) message: Option<Delta>,
    /// Set in an answer of the older protocol for texts.
    pub(super) text: Value,
    pub(super) finish_reason: Value,
    /// Set by gateways that fail within an answer.
    pub(super) error: Value,
    /// Set by servers that count each choice.
    pub(super) usage: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta {
    content: Value,
    reasoning_content: Value,
    reasoning: Value,
    refusal: Value,
    #[serde(deserialize_with = "list")]
    pub(super) tool_calls: Vec<CallDelta>,
    /// The only call, in the older form of the protocol.
    #[serde(deserialize_with = "if_readable")]
    pub(super) function_call: Option<FunctionDelta>,
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

impl Delta {
    /// The reasoning text, under one of its names or as a part of the content.
    pub(super) fn reasoning(&self) -> String {
        let named = self.named_reasoning().map(|(_, text)| text.to_owned());
        named.unwrap_or_else(|| parts(&self.content, "thinking"))
    }

    /// The reasoning text with the name of its member.
    pub(super) fn named_reasoning(&self) -> Option<(&'static str, &str)> {
        let named = [
            ("reasoning_content", &self.reasoning_content),
            ("reasoning", &self.reasoning),
            ("reasoning_text", self.rest.get("reasoning_text").unwrap_or(&Value::Null)),
        ];
        let mut texts = named.into_iter().filter_map(|(name, text)| Some((name, text.as_str()?)));
        texts.find(|(_, text)| !text.is_empty())
    }

    /// The members of a part of the content that is reasoning, without its text: Mistral.
    pub(super) fn thinking_part(&self) -> Option<Map<String, Value>> {
        let items = self.content.as_array().map(Vec::as_slice).unwrap_or_default();
        let mut parts = items.iter().filter_map(Value::as_object);
        let part = parts.find(|part| part.get("thinking").is_some_and(|text| !text.is_null()))?;
        let mut members = part.clone();
        members.retain(|name, value| {
            !["type", "thinking"].contains(&name.as_str()) && !value.is_null()
        });
        Some(members)
    }

    /// Leaves out the text, which is known.
    pub(super) fn forget_text(&mut self) {
        let values = [&mut self.content, &mut self.reasoning_content, &mut self.reasoning];
        values.into_iter().chain([&mut self.refusal]).for_each(|value| *value = Value::Null);
    }

    /// The text of the answer; a refusal counts as text.
    pub(super) fn text(&self) -> String {
        let mut text = match &self.content {
            Value::String(text) => text.clone(),
            Value::Object(_) => parts(&json!([self.content]), "text"),
            other => parts(other, "text"),
        };
        text.push_str(self.refusal.as_str().unwrap_or_default());
        text
    }
}

/// The text of content that is a list of parts.
fn parts(content: &Value, kind: &str) -> String {
    let items = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_kind = |found: &str| found == kind || kind == "text" && found == "output_text";
    let text = |part: &Value| match part.get(kind) {
        // A bare text is a part, too.
        None => part.as_str().filter(|_| kind == "text").map(str::to_owned),
        Some(_) if !part.get("type").and_then(Value::as_str).is_none_or(is_kind) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(nested) => Some(parts(nested, "text")),
    };
    items.iter().filter_map(text).collect()
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta {
    #[serde(deserialize_with = "index")]
    pub(super) index: Option<u64>,
    #[serde(deserialize_with = "text_or_default")]
    pub(super) id: String,
    #[serde(deserialize_with = "if_readable")]
    function: Option<FunctionDelta>,
    /// The function's members, from servers that send them without `function`.
    #[serde(flatten)]
    flat: FunctionDelta,
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

impl CallDelta {
    /// The call of an answer in the older form of the protocol.
    pub(super) fn only(function: FunctionDelta) -> Self {
        Self { index: Some(0), function: Some(function), ..Self::default() }
    }

    /// Returns `true` if it says nothing of a call.
    pub(super) fn is_empty(&self) -> bool {
        let function = self.function();
        self.id.is_empty()
            && function.name.is_empty()
            && function.arguments().is_empty()
            && self.rest.is_empty()
    }

    pub(super) fn function(&self) -> &FunctionDelta {
        self.function.as_ref().unwrap_or(&self.flat)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionDelta {
    #[serde(deserialize_with = "text_or_default")]
    pub(super) name: String,
    arguments: Value,
}

impl FunctionDelta {
    /// A fragment of the arguments' JSON text; some servers send the object itself.
    pub(super) fn arguments(&self) -> String {
        fragment(&self.arguments)
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
