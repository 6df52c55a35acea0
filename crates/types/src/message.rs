//! Messages of a conversation, made of parts.

mod read;
mod written;

pub use written::read_written;

use crate::{MessageId, ToolCallId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool's answer.
    Tool,
}

/// One message. Its parts keep the order in which they were said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Unique within the thread; a message with a known id replaces the older one.
    pub id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// What is said.
    #[serde(deserialize_with = "read::parts")]
    pub parts: Vec<Part>,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A model's thinking, as far as the provider shows it.
    Reasoning {
        /// The words.
        text: String,
        /// The provider's proof that it may be sent back, when it gave one.
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// An image, sound, film or file.
    Media(Media),
    /// The model asks for a tool.
    ToolCall(ToolCall),
    /// A tool's answer to one call.
    ToolResult(ToolResult),
}

/// An image, sound, film or file, by reference or inline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Media {
    /// Its media type, such as `image/png`.
    pub media_type: String,
    /// Where it lies: an `https:`, `data:` or `blob:` URL. Nothing fetches it by itself.
    pub url: String,
}

/// A model's wish to call a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's id for the call, or one made here when it gave none.
    pub id: ToolCallId,
    /// The tool's wire name.
    pub name: String,
    /// The arguments, not yet checked. A model that wrote no valid JSON leaves a string here.
    pub args: Value,
}

/// A tool's answer as the model reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call it answers.
    pub tool_call_id: ToolCallId,
    /// The tool's wire name.
    pub name: String,
    /// The validated value, or an error object.
    pub value: Value,
    /// Whether the call failed.
    #[serde(default)]
    pub is_error: bool,
}

impl Message {
    /// A message of one text part.
    #[must_use]
    pub fn text(id: MessageId, role: Role, text: impl Into<String>) -> Self {
        Self { id, role, parts: vec![Part::Text { text: text.into() }] }
    }

    /// A tool's answer.
    #[must_use]
    pub fn tool_result(id: MessageId, result: ToolResult) -> Self {
        Self { id, role: Role::Tool, parts: vec![Part::ToolResult(result)] }
    }

    /// All text parts, joined.
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

    /// The tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The tool results, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolResult(result) => Some(result),
            _ => None,
        })
    }
}
