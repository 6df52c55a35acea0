//! What a chat model is.

use crate::ModelError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use weftwork_types::BoxStream;
use weftwork_types::message::Message;
use weftwork_types::tool::ToolSpec;
use weftwork_types::usage::Tokens;

/// The pieces of one attempt, ending with [`ChatEvent::Finish`] or an error.
pub type ChatStream = BoxStream<'static, Result<ChatEvent, ModelError>>;

/// A chat model: makes one attempt at a time and keeps no conversation of its own.
pub trait ChatModel: Send + Sync + std::fmt::Debug {
    /// Which model this is.
    fn info(&self) -> &ModelInfo;

    /// Makes one attempt. The stream yields at least one item; a stream that ends without
    /// [`ChatEvent::Finish`] is a truncated answer and the caller treats it as an error.
    ///
    /// # Cancel safety
    /// Dropping the stream stops the attempt; the provider may still bill what it produced.
    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream;
}

/// Which model it is, as shown to people and written in usage facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// The provider's id, such as `openai`, `local`, `scripted`.
    pub provider: String,
    /// The model as named on the wire.
    pub model: String,
    /// What a person must know about it, shown wherever its answers are: "deterministic rules,
    /// not a language model", say. `None` for ordinary models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl ModelInfo {
    /// The model's id, `provider:model`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}:{}", self.provider, self.model)
    }
}

/// What a model is asked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChatRequest {
    /// The conversation, oldest first, instructions included.
    pub messages: Vec<Message>,
    /// The tools it may call.
    pub tools: Vec<ToolSpec>,
    /// Whether it must.
    pub tool_choice: ToolChoice,
    /// Sampling temperature; `None` leaves it to the provider.
    pub temperature: Option<f32>,
    /// The most tokens it may write; `None` leaves it to the provider.
    pub max_tokens: Option<u32>,
    /// Whether it may call several tools at once; `None` leaves it to the provider.
    pub parallel_tool_calls: Option<bool>,
    /// JSON Schema the answer's text must satisfy, when there is one.
    pub response_schema: Option<Value>,
}

/// Whether a model must call a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// It must not.
    None,
    /// It must call one.
    Required,
    /// It must call this one (wire name).
    Named(String),
}

/// A piece of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum ChatEvent {
    /// More words.
    TextDelta(String),
    /// More thinking.
    ReasoningDelta(String),
    /// A piece of a tool call. Pieces with one index belong together, in order.
    ToolCallDelta {
        /// Which call of this answer, from 0.
        index: usize,
        /// The call's id, in the piece that names it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The tool's wire name, in the piece that names it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// A fragment of the arguments' JSON text.
        args: String,
    },
    /// What the attempt used, as the provider counts it. The last one counts.
    Usage(Tokens),
    /// The answer is whole. Always the last event of a good attempt.
    Finish {
        /// Why it ended.
        reason: FinishReason,
        /// The provider's own id of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_call_id: Option<String>,
    },
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model was done.
    Stop,
    /// It wants tools called.
    ToolCalls,
    /// It reached the token limit; the answer is cut.
    Length,
    /// The provider's filter cut it.
    ContentFilter,
}
