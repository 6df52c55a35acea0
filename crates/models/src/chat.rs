//! The chat model trait, its requests and its events.

use crate::cache::ResponseCache;
use crate::limiter::Limiter;
use crate::{Capability, ModelError, Price, PriceTable, TokenLimits, fingerprint};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use weftwork_types::message::{Media, Message, Role, ToolResult};
use weftwork_types::tool::ToolSpec;
use weftwork_types::usage::Tokens;
use weftwork_types::{BoxStream, canonical};

/// The events of one attempt, ending with [`ChatEvent::Finish`] or an error.
pub type ChatStream = BoxStream<'static, Result<ChatEvent, ModelError>>;

/// A chat model. It makes one attempt per request and stores no conversation.
pub trait ChatModel: Send + Sync + std::fmt::Debug {
    /// Returns the provider and name of this model.
    fn info(&self) -> &ModelInfo;

    /// Returns what the model cannot do. A call that asks for one of them is refused by name before
    /// its first attempt.
    fn lacks(&self) -> &[Capability] {
        &[]
    }

    /// Checks that a request with a medium can be sent to the model. An older medium that cannot is a
    /// note in the request; a call with a new one is refused by name.
    ///
    /// # Errors
    /// The reason, with what is taken instead.
    fn check_medium(&self, _media: &Media) -> Result<(), String> {
        Ok(())
    }

    /// Checks the values of the options of a request against limits of the model's protocol, such as
    /// the number of stop texts. A call with a value beyond them is refused by name.
    ///
    /// # Errors
    /// The option, what was found and expected, and the fix.
    fn check_options(&self, _request: &ChatRequest) -> Result<(), String> {
        Ok(())
    }

    /// Returns the token limits of the model, as far as they are known.
    fn token_limits(&self) -> TokenLimits {
        TokenLimits::default()
    }

    /// Returns the price of this model; `None` if it is unknown.
    fn price(&self) -> Option<Price> {
        PriceTable::built_in().get(&self.info().id())
    }

    /// Returns the model to call instead after an error; `None` if the error is final.
    fn fallback(&self, _error: &ModelError) -> Option<&dyn ChatModel> {
        None
    }

    /// Returns the cache of this model's answers; `None` if every call is made.
    fn cache(&self) -> Option<&ResponseCache> {
        None
    }

    /// Returns the limiter of the rate at which this model is called; `None` if each attempt begins
    /// at once. [`ModelCaller`](crate::ModelCaller) waits for it before each attempt.
    fn limiter(&self) -> Option<&Limiter> {
        None
    }

    /// Makes one attempt. The stream yields at least one item. A stream that ends without
    /// [`ChatEvent::Finish`] is a truncated answer, which the caller treats as an error.
    ///
    /// # Cancel safety
    /// Dropping the stream stops the attempt; the provider may still bill the tokens it generated.
    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream;
}

/// Identity of a model, as shown to users and recorded in usage facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// The provider's id, such as `openai`, `local`, `scripted`.
    pub provider: String,
    /// The model as named on the wire.
    pub model: String,
    /// A notice shown with every answer of the model, for example "deterministic rules, not a
    /// language model". `None` for ordinary models.
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

/// A model or a shared one, as agents, teams and evaluators take it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no model",
    label = "not a model",
    note = "a model is a `ChatModel` or an `Arc` of one; open one by name with `Config::open_model` of `weftwork`, or take a `ScriptedModel` in tests"
)]
pub trait IntoModel {
    /// Shares the model.
    fn into_model(self) -> Arc<dyn ChatModel>;
}

impl<M: ChatModel + 'static> IntoModel for M {
    fn into_model(self) -> Arc<dyn ChatModel> {
        Arc::new(self)
    }
}

impl<M: ChatModel + 'static> IntoModel for Arc<M> {
    fn into_model(self) -> Arc<dyn ChatModel> {
        self
    }
}

impl IntoModel for Arc<dyn ChatModel> {
    fn into_model(self) -> Arc<dyn ChatModel> {
        self
    }
}

/// A model, or the id under which a configuration opens one.
#[derive(Debug, Clone)]
pub enum ModelChoice {
    /// An id, `provider:model`.
    Id(String),
    /// A model that the program has made.
    Model(Arc<dyn ChatModel>),
}

impl From<&str> for ModelChoice {
    fn from(id: &str) -> Self {
        Self::Id(id.to_owned())
    }
}

impl From<String> for ModelChoice {
    fn from(id: String) -> Self {
        Self::Id(id)
    }
}

impl<M: IntoModel> From<M> for ModelChoice {
    fn from(model: M) -> Self {
        Self::Model(model.into_model())
    }
}

/// A request to a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChatRequest {
    /// The conversation, oldest first, instructions included.
    pub messages: Vec<Message>,
    /// The tools that the model may call.
    pub tools: Vec<ToolSpec>,
    /// Constraint on tool calls.
    pub tool_choice: ToolChoice,
    /// Sampling temperature of at least 0; `None` leaves it to the provider.
    pub temperature: Option<f32>,
    /// Share of the probability from which tokens are sampled, above 0 and at most 1; `None` leaves
    /// it to the provider.
    pub top_p: Option<f32>,
    /// Texts that end the answer before them, each of one character or more.
    pub stop: Vec<String>,
    /// Seed of the sampling, by which a provider repeats an answer as far as it can; `None` leaves it
    /// to the provider.
    pub seed: Option<i64>,
    /// The maximum number of tokens in the answer; `None` leaves it to the provider.
    pub max_tokens: Option<u32>,
    /// Permission to call several tools at once; `None` leaves it to the provider.
    pub parallel_tool_calls: Option<bool>,
    /// JSON Schema that the text of the answer must satisfy, if any.
    pub response_schema: Option<Value>,
}

/// Bytes of text per token, for estimates.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;

impl ChatRequest {
    /// Text of the last message of the user; empty if there is none.
    #[must_use]
    pub fn last_user_text(&self) -> String {
        let asked = self.messages.iter().rev().find(|message| message.role == Role::User);
        asked.map(Message::joined_text).unwrap_or_default()
    }

    /// The result of a tool that the model is to read now: the last one of the last message; `None`
    /// if that has none.
    #[must_use]
    pub fn last_tool_result(&self) -> Option<&ToolResult> {
        self.messages.last()?.tool_results().last()
    }

    /// Returns an estimate of the tokens of the request and of the longest answer that it permits.
    pub(crate) fn estimated_tokens(&self) -> u64 {
        let asked = canonical::to_string(&fingerprint::request(self)).len() as u64;
        let answer = self.max_tokens.map_or(0, u64::from);
        asked.div_ceil(BYTES_PER_TOKEN).saturating_add(answer)
    }
}

/// Constraint on the tool calls of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must not call a tool.
    None,
    /// The model must call a tool.
    Required,
    /// The model must call the tool with this wire name.
    Named(String),
}

/// An event of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum ChatEvent {
    /// More text.
    TextDelta(String),
    /// More reasoning text.
    ReasoningDelta(String),
    /// The signature of the reasoning before it, which ends that reasoning. Without reasoning
    /// before it, it signs one without text.
    ReasoningSignature(String),
    /// A fragment of a tool call. Fragments with the same index belong together, in order.
    ToolCallDelta {
        /// Position of the call in this answer, from 0.
        index: usize,
        /// The call's id, in the first fragment that has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The tool's wire name, in the first fragment that has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// A fragment of the arguments' JSON text.
        args: String,
    },
    /// Token usage as counted by the provider. The last such event wins.
    Usage(Tokens),
    /// Cost of the answer by the provider's own account, in millionths of a US dollar.
    Cost(u64),
    /// The answer has ended. Always the last event of a successful attempt.
    Finish {
        /// Why the answer ended.
        reason: FinishReason,
        /// The provider's id of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_call_id: Option<String>,
    },
}

impl ChatEvent {
    /// Returns `true` for a part of the answer, which is text, reasoning or a tool call.
    pub(crate) fn is_part(&self) -> bool {
        !matches!(self, Self::Usage(_) | Self::Cost(_) | Self::Finish { .. })
    }

    /// Returns the index of the call of a fragment, and the fragment of its arguments.
    pub(crate) fn args(&self) -> Option<(usize, &str)> {
        match self {
            Self::ToolCallDelta { index, args, .. } => Some((*index, args)),
            _ => None,
        }
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model finished its answer.
    Stop,
    /// The model requests tool calls.
    ToolCalls,
    /// The answer reached the token limit and is truncated.
    Length,
    /// The provider's content filter cut the answer.
    ContentFilter,
    /// The answer reached the end of the model's context window. An answer of
    /// [`ModelCaller`](crate::ModelCaller) has [`FinishReason::Length`] in its place.
    ContextLength,
    /// The provider paused its answer, and continues it when it is asked again with what it has so
    /// far. [`ModelCaller`](crate::ModelCaller) does so; no answer that it returns has this reason.
    Paused,
}

impl FinishReason {
    /// Returns the word for the reason, as in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::ContextLength => "context_length",
            Self::Paused => "paused",
        }
    }
}
