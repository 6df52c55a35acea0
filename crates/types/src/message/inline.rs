//! Inline media: `data:` URLs with base64.

use super::Media;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Maximum length of data in texts of errors, in characters.
const SHOWN_CHARS_MAX: usize = 20;

/// Beginnings of images in base64, with their types.
const SIGNATURES: [(&str, &str); 4] = [
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
];

/// Base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

impl Media {
    /// Returns the medium with its inline data in padded base64 of the standard alphabet: whitespace,
    /// the alphabet of URLs and missing padding are accepted, and percent-encoded data becomes base64.
    /// The type of an image is that of its data, where these show it: some providers refuse another
    /// one. A medium by URL stays as it is.
    ///
    /// ```
    /// use weftwork_types::message::Media;
    ///
    /// let media = |url: &str| Media { media_type: "image/png".to_owned(), url: url.to_owned() };
    /// let read = media("data:image/png;base64,_-A").normalize().expect("base64");
    /// assert_eq!(read.url, "data:image/png;base64,/+A=");
    /// assert!(media("data:image/png;base64,@@@").normalize().is_err());
    /// ```
    ///
    /// # Errors
    /// A text about data that is not base64, or that is missing, or about an image without a type.
    pub fn normalize(self) -> Result<Self, String> {
        let Some(rest) = self.url.strip_prefix("data:") else { return Ok(self) };
        let kind = &self.media_type;
        let Some((head, data)) = rest.split_once(',') else {
            return Err(format!(
                "the `data:` URL of type `{kind}` has no data; expected `data:{kind};base64,DATA`"
            ));
        };
        let lower = head.to_ascii_lowercase();
        let Some(named) = lower.strip_suffix(";base64") else {
            let bytes = decode_percent(data);
            if bytes.is_empty() {
                return Err(no_data(kind));
            }
            let url = format!("data:{kind};base64,{}", BASE64.encode(bytes));
            return Ok(Self { url, ..self });
        };
        let digits = match data.contains('%') {
            true => clean_digits(&decode_percent(data)),
            false => clean_digits(data.as_bytes()),
        };
        let is_base64 = digits.as_ref().is_some_and(|digits| BASE64.decode(digits).is_ok());
        let Some(mut digits) = digits.filter(|_| is_base64) else {
            let shown: String = data.chars().take(SHOWN_CHARS_MAX).collect();
            return Err(format!(
                "the data of type `{kind}` is not base64: found `{shown}`; encode the bytes of the \
                 file in base64"
            ));
        };
        if digits.is_empty() {
            return Err(no_data(kind));
        }
        while !digits.len().is_multiple_of(4) {
            digits.push('=');
        }
        if let Some(shown) = self.shown_type(&digits)? {
            let url = format!("data:{shown};base64,{digits}");
            return Ok(Self { media_type: shown.to_owned(), url });
        }
        if digits == data && head.ends_with(";base64") {
            return Ok(self);
        }
        let named = &head[..named.len()];
        Ok(Self { url: format!("data:{named};base64,{digits}"), ..self })
    }

    /// Returns the type that the data of an image show, if it is another one.
    fn shown_type(&self, digits: &str) -> Result<Option<&'static str>, String> {
        let is_image = self.media_type.starts_with("image/");
        let mut signatures = SIGNATURES.iter().filter(|_| is_image);
        match signatures.find(|(begin, _)| digits.starts_with(begin)) {
            Some((_, shown)) => Ok(Some(*shown).filter(|shown| self.media_type != *shown)),
            None if self.media_type == "image/*" => {
                Err("the image has no media type; name it, such as `image/png`".to_owned())
            }
            None => Ok(None),
        }
    }

    /// Returns the text of an inline file whose type is that of a text, such as CSV, JSON or
    /// Markdown; `None` for other media, and for a text that is not UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let (_, data) = self.url.strip_prefix("data:")?.split_once(";base64,")?;
        if !is_text(&self.media_type) {
            return None;
        }
        let text = String::from_utf8(BASE64.decode(data).ok()?).ok()?;
        Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
    }

    /// Returns `true` for inline data that is base64. Media by URL have none.
    #[must_use]
    pub fn has_base64(&self) -> bool {
        let data = self.url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        data.is_some_and(|(_, data)| !data.is_empty() && BASE64.decode(data).is_ok())
    }
}

fn no_data(kind: &str) -> String {
    format!("the data of type `{kind}` is empty; leave the part out, or send its content")
}

/// Returns `true` for the type of a text. A vector graphic is an image.
fn is_text(media_type: &str) -> bool {
    const APPLICATIONS: [&str; 10] =
        ["json", "ld+json", "x-ndjson", "jsonl", "xml", "yaml", "x-yaml", "toml", "csv", "sql"];
    let kind = media_type.split(';').next().unwrap_or_default().trim();
    kind.starts_with("text/")
        || kind.strip_prefix("application/").is_some_and(|kind| {
            APPLICATIONS.contains(&kind) || kind.ends_with("+json") || kind.ends_with("+xml")
        })
}

/// Returns digits without whitespace and padding, in the standard alphabet; `None` for a text that is
/// not ASCII.
fn clean_digits(data: &[u8]) -> Option<String> {
    let mut digits = String::with_capacity(data.len() + 3);
    for byte in data {
        match byte {
            b'-' => digits.push('+'),
            b'_' => digits.push('/'),
            byte if byte.is_ascii_whitespace() => {}
            byte if byte.is_ascii() => digits.push(char::from(*byte)),
            _ => return None,
        }
    }
    digits.truncate(digits.trim_end_matches('=').len());
    Some(digits)
}

/// Returns the bytes of a percent-encoded text. A `%` without two digits stands for itself.
fn decode_percent(text: &str) -> Vec<u8> {
    let text = text.as_bytes();
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let digit = |offset: usize| char::from(*text.get(at + offset)?).to_digit(16);
        let encoded = (*byte == b'%').then(|| Some(digit(1)? * 16 + digit(2)?)).flatten();
        match encoded.and_then(|code| u8::try_from(code).ok()) {
            Some(code) => {
                bytes.push(code);
                at += 3;
            }
            None => {
                bytes.push(*byte);
                at += 1;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(media_type: &str, url: &str) -> Media {
        Media { media_type: media_type.to_owned(), url: url.to_owned() }
    }

    #[test]
    fn inline_data_become_padded_base64() {
        for (url, normal) in [
            ("data:image/png;base64,QUJD", "data:image/png;base64,QUJD"),
            ("data:image/jpg;base64,AA==", "data:image/jpg;base64,AA=="),
            ("data:image/png;base64,QUJ\r\nDQUI", "data:image/png;base64,QUJDQUI="),
            ("data:image/png;BASE64,_-A", "data:image/png;base64,/+A="),
            ("data:image/png;base64,AA%3D%3D", "data:image/png;base64,AA=="),
            ("data:image/png,ABC", "data:image/png;base64,QUJD"),
            ("data:image/png;charset=utf-8,%41B%43", "data:image/png;base64,QUJD"),
            ("https://x.example/a.png", "https://x.example/a.png"),
        ] {
            let read = media("image/png", url).normalize().expect(url);
            assert_eq!(read.url, normal, "{url}");
            assert_eq!(read.has_base64(), url.starts_with("data:"), "{url}");
        }
        for (url, says) in [
            ("data:image/png;base64,@@@", "found `@@@`"),
            ("data:image/png;base64,QUJDQ", "is not base64"),
            ("data:image/png;base64,ä", "is not base64"),
            ("data:image/png;base64,", "is empty"),
            ("data:image/png,", "is empty"),
            ("data:image/png", "has no data"),
        ] {
            let error = media("image/png", url).normalize().expect_err(url);
            assert!(error.contains(says) && error.contains("image/png"), "{url}: {error}");
        }
    }

    #[test]
    fn an_image_has_the_type_of_its_data() {
        for (named, url, read) in [
            ("image/*", "data:image/*;base64,iVBORw0KGgo=", "data:image/png;base64,iVBORw0KGgo="),
            ("image/png", "data:image/png;base64,/9j/AA==", "data:image/jpeg;base64,/9j/AA=="),
            (
                "application/pdf",
                "data:application/pdf;base64,/9j/",
                "data:application/pdf;base64,/9j/",
            ),
        ] {
            let normal = media(named, url).normalize().expect(url);
            assert_eq!(normal.url, read);
            assert!(read.contains(&normal.media_type), "{normal:?}");
        }
        let error = media("image/*", "data:image/*;base64,AAAA").normalize().expect_err("no type");
        assert!(error.contains("no media type"), "{error}");
    }

    #[test]
    fn texts_are_read_from_files_of_texts_alone() {
        for (media_type, url, text) in [
            ("text/csv", "data:text/csv;base64,YSxiCjEsMg==", Some("a,b\n1,2")),
            ("text/plain; charset=utf-8", "data:text/plain;base64,77u/YQ==", Some("a")),
            ("application/json", "data:application/json;base64,e30=", Some("{}")),
            ("text/csv", "data:text/csv;base64,/w==", None),
            ("text/csv", "https://x.example/a.csv", None),
            ("image/svg+xml", "data:image/svg+xml;base64,YQ==", None),
            ("application/pdf", "data:application/pdf;base64,YQ==", None),
        ] {
            assert_eq!(media(media_type, url).text().as_deref(), text, "{media_type} {url}");
        }
    }
}
