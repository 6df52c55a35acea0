//! Wire protocols of model providers.
//!
//! A protocol writes a request as JSON ([`Protocol::write`]) and reads the JSON documents of an
//! answer ([`Reader`]). Everything else is shared: the HTTP request ([`HttpModel`]), the framing,
//! limits and end of an answer ([`decoder`]), and the meaning of refusals ([`failure`]).

mod account;
mod anthropic;
mod calls;
mod decoder;
mod encoding;
mod end;
mod failure;
mod fields;
mod gemini;
mod limits;
mod media;
mod model;
mod openai;
mod quirk;
mod redirect;
mod refused_media;
mod responses;
mod signature;
mod surrogates;
mod url;

pub(crate) use calls::UNNAMED;
pub(crate) use model::facts;
pub use model::{HttpModel, ServerConfig};
pub use quirk::{Quirk, Quirks};
pub(crate) use url::base_url;

use crate::Capability;
use crate::chat::ChatRequest;
use decoder::Reader;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use signature::Format;
use weftwork_types::message::{
    Media, Message, Part, Role, content_parts, content_text, media_note,
};

/// A wire protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Protocol {
    /// OpenAI's chat completions, which most providers and local servers have.
    #[default]
    Openai,
    /// OpenAI's responses, without storage at the provider.
    OpenaiResponses,
    /// Anthropic's messages.
    Anthropic,
    /// Google's `generateContent`.
    Gemini,
}

/// A request in the form of a protocol.
#[derive(Debug, Clone, PartialEq)]
struct Outgoing {
    /// The path after the base URL.
    path: String,
    /// Headers of the protocol, without that of the key.
    headers: Vec<(&'static str, String)>,
    body: Value,
}

impl Protocol {
    /// Returns the name of the protocol in configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::OpenaiResponses => "openai_responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// Capabilities that no model behind the protocol has.
    fn lacks(self) -> &'static [Capability] {
        match self {
            Self::Openai => &[Capability::Video],
            Self::OpenaiResponses => {
                &[Capability::Audio, Capability::Video, Capability::Stop, Capability::Seed]
            }
            Self::Anthropic => &[Capability::Audio, Capability::Video, Capability::Seed],
            Self::Gemini => &[Capability::SerialToolCalls],
        }
    }

    /// Writes a request to a model, which may be known to give no reasoning.
    ///
    /// # Errors
    /// The part of the request that the protocol cannot express.
    fn write(
        self,
        model: &str,
        reasons: bool,
        request: &ChatRequest,
        config: &ServerConfig,
    ) -> Result<Outgoing, String> {
        match self {
            Self::Openai => openai::write(model, request, config),
            Self::OpenaiResponses => responses::write(model, reasons, request, config),
            Self::Anthropic => anthropic::write(model, request, config),
            Self::Gemini => gemini::write(model, request, config),
        }
    }

    /// Checks that messages of the protocol have a form for a medium of the user.
    ///
    /// # Errors
    /// The reason, with what the protocol takes instead.
    fn check_medium(self, media: &Media) -> Result<(), String> {
        let written = match self {
            Self::Openai => openai::write_medium(media),
            Self::OpenaiResponses => responses::write_medium(media),
            Self::Anthropic => anthropic::write_medium(media),
            Self::Gemini => gemini::write_medium(media),
        };
        written.map(drop)
    }

    /// A reader for one answer.
    fn reader(self) -> Box<dyn Reader> {
        match self {
            Self::Openai => Box::<openai::OpenaiReader>::default(),
            Self::OpenaiResponses => Box::<responses::ResponsesReader>::default(),
            Self::Anthropic => Box::<anthropic::AnthropicReader>::default(),
            Self::Gemini => Box::<gemini::GeminiReader>::default(),
        }
    }

    /// Name and value of the header that carries a key.
    fn key_header(self, key: &str) -> (&'static str, String) {
        match self {
            Self::Openai | Self::OpenaiResponses => ("authorization", format!("Bearer {key}")),
            Self::Anthropic => ("x-api-key", key.to_owned()),
            Self::Gemini => ("x-goog-api-key", key.to_owned()),
        }
    }
}

/// Text of a last turn of the user after an answer, as the members of teams have it in their
/// conversation.
const GO_ON: &str = "Continue with the request.";

/// The content of messages by author, for protocols that want the results of all calls of an answer
/// in the message after it: adjacent messages of one author are one, and empty ones are left out.
/// System messages are no part of it. `go_on` is the content of a last turn of the user after an
/// answer: some models refuse an answer at the end, and others continue its text.
fn turns(
    messages: &[Message],
    continuation: Value,
    content: impl Fn(&Message) -> Result<Vec<Value>, String>,
) -> Result<Vec<(Role, Vec<Value>)>, String> {
    let mut turns: Vec<(Role, Vec<Value>)> = Vec::with_capacity(messages.len());
    for message in messages.iter().filter(|message| message.role != Role::System) {
        let role = if message.role == Role::Tool { Role::User } else { message.role };
        let content = content(message)?;
        match turns.last_mut() {
            Some((last, so_far)) if *last == role => so_far.extend(content),
            _ => turns.push((role, content)),
        }
    }
    turns.retain(|(_, content)| !content.is_empty());
    if turns.last().is_some_and(|(role, _)| *role == Role::Assistant) {
        turns.push((Role::User, vec![continuation]));
    }
    Ok(turns)
}

/// Returns `true` for the part of an answer that its provider needs to continue it.
pub(crate) fn is_paused_turn(part: &Part) -> bool {
    Format::AnthropicTurn.is_of(part)
}

/// Text of a tool's result, as a model reads it.
fn result_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => content_text(other, "not shown").unwrap_or_else(|| other.to_string()),
    }
}

/// Returns the blocks of a tool's result that has media, in the form of a protocol whose results have
/// blocks; `None` for other results, which are a text. `medium` returns the reason for a medium that
/// the protocol does not take: the call was made, so a note stands for it.
fn result_blocks(
    value: &Value,
    text: impl Fn(&str) -> Option<Value>,
    medium: impl Fn(&Media) -> Result<Value, String>,
) -> Option<Vec<Value>> {
    let parts = content_parts(value)?;
    if !parts.iter().any(|part| matches!(part, Part::Media(_))) {
        return None;
    }
    let block = |part: &Part| match part {
        Part::Text { text: words } => text(words),
        Part::Media(media) => match result_medium(media, &medium) {
            Ok(block) => Some(block),
            Err(reason) => text(&media_note(media, &reason)),
        },
        Part::Reasoning { .. } | Part::ToolCall(_) | Part::ToolResult(_) => None,
    };
    Some(parts.iter().filter_map(block).collect())
}

/// Returns a medium of a tool's result in the form of a protocol.
fn result_medium(
    media: &Media,
    medium: impl Fn(&Media) -> Result<Value, String>,
) -> Result<Value, String> {
    match media::reason_against(media) {
        Some(reason) => Err(reason),
        None => medium(media),
    }
}

#[cfg(test)]
mod tests;
