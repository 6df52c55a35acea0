//! Port of the books in which calls are recorded.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;
use weftwork_types::canonical::Hash;
use weftwork_types::code::Fault;
use weftwork_types::port::{Admission, Admitted, CallKey, CallRecord, NewArtifact, RemoteUse};
use weftwork_types::{BoxFuture, CheckpointId};

/// Branch that another branch of the thread starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Checkpoint the branch begins with; `None` for the first branch of the thread.
    pub branch: Option<CheckpointId>,
    /// Number of supersteps by which the same work is earlier there.
    pub earlier: i64,
}

/// Calls with effects of a thread, by their keys, and where they may have been recorded.
#[derive(Debug, Clone, Default)]
pub struct RecordedCalls {
    /// Branches of the thread; `None` is the first one of a thread of an earlier version.
    pub branches: Vec<Option<CheckpointId>>,
    /// Most supersteps by which the same work may be earlier there.
    pub supersteps: i64,
    /// The calls.
    pub calls: BTreeMap<CallKey, Arc<CallRecord>>,
    /// Inputs with which persons have approved calls in place of these.
    pub edited: BTreeMap<AskedInput, Vec<Hash>>,
}

/// The input with which a model or a node called a tool, before a person edited it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AskedInput {
    /// Canonical name of the tool.
    pub tool: String,
    /// Hash of the arguments.
    pub input: Hash,
}

/// Calls with effects that are recorded under the keys of other positions than those at which their
/// tasks are now.
#[derive(Debug, Clone, Default)]
pub struct MadeElsewhere {
    /// Calls of the thread, if runs of it were rolled back: their tasks are due again on another
    /// branch.
    pub rolled_back: RecordedCalls,
    /// Calls of the threads from which the thread was forked, nearest first.
    pub of_origins: Vec<RecordedCalls>,
    /// `true` if such a thread no longer exists, so that its calls are not known.
    pub is_incomplete: bool,
}

/// Calls of the branches from which a branch descends that a run does not make again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReuseOrigins {
    /// None: a branch makes its calls itself.
    Nothing,
    /// Calls of the superstep with which the branch begins. Its tasks made them before their
    /// questions, and execute that part again only because answers were given once more.
    FirstStep,
    /// All.
    Everything,
}

/// Book of the calls of a task: they are stored with the commits of its run, or with the records of
/// the task.
pub trait CallBook: Send + Sync + std::fmt::Debug {
    /// Finds a call of the task.
    ///
    /// # Errors
    /// Failure to read the record.
    fn find(&self, key: CallKey) -> BoxFuture<'_, Result<Option<Arc<CallRecord>>, Fault>>;

    /// Includes a call in the next commit.
    fn note(&self, call: Arc<CallRecord>);

    /// Includes a call in the next commit and waits until it is stored.
    ///
    /// # Errors
    /// Failure to store it.
    fn record(&self, call: Arc<CallRecord>) -> BoxFuture<'_, Result<(), Fault>>;

    /// Returns the history of the run and its thread.
    fn history(&self) -> &dyn CallHistory;
}

/// History of the calls of a run and its thread, beyond those of a single task.
pub trait CallHistory: Send + Sync + std::fmt::Debug {
    /// Number of processes known to have died with the run since it last made progress.
    fn lost(&self) -> u32;

    /// Returns the calls of origin branches that are reused.
    fn reuses_origins(&self) -> ReuseOrigins;

    /// Branches that a branch starts from, nearest first; empty for [`ReuseOrigins::Nothing`].
    ///
    /// # Errors
    /// Failure to read the checkpoints of the branches.
    fn origins(&self, branch: CheckpointId) -> BoxFuture<'_, Result<Arc<[Origin]>, Fault>>;

    /// Finds a call anywhere on the thread.
    ///
    /// # Errors
    /// Failure to read the record.
    fn find_on_thread(&self, key: CallKey)
    -> BoxFuture<'_, Result<Option<Arc<CallRecord>>, Fault>>;

    /// Returns the calls with effects that are recorded under the keys of other positions.
    ///
    /// # Errors
    /// Failure to read the records.
    fn made_elsewhere(&self) -> BoxFuture<'_, Result<Arc<MadeElsewhere>, Fault>>;

    /// Records that the run begins a tool call, if its earlier calls allow it.
    ///
    /// # Errors
    /// Failure to read the records.
    fn admit<'a>(
        &'a self,
        key: CallKey,
        call: Admission<'a>,
    ) -> BoxFuture<'a, Result<Admitted, Fault>>;

    /// Records that an admitted call succeeded, in the next commit.
    fn succeeded(&self, key: CallKey);

    /// Stores a value with the next commit, and returns its reference; `None` without a place.
    fn store_artifact(&self, artifact: NewArtifact) -> Option<String>;

    /// Returns the id of the thread on another server for a use by the thread of the run, and records
    /// it with the next commit if it is new; `None` without a place for the record.
    ///
    /// # Errors
    /// Failure to read the record.
    fn remote_thread(&self, of: RemoteUse) -> BoxFuture<'_, Result<Option<String>, Fault>>;
}

/// History of a run whose calls are recorded with its tasks only: each task has its own calls.
#[derive(Debug)]
pub(crate) struct NoHistory;

impl CallHistory for NoHistory {
    fn lost(&self) -> u32 {
        // Deaths are counted in the log of a hosted run. Without one, only calls that were found
        // begun are possibly paid (ADR 0024).
        0
    }

    fn reuses_origins(&self) -> ReuseOrigins {
        // Calls are found in the records of the open superstep only, and keys of another branch
        // differ.
        ReuseOrigins::Nothing
    }

    fn origins(&self, _: CheckpointId) -> BoxFuture<'_, Result<Arc<[Origin]>, Fault>> {
        Box::pin(ready(Ok(Arc::from([]))))
    }

    fn find_on_thread(&self, _: CallKey) -> BoxFuture<'_, Result<Option<Arc<CallRecord>>, Fault>> {
        Box::pin(ready(Ok(None)))
    }

    fn made_elsewhere(&self) -> BoxFuture<'_, Result<Arc<MadeElsewhere>, Fault>> {
        Box::pin(ready(Ok(Arc::default())))
    }

    fn admit<'a>(&'a self, _: CallKey, _: Admission<'a>) -> BoxFuture<'a, Result<Admitted, Fault>> {
        // A rule that refers to earlier calls is refused then, and never taken as fulfilled.
        Box::pin(ready(Ok(Admitted::NoRecords)))
    }

    fn succeeded(&self, _: CallKey) {}

    fn store_artifact(&self, _: NewArtifact) -> Option<String> {
        None
    }

    fn remote_thread(&self, _: RemoteUse) -> BoxFuture<'_, Result<Option<String>, Fault>> {
        Box::pin(ready(Ok(None)))
    }
}
