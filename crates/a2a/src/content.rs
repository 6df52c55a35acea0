//! The content of messages and artifacts, from and into the messages of agents.

use crate::error::{A2aError, Kind, Result, shorten};
use crate::wire::{self, PartContent};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use weftwork_types::message::{Media, Message, Part, Role};
use weftwork_types::task::{Mode, Payload};

/// Media types that agents take.
pub(crate) const INPUT_MODES: [&str; 9] = [
    "text/plain",
    "text/markdown",
    "application/json",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "application/pdf",
    "audio/wav",
];
/// Media types that agents give.
pub(crate) const OUTPUT_MODES: [&str; 3] = ["text/plain", "text/markdown", "application/json"];
/// Maximum number of parts of a message.
const PARTS_MAX: usize = 100;

/// Content of a message of a client.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Said {
    /// Content for the agent, in order.
    pub(crate) parts: Vec<Part>,
    /// Values of the data parts that are no details.
    pub(crate) data: Vec<Value>,
    /// Details of the request.
    pub(crate) details: Option<Details>,
}

/// Details of a request: the data part `{mode, payload}`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Details {
    pub(crate) mode: Option<String>,
    pub(crate) payload: Payload,
}

impl Said {
    /// Reads the parts of a message.
    ///
    /// # Errors
    /// An error for a media type that agents do not take, and for content that does not fit.
    pub(crate) fn read(message: &wire::Message) -> Result<Self> {
        if message.parts.is_empty() {
            return Err(A2aError::invalid("message.parts", "`message.parts` is empty"));
        }
        if message.parts.len() > PARTS_MAX {
            let found = format!("a list of {} parts", message.parts.len());
            let expected = format!("at most {PARTS_MAX}");
            return Err(A2aError::wrong("message.parts", &found, &expected));
        }
        let mut said = Self::default();
        for (index, part) in message.parts.iter().enumerate() {
            said.add(part, &format!("message.parts[{index}]"))?;
        }
        Ok(said)
    }

    fn add(&mut self, part: &wire::Part, field: &str) -> Result<()> {
        let kind = part.media_type.split(';').next().unwrap_or_default().trim();
        if !kind.is_empty() && !INPUT_MODES.iter().any(|mode| mode.eq_ignore_ascii_case(kind)) {
            let kind = shorten(kind);
            let modes = INPUT_MODES.join(", ");
            let message = format!("`{field}` has the media type {kind}; expected one of {modes}");
            return Err(A2aError::new(Kind::ContentTypeNotSupported, message));
        }
        match &part.content {
            PartContent::Text(text) => self.parts.push(Part::Text { text: text.clone() }),
            PartContent::Data(value) => match read_details(value, field)? {
                Some(details) if self.details.is_none() => self.details = Some(details),
                Some(_) => {
                    let message = format!("`{field}` has details, and so has an earlier part");
                    return Err(A2aError::invalid(field, message));
                }
                None => self.data.push(value.clone()),
            },
            PartContent::Raw(raw) => {
                if kind.is_empty() {
                    let expected = "the media type of the file";
                    return Err(A2aError::wrong(
                        &format!("{field}.mediaType"),
                        "missing",
                        expected,
                    ));
                }
                STANDARD.decode(raw).map_err(|_| {
                    A2aError::wrong(&format!("{field}.raw"), "another text", "Base64")
                })?;
                let url = format!("data:{kind};base64,{raw}");
                self.parts.push(Part::Media(Media { media_type: kind.to_owned(), url }));
            }
            PartContent::Url(address) => {
                let is_web = url::Url::parse(address)
                    .is_ok_and(|url| url.scheme() == "https" && url.username().is_empty());
                if kind.is_empty() || !is_web {
                    let expected = "an `https` address, with the media type of the file";
                    return Err(A2aError::wrong(&format!("{field}.url"), address, expected));
                }
                let media = Media { media_type: kind.to_owned(), url: address.clone() };
                self.parts.push(Part::Media(media));
            }
        }
        Ok(())
    }

    /// Returns all texts.
    pub(crate) fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Returns the message for an agent, and its declared input. Data is the input of an agent that
    /// declares one, and otherwise a text.
    pub(crate) fn into_message(mut self, has_input: bool) -> (Message, Option<Value>) {
        let mut input = None;
        for value in self.data {
            if has_input && input.is_none() && value.is_object() {
                input = Some(value);
            } else {
                self.parts.push(Part::Text { text: format!("{value:#}") });
            }
        }
        let mut message = Message::user("");
        message.parts = self.parts;
        if let (true, Some(input)) = (message.parts.is_empty(), &input) {
            message.parts.push(Part::Text { text: input.to_string() });
        }
        (message, input)
    }
}

/// Reads the details in a data part; `None` for other data.
fn read_details(value: &Value, field: &str) -> Result<Option<Details>> {
    let Some(members) = value.as_object() else { return Ok(None) };
    let mode = members.get("mode");
    let is_mode =
        mode.is_none_or(|mode| mode.as_str().is_some_and(|mode| Mode::of_name(mode).is_some()));
    let payload = members.get("payload");
    let is_payload = payload.is_none_or(Value::is_object);
    let has_others = members.keys().any(|name| name != "mode" && name != "payload");
    if members.is_empty() || has_others || !is_mode || !is_payload {
        return Ok(None);
    }
    let payload = payload.cloned().unwrap_or_else(|| Value::Object(Map::new()));
    let payload = serde_json::from_value(payload).map_err(|error| {
        let field = format!("{field}.data.payload");
        let message = format!("`{field}`: {error}");
        A2aError::invalid(field, message)
    })?;
    let mode = mode.and_then(Value::as_str).map(str::to_owned);
    Ok(Some(Details { mode, payload }))
}

/// Returns the parts of a message of an agent: its texts and its files.
pub(crate) fn parts_of_message(message: &Message) -> Vec<wire::Part> {
    if message.role != Role::Assistant {
        return Vec::new();
    }
    let text = message.joined_text();
    let mut parts = Vec::new();
    if !text.trim().is_empty() {
        parts.push(wire::Part::text(text));
    }
    for part in &message.parts {
        if let Part::Media(Media { media_type, url }) = part {
            parts.push(file(url, media_type, ""));
        }
    }
    parts
}

/// Returns the parts of the content of an answer: a text, files, or data. A file is an object with
/// `type: media`, `media_type`, `url` and perhaps `name`; several parts are a list of such objects.
pub(crate) fn parts_of_content(content: &Value) -> Vec<wire::Part> {
    match content {
        Value::Null => Vec::new(),
        Value::String(text) if text.trim().is_empty() => Vec::new(),
        Value::String(text) => vec![wire::Part::text(text.as_str())],
        Value::Array(list) if !list.is_empty() => {
            let files: Option<Vec<_>> = list.iter().map(file_of).collect();
            files.unwrap_or_else(|| vec![wire::Part::data(content.clone())])
        }
        other => vec![file_of(other).unwrap_or_else(|| wire::Part::data(other.clone()))],
    }
}

fn file_of(value: &Value) -> Option<wire::Part> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let is_media = text("type") == Some("media");
    let (url, media_type) = text("url").zip(text("media_type")).filter(|_| is_media)?;
    Some(file(url, media_type, text("name").unwrap_or_default()))
}

/// Returns the part of a file: the bytes of a `data:` address in Base64, or the address.
fn file(url: &str, media_type: &str, name: &str) -> wire::Part {
    let inline = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let content = match inline {
        Some((_, raw)) => PartContent::Raw(raw.to_owned()),
        None => PartContent::Url(url.to_owned()),
    };
    wire::Part {
        filename: name.to_owned(),
        media_type: media_type.to_owned(),
        ..wire::Part::of(content)
    }
}
