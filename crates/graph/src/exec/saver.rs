//! Where checkpoints are kept.

use super::event::Metadata;
use super::kept::Calls;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::sync::Arc;
use weftwork_engine::ids::interrupt_id;
use weftwork_engine::packed::Mark;
use weftwork_engine::pregel::{Machine, Path};
use weftwork_engine::{EngineError, NodeIdx, Plan, TaskOutput};
use weftwork_types::code::Fault;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::{BoxFuture, CheckpointId, StoreError};

/// A thread, and the way to one of its graphs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The thread.
    pub thread: Arc<str>,
    /// The way to the graph; empty for the outermost one.
    pub ns: Arc<str>,
}

/// A checkpoint: a graph's state and what is due, with how it came about.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// Its id. Ids of one thread sort by age, those of all its graphs together.
    pub id: CheckpointId,
    /// The checkpoint before it.
    pub parent: Option<CheckpointId>,
    /// Its origin.
    pub metadata: Metadata,
    /// State and what is due.
    pub machine: Machine,
}

/// A task, told apart from the others of its superstep.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskKey {
    /// A task of a node.
    Node {
        /// The node.
        node: Arc<str>,
        /// The path by which it was scheduled.
        path: Path,
    },
    /// A task called from the code of another.
    Call {
        /// Its name.
        name: Arc<str>,
        /// The other.
        of: Arc<TaskKey>,
        /// Number of tasks that the other called before.
        index: u32,
    },
}

/// Task records: mostly of a single task.
pub type Records = SmallVec<[(TaskKey, TaskRecord); 1]>;

/// Why a saver did not do what it was asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SaverError {
    /// The store did not.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A checkpoint cannot be written, or is of another build of the graph.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Base for the next checkpoint, returned by the checkpointer.
#[derive(Debug, Clone, Default)]
pub struct Memo {
    /// The checkpoint relative to which the next one is written.
    pub mark: Option<Arc<Mark>>,
    /// `true` if that is the newest of its graph.
    pub newest: bool,
}

/// The answer of a saver: at once, where it need not wait.
pub enum Kept<'a> {
    /// At once.
    Now(Result<Memo, SaverError>),
    /// When it is done.
    Later(BoxFuture<'a, Result<Memo, SaverError>>),
}

impl Kept<'_> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// TaskOutcome the store said.
    pub async fn done(self) -> Result<Memo, SaverError> {
        match self {
            Self::Now(result) => result,
            Self::Later(future) => future.await,
        }
    }
}

impl std::fmt::Debug for Kept<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Now(result) => f.debug_tuple("Now").field(result).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

/// Outcome of a task, as far as it is known.
///
/// Most tasks finish at their first attempt; details of the others are stored separately and are
/// readable as if they were fields of this struct.
#[derive(Debug, Clone, Default)]
pub struct TaskRecord {
    /// Its writes: when it finished, or failed after it had written.
    pub output: Option<Arc<TaskOutput>>,
    /// `true` if its edges were followed; `false` if an error handler took over, or if it failed
    /// before.
    pub edges: bool,
    /// `true` if the output is only the input that waits at the checkpoint.
    pub is_input: bool,
    /// The calls it made, as far as they are kept with it: not in hosted runs.
    pub calls: Calls,
    /// Details beyond a result at the first attempt.
    pub rest: Option<Box<Rest>>,
}

/// Details of a task that did not simply finish.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rest {
    /// Its result, for the task of a flow.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some")]
    pub returned: Option<serde_json::Value>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Fault>,
    /// `true` if an error handler takes over.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub handled: bool,
    /// Its last questions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<Interrupt>,
    /// `true` if it continued past those: it failed afterwards, or a subgraph within it stopped.
    pub went_on: bool,
    /// `true` if a subgraph within it stopped before or after a node.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// The answers it got, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<Vec<serde_json::Value>>,
}

/// A member that is there has a value, even if that is `null`.
fn some<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<serde_json::Value>, D::Error> {
    serde_json::Value::deserialize(d).map(Some)
}

impl Rest {
    const NOTHING: Self = Self {
        returned: None,
        error: None,
        handled: false,
        interrupts: Vec::new(),
        went_on: false,
        stopped: false,
        resume: None,
    };
}

impl Default for Rest {
    fn default() -> Self {
        Self::NOTHING
    }
}

impl std::ops::Deref for TaskRecord {
    type Target = Rest;

    fn deref(&self) -> &Rest {
        static NOTHING: Rest = Rest::NOTHING;
        self.rest.as_deref().unwrap_or(&NOTHING)
    }
}

impl std::ops::DerefMut for TaskRecord {
    fn deref_mut(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }
}

impl From<Rest> for TaskRecord {
    fn from(rest: Rest) -> Self {
        Self { rest: Some(Box::new(rest)), ..Self::default() }
    }
}

impl TaskRecord {
    /// A task that finished.
    pub(super) fn finished(output: Arc<TaskOutput>) -> Self {
        Self { output: Some(output), edges: true, ..Self::default() }
    }

    /// Returns `true` if the task finished.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.output.is_some() || self.returned.is_some()
    }

    /// Returns `true` if the record is empty.
    pub(super) fn is_blank(&self) -> bool {
        let open = self.error.is_none() && self.interrupts.is_empty() && !self.stopped;
        !self.is_finished() && open
    }

    /// The questions that wait for an answer.
    pub(super) fn open_questions(&self) -> Vec<Interrupt> {
        if self.is_finished() || self.went_on {
            return Vec::new();
        }
        self.interrupts.iter().filter(|question| !self.has_answered(question)).cloned().collect()
    }

    /// Returns `true` if one of the answers that the task took belongs to this question of it.
    pub(super) fn has_answered(&self, question: &Interrupt) -> bool {
        let taken = self.resume.as_ref().map_or(0, Vec::len);
        let mut taken = 0..u32::try_from(taken).unwrap_or(u32::MAX);
        taken.any(|index| interrupt_id(question.task, index) == question.id)
    }

    /// Leaves out what is not stored. A task that left nothing else behind has not finished then.
    pub fn untrack(&mut self, plan: &Plan, node: NodeIdx) {
        let Some(output) = &mut self.output else { return };
        if !output.writes.iter().any(|(index, _)| plan.is_untracked(*index)) {
            return;
        }
        Arc::make_mut(output).writes.retain(|(index, _)| !plan.is_untracked(*index));
        let edges = self.edges && plan.has_edges(node);
        if output.writes.is_empty() && output.goto.is_empty() && !edges {
            self.output = None;
        }
    }

    /// Adds what is newly known. An output that is on record stays.
    pub fn merge(&mut self, newer: Self) {
        if self.output.is_none() && newer.output.is_some() {
            self.output = newer.output;
            self.edges = newer.edges;
            self.is_input = newer.is_input;
        }
        match (&mut self.calls, newer.calls) {
            (Some(known), Some(newer)) => known.merge(*newer),
            (known, newer) => *known = known.take().or(newer),
        }
        let Some(newer) = newer.rest else { return };
        let rest: &mut Rest = self;
        rest.returned = rest.returned.take().or(newer.returned);
        let failed = newer.error.is_some();
        rest.error = newer.error.or_else(|| rest.error.take());
        rest.handled |= newer.handled;
        if !newer.interrupts.is_empty() {
            rest.interrupts = newer.interrupts;
            rest.went_on = false;
        } else if failed || newer.stopped {
            rest.went_on = true;
        }
        rest.resume = newer.resume.or_else(|| rest.resume.take());
    }
}

/// Changes from outside to the superstep that starts at a checkpoint.
#[derive(Debug, Clone, Default)]
pub struct Outside {
    /// Writes and targets, applied when the thread is loaded.
    pub output: TaskOutput,
    /// An answer that belongs to no task yet.
    pub resume: Option<serde_json::Value>,
}

/// A stored checkpoint, with what is known of the tasks that were due there.
#[derive(Debug, Clone)]
pub struct Saved {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The tasks of the superstep that starts there.
    pub tasks: Records,
    /// Input from outside the graph.
    pub outside: Outside,
    /// For keeping the checkpoint after it.
    pub memo: Memo,
}

impl Saved {
    /// A thread on which nothing ran.
    pub(super) fn nothing(plan: &Arc<Plan>) -> Self {
        let metadata = Metadata { step: -2, ..Metadata::default() };
        let machine = Machine::new(Arc::clone(plan));
        let checkpoint = Checkpoint { id: CheckpointId(0), parent: None, metadata, machine };
        let (tasks, outside, memo) = (Records::new(), Outside::default(), Memo::default());
        Self { checkpoint, tasks, outside, memo }
    }
}

/// Keeps checkpoints of threads.
pub trait Saver: Send + Sync + std::fmt::Debug {
    /// The checkpoint of that id, or the newest one, for a build of its graph.
    ///
    /// # Errors
    /// TaskOutcome the store said. A checkpoint that cannot be read is an error, never absent.
    fn load<'a>(
        &'a self,
        at: &'a Place,
        plan: &'a Arc<Plan>,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<Saved>, SaverError>>;

    /// The id of the newest checkpoint.
    ///
    /// # Errors
    /// TaskOutcome the store said.
    fn newest<'a>(
        &'a self,
        at: &'a Place,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>, SaverError>>;

    /// The greatest id of the checkpoints of all graphs of a thread.
    ///
    /// # Errors
    /// TaskOutcome the store said.
    fn newest_of_all<'a>(
        &'a self,
        thread: &'a str,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>, SaverError>>;

    /// The checkpoints before one (or all), newest first, at most `limit`.
    ///
    /// # Errors
    /// TaskOutcome the store said.
    fn list<'a>(
        &'a self,
        at: &'a Place,
        plan: &'a Arc<Plan>,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Saved>, SaverError>>;

    /// Keeps checkpoints, each with what the tasks left behind that were due at its predecessor:
    /// all of them or none. The first follows the checkpoint that `memo` is about.
    ///
    /// # Errors
    /// TaskOutcome the store said; nothing was kept then.
    fn put<'a>(&'a self, at: &'a Place, memo: &Memo, puts: Puts) -> Kept<'a>;

    /// Keeps what became of tasks while their superstep is still open.
    ///
    /// # Errors
    /// TaskOutcome the store said; nothing was kept then.
    fn put_tasks<'a>(
        &'a self,
        at: &'a Place,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        tasks: Records,
    ) -> BoxFuture<'a, Result<(), SaverError>>;

    /// Keeps what came from outside, in place of what was kept before; an answer stays until
    /// another one comes.
    ///
    /// # Errors
    /// TaskOutcome the store said; nothing was kept then.
    fn put_outside<'a>(
        &'a self,
        at: &'a Place,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        outside: Outside,
    ) -> BoxFuture<'a, Result<(), SaverError>>;

    /// Forgets a thread: all its checkpoints of all its graphs.
    ///
    /// # Errors
    /// TaskOutcome the store said.
    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<(), SaverError>>;

    /// Copies a thread with all its checkpoints under another name, replacing what is there.
    ///
    /// # Errors
    /// TaskOutcome the store said.
    fn copy<'a>(&'a self, from: &'a str, to: &'a str) -> BoxFuture<'a, Result<(), SaverError>>;

    /// The ways to the graphs of a thread that have checkpoints, in order.
    ///
    /// # Errors
    /// TaskOutcome the store said.
    fn graphs<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<Vec<Arc<str>>, SaverError>>;

    /// Forgets all checkpoints of a graph but the newest `keep`.
    ///
    /// # Errors
    /// TaskOutcome the store said.
    fn prune<'a>(
        &'a self,
        at: &'a Place,
        plan: &'a Arc<Plan>,
        keep: usize,
    ) -> BoxFuture<'a, Result<(), SaverError>>;
}

/// Checkpoints to keep: mostly one.
pub type Puts = SmallVec<[Box<Put>; 1]>;

/// A checkpoint to keep.
#[derive(Debug)]
pub struct Put {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The checkpoint that the tasks were due at.
    pub of: CheckpointId,
    /// Task outcomes, as far as they were not stored before.
    pub tasks: Records,
    /// In hosted runs, the nodes that ran in the superstep, when it was one of the outermost graph.
    pub ran: Option<Vec<String>>,
}
