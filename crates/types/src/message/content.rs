//! Results of tools as lists of blocks: texts and inline media, which models and clients read as such.

use super::block::{block, media_block};
use super::{Media, Part};
use serde_json::{Value, json};

/// Returns the parts of a value that is a list of blocks, each a text or an inline medium; `None` for
/// other values. A block with a URL is not one of them: models or their servers would fetch it.
///
/// ```
/// use serde_json::json;
/// use weftwork_types::message::{Part, content_parts};
///
/// let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
/// let parts = content_parts(&json!([{"type": "text", "text": "a chart"}, image])).expect("blocks");
/// assert!(matches!(parts.as_slice(), [Part::Text { .. }, Part::Media(_)]));
/// assert_eq!(content_parts(&json!([{"type": "text", "text": "a", "id": 1}])), None);
/// ```
#[must_use]
pub fn content_parts(value: &Value) -> Option<Vec<Part>> {
    let items = value.as_array().filter(|items| !items.is_empty())?;
    items.iter().map(content_part).collect()
}

fn content_part(item: &Value) -> Option<Part> {
    let members = item.as_object()?;
    match members.get("type")?.as_str()? {
        "text" if members.len() == 2 => {
            Some(Part::Text { text: members.get("text")?.as_str()?.to_owned() })
        }
        "image" | "image_url" | "audio" | "video" | "file" => match block(item) {
            Ok(Part::Media(media)) if is_inline(&media) => Some(Part::Media(media)),
            _ => None,
        },
        _ => None,
    }
}

fn is_inline(media: &Media) -> bool {
    media.url.starts_with("data:") && media.url.contains(";base64,")
}

/// Returns texts and media as a list of blocks, in the form that [`content_parts`] reads.
#[must_use]
pub fn content_blocks(parts: &[Part]) -> Value {
    let block = |part: &Part| match part {
        Part::Text { text } => Some(json!({"type": "text", "text": text})),
        Part::Media(media) => Some(media_block(media)),
        Part::Reasoning { .. } | Part::ToolCall(_) | Part::ToolResult(_) => None,
    };
    parts.iter().filter_map(block).collect()
}

/// Replaces media of a list of blocks for which there is a reason by notes with it. Other values stay
/// as they are.
pub fn note_media(value: &mut Value, reason: impl Fn(&Media) -> Option<String>) {
    let Some(mut parts) = content_parts(value) else { return };
    let mut is_noted = false;
    for part in &mut parts {
        let Part::Media(media) = &*part else { continue };
        if let Some(reason) = reason(media) {
            *part = Part::Text { text: media_note(media, &reason) };
            is_noted = true;
        }
    }
    if is_noted {
        *value = content_blocks(&parts);
    }
}

/// Returns a text in place of a medium.
#[must_use]
pub fn media_note(media: &Media, reason: &str) -> String {
    format!("[{} of {} bytes: {reason}]", media.media_type, media.bytes())
}

/// Returns the texts of a list of blocks, with notes in place of media; `None` for other values.
#[must_use]
pub fn content_text(value: &Value, reason: &str) -> Option<String> {
    let parts = content_parts(value)?;
    let text = |part: &Part| match part {
        Part::Text { text } => text.clone(),
        Part::Media(media) => media_note(media, reason),
        Part::Reasoning { .. } | Part::ToolCall(_) | Part::ToolResult(_) => String::new(),
    };
    Some(parts.iter().map(text).collect::<Vec<_>>().join("\n"))
}

impl Media {
    /// The length of the data of an inline medium, in bytes; 0 for one by URL.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let data = self.url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        let digits = data.map_or("", |(_, data)| data.trim_end_matches('='));
        digits.len() * 3 / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &str = "data:image/png;base64,AAAA";

    #[test]
    fn lists_of_blocks_are_content_and_nothing_else_is() {
        let image = json!({"type": "image_url", "image_url": {"url": PNG}});
        let text = json!({"type": "text", "text": "a"});
        for content in [
            json!([text]),
            json!([image]),
            json!([text, image, {"type": "audio", "mime_type": "audio/wav", "base64": "AA=="}]),
        ] {
            let parts = content_parts(&content).expect("content");
            assert_eq!(content_blocks(&parts), content);
        }
        for other in [
            json!([]),
            json!({"type": "text", "text": "a"}),
            json!([text, 1]),
            json!([{"type": "text", "text": "a", "score": 1}]),
            json!([{"type": "text", "text": 1}]),
            json!([{"type": "image_url", "image_url": {"url": "https://127.0.0.1/x.png"}}]),
            json!([{"type": "image_url", "image_url": {"url": "data:image/png,AA"}}]),
            json!([{"type": "image"}]),
            json!([{"type": "poem", "text": "a"}]),
        ] {
            assert_eq!(content_parts(&other), None, "{other}");
        }
    }

    #[test]
    fn a_note_stands_for_a_medium_with_its_type_and_size() {
        let mut value = json!([{"type": "image_url", "image_url": {"url": PNG}}]);
        let unchanged = value.clone();
        note_media(&mut value, |_| None);
        assert_eq!(value, unchanged);
        assert_eq!(content_text(&value, "here").expect("content"), "[image/png of 3 bytes: here]");
        note_media(&mut value, |media| Some(format!("no {}", media.media_type)));
        let note = "[image/png of 3 bytes: no image/png]";
        assert_eq!(value, json!([{"type": "text", "text": note}]));
    }
}
