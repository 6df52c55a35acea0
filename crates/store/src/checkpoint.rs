//! Checkpoints of graphs, as bytes that only the graph crate reads.

use crate::table::Result;
use weftwork_types::canonical::Hash;
use weftwork_types::{BoxFuture, CheckpointId, Principal, ThreadId};

/// The checkpoints of one graph of one thread.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shelf {
    /// The thread.
    pub thread: ThreadId,
    /// The way to the graph; empty for the outermost one.
    pub ns: String,
}

/// A checkpoint about to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCheckpoint {
    /// Which graph's.
    pub ns: String,
    /// Its id. Ids of one thread sort by age, those of all its graphs together.
    pub id: CheckpointId,
    /// The checkpoint at which the tasks in `tasks` were due; none when there are none.
    pub of: Option<CheckpointId>,
    /// What became of these tasks, as far as it was not kept before.
    pub tasks: Vec<u8>,
    /// State, and what is due.
    pub body: Vec<u8>,
    /// The blobs that `body` and `tasks` speak of.
    pub blobs: Vec<Hash>,
}

/// What is kept of a superstep while it is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPending {
    /// Which graph's.
    pub ns: String,
    /// The checkpoint the superstep started from.
    pub of: CheckpointId,
    /// What it is.
    pub what: Pending,
    /// As bytes.
    pub body: Vec<u8>,
    /// The blobs it speaks of.
    pub blobs: Vec<Hash>,
}

/// What can be kept of an open superstep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pending {
    /// What came from outside. Takes the place of what came before.
    Outside,
    /// What became of tasks. Added to what was kept before.
    Tasks,
}

/// What is kept in one transaction: all of it or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keep {
    /// Checkpoints, in order. One whose id is there already takes its place; what is pending
    /// there stays.
    pub checkpoints: Vec<NewCheckpoint>,
    /// Parts of open supersteps, in order.
    pub pending: Vec<NewPending>,
    /// Values too large for a row, by the hash of their bytes. Those that are there already stay.
    pub blobs: Vec<(Hash, Vec<u8>)>,
    /// Names that rows leave out, by their hash. Those that are there already stay.
    pub layouts: Vec<(Hash, Vec<u8>)>,
}

impl Keep {
    /// Whether there is nothing to keep.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.checkpoints.is_empty() && self.pending.is_empty()
    }
}

/// A checkpoint as it was kept, with what is known of the superstep that starts there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCheckpoint {
    /// Its id.
    pub id: CheckpointId,
    /// State, and what is due.
    pub body: Vec<u8>,
    /// What came from outside.
    pub outside: Option<Vec<u8>>,
    /// What became of tasks, in the order in which it was kept: while the superstep was open, then
    /// with the next checkpoint of the graph when that names this one.
    pub tasks: Vec<Vec<u8>>,
}

/// The body of a checkpoint, by its id.
pub type Body = (CheckpointId, Vec<u8>);

/// Reads checkpoints.
pub trait ReadCheckpoints: Send + Sync {
    /// A checkpoint, or the newest one; `None` when there is none.
    ///
    /// # Errors
    /// Only those of the system.
    fn checkpoint<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a Shelf,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<FoundCheckpoint>>>;

    /// The bodies of checkpoints by their ids, in any order; those that are not there are left
    /// out.
    ///
    /// # Errors
    /// Only those of the system.
    fn bodies<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a Shelf,
        ids: Vec<CheckpointId>,
    ) -> BoxFuture<'a, Result<Vec<Body>>>;

    /// Checkpoints older than `before` (or all), newest first, at most `limit`.
    ///
    /// # Errors
    /// Only those of the system.
    fn page<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a Shelf,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<FoundCheckpoint>>>;

    /// The ways to the graphs of a thread that have checkpoints, in order.
    ///
    /// # Errors
    /// Only those of the system.
    fn shelves<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<Shelf>>>;

    /// The greatest id of the checkpoints of all graphs of a thread; `None` when there are none.
    ///
    /// # Errors
    /// Only those of the system.
    fn newest_id<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>>>;

    /// A blob; `None` when it is not there.
    ///
    /// # Errors
    /// Only those of the system.
    fn blob<'a>(&'a self, who: &'a Principal, hash: Hash)
    -> BoxFuture<'a, Result<Option<Vec<u8>>>>;

    /// The names that rows of this hash leave out; `None` when they are not there.
    ///
    /// # Errors
    /// Only those of the system.
    fn layout<'a>(
        &'a self,
        who: &'a Principal,
        hash: Hash,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>>>;
}

/// Writes checkpoints of runs that nobody else may have claimed: runs in this process. The writes
/// of hosted runs go through [`commit`](crate::WriteRuns::commit).
///
/// What removes or replaces checkpoints lets the head of a thread that has a row be the newest one
/// of the root graph that is left; what only adds some leaves it to commits.
pub trait WriteCheckpoints: Send + Sync {
    /// Keeps everything in `keep` in one transaction. The thread need not have a row of its own.
    ///
    /// # Errors
    /// Only those of the system.
    fn keep<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        keep: Keep,
    ) -> BoxFuture<'a, Result<()>>;

    /// Puts these checkpoints in the place of all that the graph has, and the parts of open
    /// supersteps in `keep` in the place of all that there are. Only those at `newest` stay, if it
    /// stays itself: a run may be adding to them, and they lead to no other checkpoint.
    ///
    /// # Errors
    /// [`StoreError::Conflict`](crate::StoreError::Conflict) when `newest` is not the newest
    /// checkpoint any more; nothing was changed then.
    fn rewrite<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a Shelf,
        newest: CheckpointId,
        keep: Keep,
    ) -> BoxFuture<'a, Result<()>>;

    /// Copies all checkpoints of a thread under another name, with the parts of open supersteps,
    /// in place of what is there. A thread copied to itself stays as it is.
    ///
    /// # Errors
    /// Only those of the system.
    fn copy_checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        from: &'a ThreadId,
        to: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>>;

    /// Forgets all checkpoints of a thread, and what is pending there.
    ///
    /// # Errors
    /// Only those of the system.
    fn delete_checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>>;

    /// Removes blobs of which no row speaks any more; says how many. Safe beside running writers:
    /// a blob and the row that speaks of it are written in one transaction.
    ///
    /// # Errors
    /// Only those of the system.
    fn collect_blobs<'a>(&'a self, who: &'a Principal) -> BoxFuture<'a, Result<u64>>;
}

/// Both.
pub trait CheckpointStore: ReadCheckpoints + WriteCheckpoints + std::fmt::Debug {}

impl<S: ReadCheckpoints + WriteCheckpoints + std::fmt::Debug> CheckpointStore for S {}
