//! Blocks of the content of messages, in the forms of front ends.

use super::{Media, Part};
use serde_json::{Value, json};

/// Returns a medium as a block: an image in the form that every client reads, and others in that of
/// LangChain 1.
pub(super) fn media_block(media: &Media) -> Value {
    let kind = match media.media_type.split('/').next().unwrap_or_default() {
        "image" => return json!({"type": "image_url", "image_url": {"url": media.url}}),
        kind @ ("audio" | "video") => kind,
        _ => "file",
    };
    let data = media.url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match data {
        Some((_, data)) => json!({"type": kind, "mime_type": media.media_type, "base64": data}),
        None => json!({"type": kind, "mime_type": media.media_type, "url": media.url}),
    }
}

/// Returns `true` for a block that is for the client alone.
pub(super) fn is_ignored(block: &Value) -> bool {
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
    kind == "data" || kind == "step-start" || kind.starts_with("data-")
}

/// Reads a block in the forms of LangChain 0 and 1, OpenAI, Anthropic and the AI SDK.
pub(super) fn block(block: &Value) -> Result<Part, String> {
    if let Some(text) = block.as_str() {
        return Ok(Part::Text { text: text.to_owned() });
    }
    let kind = block.get("type").and_then(Value::as_str).unwrap_or("without type");
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    match kind {
        "text" | "input_text" | "output_text" => {
            Ok(Part::Text { text: text("text").unwrap_or_default().to_owned() })
        }
        // A text that was a file.
        "text-plain" if text("text").is_some() => {
            Ok(Part::Text { text: text("text").unwrap_or_default().to_owned() })
        }
        "image_url" | "input_image" | "image" | "audio" | "input_audio" | "video" | "file"
        | "input_file" | "document" | "text-plain" | "media" => {
            media(kind, block).map(Part::Media).ok_or_else(|| {
                format!(
                    "content block `{kind}` has no data that is known: expected a URL, or base64 \
                     with its media type"
                )
            })
        }
        kind => Err(format!(
            "content block `{kind}` is not known; expected text, image_url, image, audio, video or \
             file"
        )),
    }
}

/// Reads the medium of a block; `None` if it has none.
fn media(kind: &str, block: &Value) -> Option<Media> {
    let find = |paths: &[&str]| {
        let mut found = paths.iter().filter_map(|path| block.pointer(path)?.as_str());
        found.find(|text| !text.is_empty()).map(str::to_owned)
    };
    let media_type = find(&[
        "/mime_type",
        "/mimeType",
        "/media_type",
        "/mediaType",
        "/source/media_type",
        "/file/mime_type",
        "/input_audio/media_type",
    ]);
    let format = find(&["/input_audio/format"]).map(|format| match format.as_str() {
        "mp3" => "audio/mpeg".to_owned(),
        format => format!("audio/{format}"),
    });
    let urls = [
        "/image_url/url",
        "/image_url",
        "/url",
        "/source/url",
        "/file_url",
        "/file/file_data",
        "/file_data",
    ];
    // Some front ends put base64 where others put a URL.
    let (url, bare) = match find(&urls) {
        Some(text) if is_url(&text) || kind.contains("image") => (Some(text), None),
        other => (None, other),
    };
    let data = find(&["/base64", "/data", "/image", "/source/data", "/input_audio/data"]);
    let data = data.or(bare);
    let usual = match kind {
        "image_url" | "input_image" | "image" => "image/*",
        "audio" | "input_audio" => "audio/*",
        "video" => "video/*",
        "text-plain" => "text/plain",
        _ => "application/pdf",
    };
    // The data URL names its type.
    let of_url = |url: &str| {
        let head = url.strip_prefix("data:")?.split_once(',')?.0;
        head.split(';').next().filter(|kind| kind.contains('/')).map(str::to_owned)
    };
    let named = url.as_deref().or(data.as_deref()).and_then(of_url).or(media_type).or(format);
    let media_type = match named.unwrap_or_else(|| usual.to_owned()).to_ascii_lowercase() {
        kind if kind == "image/jpg" => "image/jpeg".to_owned(),
        kind => kind,
    };
    let url = match (url, data) {
        (Some(url), _) => url,
        (None, Some(data)) if is_url(&data) => data,
        (None, Some(data)) => format!("data:{media_type};base64,{data}"),
        (None, None) => return None,
    };
    Some(Media { media_type, url })
}

fn is_url(text: &str) -> bool {
    ["data:", "https://", "http://"].iter().any(|scheme| text.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_are_read_in_the_forms_of_all_front_ends() {
        let data = "data:image/png;base64,AA==";
        for (block, media_type, url) in [
            (
                json!({"type": "image_url", "image_url": {"url": data, "detail": "low"}}),
                "image/png",
                data,
            ),
            (json!({"type": "image_url", "image_url": "https://a/b"}), "image/*", "https://a/b"),
            (
                json!({"type": "image", "source_type": "base64", "mime_type": "image/png", "data": "AA=="}),
                "image/png",
                data,
            ),
            (
                json!({"type": "image", "base64": "AA==", "mime_type": "image/png"}),
                "image/png",
                data,
            ),
            (
                json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}),
                "image/png",
                data,
            ),
            (json!({"type": "file", "mediaType": "image/png", "url": data}), "image/png", data),
            (json!({"type": "file", "mediaType": "image/png", "data": data}), "image/png", data),
            (json!({"type": "image", "image": data}), "image/png", data),
            (json!({"type": "image", "image": "https://a/b"}), "image/*", "https://a/b"),
            (
                json!({"type": "image", "url": "data:image/jpg;base64,AA=="}),
                "image/jpeg",
                "data:image/jpg;base64,AA==",
            ),
            (
                json!({"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a"}}),
                "application/pdf",
                "data:application/pdf;base64,AA==",
            ),
            (
                json!({"type": "file", "file": {"file_data": "AA==", "mime_type": "application/pdf"}}),
                "application/pdf",
                "data:application/pdf;base64,AA==",
            ),
            (
                json!({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}),
                "audio/wav",
                "data:audio/wav;base64,AA==",
            ),
        ] {
            let read = super::block(&block).unwrap_or_else(|error| panic!("{block}: {error}"));
            let media = Media { media_type: media_type.to_owned(), url: url.to_owned() };
            assert_eq!(read, Part::Media(media.clone()), "{block}");
            let again = super::block(&media_block(&media)).expect("its own form");
            let Part::Media(again) = again else { panic!("{again:?}") };
            assert_eq!(
                again.url,
                url.replace("/jpg", if again.url.contains("/jpg") { "/jpg" } else { "/jpeg" })
            );
        }
        assert!(is_ignored(&json!({"type": "data-progress", "data": 1})));
        let said = block(&json!({"type": "text", "text": "hi"}));
        assert_eq!(said, Ok(Part::Text { text: "hi".to_owned() }));
        for unknown in [json!({"type": "poem"}), json!({"type": "image"}), json!({"text": "x"})] {
            assert!(super::block(&unknown).is_err(), "{unknown}");
        }
    }
}
