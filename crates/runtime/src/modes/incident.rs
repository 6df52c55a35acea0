//! Incidents of a run: the parts of the events of its log, in the order in which they happened.

use serde_json::Value as Json;
use weftwork_types::TaskId;
use weftwork_types::code::Fault;
use weftwork_types::event::TaskStatus;
use weftwork_types::interrupt::Interrupt;

/// Part of an event of the log, within a superstep of one of the run's graphs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Incident {
    /// A loop continued at a checkpoint.
    Continued,
    /// A superstep starts from its checkpoint.
    Checkpoint,
    /// A task starts.
    Started(TaskId),
    /// A task ended.
    Ended(TaskOutcome),
    /// The superstep was closed, or the run stopped in it: the values with the writes of its
    /// finished tasks, if they changed.
    Applied(Option<Json>),
    /// The run stopped, and these questions are open as before it.
    StillOpen(Vec<Interrupt>),
    /// The run stopped before or after a node.
    StoppedAtNode,
}

/// Outcome of a task when it ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TaskOutcome {
    pub(super) id: TaskId,
    pub(super) status: TaskStatus,
    pub(super) fault: Option<Fault>,
    /// Open questions of a task that did not finish.
    pub(super) questions: Vec<Interrupt>,
    /// `true` if the task failed after it had taken an answer.
    pub(super) answered: bool,
}
