//! Errors of requests to agents of other servers.

use std::time::Duration;
use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;
use weftwork_types::port::EgressError;

/// Most characters of a text of the server in an error.
const TEXT_CHARS_MAX: usize = 300;

/// An error of a request to an agent of another server. Texts of the server have no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PeerError {
    /// The agent failed, or refused the request.
    #[error("the agent at {peer} {what}{}", after_colon(text))]
    Failed { peer: String, what: String, text: String, retriable: bool },
    /// The answer is not of the protocol.
    #[error("{what} of {peer} cannot be used: {reason}")]
    Invalid { peer: String, what: &'static str, reason: String },
    /// The card cannot be used.
    #[error("the card of {peer} cannot be used: {reason}")]
    Card { peer: String, reason: String },
    /// The server failed before, and is left alone.
    #[error(
        "{peer} failed before, and gets no request for {} ms", wait.as_millis()
    )]
    OutOfService { peer: String, wait: Duration },
    /// The check of the health of the server failed.
    #[error("{peer} does not answer that it is healthy: {reason}")]
    Unhealthy { peer: String, reason: String },
    /// There are no credentials.
    #[error("{0}")]
    Credentials(String),
    /// The request has no whole answer.
    #[error("{text}")]
    Network { source: EgressError, text: String },
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FailedAttempt {
    pub(crate) error: PeerError,
    /// `true` if the server may have done what it was asked for.
    pub(crate) may_have_acted: bool,
    /// Delay after which the same request may succeed; `None` if it does not.
    pub(crate) again: Option<Duration>,
}

impl PeerError {
    pub(crate) fn code(&self) -> ErrorCode {
        ErrorCode(match self {
            Self::Failed { .. } => "W1065",
            Self::Invalid { .. } => "W1066",
            Self::Card { .. } => "W1067",
            Self::OutOfService { .. } | Self::Unhealthy { .. } => "W1068",
            Self::Credentials(_) => "W1061",
            Self::Network { source, .. } => return source.code(),
        })
    }

    /// Returns `true` if the same request may succeed later.
    pub(crate) fn is_retriable(&self) -> bool {
        match self {
            Self::Failed { retriable, .. } => *retriable,
            Self::OutOfService { .. } | Self::Unhealthy { .. } => true,
            Self::Network { source, .. } => source.is_retriable(),
            Self::Invalid { .. } | Self::Card { .. } | Self::Credentials(_) => false,
        }
    }

    /// Returns `true` if the request was not sent.
    fn is_unsent(&self) -> bool {
        match self {
            Self::Card { .. }
            | Self::OutOfService { .. }
            | Self::Unhealthy { .. }
            | Self::Credentials(_) => true,
            Self::Failed { .. } | Self::Invalid { .. } | Self::Network { .. } => false,
        }
    }

    /// Converts the error to the form in which it is stored and shown.
    pub(crate) fn fault(&self) -> Fault {
        Fault { retriable: self.is_retriable(), ..Fault::new(self.code(), self.to_string()) }
    }

    /// The failure of a request that had no effect, and is not repeated.
    pub(crate) fn for_good(self) -> FailedAttempt {
        FailedAttempt { error: self, may_have_acted: false, again: None }
    }
}

impl FailedAttempt {
    /// The failure of a request whose earlier attempt may have had an effect: so may all together.
    pub(crate) fn after_attempt(self, earlier: Option<Self>) -> Self {
        match earlier {
            None => self,
            Some(earlier) if self.error.is_unsent() => Self { again: self.again, ..earlier },
            Some(_) => self.of_taken(),
        }
    }

    /// The failure of a request that the server took: it may have done it.
    pub(crate) fn of_taken(self) -> Self {
        Self { may_have_acted: true, ..self }
    }
}

impl From<PeerError> for FailedAttempt {
    fn from(error: PeerError) -> Self {
        error.for_good()
    }
}

/// Returns a text of a server for an error: its beginning, without control characters.
pub(crate) fn shorten(text: &str) -> String {
    let shown = text.chars().map(|char| if char.is_control() { ' ' } else { char });
    shown.take(TEXT_CHARS_MAX).collect()
}

fn after_colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}
