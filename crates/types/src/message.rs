//! Messages of a conversation, made of parts.

mod block;
mod content;
mod inline;
pub mod langchain;
mod messages;
mod read;
mod written;

pub use content::{content_blocks, content_parts, content_text, media_note, note_media};
pub use messages::Messages;
pub use written::read_written;

use crate::shown::present;
use crate::{MessageId, ToolCallId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The author of a message.
///
/// ```
/// use weftwork_types::message::Role;
///
/// assert_eq!(serde_json::to_value(Role::Assistant)?, "assistant");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(description = "The author of a message."))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// System instructions.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool, reporting a result.
    Tool,
}

/// A message. Its parts are in the order in which they were produced.
///
/// ```
/// use weftwork_types::message::{Message, Role};
///
/// let message = Message::system("Answer in one sentence.");
/// assert_eq!(message.role, Role::System);
/// assert_eq!(message.joined_text(), "Answer in one sentence.");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(description = "A message. Its parts are in the order in which they were produced.")
)]
pub struct Message {
    /// Id, unique within the thread. A message with an existing id replaces the older one.
    pub id: MessageId,
    /// Author of the message.
    pub role: Role,
    /// Content, in order.
    #[serde(deserialize_with = "read::parts")]
    pub parts: Vec<Part>,
    /// Members that clients of LangChain's protocols gave the message. Models do not read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Box<MessageExtra>>,
}

/// Members of a message in LangChain's protocols that have no other place here.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageExtra {
    /// Name of the author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Further members of the message of a provider.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub additional_kwargs: Map<String, Value>,
    /// Data of a provider about its answer.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub response_metadata: Map<String, Value>,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning of a model, as far as the provider exposes it.
    Reasoning {
        /// The text.
        text: String,
        /// Signature with which the provider accepts the reasoning back, if it issued one.
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// An image, audio, video or file.
    Media(Media),
    /// A tool call requested by the model.
    ToolCall(ToolCall),
    /// The result of a tool call.
    ToolResult(ToolResult),
}

/// An image, audio, video or file, by reference or inline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Media {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// Location: an `https:`, `data:` or `blob:` URL. It is never fetched automatically.
    pub url: String,
}

/// A tool call requested by a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolCall {
    /// Id assigned by the model, or generated here if the model assigned none.
    pub id: ToolCallId,
    /// Wire name of the tool.
    pub name: String,
    /// Arguments, not yet validated. A JSON string if the model produced invalid JSON.
    pub args: Value,
    /// Arguments without secret ones. `None` if all arguments may be shown.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub shown: Option<Value>,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolResult {
    /// The call that this result belongs to.
    pub tool_call_id: ToolCallId,
    /// Wire name of the tool.
    pub name: String,
    /// The validated value, as the model reads it, or an error object.
    pub value: Value,
    /// The members of the value that may be shown. `None` if the whole value may be shown, as in
    /// messages that older programs stored.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub shown: Option<Value>,
    /// `true` if the call failed.
    #[serde(default)]
    pub is_error: bool,
}

impl ToolCall {
    /// Returns `true` if this is the shown form of another call.
    fn is_shown_of(&self, whole: &Self) -> bool {
        let args = whole.shown.as_ref().unwrap_or(&whole.args);
        let same_call = self.id == whole.id && self.name == whole.name;
        same_call && self.shown.is_none() && self.args == *args
    }
}

impl ToolResult {
    /// The result as text: a text as it is, and any other value as JSON.
    #[must_use]
    pub fn text(&self) -> String {
        self.value.as_str().map_or_else(|| self.value.to_string(), str::to_owned)
    }

    /// Returns `true` if this is the shown form of another result.
    fn is_shown_of(&self, whole: &Self) -> bool {
        let value = whole.shown.as_ref().unwrap_or(&whole.value);
        let same_call = self.tool_call_id == whole.tool_call_id && self.name == whole.name;
        same_call && self.is_error == whole.is_error && self.shown.is_none() && self.value == *value
    }
}

/// An id of a message that no run made. Ids of a node's messages repeat with its task
/// (`Ctx::message_id`); nothing depends on that, because only a recorded result is read again.
fn random_id() -> MessageId {
    MessageId::from_uuid(uuid::Uuid::now_v7())
}

impl Message {
    /// Creates a message.
    #[must_use]
    pub fn new(id: MessageId, role: Role, parts: Vec<Part>) -> Self {
        Self { id, role, parts, extra: None }
    }

    /// Creates a message with one text part.
    #[must_use]
    pub fn text(id: MessageId, role: Role, text: impl Into<String>) -> Self {
        Self::new(id, role, vec![Part::Text { text: text.into() }])
    }

    /// Creates a message of the user, with a new random id.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::text(random_id(), Role::User, text)
    }

    /// Creates the message of the user of a request with an idempotency key. Its id follows from the key:
    /// a repeated request has the same message.
    #[must_use]
    pub fn user_of_request(text: impl Into<String>, key: &str) -> Self {
        let id = uuid::Uuid::from_u128(crate::canonical::first_128(key));
        Self::text(MessageId::from_uuid(id), Role::User, text)
    }

    /// Creates a message with instructions for the model, with a new random id.
    #[must_use]
    pub fn system(text: impl Into<String>) -> Self {
        Self::text(random_id(), Role::System, text)
    }

    /// Creates a message of the assistant, with a new random id.
    #[must_use]
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::text(random_id(), Role::Assistant, text)
    }

    /// Creates a message with one tool result.
    #[must_use]
    pub fn tool_result(id: MessageId, result: ToolResult) -> Self {
        Self::new(id, Role::Tool, vec![Part::ToolResult(result)])
    }

    /// Concatenates all text parts.
    #[must_use]
    pub fn joined_text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| match part {
                Part::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Returns the tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Returns the message with the shown form of its tool calls and results.
    #[must_use]
    pub fn into_shown(mut self) -> Self {
        for part in &mut self.parts {
            match part {
                Part::ToolResult(result) => {
                    result.value = result.shown.take().unwrap_or_else(|| result.value.take());
                }
                Part::ToolCall(call) => {
                    call.args = call.shown.take().unwrap_or_else(|| call.args.take());
                }
                _ => {}
            }
        }
        self
    }

    /// Returns `true` if this is exactly the shown form of another message.
    #[must_use]
    pub fn is_shown_of(&self, whole: &Self) -> bool {
        let same = |shown: &Part, whole: &Part| match (shown, whole) {
            (Part::ToolResult(shown), Part::ToolResult(whole)) => shown.is_shown_of(whole),
            (Part::ToolCall(shown), Part::ToolCall(whole)) => shown.is_shown_of(whole),
            (shown, whole) => shown == whole,
        };
        self.id == whole.id
            && self.role == whole.role
            && self.parts.len() == whole.parts.len()
            && self.parts.iter().zip(&whole.parts).all(|(shown, whole)| same(shown, whole))
    }

    /// Returns the tool results, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parts.iter().filter_map(Part::as_tool_result)
    }
}

impl Part {
    pub(crate) fn as_tool_result(&self) -> Option<&ToolResult> {
        match self {
            Self::ToolResult(result) => Some(result),
            _ => None,
        }
    }
}
