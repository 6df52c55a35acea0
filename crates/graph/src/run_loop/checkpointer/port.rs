//! Where checkpoints are kept.

use super::TaskRecords;
use crate::error::RuntimeError;
use crate::run_loop::event::Metadata;
use smallvec::SmallVec;
use std::sync::Arc;
use weftwork_engine::packed::Mark;
use weftwork_engine::pregel::Machine;
use weftwork_engine::{EngineError, Plan, TaskOutput};
use weftwork_types::{BoxFuture, CheckpointId, StoreError};

/// A thread, and the way to one of its graphs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckpointAddress {
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

/// Why a saver did not do what it was asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointerError {
    /// The store did not.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A checkpoint cannot be written, or is of another build of the graph.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Base for the next checkpoint, returned by the checkpointer.
#[derive(Debug, Clone, Default)]
pub struct WriteHint {
    /// The checkpoint relative to which the next one is written.
    pub mark: Option<Arc<Mark>>,
    /// `true` if that is the newest of its graph.
    pub newest: bool,
}

/// The answer of a saver: at once, where it need not wait.
pub enum WriteResult<'a> {
    /// At once.
    Now(Result<WriteHint, CheckpointerError>),
    /// When it is done.
    Later(BoxFuture<'a, Result<WriteHint, CheckpointerError>>),
}

impl WriteResult<'_> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// What the store said.
    pub async fn done(self) -> Result<WriteHint, CheckpointerError> {
        match self {
            Self::Now(result) => result,
            Self::Later(future) => future.await,
        }
    }
}

impl std::fmt::Debug for WriteResult<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Now(result) => f.debug_tuple("Now").field(result).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

/// Changes from outside to the superstep that starts at a checkpoint.
#[derive(Debug, Clone, Default)]
pub struct ExternalInput {
    /// Writes and targets, applied when the thread is loaded.
    pub output: TaskOutput,
    /// An answer that belongs to no task yet.
    pub resume: Option<serde_json::Value>,
}

/// A stored checkpoint, with what is known of the tasks that were due there.
#[derive(Debug, Clone)]
pub struct StoredCheckpoint {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The tasks of the superstep that starts there.
    pub tasks: TaskRecords,
    /// Input from outside the graph.
    pub outside: ExternalInput,
    /// For keeping the checkpoint after it.
    pub hint: WriteHint,
}

/// Keeps checkpoints of threads.
pub trait Checkpointer: Send + Sync + std::fmt::Debug {
    /// The checkpoint of that id, or the newest one, for a build of its graph.
    ///
    /// # Errors
    /// What the store said. A checkpoint that cannot be read is an error, never absent.
    fn load<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<StoredCheckpoint>, CheckpointerError>>;

    /// The id of the newest checkpoint.
    ///
    /// # Errors
    /// What the store said.
    fn newest<'a>(
        &'a self,
        at: &'a CheckpointAddress,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>, CheckpointerError>>;

    /// The greatest id of the checkpoints of all graphs of a thread.
    ///
    /// # Errors
    /// What the store said.
    fn newest_of_all<'a>(
        &'a self,
        thread: &'a str,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>, CheckpointerError>>;

    /// The checkpoints before one (or all), newest first, at most `limit`.
    ///
    /// # Errors
    /// What the store said.
    fn list<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredCheckpoint>, CheckpointerError>>;

    /// Keeps checkpoints, each with what the tasks left behind that were due at its predecessor:
    /// all of them or none. The first follows the checkpoint that `hint` is about.
    ///
    /// # Errors
    /// What the store said; nothing was kept then.
    fn put<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        hint: &WriteHint,
        puts: CheckpointWrites,
    ) -> WriteResult<'a>;

    /// Keeps what became of tasks while their superstep is still open.
    ///
    /// # Errors
    /// What the store said; nothing was kept then.
    fn put_tasks<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        tasks: TaskRecords,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>>;

    /// Keeps what came from outside, in place of what was kept before; an answer stays until
    /// another one comes.
    ///
    /// # Errors
    /// What the store said; nothing was kept then.
    fn put_outside<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        outside: ExternalInput,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>>;

    /// Forgets a thread: all its checkpoints of all its graphs.
    ///
    /// # Errors
    /// What the store said.
    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<(), CheckpointerError>>;

    /// Copies a thread with all its checkpoints under another name, replacing what is there.
    ///
    /// # Errors
    /// What the store said.
    fn copy<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>>;

    /// The ways to the graphs of a thread that have checkpoints, in order.
    ///
    /// # Errors
    /// What the store said.
    fn graphs<'a>(
        &'a self,
        thread: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Arc<str>>, CheckpointerError>>;

    /// Forgets all checkpoints of a graph but the newest `keep`.
    ///
    /// # Errors
    /// What the store said.
    fn prune<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        keep: usize,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>>;
}

/// Checkpoints to keep: mostly one.
pub type CheckpointWrites = SmallVec<[Box<CheckpointWrite>; 1]>;

/// A checkpoint to keep.
#[derive(Debug)]
pub struct CheckpointWrite {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The checkpoint that the tasks were due at; `None` if there was none before.
    pub of: Option<CheckpointId>,
    /// Task outcomes, as far as they were not stored before.
    pub tasks: TaskRecords,
    /// In hosted runs, the nodes that ran in the superstep, when it was one of the outermost graph.
    pub ran: Option<Vec<String>>,
}

impl From<CheckpointerError> for RuntimeError {
    fn from(error: CheckpointerError) -> Self {
        match error {
            CheckpointerError::Store(error) => Self::Store(error),
            CheckpointerError::Engine(error) => Self::Engine(error),
        }
    }
}
