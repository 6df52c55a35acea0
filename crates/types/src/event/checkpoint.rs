//! Checkpoints and tasks as the log of a run reports them: by reference, without values.

use crate::code::Fault;
use crate::{CheckpointId, InterruptId, TaskId};
use serde::{Deserialize, Serialize};

/// A checkpoint that a run stored, of one of its graphs.
///
/// It closes the superstep whose tasks are in `ended`, and the tasks in `due` start from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckpointStored {
    /// Namespace of the graph, its parts separated by `|`; empty for the outermost graph.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ns: String,
    /// Id of the checkpoint.
    pub id: CheckpointId,
    /// Id of the checkpoint before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<CheckpointId>,
    /// Operation that made it.
    pub source: CheckpointSource,
    /// Number of its superstep; the first input has -1.
    pub step: i64,
    /// All tasks of the superstep that it closes, in the order in which they were planned: also
    /// those whose end a [`TasksEnded`](super::AiEvent::TasksEnded) has reported before, and those
    /// that had finished before the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<TaskEnd>,
    /// Tasks of the superstep that starts from it, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub due: Vec<TaskDue>,
}

impl CheckpointStored {
    /// Returns `true` if the checkpoint closes a superstep of the outermost graph in which nodes
    /// ran. A checkpoint of a subgraph does not.
    #[must_use]
    pub fn is_step(&self) -> bool {
        self.source == CheckpointSource::Loop && self.ns.is_empty() && !self.ended.is_empty()
    }
}

/// Operation that made a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckpointSource {
    /// None: the empty state before the first input, which some runs with durability `exit` store.
    Empty,
    /// Input of a run.
    Input,
    /// A superstep.
    Loop,
    /// A change of the state from outside.
    Update,
    /// A branch that runs again from an older checkpoint.
    Fork,
}

/// A task that starts from a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskDue {
    /// Id of the task.
    pub id: TaskId,
    /// Name of its node.
    pub node: String,
    /// Names of its triggers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<String>,
    /// `true` if the task had finished before the run, and does not run again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finished: bool,
}

/// Numbers of the writes and targets from outside the graph, of commands, that are stored with a
/// checkpoint when a run continues from it. Later commands add others after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutsideWrites {
    /// Number of writes to channels.
    #[serde(default)]
    pub writes: usize,
    /// Number of targets.
    #[serde(default)]
    pub targets: usize,
}

impl OutsideWrites {
    /// Returns `true` if there are none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A task that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskEnd {
    /// Id of the task.
    pub id: TaskId,
    /// Name of its node, or of the task of a flow.
    pub node: String,
    /// Outcome of the task.
    #[serde(default, skip_serializing_if = "TaskStatus::is_ok")]
    pub status: TaskStatus,
    /// Task whose code called this one, for tasks of flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<TaskId>,
    /// Failure of a task that failed. Its record has that of its last attempt only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Box<Fault>>,
    /// Open questions of a task that did not finish, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<InterruptId>,
    /// `true` if the task failed after it had taken an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answered: bool,
}

impl TaskEnd {
    /// Creates the end of a task of a node, without a failure or questions.
    #[must_use]
    pub fn new(id: TaskId, node: impl Into<String>, status: TaskStatus) -> Self {
        Self {
            id,
            node: node.into(),
            status,
            caller: None,
            fault: None,
            questions: Vec::new(),
            answered: false,
        }
    }
}

/// Outcome of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// The task ran and finished.
    #[default]
    Ok,
    /// It did not run: it had finished before, or the node cache had its result.
    Cached,
    /// It failed, or it was cut off because another task failed.
    Failed,
    /// It waits for answers.
    Asks,
    /// It stopped without a result: a subgraph of it stopped, or the run was drained.
    Stopped,
}

impl TaskStatus {
    /// Returns `true` if the task ran and finished.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        *self == Self::Ok
    }
}
