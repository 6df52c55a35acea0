//! Results with content: a value, and the texts and media after it.

use crate::check;
use crate::redact;
use serde_json::Value;
use weftwork_types::message::{Media, Part, content_blocks, content_parts, note_media};

/// Maximum size of the media of a result, in bytes of base64.
const MEDIA_BYTES_MAX: usize = 4 << 20;
/// Maximum size of the media of a result in events, in bytes of base64. Clients find larger ones in the
/// stored result only if they may read it.
const SHOWN_BYTES_MAX: usize = 192 << 10;

/// Returns a value with content as the list of blocks that a model reads: the value as a text, and the
/// content. Without content it is the value.
pub(crate) fn joined(value: Value, content: Vec<Part>) -> Value {
    if content.is_empty() {
        return value;
    }
    let text = match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let parts: Vec<Part> = [Part::Text { text }].into_iter().chain(content).collect();
    content_blocks(&parts)
}

/// Returns the value with notes in place of media over the maximum size.
pub(crate) fn bounded(mut value: Value) -> Value {
    note_over(&mut value, MEDIA_BYTES_MAX, "too large for a result");
    value
}

/// Puts notes in place of media that are too large for events.
pub(crate) fn note_large_media(value: &mut Value) {
    note_over(value, SHOWN_BYTES_MAX, "for the model alone, because of its size");
}

fn note_over(value: &mut Value, bytes_max: usize, reason: &str) {
    let total = std::cell::Cell::new(0_usize);
    note_media(value, |media| {
        let after = total.get() + media.url.len();
        let is_over = after > bytes_max;
        if !is_over {
            total.set(after);
        }
        is_over.then(|| reason.to_owned())
    });
}

/// Returns the length of a value's JSON text without its media if it is over a limit.
pub(crate) fn bytes_over(value: &Value, bytes_max: usize) -> Option<usize> {
    let media = |part: &Part| match part {
        Part::Media(Media { url, .. }) => url.len(),
        _ => 0,
    };
    let media: usize = content_parts(value).unwrap_or_default().iter().map(media).sum();
    check::bytes_over(value, bytes_max + media).map(|bytes| bytes - media)
}

/// Returns the members of a result that may be shown. Of a value with content, they are the members of
/// the value.
pub(crate) fn shown(value: &Value, members: &[String]) -> Value {
    let parts = match redact::is_whole(members) {
        true => None,
        false => content_parts(value),
    };
    match parts.as_deref() {
        Some([Part::Text { text }, ..]) => match serde_json::from_str::<Value>(text) {
            Ok(value) => redact::shown(&value, members),
            Err(_) => redact::shown(value, members),
        },
        _ => redact::shown(value, members),
    }
}
