//! Answers of an API, and attempts that failed.

use crate::call::cut;
use encoding_rs::{Encoding, UTF_8};
use serde_json::{Value, json};
use std::time::Duration;
use weftwork_tools::ToolError;
use weftwork_types::ErrorCode;
use weftwork_types::port::EgressResponse;
use weftwork_types::tool::Effect;

/// Longest body that becomes a result whole, in bytes.
pub(super) const BODY_BYTES_MAX: usize = 640 << 10;
/// Most characters of the answer to a failed request in its error.
const TEXT_CHARS_MAX: usize = 300;

/// An answer of an API.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
    /// Delay that the server asks for.
    pub(super) retry_after: Option<Duration>,
    /// Address of the next page, as the header `Link` has it.
    pub(super) next_link: Option<String>,
}

impl Answer {
    /// The result of the call.
    pub(super) fn into_value(self) -> Value {
        json!({"status": self.status, "body": self.body})
    }

    /// Returns the answer; one that says that the request failed is its failure.
    pub(super) fn checked(self, effect: Effect) -> Result<Self, Failure> {
        let Self { status, body, retry_after, .. } = &self;
        let status = *status;
        if (200..300).contains(&status) {
            return Ok(self);
        }
        let text = match body {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let text: String = text.chars().take(TEXT_CHARS_MAX).collect();
        let what = match status {
            300..400 => "sends elsewhere, which is not followed: status",
            _ => "answered with status",
        };
        let colon = if text.is_empty() { "" } else { ": " };
        let message = format!("the API {what} {status}{colon}{text}");
        // A server, or one between, that failed may have done what it was asked for.
        let is_open = matches!(status, 408 | 500 | 502 | 503 | 504);
        let may_pass = is_open || matches!(status, 425 | 429);
        let made = match (is_open && effect != Effect::ReadOnly, may_pass) {
            (true, _) => ToolError::outcome_unknown(message),
            (false, true) => ToolError::unavailable(message),
            (false, false) => ToolError::failed(message),
        };
        Err(Failure {
            error: made.with_code(ErrorCode("W1060")),
            again: may_pass.then(|| retry_after.unwrap_or_default()),
        })
    }
}

/// Reads a body: JSON as its value, and a text in the charset that the answer names. Of others it
/// returns the type and the length.
pub(super) fn read_body(response: &EgressResponse, bytes: &[u8]) -> Value {
    let kind = response.header("content-type").unwrap_or_default().to_lowercase();
    let named = kind.split_once("charset=").map(|(_, name)| name.split(';').next());
    let named = named.flatten().map(|name| name.trim().trim_matches('"'));
    let charset = named.and_then(|name| Encoding::for_label(name.as_bytes()));
    // A mark of the order of bytes is no part of the text.
    let (text, _, is_wrong) = charset.unwrap_or(UTF_8).decode(bytes);
    let is_json = kind.contains("json");
    let says_text = is_json || kind.starts_with("text/") || kind.contains("xml");
    let is_packed =
        response.header("content-encoding").is_some_and(|of| !of.eq_ignore_ascii_case("identity"));
    if is_packed || (is_wrong && !says_text) {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        return json!({"media_type": kind, "bytes": bytes.len()});
    }
    match is_json.then(|| serde_json::from_str(&text)) {
        // More than a deliverable may have: the request was made, and its beginning is its result.
        _ if text.len() > BODY_BYTES_MAX => {
            cut(&text[..text.floor_char_boundary(BODY_BYTES_MAX / 2)])
        }
        Some(Ok(value)) => value,
        _ if text.is_empty() => Value::Null,
        _ => Value::String(text.into_owned()),
    }
}

/// An attempt that failed.
pub(super) struct Failure {
    pub(super) error: ToolError,
    /// Delay after which the same request may succeed; `None` if it does not.
    pub(super) again: Option<Duration>,
}

impl Failure {
    pub(super) fn of_secret(reason: &str) -> Self {
        Self { error: ToolError::failed(reason).with_code(ErrorCode("W1061")), again: None }
    }
}

/// Replaces secrets in a text.
pub(crate) fn without(mut text: String, secrets: &[String]) -> String {
    for secret in secrets {
        if text.contains(secret.as_str()) {
            text = text.replace(secret.as_str(), "[secret]");
        }
    }
    text
}

/// Replaces secrets in the texts of a value.
pub(crate) fn without_secrets(value: Value, secrets: &[String]) -> Value {
    match value {
        _ if secrets.is_empty() => value,
        Value::String(text) => Value::String(without(text, secrets)),
        Value::Array(items) => {
            items.into_iter().map(|item| without_secrets(item, secrets)).collect()
        }
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (without(name, secrets), without_secrets(value, secrets)))
            .collect(),
        other => other,
    }
}
