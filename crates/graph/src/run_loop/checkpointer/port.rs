//! The port to the store of checkpoints.

use super::TaskRecords;
use crate::error::RuntimeError;
use crate::run_loop::event::Metadata;
use smallvec::SmallVec;
use std::sync::Arc;
use weftwork_engine::codec::DeltaBase;
use weftwork_engine::pregel::Machine;
use weftwork_engine::{EngineError, Plan, TaskOutput};
use weftwork_types::event::{TaskDue, TaskEnd};
use weftwork_types::{BoxFuture, CheckpointId, StoreError};

/// Address of a graph's checkpoints: a thread, and the namespace of one of its graphs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckpointAddress {
    /// The thread.
    pub thread: Arc<str>,
    /// The namespace of the graph; empty for the outermost one.
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

/// Error of a checkpointer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointerError {
    /// An error of the store.
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
    pub mark: Option<Arc<DeltaBase>>,
    /// `true` if that is the newest of its graph.
    pub newest: bool,
}

/// Result of a write: at once, unless the checkpointer has to wait.
pub enum WriteResult<'a> {
    /// At once.
    Now(Result<WriteHint, CheckpointerError>),
    /// Once the write is done.
    Later(BoxFuture<'a, Result<WriteHint, CheckpointerError>>),
}

impl WriteResult<'_> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// The error of the checkpointer.
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

/// A stored checkpoint, with the records of the tasks that were due there.
#[derive(Debug, Clone)]
pub struct StoredCheckpoint {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The tasks of the superstep that starts there.
    pub tasks: TaskRecords,
    /// Input from outside the graph.
    pub outside: ExternalInput,
    /// Hint for storing the next checkpoint.
    pub hint: WriteHint,
}

/// Stores checkpoints of threads.
pub trait Checkpointer: Send + Sync + std::fmt::Debug {
    /// The checkpoint of that id, or the newest one, for a build of its graph.
    ///
    /// # Errors
    /// The error of the store. A checkpoint that cannot be read is an error, never absent.
    fn load<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<StoredCheckpoint>, CheckpointerError>>;

    /// The id of the newest checkpoint.
    ///
    /// # Errors
    /// The error of the store.
    fn newest<'a>(
        &'a self,
        at: &'a CheckpointAddress,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>, CheckpointerError>>;

    /// The greatest id of the checkpoints of all graphs of a thread.
    ///
    /// # Errors
    /// The error of the store.
    fn newest_of_all<'a>(
        &'a self,
        thread: &'a str,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>, CheckpointerError>>;

    /// The checkpoints before one (or all), newest first, at most `limit`.
    ///
    /// # Errors
    /// The error of the store.
    fn list<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredCheckpoint>, CheckpointerError>>;

    /// Stores checkpoints, each with the records of the tasks that were due at its predecessor: all
    /// of them or none. The first follows the checkpoint that `hint` is about.
    ///
    /// # Errors
    /// The error of the store; nothing was stored then.
    fn put<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        hint: &WriteHint,
        puts: CheckpointWrites,
    ) -> WriteResult<'a>;

    /// Stores records of tasks while their superstep is still open.
    ///
    /// # Errors
    /// The error of the store; nothing was stored then.
    fn put_tasks<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        tasks: TaskRecords,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>>;

    /// Stores input from outside, in place of the input stored before; an answer stays until
    /// another one is stored.
    ///
    /// # Errors
    /// The error of the store; nothing was stored then.
    fn put_outside<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        outside: ExternalInput,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>>;

    /// Deletes a thread: all checkpoints of all its graphs.
    ///
    /// # Errors
    /// The error of the store.
    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<(), CheckpointerError>>;

    /// Copies a thread with all its checkpoints under another name, replacing what is there.
    ///
    /// # Errors
    /// The error of the store.
    fn copy<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>>;

    /// The namespaces of the graphs of a thread that have checkpoints, in order.
    ///
    /// # Errors
    /// The error of the store.
    fn graphs<'a>(
        &'a self,
        thread: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Arc<str>>, CheckpointerError>>;

    /// Deletes all checkpoints of a graph but the newest `keep`.
    ///
    /// # Errors
    /// The error of the store.
    fn prune<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        keep: usize,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>>;
}

/// Checkpoints to store: mostly one.
pub type CheckpointWrites = SmallVec<[Box<CheckpointWrite>; 1]>;

/// A checkpoint to store.
#[derive(Debug)]
pub struct CheckpointWrite {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The checkpoint that the tasks were due at; `None` if there was none before.
    pub of: Option<CheckpointId>,
    /// Task outcomes, as far as they were not stored before.
    pub tasks: TaskRecords,
    /// Tasks of the superstep that it closes, in runs that have a log.
    pub ended: Vec<TaskEnd>,
    /// Tasks that start from it, in runs that have a log, if they do not start in the order of the
    /// stored state: those of a branch.
    pub due: Option<Vec<TaskDue>>,
}

impl From<CheckpointerError> for RuntimeError {
    fn from(error: CheckpointerError) -> Self {
        match error {
            CheckpointerError::Store(error) => Self::Store(error),
            CheckpointerError::Engine(error) => Self::Engine(error),
        }
    }
}
