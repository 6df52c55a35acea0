//! Errors of remote graphs.

use weftwork_graph::NodeError;
use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;
use weftwork_types::port::EgressError;

/// A failure of a remote graph. `remote` is the name under which the program knows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The address of the server cannot be used.
    #[error(
        "remote `{remote}`: address `{found}` cannot be used: {reason}; expected one such as `https://agents.example`"
    )]
    BadAddress {
        /// The remote.
        remote: String,
        /// The address, without user name and password.
        found: String,
        /// The problem.
        reason: &'static str,
    },
    /// The server cannot be reached, also not by repeated attempts.
    #[error("remote `{remote}` cannot be reached: {source}")]
    Unreachable {
        /// The remote.
        remote: String,
        /// The last error of the HTTP client.
        source: EgressError,
    },
    /// The server refused a request.
    #[error("remote `{remote}` refused {what} with status {status}: {detail}")]
    Refused {
        /// The remote.
        remote: String,
        /// The request.
        what: &'static str,
        /// The HTTP status.
        status: u16,
        /// Reason that the server gave, shortened, and the variable of a key that is not set.
        detail: String,
    },
    /// The server redirects a request.
    #[error(
        "remote `{remote}` redirects {what} with status {status}; redirects are not followed, because the key of a server is sent to no other; set the final address of the server"
    )]
    Redirected {
        /// The remote.
        remote: String,
        /// The request.
        what: &'static str,
        /// The HTTP status.
        status: u16,
    },
    /// The server sent something that is not of the protocol.
    #[error("remote `{remote}` sent {what} that cannot be read: {reason}")]
    Malformed {
        /// The remote.
        remote: String,
        /// The part of the protocol.
        what: &'static str,
        /// The problem.
        reason: String,
    },
    /// The server sent more than the limit.
    #[error("remote `{remote}` sent {what} of more than {max}; reduce what the remote graph emits")]
    TooLarge {
        /// The remote.
        remote: String,
        /// The part of the protocol.
        what: &'static str,
        /// The limit with its unit.
        max: String,
    },
    /// The remote run failed.
    #[error("run `{run}` of remote `{remote}` failed: {kind}: {message}")]
    Failed {
        /// The remote.
        remote: String,
        /// Id of the run there.
        run: String,
        /// Kind of the failure, such as `ValueError`.
        kind: String,
        /// Message of the failure, shortened.
        message: String,
    },
    /// The remote run stopped without a result and without a question.
    #[error(
        "run `{run}` of remote `{remote}` stopped: {reason}; continue the local run to continue it"
    )]
    Stopped {
        /// The remote.
        remote: String,
        /// Id of the run there.
        run: String,
        /// The reason.
        reason: &'static str,
    },
    /// Another run is active on the remote thread.
    #[error(
        "thread `{thread}` of remote `{remote}` has an active run of another caller; wait for its end, or give each task a thread of its own"
    )]
    Busy {
        /// The remote.
        remote: String,
        /// Id of the thread there.
        thread: String,
    },
}

impl RemoteError {
    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode(match self {
            Self::BadAddress { .. } => "W0650",
            Self::Unreachable { .. } => "W0651",
            Self::Refused { .. } => "W0652",
            Self::Redirected { .. } => "W0653",
            Self::Malformed { .. } => "W0654",
            Self::TooLarge { .. } => "W0655",
            Self::Failed { .. } => "W0656",
            Self::Stopped { .. } => "W0657",
            Self::Busy { .. } => "W0658",
        })
    }

    /// Returns `true` if the same call may succeed later without a change.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => source.is_retriable(),
            Self::Refused { status, .. } => is_passing(*status),
            Self::Busy { .. } => true,
            _ => false,
        }
    }

    /// Returns the stored form.
    #[must_use]
    pub fn fault(&self) -> Fault {
        let fault = Fault::new(self.code(), self.to_string()).retriable(self.is_retriable());
        let fault = match self {
            Self::Failed { kind, .. } => fault.of_kind(kind.as_str()),
            _ => fault,
        };
        fault.with_sources_of(self)
    }

    pub(crate) fn into_node_error(self) -> NodeError {
        self.fault().into()
    }
}

/// Returns `true` for a status that may be another one later.
pub(crate) fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests {
    use super::RemoteError;

    fn remote() -> String {
        "helper".to_owned()
    }

    #[test]
    fn refusals_that_pass_are_retriable_and_failures_have_their_kind() {
        let refused = |status| RemoteError::Refused {
            remote: remote(),
            what: "the start of a run",
            status,
            detail: "no".to_owned(),
        };
        assert!(refused(503).fault().retriable && !refused(422).fault().retriable);
        let expected = "remote `helper` refused the start of a run with status 422: no";
        assert_eq!(refused(422).to_string(), expected);
        let failed = RemoteError::Failed {
            remote: remote(),
            run: "r".to_owned(),
            kind: "ValueError".to_owned(),
            message: "boom!".to_owned(),
        };
        let fault = failed.fault();
        assert_eq!((&*fault.code, fault.kind.as_deref()), ("W0656", Some("ValueError")));
    }
}
