//! Errors of logins.

use crate::McpError;
use crate::text::short;
use weftwork_types::port::EgressError;

/// Maximum length of the words of a server in an error, in characters.
const WORDS_CHARS: usize = 300;

/// A login cannot be used or made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OauthError {
    /// A request was not answered.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// A request was sent, and no answer says what the server did.
    #[error("{problem}")]
    Unanswered {
        /// The problem, with the words of the server.
        problem: String,
    },
    /// A person has to log in.
    #[error("{problem}")]
    Needed {
        /// The reason.
        problem: String,
    },
    /// The login was refused, or an answer in it is not acceptable.
    #[error("{problem}")]
    Failed {
        /// The problem, with what to do.
        problem: String,
    },
}

impl OauthError {
    pub(crate) fn needed(problem: impl Into<String>) -> Self {
        Self::Needed { problem: problem.into() }
    }

    pub(crate) fn failed(problem: impl Into<String>) -> Self {
        Self::Failed { problem: problem.into() }
    }

    /// Returns the error of a renewal as one of the request that waits for it, which was not sent: its
    /// outcome is known.
    pub(crate) fn before_request(self) -> Self {
        let Self::Egress(error) = self else { return self };
        let host = match &error {
            EgressError::Timeout { host, .. }
            | EgressError::Broken { host, .. }
            | EgressError::TooLong { host, .. } => host.clone(),
            _ => return Self::Egress(error),
        };
        let reason = format!("the login was not renewed: {error}");
        Self::Egress(EgressError::Connect { host, reason })
    }

    /// Returns the error as one of a server.
    pub(crate) fn of(self, server: &str) -> McpError {
        let server = server.to_owned();
        match self {
            Self::Egress(source) => McpError::Egress { server, source },
            Self::Unanswered { problem } => McpError::Unanswered { server, problem },
            Self::Needed { problem } => McpError::LoginNeeded { server, problem },
            Self::Failed { problem } => McpError::LoginFailed { server, problem },
        }
    }
}

/// Words of a server in an error.
pub(crate) fn to_words(text: &str) -> String {
    short(text, WORDS_CHARS)
}
