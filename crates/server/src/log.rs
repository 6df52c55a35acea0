//! The log of a server: answered requests, and the runs that clients requested.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use weftwork_types::ThreadId;
use weftwork_types::run::{RunRef, RunStatus};

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogEntry {
    /// A request was answered. The events of a stream follow its answer.
    Answered {
        /// Method.
        method: String,
        /// Path without query, as the client sent it.
        path: String,
        /// Status of the answer.
        status: u16,
        /// Time until the answer began.
        took: Duration,
        /// `true` if the page of the server made the request: it reads what it shows at intervals.
        from_page: bool,
    },
    /// A run was accepted.
    RunBegun {
        /// The run.
        run: RunRef,
        /// Name of its graph.
        graph: String,
    },
    /// Members of the input of a run, or of a change of a state, were ignored, because the graph does
    /// not have them.
    InputIgnored {
        /// The thread.
        thread: ThreadId,
        /// Names of the members.
        members: Vec<String>,
    },
    /// A run that this server accepted has ended.
    RunEnded {
        /// The run.
        run: RunRef,
        /// Its final status.
        status: RunStatus,
        /// Time since it was accepted.
        took: Duration,
    },
}

/// The function that takes the entries.
#[derive(Clone)]
pub(crate) struct Log(Arc<dyn Fn(LogEntry) + Send + Sync>);

impl Log {
    pub(crate) fn new(log: impl Fn(LogEntry) + Send + Sync + 'static) -> Self {
        Self(Arc::new(log))
    }

    pub(crate) fn add(&self, entry: LogEntry) {
        (self.0)(entry);
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}
