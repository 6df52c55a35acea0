//! Events that an in-process run emits.

use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use weftwork_engine::channel::MessageWrite;
use weftwork_types::code::Fault;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::{CheckpointId, InterruptId, MessageId, RunId, TaskId, Timestamp};

/// A set of stream modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes(u8);

impl Modes {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// The whole output after each superstep that changed it.
    pub const VALUES: Self = Self(1);
    /// Writes of each task.
    pub const UPDATES: Self = Self(2);
    /// Tasks as they start and end.
    pub const TASKS: Self = Self(4);
    /// Checkpoints as they are made.
    pub const CHECKPOINTS: Self = Self(8);
    /// Values that nodes and tools emit.
    pub const CUSTOM: Self = Self(16);
    /// Messages: partial text as models produce it, and the messages that nodes return.
    pub const MESSAGES: Self = Self(32);
    /// Tasks and checkpoints with the number of the superstep.
    pub const DEBUG: Self = Self(64);

    /// All modes, with their names.
    pub const NAMED: [(&str, Self); 7] = [
        ("values", Self::VALUES),
        ("updates", Self::UPDATES),
        ("tasks", Self::TASKS),
        ("checkpoints", Self::CHECKPOINTS),
        ("custom", Self::CUSTOM),
        ("messages", Self::MESSAGES),
        ("debug", Self::DEBUG),
    ];

    /// The mode of a name, as in `values`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|named| named.0 == name).map(|named| named.1)
    }

    /// Name of a mode; `None` for other sets.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Self::NAMED.iter().find(|named| named.1 == self).map(|named| named.0)
    }

    /// Name of a mode of the frames of remote runs; `None` for other sets.
    #[must_use]
    pub fn remote_name(self) -> Option<&'static str> {
        self.name().filter(|_| matches!(self, Self::VALUES | Self::UPDATES | Self::CUSTOM))
    }

    /// Returns `true` if any of these modes is in the set.
    #[must_use]
    pub const fn any_of(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns `true` if all of these modes are in the set.
    #[must_use]
    pub const fn all_of(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the modes of both sets, as `|` does in constants.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the modes of the set that are not among the others.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl std::ops::BitOr for Modes {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// An event and the graph it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamItem {
    /// The namespace of the graph: `node:task` for each task that runs a graph, from the outside
    /// in; empty for the outermost graph.
    pub ns: Vec<String>,
    /// The event.
    pub event: StreamEvent,
}

/// An event of the stream.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// The current output.
    Values {
        /// The output.
        values: Json,
        /// The questions, when the run stops at them.
        interrupts: Option<Vec<Interrupt>>,
    },
    /// Writes of a task.
    Updates {
        /// The node.
        node: String,
        /// Its writes to the output: nothing, one object, or one for each write when it wrote a
        /// channel more than once.
        updates: Vec<Vec<(String, Written)>>,
        /// Its result, for a [`Flow`](crate::Flow) and its tasks.
        returned: Option<Json>,
        /// `true` if it was not run, because it had finished before or its result was cached.
        cached: bool,
    },
    /// The run stops at questions, or, without any, before or after a node.
    Interrupts(Vec<Interrupt>),
    /// A task starts.
    TaskStarted(TaskStarted),
    /// A task ended.
    TaskEnded(TaskEnded),
    /// A checkpoint was made.
    Checkpoint(Box<Snapshot>),
    /// A value that a node or a tool emitted.
    Custom(Json),
    /// A frame whose data every client gets as it is: of the stream of a run on another server, or of
    /// a mode without an event of its own.
    Data {
        /// Its mode; values, updates or custom events for a frame of another server.
        mode: Modes,
        /// Its data, in the form of that server or of the mode.
        data: Json,
    },
    /// A message, or a part of one.
    Message {
        /// The message, its text, or what happened to it.
        part: MessagePart,
        /// The node it comes from.
        node: String,
        /// The superstep.
        step: i64,
    },
    /// A checkpoint or a task with the number of the superstep.
    Debug {
        /// The superstep.
        step: i64,
        /// The checkpoint or task.
        event: Box<StreamEvent>,
    },
}

/// A message as streams show it. What belongs to one message has its id.
#[derive(Debug, Clone, PartialEq)]
pub enum MessagePart {
    /// Partial text of a message that a model is producing.
    Chunk {
        /// The message.
        id: MessageId,
        /// The text that follows the chunks before.
        text: String,
    },
    /// The attempt that emitted chunks of the message failed: the chunks are void.
    Reset {
        /// The message.
        id: MessageId,
    },
    /// A message that a node returned, or its removal. It is emitted once in a run, and not at all
    /// when chunks of it were, or when a node got it in its input.
    Returned(MessageWrite),
}

/// A task that starts.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskStarted {
    /// Its id.
    pub id: TaskId,
    /// The node, or the task of a flow.
    pub name: String,
    /// Its input.
    pub input: Json,
    /// Its triggers.
    pub triggers: Vec<String>,
    /// `true` for a task of a flow.
    pub call: bool,
}

/// A task that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskEnded {
    /// Its id.
    pub id: TaskId,
    /// The node, or the task of a flow.
    pub name: String,
    /// Its writes to the state.
    pub result: Vec<(String, Written)>,
    /// Its failure.
    pub error: Option<Fault>,
    /// Its questions.
    pub interrupts: Vec<Interrupt>,
}

/// A write as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// For the reducer.
    Put(Json),
    /// In place of the value.
    Overwrite(Json),
}

/// A thread at one of its checkpoints.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// The state.
    pub values: Json,
    /// The nodes that are due and have not finished, one that is sent to several times as often.
    pub next: Vec<String>,
    /// Its place in the thread.
    pub config: Option<CheckpointRef>,
    /// The checkpoint before it.
    pub parent: Option<CheckpointRef>,
    /// Its origin; `None` for a thread on which nothing ran.
    pub metadata: Option<Metadata>,
    /// The tasks that were due, and their outcomes.
    pub tasks: Vec<TaskSnapshot>,
    /// The questions of the tasks.
    pub interrupts: Vec<Interrupt>,
    /// The run that made it; `None` for a run within a program, and if it is not known.
    pub run: Option<SnapshotRun>,
    /// Reason for which this build cannot read the checkpoint. Only histories have such snapshots;
    /// they have a place, no values and no tasks.
    pub error: Option<Fault>,
}

impl Snapshot {
    /// Id of the checkpoint: [`Run::at`](crate::run_loop::Run::at) begins from it. `None` for a thread
    /// on which nothing ran.
    #[must_use]
    pub fn checkpoint(&self) -> Option<CheckpointId> {
        self.config.as_ref()?.id
    }

    /// Creates the snapshot of a checkpoint that cannot be read.
    #[must_use]
    pub fn unreadable(ns: &str, id: CheckpointId, error: Fault) -> Self {
        let config = CheckpointRef { ns: ns.to_owned(), id: Some(id), ..CheckpointRef::default() };
        Self { config: Some(config), error: Some(error), ..Self::default() }
    }

    /// Drops questions that have an answer which their tasks have not taken yet.
    pub fn drop_answered(&mut self, answered: &BTreeSet<InterruptId>) {
        let is_open = |asked: &Interrupt| !answered.contains(&asked.id);
        self.interrupts.retain(is_open);
        for task in &mut self.tasks {
            task.interrupts.retain(is_open);
            if let Some(SubState::Snapshot(within)) = &mut task.state {
                within.drop_answered(answered);
            }
        }
    }
}

/// The run that made a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotRun {
    /// Id of the run.
    pub id: RunId,
    /// Time at which the checkpoint was committed; `None` if the events of the run are dropped.
    pub committed_at: Option<Timestamp>,
    /// Metadata of the request for the run.
    pub metadata: serde_json::Map<String, Json>,
}

/// A checkpoint of a thread, with those around it; or the graph at a namespace, without a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckpointRef {
    /// The namespace of the graph, its parts separated by `|`; empty for the outermost graph.
    pub ns: String,
    /// The checkpoint.
    pub id: Option<CheckpointId>,
    /// The checkpoints of this graph and those around it, by their namespaces; empty for the
    /// outermost graph.
    pub map: BTreeMap<String, CheckpointId>,
}

impl CheckpointRef {
    pub(crate) fn of(ns: &str, id: Option<CheckpointId>, metadata: &Metadata) -> Self {
        let mut map = metadata.parents.clone();
        if let (false, Some(id)) = (map.is_empty(), id) {
            map.insert(ns.to_owned(), id);
        }
        Self { ns: ns.to_owned(), id, map }
    }
}

/// Origin of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata {
    /// The kind of operation that made it.
    pub source: Source,
    /// The number of its superstep; the first input has -1.
    pub step: i64,
    /// The checkpoints of the graphs around this one, by their namespaces.
    pub parents: BTreeMap<String, CheckpointId>,
    /// Its branch of the thread: the id of the checkpoint with which that begins, or 128 bits that
    /// the first branch is known by. None on the first branch of threads that older programs began.
    pub branch: Option<CheckpointId>,
    /// Updates and supersteps of counted channels since their counts started over.
    pub delta: BTreeMap<String, (u64, u64)>,
}

/// The kind of operation that made a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// New input.
    Input,
    /// A superstep.
    #[default]
    Loop,
    /// A change from outside.
    Update,
    /// Running again what was due at an older checkpoint.
    Fork,
    /// No operation: the thread has no checkpoint yet.
    Nothing,
}

/// A task that was due at a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskSnapshot {
    /// Its id.
    pub id: TaskId,
    /// The node.
    pub name: String,
    /// The path by which the task was scheduled.
    pub path: weftwork_engine::pregel::Path,
    /// Its failure.
    pub error: Option<Fault>,
    /// Its questions.
    pub interrupts: Vec<Interrupt>,
    /// Its result, once it finished.
    pub result: Option<TaskResult>,
    /// The graph it runs.
    pub state: Option<SubState>,
}

/// Result of a finished task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskResult {
    /// Its writes.
    Writes(Vec<(String, Written)>),
    /// Its return value.
    Returned(Json),
}

/// The graph that a task runs.
#[derive(Debug, Clone, PartialEq)]
pub enum SubState {
    /// Reference to its newest checkpoint.
    Checkpoint(CheckpointRef),
    /// Its state.
    Snapshot(Box<Snapshot>),
}
