//! Checkpoints of graphs, as bytes whose format only the graph crate defines.

use crate::table::Result;
use weftwork_types::canonical::Hash;
use weftwork_types::{BoxFuture, CheckpointId, Principal, ThreadId};

/// The checkpoint namespace of one graph within a thread.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointNamespace {
    /// The thread.
    pub thread: ThreadId,
    /// Path to the graph; empty for the root graph.
    pub ns: String,
}

/// A checkpoint to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCheckpoint {
    /// Path to the graph.
    pub ns: String,
    /// Id. Ids of one thread sort by age, over all its graphs.
    pub id: CheckpointId,
    /// Checkpoint at which the tasks in `tasks` were due; `None` if there are none.
    pub of: Option<CheckpointId>,
    /// Results of these tasks, except those stored earlier.
    pub tasks: Vec<u8>,
    /// State, and the tasks that are due.
    pub body: Vec<u8>,
    /// Blobs that `body` and `tasks` refer to.
    pub blobs: Vec<Hash>,
}

/// A stored part of an open superstep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPending {
    /// Path to the graph.
    pub ns: String,
    /// Checkpoint at which the superstep started.
    pub of: CheckpointId,
    /// Kind of the part.
    pub what: Pending,
    /// Content, as bytes.
    pub body: Vec<u8>,
    /// Blobs that `body` refers to.
    pub blobs: Vec<Hash>,
}

/// The kind of a stored part of an open superstep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pending {
    /// External input. It replaces earlier external input.
    Outside,
    /// Task results. They are added to earlier ones.
    Tasks,
}

/// A batch of checkpoint writes, applied in one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckpointBatch {
    /// Checkpoints, in order. A checkpoint with an existing id replaces the old one; its parts of
    /// the open superstep are retained.
    pub checkpoints: Vec<NewCheckpoint>,
    /// Parts of open supersteps, in order.
    pub pending: Vec<NewPending>,
    /// Values too large for a row, by the hash of their bytes. Existing ones are not changed.
    pub blobs: Vec<(Hash, Vec<u8>)>,
    /// Layouts: names that are omitted from rows, by their hash. Existing ones are not changed.
    pub layouts: Vec<(Hash, Vec<u8>)>,
}

impl CheckpointBatch {
    /// Returns `true` if there is nothing to store.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.checkpoints.is_empty() && self.pending.is_empty()
    }
}

/// A stored checkpoint, with the stored parts of the superstep that starts there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCheckpoint {
    /// Id.
    pub id: CheckpointId,
    /// State, and the tasks that are due.
    pub body: Vec<u8>,
    /// External input.
    pub outside: Option<Vec<u8>>,
    /// Task results, in the order in which they were stored: first those stored while the superstep
    /// was open, then those of the next checkpoint of the graph if it refers to this one.
    pub tasks: Vec<Vec<u8>>,
}

/// The id of a checkpoint, with its body.
pub type Body = (CheckpointId, Vec<u8>);

/// Reads checkpoints.
pub trait ReadCheckpoints: Send + Sync {
    /// Returns a checkpoint by id, or the newest one; `None` if there is none.
    ///
    /// # Errors
    /// Only system errors.
    fn checkpoint<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<FoundCheckpoint>>>;

    /// Returns the bodies of checkpoints by id, in any order. Missing checkpoints are omitted.
    ///
    /// # Errors
    /// Only system errors.
    fn checkpoint_bytes<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        ids: Vec<CheckpointId>,
    ) -> BoxFuture<'a, Result<Vec<Body>>>;

    /// Returns at most `limit` checkpoints older than `before`, or from the newest on, newest
    /// first.
    ///
    /// # Errors
    /// Only system errors.
    fn page<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<FoundCheckpoint>>>;

    /// Returns the namespaces of a thread that have checkpoints, in order.
    ///
    /// # Errors
    /// Only system errors.
    fn checkpoint_namespaces<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<CheckpointNamespace>>>;

    /// Returns the greatest id of the checkpoints of all graphs of a thread; `None` if there are
    /// none.
    ///
    /// # Errors
    /// Only system errors.
    fn newest_id<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>>>;

    /// Returns a blob; `None` if it does not exist.
    ///
    /// # Errors
    /// Only system errors.
    fn blob<'a>(&'a self, who: &'a Principal, hash: Hash)
    -> BoxFuture<'a, Result<Option<Vec<u8>>>>;

    /// Returns a layout by its hash; `None` if it does not exist.
    ///
    /// # Errors
    /// Only system errors.
    fn layout<'a>(
        &'a self,
        who: &'a Principal,
        hash: Hash,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>>>;
}

/// Writes checkpoints of runs that no other worker can claim: runs within this process. Hosted runs
/// write through [`commit`](crate::WriteRuns::commit).
///
/// Methods that remove or replace checkpoints set the head of the thread, if it has a row, to the
/// newest remaining checkpoint of the root graph. Methods that only add checkpoints leave the head
/// to commits.
pub trait WriteCheckpoints: Send + Sync {
    /// Stores everything in `batch` in one transaction. The thread need not have a row.
    ///
    /// # Errors
    /// Only system errors.
    fn put_checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        batch: CheckpointBatch,
    ) -> BoxFuture<'a, Result<()>>;

    /// Replaces all checkpoints of the graph with those in `batch`, and all parts of open supersteps
    /// with the parts in `batch`. Parts at `newest` are retained if `newest` itself is: a run may be
    /// adding to them, and they refer to no other checkpoint.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`](crate::StoreError::Conflict) if `newest` is no longer the
    /// newest checkpoint; nothing was changed.
    fn rewrite<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        newest: CheckpointId,
        batch: CheckpointBatch,
    ) -> BoxFuture<'a, Result<()>>;

    /// Copies all checkpoints and parts of open supersteps of a thread to another thread, replacing
    /// its content. Copying a thread to itself has no effect.
    ///
    /// # Errors
    /// Only system errors.
    fn copy_checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        from: &'a ThreadId,
        to: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>>;

    /// Deletes all checkpoints and parts of open supersteps of a thread.
    ///
    /// # Errors
    /// Only system errors.
    fn delete_checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>>;

    /// Deletes blobs that no row refers to and returns their number. Safe with concurrent writers:
    /// a blob and the row that refers to it are written in one transaction.
    ///
    /// # Errors
    /// Only system errors.
    fn collect_blobs<'a>(&'a self, who: &'a Principal) -> BoxFuture<'a, Result<u64>>;
}

/// Combination of [`ReadCheckpoints`] and [`WriteCheckpoints`].
pub trait CheckpointStore: ReadCheckpoints + WriteCheckpoints + std::fmt::Debug {}

impl<S: ReadCheckpoints + WriteCheckpoints + std::fmt::Debug> CheckpointStore for S {}
