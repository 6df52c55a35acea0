//! Messages and their parts.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The client.
    #[serde(rename = "ROLE_USER")]
    User,
    /// The agent.
    #[serde(rename = "ROLE_AGENT")]
    Agent,
}

/// A message of a client or of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Id, chosen by its author.
    #[serde(alias = "message_id")]
    pub message_id: String,
    /// Context, which is a conversation.
    #[serde(default, alias = "context_id", skip_serializing_if = "String::is_empty")]
    pub context_id: String,
    /// Task.
    #[serde(default, alias = "task_id", skip_serializing_if = "String::is_empty")]
    pub task_id: String,
    /// Author.
    pub role: Role,
    /// Content, in order.
    pub parts: Vec<Part>,
    /// Data of the client.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Extensions that the message uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// Other tasks that it refers to.
    #[serde(default, alias = "reference_task_ids", skip_serializing_if = "Vec::is_empty")]
    pub reference_task_ids: Vec<String>,
}

/// A part of a message or of an artifact.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// Content.
    #[serde(flatten)]
    pub content: PartContent,
    /// Data about the part.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Name of a file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filename: String,
    /// Media type of the content.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub media_type: String,
}

/// The content of a part: exactly one of four.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PartContent {
    /// A text.
    Text(String),
    /// A file, in Base64.
    Raw(String),
    /// The address of a file.
    Url(String),
    /// A JSON value.
    Data(Value),
}

impl Part {
    /// Creates a part with a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(PartContent::Text(text.into()))
    }

    /// Creates a part with a JSON value.
    #[must_use]
    pub fn data(value: Value) -> Self {
        let media_type = "application/json".to_owned();
        Self { media_type, ..Self::of(PartContent::Data(value)) }
    }

    /// Creates a part with nothing but its content.
    #[must_use]
    pub fn of(content: PartContent) -> Self {
        Self { content, metadata: Map::new(), filename: String::new(), media_type: String::new() }
    }
}

/// The members of a part, as JSON has them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartMembers {
    text: Option<String>,
    raw: Option<String>,
    url: Option<String>,
    #[serde(default, deserialize_with = "present")]
    data: Option<Value>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    filename: Option<String>,
    #[serde(default, alias = "media_type")]
    media_type: Option<String>,
}

/// Reads a member that may be null, as JSON data may.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let members = PartMembers::deserialize(from)?;
        let mut contents = [
            members.text.map(PartContent::Text),
            members.raw.map(PartContent::Raw),
            members.url.map(PartContent::Url),
            members.data.map(PartContent::Data),
        ]
        .into_iter()
        .flatten();
        let content = contents.next().filter(|_| contents.next().is_none());
        let expected = "a part has not exactly one of `text`, `raw`, `url` and `data`";
        Ok(Self {
            content: content.ok_or_else(|| D::Error::custom(expected))?,
            metadata: members.metadata.unwrap_or_default(),
            filename: members.filename.unwrap_or_default(),
            media_type: members.media_type.unwrap_or_default(),
        })
    }
}
