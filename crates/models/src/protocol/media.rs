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
    if media.media_type == "image/svg+xml" {
        return Err(format!("media of type `image/svg+xml`; {}", image_types()));
    }
    if media.url.starts_with("https:") {
        return Ok((kind, Location::Url(&media.url)));
    }
    let data = media.url.strip_prefix("data:").and_then(|rest| rest.split_once(','));
    match data {
        Some((head, _)) if head.ends_with(";base64") && !media.has_base64() => Err(format!(
            "media of type `{}` whose data is not base64; encode the bytes of the file in base64",
            media.media_type
        )),
        Some((head, data)) if head.ends_with(";base64") => Ok((kind, Location::Base64(data))),
        Some(_) => Err(refused(media, "a `data:` URL in base64")),
        None => Err(refused(media, "`https:` and `data:` URLs")),
    }
}

/// Types of images that all providers read. Others refuse a request with another one.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Returns the reason for which a medium of a tool's result is not sent: nobody can leave it out of the
/// conversation after a refusal.
pub(super) fn reason_against(media: &Media) -> Option<String> {
    let is_odd =
        media.media_type.starts_with("image/") && !IMAGES.contains(&media.media_type.as_str());
    is_odd.then(image_types)
}

/// Checks that an image has a type that all providers read. That of an image by URL may be unknown.
pub(super) fn check_image(media: &Media) -> Result<(), String> {
    match reason_against(media) {
        Some(reason) if media.media_type != "image/*" => {
            Err(format!("media of type `{}`; {reason}", media.media_type))
        }
        _ => Ok(()),
    }
}

fn image_types() -> String {
    format!("images are read as {}", IMAGES.map(|kind| &kind[6..]).join(", "))
}

/// The reason for a refusal, with what is accepted instead.
pub(super) fn refused(media: &Media, accepted: &str) -> String {
    let scheme = media.url.split(':').next().unwrap_or_default();
    let kind = &media.media_type;
    format!("media of type `{kind}` from a `{scheme}:` URL; this protocol takes {accepted}")
}
