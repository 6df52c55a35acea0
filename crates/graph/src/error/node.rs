//! Errors of nodes, and the other reasons for which a node stops.

use super::code::{NODE_CANCELLED, NODE_FAILED, RECORDS_NOT_STORED};
use super::runtime::fault_of;
use weftwork_engine::TaskOutput;
use weftwork_types::code::Fault;

/// The reason for which a node did not finish. Any error converts into one with `?`; its sources
/// become the causes of the fault.
#[derive(Debug)]
pub struct NodeError(pub(crate) Stop);

#[derive(Debug)]
pub(crate) enum Stop {
    /// The node asked a question that has no answer yet.
    Interrupted,
    /// The node failed.
    Failed(Fault),
    /// A command for the graph around this one.
    Parent(Box<TaskOutput>),
    /// A command for this graph from a subgraph: it counts as the result of the node.
    Own(Box<TaskOutput>),
    /// A graph that the node ran was asked to stop.
    Drained(Drain),
}

impl NodeError {
    /// The marker that a question is open. Made by [`Ctx::ask`](crate::Ctx::ask) only.
    pub(crate) fn interrupted() -> Self {
        Self(Stop::Interrupted)
    }

    /// Returns `true` if the node stopped at an open question rather than failing.
    #[must_use]
    pub fn is_interrupt(&self) -> bool {
        matches!(self.0, Stop::Interrupted)
    }

    /// Returns the failure; `None` if the node stopped for another reason, such as an open question.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        match &self.0 {
            Stop::Failed(fault) => Some(fault),
            _ => None,
        }
    }

    /// A failure with a message of the node's own.
    #[must_use]
    pub fn message(message: impl Into<String>) -> Self {
        Self(Stop::Failed(Fault::new(NODE_FAILED, message)))
    }

    /// Says that trying again may cure the failure, for [`Retry`](crate::Retry).
    #[must_use]
    pub fn retriable(self) -> Self {
        match self.0 {
            Stop::Failed(fault) => Self(Stop::Failed(fault.retriable(true))),
            other => Self(other),
        }
    }

    /// A failure of a kind that retry policies and callers can match by name.
    #[must_use]
    pub fn of_kind(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self(Stop::Failed(Fault::new(NODE_FAILED, message).of_kind(kind)))
    }
    /// Returns the failure; the error itself if the node stopped for another reason, such as an open
    /// question, and has to return it.
    ///
    /// # Errors
    /// The error, unchanged, if it is no failure.
    pub fn try_into_fault(self) -> Result<Fault, Self> {
        match self.0 {
            Stop::Failed(fault) => Ok(fault),
            other => Err(Self(other)),
        }
    }

    /// The failure, for reports.
    pub(crate) fn into_fault(self) -> Fault {
        match self.0 {
            Stop::Failed(fault) => fault,
            _ => Fault::new(NODE_FAILED, "the task stopped where it cannot"),
        }
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for NodeError {
    fn from(error: E) -> Self {
        let error: Box<dyn std::error::Error + Send + Sync> = Box::new(error);
        Self(Stop::Failed(fault_of(error)))
    }
}

/// Reason why a run stops after its superstep with work left to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Drain {
    /// A node asked for it, with this reason.
    Requested(String),
    /// The process shuts down; another one continues the run.
    Shutdown,
}

impl Drain {
    pub(crate) fn into_reason(self) -> String {
        match self {
            Self::Requested(reason) => reason,
            Self::Shutdown => "the process shuts down".to_owned(),
        }
    }
}

/// Returns the failure of a node that wrote a record in a run that stores none.
pub(crate) fn records_not_stored(node: &str) -> Fault {
    let text = format!(
        "node `{node}` wrote a record, and the checkpoints of its graph are not stored by a runtime; run the graph on a thread of a runtime"
    );
    Fault::new(RECORDS_NOT_STORED, text)
}

/// Returns the fault of code that still runs though its attempt was cut off.
pub(crate) fn cut_off(node: &str) -> Fault {
    let text = format!("node `{node}` was cut off; what it does since is refused");
    Fault::new(NODE_CANCELLED, text).of_kind("CancelledError")
}
