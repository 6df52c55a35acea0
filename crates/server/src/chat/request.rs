//! Bodies of chat requests.
//!
//! The thread of the server is the truth. Of the conversation in a body, only the texts and files of the
//! last message are read if it is the user's, and results of calls, which count for calls that are open
//! on the server. Ids of messages say only which part of the conversation a text replaces or follows.
//! Everything else is ignored.
//!
//! Sources: `@assistant-ui/react-data-stream` 0.12 (messages with `content`), `ai` 7.0 (messages with
//! `parts`).

use crate::error::{ApiError, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use weftwork_types::MessageId;
use weftwork_types::message::{Part, langchain};

/// Maximum length of a user's text in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// The part of the conversation that a text replaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Replaces {
    /// None: it is said at the end.
    #[default]
    Nothing,
    /// An answer to the same text, and all that follows.
    Answer,
    /// An earlier message of the user, and all that follows.
    Message,
}

/// A request for the next part of a conversation.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ChatRequest {
    /// Id of the thread, which clients may make.
    pub(crate) thread: Option<String>,
    /// Id of the last message, if it is the assistant's, which the response continues.
    pub(crate) message: Option<String>,
    /// Calls of that message in the client. The AI SDK accepts results of them in further responses.
    pub(crate) held: BTreeSet<String>,
    /// Texts and files of the last message, if it is the user's.
    pub(crate) said: Option<Vec<Part>>,
    /// Results of calls by id; of several calls with an id, the result of the last one.
    pub(crate) results: BTreeMap<String, Value>,
    /// Arguments of calls as the client has them.
    pub(crate) shown: BTreeMap<String, Value>,
    /// The part of the conversation that the text replaces.
    pub(crate) replaces: Replaces,
    /// `true` if the last answer goes on, whose run was stopped or failed.
    pub(crate) continues: bool,
    /// Id of the message that is replaced, where the client names it.
    pub(crate) replaced: Option<String>,
    /// Id of the last message of the assistant before the text, in the client.
    pub(crate) follows: Option<String>,
    /// Model of the answer, as `provider:model`.
    pub(crate) model: Option<String>,
}

impl ChatRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// Status 422 for a body without messages, or with a last message of neither text nor files.
    pub(crate) fn read(body: &Value) -> Result<Self> {
        let messages = read_messages(body)?;
        let text = |name: &str| body.get(name).and_then(Value::as_str).filter(|id| !id.is_empty());
        let mut request = Self {
            thread: text("threadId").or_else(|| text("id")).map(str::to_owned),
            replaced: text("messageId").map(str::to_owned),
            model: text("model").map(str::to_owned),
            continues: text("trigger") == Some("continue-message"),
            ..Self::default()
        };
        for message in messages {
            request.results_of(message);
        }
        let of = |role: &str| messages.last().filter(|message| message["role"] == role);
        // The client gets its own id back, and nothing else depends on it.
        let id = of("assistant").and_then(|message| message["id"].as_str());
        request.message = id.filter(|id| MessageId::new(id).is_ok()).map(str::to_owned);
        let parts = of("assistant").and_then(|message| message["parts"].as_array());
        let calls = parts.into_iter().flatten().filter_map(|part| part["toolCallId"].as_str());
        request.held = calls.map(str::to_owned).collect();
        request.said = of("user").map(read_user_message).transpose()?;
        request.replaces = match (text("trigger"), text("messageId")) {
            (Some("regenerate-message"), _) => Replaces::Answer,
            // With results of calls, a client names the message that continues with them.
            (Some("submit-message"), Some(_)) if request.said.is_some() => Replaces::Message,
            _ => Replaces::Nothing,
        };
        let mut said = messages.iter().rev().filter(|message| message["role"] == "assistant");
        request.follows = said.next().and_then(|said| said["id"].as_str()).map(str::to_owned);
        Ok(request)
    }

    /// Returns the text of the last message, if it is the user's.
    pub(crate) fn text(&self) -> Option<String> {
        self.said.as_deref().map(join_texts)
    }

    fn results_of(&mut self, message: &Value) {
        for part in parts_of(message) {
            let text = |name: &str| part.get(name).and_then(Value::as_str);
            let Some(kind) = text("type") else { continue };
            let id = text("toolCallId");
            let waits = kind == "tool-call" || text("state") == Some("input-available");
            if let Some(id) = id.filter(|_| waits) {
                // An earlier message had a call with this id, too.
                self.results.remove(id);
            }
            match (kind, id, text("state")) {
                ("tool-call", Some(id), _) => {
                    self.shown.insert(id.to_owned(), part["input"].clone());
                }
                ("tool-result", Some(id), _) => self.add_result(id, &part["output"]),
                (_, Some(id), Some("output-available")) => {
                    self.shown.insert(id.to_owned(), part["input"].clone());
                    self.results.insert(id.to_owned(), part["output"].clone());
                }
                (_, _, Some("approval-responded")) => {
                    let approval = &part["approval"];
                    if let Some(id) = approval["id"].as_str() {
                        self.results.insert(id.to_owned(), approval.clone());
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds the result of a call. Clients send an error for a call that the user left unanswered.
    fn add_result(&mut self, id: &str, output: &Value) {
        match output["type"].as_str() {
            Some("json" | "text" | "content") => {
                self.results.insert(id.to_owned(), output["value"].clone());
            }
            _ => drop(self.results.remove(id)),
        }
    }
}

/// Returns the messages of a body: `messages`, or the new one alone as `message`.
fn read_messages(body: &Value) -> Result<&[Value]> {
    match (body.get("messages"), body.get("message")) {
        (Some(Value::Array(messages)), _) => Ok(messages),
        (None | Some(Value::Null), Some(message @ Value::Object(_))) => {
            Ok(std::slice::from_ref(message))
        }
        _ => Err(ApiError::invalid(
            "the body needs `messages`, a list whose last message is the new one, or `message`, the \
             new one alone",
        )),
    }
}

/// The parts of a message: of either shape.
fn parts_of(message: &Value) -> impl Iterator<Item = &Value> {
    let parts = ["parts", "content"].iter().find_map(|name| message.get(name)?.as_array());
    parts.into_iter().flatten()
}

/// Returns the parts of a user's message: texts and files.
fn read_user_message(message: &Value) -> Result<Vec<Part>> {
    let content = ["parts", "content"].iter().find_map(|name| message.get(name));
    let mut parts = langchain::blocks(content.cloned().unwrap_or_default())
        .map_err(|problem| ApiError::invalid(format!("the last message: {problem}")))?;
    for attached in read_attachments(message)? {
        // Some clients list a file as a part, too.
        if !parts.contains(&attached) {
            parts.push(attached);
        }
    }
    let has_media = parts.iter().any(|part| matches!(part, Part::Media(_)));
    let text = join_texts(&parts);
    if text.trim().is_empty() && !has_media {
        return Err(ApiError::invalid("the last message has no text and no file"));
    }
    if text.len() > TEXT_BYTES_MAX {
        let detail = format!(
            "the last message has {} bytes of text; expected at most {TEXT_BYTES_MAX}",
            text.len()
        );
        return Err(ApiError::invalid(detail));
    }
    // Text in one part is stored as one.
    let is_text = |part: &Part| matches!(part, Part::Text { .. });
    match parts.iter().all(is_text) {
        true => Ok(vec![Part::Text { text }]),
        false => Ok(parts.into_iter().filter(|part| !is_empty_text(part)).collect()),
    }
}

/// Members of a message in which front ends send files beside its parts.
const ATTACHMENTS: [&str; 2] = ["experimental_attachments", "attachments"];

/// Returns the files that a message has beside its parts: with a URL as in the AI SDK 4, or with parts
/// of their own as in assistant-ui.
fn read_attachments(message: &Value) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for name in ATTACHMENTS {
        let attached = match message.get(name) {
            None | Some(Value::Null) => continue,
            Some(Value::Array(attached)) => attached,
            Some(_) => {
                let detail = format!("the last message: `{name}` is not a list of files");
                return Err(ApiError::invalid(detail));
            }
        };
        for (index, one) in attached.iter().enumerate() {
            let content = match one.get("content") {
                Some(content) if content.is_array() => content.clone(),
                _ => json!([file_block(one)]),
            };
            let read = langchain::blocks(content).map_err(|problem| {
                ApiError::invalid(format!("the last message: `{name}[{index}]`: {problem}"))
            })?;
            parts.extend(read);
        }
    }
    Ok(parts)
}

/// Returns an attachment with a URL or with data as a block.
fn file_block(attachment: &Value) -> Value {
    let find = |names: &[&str]| names.iter().find_map(|name| attachment.get(name)).cloned();
    let mut block = json!({"type": "file"});
    if let Some(media_type) = find(&["contentType", "mediaType", "mimeType", "mime_type"]) {
        block["mediaType"] = media_type;
    }
    if let Some(url) = find(&["url"]) {
        block["url"] = url;
    }
    if let Some(data) = find(&["data", "base64"]) {
        block["data"] = data;
    }
    block
}

fn is_empty_text(part: &Part) -> bool {
    matches!(part, Part::Text { text } if text.is_empty())
}

fn join_texts(parts: &[Part]) -> String {
    let text = |part: &Part| match part {
        Part::Text { text } => Some(text.clone()),
        _ => None,
    };
    parts.iter().filter_map(text).collect()
}
