//! Errors of model calls.

use crate::RefusalKind;
use crate::chat::FinishReason;
use crate::protocol::UNNAMED;
use std::fmt;
use std::time::Duration;
use weftwork_types::ErrorCode;
use weftwork_types::code::{Fault, Phase};
use weftwork_types::port::{BudgetError, EgressError, JournalError};
use weftwork_types::secret::{HIDDEN_TEXT, HiddenValues};
use weftwork_types::usage::{Tokens, Usage};

/// A model call failed. Variants are split by what the caller can do about them.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Unknown model or provider.
    #[error("unknown model `{found}`; a model is PROVIDER:MODEL, known are: {}", listed(known))]
    Unknown {
        /// The requested model.
        found: String,
        /// The known models, closest name first.
        known: Vec<String>,
    },
    /// The provider requires a key, and none is configured.
    #[error("provider `{provider}` needs a key: set the environment variable `{variable}`")]
    KeyMissing {
        /// The provider.
        provider: String,
        /// The environment variable for the key.
        variable: String,
    },
    /// The provider refused the key.
    #[error(
        "provider `{provider}` refused the key (status {status}): {message}; {}",
        key_advice(variable)
    )]
    KeyRefused {
        /// The provider.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// The provider's message, shortened.
        message: String,
        /// The environment variable that holds the key.
        variable: String,
    },
    /// The provider limits the request rate, a quota is used up, or the provider did not finish in
    /// time.
    #[error("provider `{provider}` {}: {message}{}", throttled(*kind), asked_delay(*retry_after))]
    Throttled {
        /// The provider.
        provider: String,
        /// The provider's message, shortened.
        message: String,
        /// The delay that the provider asks for.
        retry_after: Option<Duration>,
        /// [`RefusalKind::RateLimit`], [`RefusalKind::QuotaExhausted`] or
        /// [`RefusalKind::Timeout`].
        kind: RefusalKind,
    },
    /// The provider answered with an error of its own.
    #[error("provider `{provider}` {}: {message}", failed(*kind, *status))]
    Provider {
        /// The provider.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// The provider's message, shortened.
        message: String,
        /// The delay that the provider asks for.
        retry_after: Option<Duration>,
        /// [`RefusalKind::Overloaded`] or [`RefusalKind::Unavailable`].
        kind: RefusalKind,
    },
    /// The provider rejected the request itself.
    #[error("provider `{provider}` refused the request (status {status}): {message}{}", advice(*kind))]
    BadRequest {
        /// The provider.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// The provider's message, shortened.
        message: String,
        /// [`RefusalKind::ContextLength`], [`RefusalKind::ContentFilter`],
        /// [`RefusalKind::NotFound`] or [`RefusalKind::InvalidRequest`].
        kind: RefusalKind,
    },
    /// The answer ended before it was complete.
    #[error("the answer of `{provider}` was cut off after {events} events: {reason}")]
    Truncated {
        /// The provider.
        provider: String,
        /// Number of events received before the end.
        events: u64,
        /// The sign of the truncation.
        reason: String,
    },
    /// The answer does not follow the protocol.
    #[error("the answer of `{provider}` cannot be read: {reason}")]
    Malformed {
        /// The provider.
        provider: String,
        /// The violation.
        reason: String,
        /// `true` if another attempt may give an answer that can be read.
        retriable: bool,
    },
    /// The answer has no text and no call, or reached its limit before them.
    #[error("the answer of `{provider}` {}", emptiness(*finish, *tokens, *limit))]
    Empty {
        /// The provider.
        provider: String,
        /// Why the answer ended.
        finish: FinishReason,
        /// Usage of the attempt.
        tokens: Tokens,
        /// The token limit of the request.
        limit: Option<u32>,
    },
    /// The provider could not be reached or did not answer in time.
    #[error("provider `{provider}` is out of reach: {source}")]
    Transport {
        /// The provider.
        provider: String,
        /// The transport error.
        source: EgressError,
    },
    /// The model does not support a part of the request.
    #[error("model `{model}` cannot do this: {what}")]
    Unsupported {
        /// The model.
        model: String,
        /// The unsupported part.
        what: String,
    },
    /// The recording has no answer for this request.
    #[error("the recording `{file}` holds no answer for request {index}: {reason}")]
    NotRecorded {
        /// The recording.
        file: String,
        /// Number of the request, from 1.
        index: usize,
        /// Why no recorded request matches.
        reason: String,
    },
    /// The embedded engine failed.
    #[error("the embedded model failed: {source}")]
    Engine {
        /// The cause, with its own code.
        source: Fault,
    },
    /// The token limit was reached inside a tool call, so its arguments are truncated.
    #[error(
        "the answer of `{provider}` reached the token limit inside the arguments of {}; raise `max_tokens`",
        called(tool)
    )]
    CutByLimit {
        /// The provider.
        provider: String,
        /// The tool whose arguments are truncated; empty if its name is not known.
        tool: String,
    },
    /// The provider paused its answer, and did not end it when it was asked to continue.
    #[error("the answer of `{provider}` is not complete: the provider paused it (`pause_turn`) {}", pauses(*continued))]
    Paused {
        /// The provider.
        provider: String,
        /// Number of requests that continued the answer.
        continued: usize,
    },
    /// The configuration of a provider is invalid.
    #[error("provider `{provider}` is not set up right: {reason}")]
    BadProvider {
        /// The provider.
        provider: String,
        /// The invalid part.
        reason: String,
    },
    /// The deadline passed.
    #[error("the deadline leaves no time for an answer of `{provider}`")]
    Deadline {
        /// The provider.
        provider: String,
    },
    /// The budget does not allow another call.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// The call could not be recorded, so it was not made.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Formats where to look after a key was refused.
fn key_advice(variable: &str) -> String {
    match variable {
        "" => "the provider has no key here: set `key_env` in its settings".to_owned(),
        variable => format!("check `{variable}`"),
    }
}

/// Number of known models that a message lists.
const LISTED_MAX: usize = 8;

/// Formats the closest of the known models.
fn listed(known: &[String]) -> String {
    let (closest, others) = known.split_at(known.len().min(LISTED_MAX));
    match others.len() {
        0 => closest.join(", "),
        others => format!("{} and {others} others", closest.join(", ")),
    }
}

impl ModelError {
    /// Returns the stable error code.
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
            Self::Deadline { .. } => "W0124",
            Self::Budget(error) => return error.code(),
            Self::Journal(_) => "W0314",
            Self::CutByLimit { .. } => "W0315",
            Self::BadProvider { .. } => "W0316",
            Self::Empty { .. } => "W0317",
            Self::Paused { .. } => "W0318",
        })
    }

    /// Returns `true` if another attempt of the same call may succeed.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Throttled { kind, .. } | Self::Provider { kind, .. } => kind.is_retriable(),
            Self::Truncated { .. } => true,
            Self::Malformed { retriable, .. } => *retriable,
            // The same limit would be reached again, and paid for.
            Self::Empty { finish, .. } => *finish != FinishReason::Length,
            Self::Transport { source, .. } => source.is_retriable(),
            Self::Engine { source } => source.retriable,
            Self::Budget(error) => error.is_retriable(),
            _ => false,
        }
    }

    /// The meaning of the provider's refusal, if it refused the request.
    #[must_use]
    pub fn refusal(&self) -> Option<RefusalKind> {
        match self {
            Self::KeyRefused { .. } => Some(RefusalKind::Auth),
            Self::Throttled { kind, .. }
            | Self::Provider { kind, .. }
            | Self::BadRequest { kind, .. } => Some(*kind),
            _ => None,
        }
    }

    /// The delay that the provider asks for before the next attempt.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after, .. } | Self::Provider { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }

    /// The error in the form that is stored and shown. The kind of the fault is that of the
    /// refusal.
    #[must_use]
    pub fn fault(&self) -> Fault {
        let code = match self {
            Self::Engine { source } => return source.clone(),
            Self::Budget(error) => return error.fault().in_phase(Phase::Model),
            other => other.code(),
        };
        let fault = Fault::new(code, self.to_string())
            .retriable(self.is_retriable())
            .with_sources_of(self)
            .in_phase(Phase::Model);
        let fault = match self.retry_after() {
            Some(delay) => fault.with_retry_after(delay),
            None => fault,
        };
        match self.refusal() {
            Some(kind) => fault.of_kind(kind.name()),
            None => fault,
        }
    }
}

impl ModelError {
    /// Returns the error without what a run hides: texts of providers may echo the request.
    pub(crate) fn shaped(mut self, hidden: &HiddenValues) -> Self {
        match &mut self {
            Self::KeyRefused { message, .. }
            | Self::Throttled { message, .. }
            | Self::Provider { message, .. }
            | Self::BadRequest { message, .. } => *message = hidden.shape(message),
            Self::Truncated { reason, .. }
            | Self::Malformed { reason, .. }
            | Self::NotRecorded { reason, .. } => *reason = hidden.shape(reason),
            Self::Engine { source } => hidden.shape_fault(source),
            Self::Journal(error) => hidden.shape_fault(&mut error.source),
            // These have no text from outside.
            Self::Unknown { .. }
            | Self::KeyMissing { .. }
            | Self::Transport { .. }
            | Self::Unsupported { .. }
            | Self::CutByLimit { .. }
            | Self::Empty { .. }
            | Self::Paused { .. }
            | Self::BadProvider { .. }
            | Self::Deadline { .. }
            | Self::Budget(_) => {}
        }
        self
    }

    /// Returns the error of an answer without quotations of it, which may have secret arguments that
    /// are not read yet.
    pub(crate) fn without_answer(mut self) -> Self {
        if let Self::Truncated { reason, .. } | Self::Malformed { reason, .. } = &mut self {
            HIDDEN_TEXT.clone_into(reason);
        }
        self
    }
}

/// Formats the tool of a call that was cut off.
fn called(tool: &str) -> String {
    match tool {
        "" | UNNAMED => "a call whose tool has no name yet".to_owned(),
        tool => format!("`{tool}`"),
    }
}

fn emptiness(finish: FinishReason, tokens: Tokens, limit: Option<u32>) -> String {
    if finish != FinishReason::Length {
        return "is empty: it ended without a text or a call".to_owned();
    }
    let limit = match limit {
        Some(limit) => format!("the token limit of {limit}"),
        None => "the token limit of the model or of the provider".to_owned(),
    };
    let spent = match tokens {
        Tokens { estimated: true, .. } => String::new(),
        Tokens { output, reasoning, .. } => {
            format!(", with {output} tokens, {reasoning} of them for reasoning")
        }
    };
    format!("reached {limit} before any text or call{spent}; raise `max_tokens`")
}

fn pauses(continued: usize) -> String {
    match continued {
        0 => "and this protocol cannot continue it".to_owned(),
        _ => format!("again after it was continued {continued} times, which is the limit"),
    }
}

fn throttled(kind: RefusalKind) -> &'static str {
    match kind {
        RefusalKind::QuotaExhausted => "has no quota left for the account",
        RefusalKind::Timeout => "did not finish in time",
        _ => "limits requests",
    }
}

/// Longest delay that an error does not name, because the call is made again after it.
const UNNAMED_DELAY_MAX: Duration = Duration::from_secs(60);

fn asked_delay(retry_after: Option<Duration>) -> String {
    match retry_after {
        Some(delay) if delay > UNNAMED_DELAY_MAX => {
            format!("; it asks to wait {} s, which is too long for a call", delay.as_secs())
        }
        _ => String::new(),
    }
}

fn failed(kind: RefusalKind, status: u16) -> String {
    match kind {
        RefusalKind::Overloaded => format!("is overloaded (status {status})"),
        _ => format!("failed with status {status}"),
    }
}

fn advice(kind: RefusalKind) -> &'static str {
    match kind {
        RefusalKind::ContextLength => "; the request is too long: send fewer or shorter messages",
        RefusalKind::ContentFilter => "; its content filter objects to the request or the answer",
        _ => "",
    }
}

/// A failed model call: the error of its last attempt, and the usage of all attempts.
///
/// Its source is its [`fault`](Self::fault): a node that returns the error, or wraps it, fails with the
/// code, the kind, the delay, the attempt and the usage of the call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelCallError {
    /// Error of the last attempt, or the limit that allowed no further one.
    pub error: Box<ModelError>,
    /// Number of attempts that were made.
    pub attempts: u32,
    /// Usage of all attempts.
    pub used: Usage,
    fault: Box<Fault>,
}

impl ModelCallError {
    /// Creates the error of a call. If a limit ended the call, its cause is the error of the last attempt
    /// that the provider ended.
    pub(crate) fn new(
        error: ModelError,
        last_attempt: Option<&ModelError>,
        attempts: u32,
        used: Usage,
    ) -> Self {
        let mut fault = error.fault();
        if let Some(last) = last_attempt {
            fault = fault.caused_by(&last.fault());
        }
        if attempts > 0 {
            fault = fault.at_attempt(attempts).with_usage(used);
        }
        Self { error: Box::new(error), attempts, used, fault: Box::new(fault) }
    }

    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.error.code()
    }

    /// Returns the error in the form that is stored and shown.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault::clone(&self.fault)
    }
}

impl fmt::Display for ModelCallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for ModelCallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.fault)
    }
}

#[cfg(test)]
mod tests;
