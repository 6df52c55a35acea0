//! Images, audio, video and documents of messages. They are never fetched here.

use weftwork_types::message::Media;

/// The location of a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Location<'a> {
    /// Base64 of a `data:` URL.
    Base64(&'a str),
    /// An `https:` URL.
    Url(&'a str),
}

/// The kind of a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Image,
    Audio,
    Video,
    Pdf,
    Other,
}

/// Returns kind and location of a medium.
///
/// # Errors
/// The reason why no provider can be sent it.
pub(super) fn locate(media: &Media) -> Result<(Kind, Location<'_>), String> {
    let kind = match media.media_type.split('/').next().unwrap_or_default() {
        "image" => Kind::Image,
        "audio" => Kind::Audio,
        "video" => Kind::Video,
        _ if media.media_type == "application/pdf" => Kind::Pdf,
        _ => Kind::Other,
    };
    if media.url.starts_with("https:") {
        return Ok((kind, Location::Url(&media.url)));
    }
    let data = media.url.strip_prefix("data:").and_then(|rest| rest.split_once(','));
    match data {
        Some((head, data)) if head.ends_with(";base64") => Ok((kind, Location::Base64(data))),
        Some(_) => Err(refused(media, "a `data:` URL in base64")),
        None => Err(refused(media, "`https:` and `data:` URLs")),
    }
}

/// The reason for a refusal, with what is accepted instead.
pub(super) fn refused(media: &Media, accepted: &str) -> String {
    let scheme = media.url.split(':').next().unwrap_or_default();
    let kind = &media.media_type;
    format!("media of type `{kind}` from a `{scheme}:` URL; this protocol takes {accepted}")
}
