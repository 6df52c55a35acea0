//! Errors of sessions.

use weftwork_types::code::Fault;
use weftwork_types::{ErrorCode, ThreadId};

/// The state of a session cannot be read or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// A stored event is not one of its slice.
    #[error(
        "an event of slice `{slice}` cannot be read: {problem}; keep the events of earlier versions readable, for example with `#[serde(default)]`"
    )]
    Unreadable {
        /// The slice.
        slice: String,
        /// Description of the problem.
        problem: String,
    },
    /// An event cannot be written as JSON.
    #[error("an event of slice `{slice}` cannot be written as JSON: {problem}")]
    Unwritable {
        /// The slice.
        slice: String,
        /// Description of the problem.
        problem: String,
    },
    /// A snapshot has another version of the format.
    #[error("the snapshot of a session has version {found}; this program reads version {expected}")]
    Version {
        /// Version of the snapshot.
        found: u32,
        /// Version that this program reads.
        expected: u32,
    },
    /// The thread belongs to another session.
    #[error(
        "thread `{thread}` belongs to session `{expected}`, and session `{found}` was passed; pass the one that the evaluation began with, or none"
    )]
    Other {
        /// The thread.
        thread: ThreadId,
        /// Session that was passed.
        found: ThreadId,
        /// Session of the evaluation.
        expected: ThreadId,
    },
    /// The session is evaluated or saved at this moment.
    #[error(
        "session `{session}` is evaluated or saved at this moment, which stores its events; repeat the request after it"
    )]
    InUse {
        /// The session.
        session: ThreadId,
    },
    /// The evaluator stores no threads.
    #[error(
        "session `{session}` cannot be saved by an evaluator without a store; give it one with `EvaluatorBuilder::runtime`"
    )]
    NoStore {
        /// The session.
        session: ThreadId,
    },
    /// The run that saves the session was cancelled.
    #[error("the run that saves session `{session}` was cancelled; save it again")]
    Cancelled {
        /// The session.
        session: ThreadId,
    },
    /// The graph has no channel for the events of a session.
    #[error(
        "graph `{graph}` does not store sessions, so nothing can be dispatched in it; add `Session::channel()` to it with `Graph::channel`"
    )]
    NoChannel {
        /// The graph.
        graph: String,
    },
}

impl SessionError {
    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode("W0619")
    }

    /// Returns the error in the form that is stored and shown.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault::new(self.code(), self.to_string())
    }
}
