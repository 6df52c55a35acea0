//! Maps errors of the protocol to [`ModelError`].

use super::ServerConfig;
use crate::refusal::Refusal;
use crate::{ModelError, RefusalKind, Secret};
use serde_json::Value;
use weftwork_types::port::EgressResponse;

/// Maximum length in characters of a quoted provider message.
const MESSAGE_CHARS_MAX: usize = 300;

/// The provider, as error messages name it.
#[derive(Debug, Clone)]
pub(super) struct Source {
    provider: String,
    key_variable: String,
    /// The key, and values of headers and of the query.
    secrets: Vec<Secret>,
}

impl Source {
    pub(super) fn of(config: &ServerConfig) -> Self {
        Self {
            provider: config.provider.clone(),
            key_variable: config.key_variable.clone(),
            secrets: config.key.iter().cloned().chain(config.extras.secrets()).collect(),
        }
    }

    pub(super) fn provider(&self) -> &str {
        &self.provider
    }

    /// The error for an answer that the server would give again.
    pub(super) fn malformed(&self, reason: impl Into<String>) -> ModelError {
        let provider = self.provider.clone();
        ModelError::Malformed { provider, reason: reason.into(), retriable: false }
    }

    /// The error for an answer that another attempt may not repeat.
    pub(super) fn garbled(&self, reason: impl Into<String>) -> ModelError {
        let provider = self.provider.clone();
        ModelError::Malformed { provider, reason: reason.into(), retriable: true }
    }

    /// A provider's message for display: one line, shortened, without the key and without control
    /// characters.
    pub(super) fn quote(&self, text: &str) -> String {
        let hide = |text: String, secret: &Secret| secret.hide_in(&text);
        let text = self.secrets.iter().fold(text.to_owned(), hide);
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
    named(source, response.status, Refusal::of_response(response, body))
}

/// The error for an error object in a stream or in a body with a success status.
pub(super) fn from_object(source: &Source, status: u16, object: &Value) -> ModelError {
    named(source, status, Refusal::of_object(status, object))
}

fn named(source: &Source, status: u16, refusal: Option<Refusal>) -> ModelError {
    let Some(Refusal { kind, status, message, retry_after }) = refusal else {
        return source.malformed(format!("status {status} is not an answer"));
    };
    let provider = source.provider.clone();
    let message = source.quote(&message);
    match kind {
        RefusalKind::Auth => ModelError::KeyRefused {
            provider,
            status,
            message,
            variable: source.key_variable.clone(),
        },
        RefusalKind::RateLimit | RefusalKind::QuotaExhausted | RefusalKind::Timeout => {
            ModelError::Throttled { provider, message, retry_after, kind }
        }
        RefusalKind::Overloaded | RefusalKind::Unavailable => {
            ModelError::Provider { provider, status, message, retry_after, kind }
        }
        RefusalKind::ContextLength
        | RefusalKind::ContentFilter
        | RefusalKind::NotFound
        | RefusalKind::InvalidRequest => ModelError::BadRequest { provider, status, message, kind },
    }
}

#[cfg(test)]
mod tests;
