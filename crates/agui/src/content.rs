//! Content of messages of the user, both ways.

use crate::error::{AguiError, Result};
use serde_json::{Value, json};
use weftwork_types::message::{Media, Message, Part, langchain};

/// Maximum number of parts of a message.
const PARTS_MAX: usize = 100;

/// Reads the content of a message: a text, or a list of parts.
///
/// # Errors
/// Status 400 for another value, and for a part that is neither a text nor a medium.
pub(crate) fn read(content: &Value, field: &str) -> Result<Vec<Part>> {
    let list = match content {
        Value::String(text) => return Ok(text_part(text)),
        Value::Array(list) => list,
        other => return Err(AguiError::wrong_type(field, other, "a text or a list of parts")),
    };
    if list.len() > PARTS_MAX {
        let found = list.len();
        return Err(AguiError::invalid(format!(
            "`{field}` has {found} parts; expected at most {PARTS_MAX}"
        )));
    }
    let mut parts = Vec::new();
    for (index, part) in list.iter().enumerate() {
        parts.extend(read_part(part, &format!("{field}[{index}]"))?);
    }
    Ok(parts)
}

fn text_part(text: &str) -> Vec<Part> {
    match text {
        "" => Vec::new(),
        text => vec![Part::Text { text: text.to_owned() }],
    }
}

fn read_part(part: &Value, field: &str) -> Result<Vec<Part>> {
    let block = match part["type"].as_str() {
        Some("text") => {
            return match &part["text"] {
                Value::String(text) => Ok(text_part(text)),
                other => Err(AguiError::wrong_type(&format!("{field}.text"), other, "a text")),
            };
        }
        Some(kind @ ("image" | "audio" | "video" | "document")) => {
            let source = &part["source"];
            medium(kind, source["type"].as_str(), &source["value"], &source["mimeType"])
        }
        // The form of versions before 1.0.
        Some("binary") => match (&part["data"], &part["url"]) {
            (data @ Value::String(_), _) => medium("file", Some("data"), data, &part["mimeType"]),
            (_, url) => medium("file", Some("url"), url, &part["mimeType"]),
        },
        _ => {
            let field = format!("{field}.type");
            let expected = "text, image, audio, video or document";
            return Err(AguiError::wrong_type(&field, &part["type"], expected));
        }
    };
    let Some(block) = block else {
        let message = format!(
            "`{field}.source` is not known; expected `data` with Base64, or `url` with an `https` address"
        );
        return Err(AguiError::invalid(message));
    };
    let read = langchain::blocks(Value::Array(vec![block]));
    read.map_err(|problem| AguiError::invalid(format!("`{field}`: {problem}")))
}

/// Returns the block of a medium; `None` for a source that nobody but a provider reads.
fn medium(kind: &str, source: Option<&str>, value: &Value, media_type: &Value) -> Option<Value> {
    let kind = if kind == "document" { "file" } else { kind };
    let name = match source? {
        "data" => "base64",
        // Only the provider of the model reads it.
        "url" if value.as_str().is_some_and(|url| url.starts_with("https://")) => "url",
        _ => return None,
    };
    let mut block = json!({"type": kind, name: value});
    if media_type.is_string() {
        block["mime_type"] = media_type.clone();
    }
    Some(block)
}

/// Returns a message of the user as the protocol has it, with the id of its client.
pub(crate) fn user_message(id: &str, message: &Message) -> Value {
    let is_text = message.parts.iter().all(|part| matches!(part, Part::Text { .. }));
    let content = match is_text {
        true => json!(message.joined_text()),
        false => message.parts.iter().filter_map(shown_part).collect(),
    };
    json!({"id": id, "role": "user", "content": content})
}

fn shown_part(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text } => Some(json!({"type": "text", "text": text})),
        Part::Media(Media { media_type, url }) => {
            let inline = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
            let source = match inline {
                Some((kind, value)) => json!({"type": "data", "value": value, "mimeType": kind}),
                None => json!({"type": "url", "value": url, "mimeType": media_type}),
            };
            let of_type = media_type.split('/').next();
            let known = of_type.filter(|kind| ["image", "audio", "video"].contains(kind));
            let kind = known.unwrap_or("document");
            Some(json!({"type": kind, "source": source}))
        }
        Part::Reasoning { .. } | Part::ToolCall(_) | Part::ToolResult(_) => None,
    }
}
