//! Blocks of results, and images, audio and documents in them.

use rmcp::model::{ContentBlock, ResourceContents};
use serde_json::{Value, json};
use weftwork_types::message::{Media, Part};

/// Beginnings of data in base64 with the media types that they show. Servers often name another one, and
/// providers refuse a request with an image that is not what its type says.
const SIGNATURES: [(&str, &str); 5] = [
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("JVBERi0", "application/pdf"),
    ("SUQz", "audio/mpeg"),
];

/// A block of a result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    Text(String),
    /// An image, audio or document.
    Media(Media),
    /// Another block, without its data.
    Other(Value),
}

impl Block {
    pub(crate) fn into_part(self) -> Part {
        match self {
            Self::Text(text) => Part::Text { text },
            Self::Media(media) => Part::Media(media),
            Self::Other(other) => Part::Text { text: other.to_string() },
        }
    }
}

/// Reads a block. Data that models cannot take is left out, with its size in its place.
pub(crate) fn read_block(block: ContentBlock) -> Block {
    let media = match &block {
        ContentBlock::Text(text) => return Block::Text(text.text.clone()),
        ContentBlock::Image(image) => read_media(&image.mime_type, &image.data, "image/"),
        ContentBlock::Audio(audio) => read_media(&audio.mime_type, &audio.data, "audio/"),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
                read_media(mime_type.as_deref().unwrap_or_default(), blob, "")
            }
            _ => None,
        },
        _ => None,
    };
    media.map_or_else(|| Block::Other(without_data(json!(block))), Block::Media)
}

/// Reads data in base64; `None` if it is not, or is of no kind that models take.
fn read_media(named: &str, data: &str, kind: &str) -> Option<Media> {
    // Some servers send a data URL, or lines.
    let (named, data) =
        match data.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
            Some((named, data)) => (named, data),
            None => (named, data),
        };
    let data: String = data.split_ascii_whitespace().collect();
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    if data.is_empty() || !data.bytes().all(is_base64) {
        return None;
    }
    let signature = SIGNATURES.iter().find(|signature| data.starts_with(signature.0));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/+-.".contains(&byte);
    let media_type = match signature {
        Some((_, shown)) => (*shown).to_owned(),
        None => named.split(';').next().unwrap_or_default().trim().to_ascii_lowercase(),
    };
    let known = ["image/", "audio/", "application/pdf"];
    let is_known = known.iter().any(|known| media_type.starts_with(known));
    if !is_known || !media_type.starts_with(kind) || !media_type.bytes().all(is_plain) {
        return None;
    }
    let url = format!("data:{media_type};base64,{data}");
    Some(Media { media_type, url })
}

/// Replaces encoded data by its length.
fn without_data(mut block: Value) -> Value {
    let Value::Object(members) = &mut block else { return block };
    for name in ["data", "blob"] {
        if let Some(data) = members.remove(name) {
            let length = data.as_str().map_or(0, str::len);
            members.insert("bytes".to_owned(), json!(length / 4 * 3));
        }
    }
    if let Some(inner) = members.get_mut("resource") {
        *inner = without_data(inner.take());
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_have_the_type_that_their_data_shows() {
        for (found, expected) in [
            (json!({"type": "image", "data": "AAAA", "mimeType": "image/png"}), Some("image/png")),
            (
                json!({"type": "image", "data": "/9j/AA==", "mimeType": "image/png"}),
                Some("image/jpeg"),
            ),
            (
                json!({"type": "image", "data": "iVBORw0KGgoA", "mimeType": "application/octet-stream"}),
                Some("image/png"),
            ),
            (
                json!({"type": "image", "data": "data:image/webp;base64,UklG\nAAAA", "mimeType": "png"}),
                Some("image/webp"),
            ),
            (json!({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}), Some("audio/wav")),
            (
                json!({"type": "resource", "resource": {"uri": "x:1", "blob": "JVBERi0x"}}),
                Some("application/pdf"),
            ),
            (
                json!({"type": "resource", "resource": {"uri": "x:1", "blob": "AAAA", "mimeType": "application/zip"}}),
                None,
            ),
            (json!({"type": "image", "data": "no base64!", "mimeType": "image/png"}), None),
            (json!({"type": "image", "data": "AAAA", "mimeType": "image/x\"y"}), None),
            (json!({"type": "image", "data": "", "mimeType": "image/png"}), None),
            (json!({"type": "resource_link", "uri": "x:1", "name": "a"}), None),
        ] {
            let read = read_block(serde_json::from_value(found.clone()).expect("a block"));
            match (read, expected) {
                (Block::Media(media), Some(expected)) => {
                    assert_eq!(media.media_type, expected, "{found}");
                    let (_, data) = media.url.split_once(";base64,").expect("a data URL");
                    assert!(!data.contains([' ', '\n', ':']), "{found}");
                }
                (Block::Other(other), None) => assert!(other.get("data").is_none(), "{other}"),
                (read, _) => panic!("{found}: {read:?}"),
            }
        }
    }
}
