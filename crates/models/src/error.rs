//! How model calls fail.

use std::time::Duration;
use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;
use weftwork_types::port::{BudgetExceeded, EgressError, JournalError};

/// A model call failed. Split by what the caller can do about it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// No such model or provider is known.
    #[error("unknown model `{found}`; a model is PROVIDER:MODEL, known are: {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        found: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The provider wants a key and none is configured.
    #[error("provider `{provider}` needs a key: set the environment variable `{variable}`")]
    KeyMissing {
        /// The provider.
        provider: String,
        /// The environment variable that would hold the key.
        variable: String,
    },
    /// The provider refused the key.
    #[error("provider `{provider}` refused the key (status {status}); check `{variable}`")]
    KeyRefused {
        /// The provider.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// The environment variable that holds the key.
        variable: String,
    },
    /// The provider asks to slow down, or a quota is used up.
    #[error("provider `{provider}` throttles: {message}")]
    Throttled {
        /// The provider.
        provider: String,
        /// What it said, cut.
        message: String,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
        /// Whether waiting cannot help, because a quota is used up.
        quota_exhausted: bool,
    },
    /// The provider answered with an error of its own.
    #[error("provider `{provider}` failed with status {status}: {message}")]
    Provider {
        /// The provider.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// What it said, cut.
        message: String,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// The provider refused the request itself.
    #[error("provider `{provider}` refused the request (status {status}): {message}")]
    BadRequest {
        /// The provider.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// What it said, cut.
        message: String,
    },
    /// The answer stopped before its end.
    #[error("the answer of `{provider}` was cut off after {events} events: {reason}")]
    Truncated {
        /// The provider.
        provider: String,
        /// How many events had come.
        events: u64,
        /// How that showed.
        reason: String,
    },
    /// The answer is not what the protocol promises.
    #[error("the answer of `{provider}` cannot be read: {reason}")]
    Malformed {
        /// The provider.
        provider: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The provider could not be reached or did not answer in time.
    #[error("provider `{provider}` is out of reach: {source}")]
    Transport {
        /// The provider.
        provider: String,
        /// What happened on the way.
        source: EgressError,
    },
    /// The model cannot do what the request asks.
    #[error("model `{model}` cannot do this: {what}")]
    Unsupported {
        /// The model.
        model: String,
        /// What was asked.
        what: String,
    },
    /// A recording has no answer for this request.
    #[error("the recording `{file}` holds no answer for request {index}: {reason}")]
    NotRecorded {
        /// The recording.
        file: String,
        /// Which request, from 1.
        index: usize,
        /// Why it does not match.
        reason: String,
    },
    /// The embedded engine failed.
    #[error("the embedded model failed: {source}")]
    Engine {
        /// Why, with its own code.
        source: Fault,
    },
    /// The limit of tokens was reached inside a tool call, whose arguments are cut.
    #[error(
        "the answer of `{provider}` reached its limit of tokens inside the arguments of `{tool}`; raise `max_tokens`"
    )]
    CutByLimit {
        /// The provider.
        provider: String,
        /// The tool whose arguments are cut.
        tool: String,
    },
    /// A provider is described in a way that cannot be used.
    #[error("provider `{provider}` is not set up right: {reason}")]
    BadProvider {
        /// The provider.
        provider: String,
        /// What is wrong.
        reason: String,
    },
    /// The deadline passed.
    #[error("the deadline passed before `{provider}` had answered")]
    Deadline {
        /// The provider.
        provider: String,
    },
    /// The budget does not allow another call.
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
    /// The call could not be recorded, so it was not made.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl ModelError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode(match self {
            Self::Unknown { .. } => "W0301",
            Self::KeyMissing { .. } => "W0302",
            Self::KeyRefused { .. } => "W0303",
            Self::Throttled { .. } => "W0304",
            Self::Provider { .. } => "W0305",
            Self::BadRequest { .. } => "W0306",
            Self::Truncated { .. } => "W0307",
            Self::Malformed { .. } => "W0308",
            Self::Transport { .. } => "W0309",
            Self::Unsupported { .. } => "W0310",
            Self::NotRecorded { .. } => "W0311",
            Self::Engine { .. } => "W0312",
            Self::Deadline { .. } => "W0313",
            Self::Budget(error) => return error.code(),
            Self::Journal(_) => "W0314",
            Self::CutByLimit { .. } => "W0315",
            Self::BadProvider { .. } => "W0316",
        })
    }

    /// Whether another attempt of the same call may succeed.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Throttled { quota_exhausted, .. } => !quota_exhausted,
            Self::Provider { .. } | Self::Truncated { .. } => true,
            Self::Transport { source, .. } => source.is_retriable(),
            Self::Engine { source } => source.retriable,
            _ => false,
        }
    }

    /// How long the provider asks to wait before the next attempt.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after, .. } | Self::Provider { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }

    /// The error as it is stored and shown.
    #[must_use]
    pub fn fault(&self) -> Fault {
        let code = match self {
            Self::Engine { source } => return source.clone(),
            other => other.code(),
        };
        Fault::new(code, self.to_string()).retriable(self.is_retriable())
    }
}

#[cfg(test)]
mod tests;
