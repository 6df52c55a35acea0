//! Base URLs of servers.

use super::Protocol;

/// Normalises a base URL: removes a trailing slash and the path of the endpoint. A URL without a
/// path gets the version at which servers of the protocol listen, such as `/v1`; for Anthropic and
/// Gemini, whose clients add it themselves, so does one whose path does not end with a version, such as
/// `https://api.example.com/anthropic`.
///
/// # Errors
/// The reason why the text is not a usable base URL.
pub(crate) fn base_url(text: &str, protocol: Protocol) -> Result<String, &'static str> {
    let (version, endpoint) = match protocol {
        Protocol::Openai => ("/v1", "/chat/completions"),
        Protocol::OpenaiResponses => ("/v1", "/responses"),
        Protocol::Anthropic => ("/v1", "/messages"),
        Protocol::Gemini => ("/v1beta", "/models"),
    };
    let text = text.trim();
    if text.contains(['?', '#']) {
        return Err(
            "a base URL has no query and no fragment; members of the query are those of `query`",
        );
    }
    let text = text.trim_end_matches('/');
    let text = text.strip_suffix(endpoint).unwrap_or(text).trim_end_matches('/');
    let rest = ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    let has_user = |rest: &str| rest.split('/').next().is_some_and(|host| host.contains('@'));
    match rest {
        Some(rest) if has_user(rest) => Err(
            "a base URL has no user name and password; set the header, such as `headers = { authorization = \"Basic ${NAME}\" }`",
        ),
        None => Err("a base URL begins with `https://` or `http://`"),
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Err("the base URL names no host"),
        Some(rest) => match rest.rsplit_once('/') {
            Some((_, last)) if !protocol.client_adds_version() || is_version(last) => {
                Ok(text.to_owned())
            }
            _ => Ok(format!("{text}{version}")),
        },
    }
}

/// Returns `true` for a segment such as `v1` or `v1beta`.
fn is_version(segment: &str) -> bool {
    segment
        .strip_prefix('v')
        .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

impl Protocol {
    /// Returns `true` if base URLs in the configuration of the protocol's own clients have no version.
    fn client_adds_version(self) -> bool {
        matches!(self, Self::Anthropic | Self::Gemini)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_normalised() {
        for (text, url) in [
            ("https://api.openai.com/v1", "https://api.openai.com/v1"),
            (" https://api.openai.com/v1/ \n", "https://api.openai.com/v1"),
            ("http://localhost:8080", "http://localhost:8080/v1"),
            ("http://localhost:8080/", "http://localhost:8080/v1"),
            ("http://h/v1/chat/completions", "http://h/v1"),
            ("https://h/api/openai/v1//", "https://h/api/openai/v1"),
        ] {
            assert_eq!(base_url(text, Protocol::Openai).as_deref(), Ok(url), "{text:?}");
        }
        for (protocol, text, url) in [
            (Protocol::OpenaiResponses, "http://h/v1/responses", "http://h/v1"),
            (Protocol::Anthropic, "https://h/v1/messages", "https://h/v1"),
            (Protocol::Anthropic, "https://h/api/anthropic/", "https://h/api/anthropic/v1"),
            (Protocol::Anthropic, "https://h/anthropic/v1", "https://h/anthropic/v1"),
            (Protocol::Gemini, "https://h", "https://h/v1beta"),
            (Protocol::Gemini, "https://h/google-ai-studio", "https://h/google-ai-studio/v1beta"),
            (Protocol::Gemini, "https://h/v1alpha", "https://h/v1alpha"),
            (Protocol::Gemini, "https://h/v1beta/models/", "https://h/v1beta"),
        ] {
            assert_eq!(base_url(text, protocol).as_deref(), Ok(url), "{text:?}");
        }
        for text in [
            "",
            "localhost:8080",
            "ftp://h/v1",
            "https://",
            "https:///v1",
            "http://h/?a",
            "http://user:pw@h/v1",
        ] {
            assert!(base_url(text, Protocol::Openai).is_err(), "{text:?}");
        }
    }
}
