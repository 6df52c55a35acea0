//! Maps errors of the protocol to [`ModelError`].

use super::OpenAiConfig;
use crate::{ModelError, Secret};
use serde_json::Value;
use std::time::Duration;
use weftwork_types::port::EgressResponse;

/// Maximum length in characters of a quoted provider message.
const MESSAGE_CHARS_MAX: usize = 300;

/// The provider, as error messages name it.
#[derive(Debug, Clone)]
pub(super) struct Source {
    provider: String,
    key_variable: String,
    key: Option<Secret>,
}

impl Source {
    pub(super) fn of(config: &OpenAiConfig) -> Self {
        Self {
            provider: config.provider.clone(),
            key_variable: config.key_variable.clone(),
            key: config.key.clone(),
        }
    }

    pub(super) fn provider(&self) -> &str {
        &self.provider
    }

    pub(super) fn malformed(&self, reason: impl Into<String>) -> ModelError {
        ModelError::Malformed { provider: self.provider.clone(), reason: reason.into() }
    }

    /// A provider's message for display: one line, shortened, without the key and without control
    /// characters.
    pub(super) fn quote(&self, text: &str) -> String {
        let text = match &self.key {
            Some(key) => key.hide_in(text),
            None => text.to_owned(),
        };
        let words: Vec<String> = text
            .split_whitespace()
            .map(|word| word.chars().filter(|c| !c.is_control()).collect())
            .collect();
        let line = words.join(" ");
        match line.char_indices().nth(MESSAGE_CHARS_MAX) {
            Some((at, _)) => format!("{}…", &line[..at]),
            None => line,
        }
    }
}

/// The error for a response with an error status.
pub(super) fn from_response(source: &Source, response: &EgressResponse, body: &[u8]) -> ModelError {
    let text = String::from_utf8_lossy(body);
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let failure = Failure {
        status: response.status,
        words: source.quote(&json.as_ref().and_then(words).unwrap_or(text.into_owned())),
        quota: json.as_ref().is_some_and(is_quota),
        retry_after: retry_after(response),
    };
    failure.named(source)
}

/// The error for an error object in a stream or in a body with a success status.
pub(super) fn from_object(source: &Source, status: u16, object: &Value) -> ModelError {
    let said = object.get("code").or_else(|| object.get("status"));
    let said = said.and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
    let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
    let code = object.get("code").and_then(Value::as_str).unwrap_or_default();
    let limited = kind.contains("rate_limit") || code.contains("rate_limit");
    let status = match said.and_then(|code| u16::try_from(code).ok()) {
        Some(code) if (400..600).contains(&code) => code,
        _ if limited || is_quota(object) => 429,
        _ => status,
    };
    let failure = Failure {
        status,
        words: source.quote(&words(object).unwrap_or_else(|| object.to_string())),
        quota: is_quota(object),
        retry_after: None,
    };
    failure.named(source)
}

struct Failure {
    status: u16,
    words: String,
    quota: bool,
    retry_after: Option<Duration>,
}

impl Failure {
    fn named(self, source: &Source) -> ModelError {
        let Self { status, words: message, quota, retry_after } = self;
        let provider = source.provider.clone();
        match status {
            401 | 403 => {
                ModelError::KeyRefused { provider, status, variable: source.key_variable.clone() }
            }
            // Some providers send "payment required" for an empty account.
            402 | 429 => ModelError::Throttled {
                provider,
                message,
                retry_after,
                quota_exhausted: quota || status == 402,
            },
            // Timeouts and conflicts on the provider's side are its errors, and so is an error
            // object with a success status.
            408 | 409 | 425 | 500.. | 200..300 => {
                ModelError::Provider { provider, status, message, retry_after }
            }
            400.. => ModelError::BadRequest { provider, status, message },
            _ => source.malformed(format!("status {status} is not an answer")),
        }
    }
}

/// The error message, in any of the places where servers put it.
fn words(json: &Value) -> Option<String> {
    let inner = json.get("error").filter(|error| !error.is_null()).unwrap_or(json);
    let found = match inner {
        Value::String(text) => return Some(text.clone()),
        other => ["message", "detail", "error"].iter().find_map(|name| other.get(name))?,
    };
    Some(found.as_str().map_or_else(|| found.to_string(), str::to_owned))
}

fn is_quota(json: &Value) -> bool {
    let inner = json.get("error").unwrap_or(json);
    let named = |name| inner.get(name).and_then(Value::as_str).unwrap_or_default();
    [named("code"), named("type")].iter().any(|word| {
        matches!(
            *word,
            "insufficient_quota" | "billing_hard_limit_reached" | "insufficient_balance"
        )
    })
}

/// The delay that the provider asks for. A date is relative to the response's own date, so that the
/// clocks need not agree.
fn retry_after(response: &EgressResponse) -> Option<Duration> {
    if let Some(ms) = response.header("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(ms / 1000.0).ok();
    }
    let text = response.header("retry-after")?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let from = httpdate::parse_http_date(response.header("date")?).ok()?;
    Some(until.duration_since(from).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests;
