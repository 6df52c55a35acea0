//! Incidents of a run: the parts of the events of its log, in the order in which they happened.

use serde_json::Value as Json;
use weftwork_types::TaskId;
use weftwork_types::event::TaskStatus;

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
    Ended(TaskId, TaskStatus),
    /// The superstep was closed, or the run stopped in it: the values with the writes of its
    /// finished tasks, if they changed.
    Applied(Option<Json>),
    /// The run stopped before or after a node.
    StoppedAtNode,
}
