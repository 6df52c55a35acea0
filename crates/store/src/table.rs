//! The tables of a store, as traits.

#[cfg(doc)]
use crate::StoreError;
use crate::bill::{ReadBill, WriteBill};
use crate::checkpoint::CheckpointStore;
use crate::items::ItemTable;
use crate::limit::LimitTable;
use crate::mailbox::ActivityCounts;
use crate::orphan::OrphanPage;
use crate::record::{
    Claim, Commit, Committed, InterruptRow, NewRun, RunRow, StoredEvent, ThreadRow, UsageRow,
    WorkerRow,
};
use crate::retention::Retention;
use crate::sequence::SequenceTable;
use crate::thread::{Metadata, NewThread, ThreadPage, ThreadQuery};
use crate::transfer::{ExportThreads, ImportThreads};
use std::collections::BTreeMap;
use weftwork_types::event::{Piece, Position};
use weftwork_types::interrupt::Answer;
use weftwork_types::port::{CallKey, CallRecord};
use weftwork_types::run::RunRef;
use weftwork_types::{
    BoxFuture, CheckpointId, InterruptId, OrgId, Principal, RunId, ThreadId, Timestamp, WorkerId,
};

pub use weftwork_types::store_error::Result;

/// Reads threads.
pub trait ReadThreads: Send + Sync {
    /// Returns a thread.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] if it does not exist.
    fn thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ThreadRow>>;

    /// Returns at most `limit` threads after skipping `offset`, the last changed first. Threads
    /// that changed at the same time are in descending order of their ids.
    ///
    /// # Errors
    /// Only system errors.
    fn threads<'a>(
        &'a self,
        who: &'a Principal,
        offset: usize,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ThreadRow>>>;

    /// Returns the threads that a search selects, in its order. The state of threads is not
    /// searched, because only their graphs can read it.
    ///
    /// # Errors
    /// Only system errors.
    fn search_threads<'a>(
        &'a self,
        who: &'a Principal,
        query: ThreadQuery,
    ) -> BoxFuture<'a, Result<ThreadPage>>;
}

/// Creates, changes and removes threads.
pub trait WriteThreads: Send + Sync {
    /// Creates a thread without runs, and returns it.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`] if the thread exists, unless
    /// [`IfExists`](crate::thread::IfExists) is `Return`, or if the metadata exceeds a limit.
    fn create_thread<'a>(
        &'a self,
        who: &'a Principal,
        new: NewThread,
    ) -> BoxFuture<'a, Result<ThreadRow>>;

    /// Merges `metadata` into that of a thread ([`merge_metadata`](crate::thread::merge_metadata)),
    /// and returns the thread. It counts as changed at `now`.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] if the thread does not exist, [`StoreError::Conflict`] if
    /// the metadata exceeds a limit.
    fn update_metadata<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
        metadata: Metadata,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<ThreadRow>>;

    /// Deletes a thread with its runs, checkpoints, events, questions and journal. Usage facts are
    /// retained for billing.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] if the thread does not exist, [`StoreError::Busy`] if it
    /// has an unfinished run, [`StoreError::BelongsToInstance`] if it is that of an instance that is
    /// not terminated.
    fn delete_thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>>;
}

/// Reads runs.
pub trait ReadRuns: Send + Sync {
    /// Returns a run.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] if it does not exist.
    fn run<'a>(&'a self, who: &'a Principal, at: &'a RunRef) -> BoxFuture<'a, Result<RunRow>>;

    /// Returns the runs of a thread, oldest first.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] if the thread does not exist.
    fn runs<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<RunRow>>>;

    /// Returns the runs of a thread that have not ended, oldest first.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] if the thread does not exist.
    fn unfinished_runs<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<RunRow>>>;

    /// Returns the run of a thread that ended last, by the time of its end, then by its last
    /// checkpoint, then the younger one. `None` if none has ended.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] if the thread does not exist.
    fn last_ended<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Option<RunRow>>>;

    /// Returns a run by its id alone.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] if it does not exist.
    fn find_run<'a>(&'a self, who: &'a Principal, id: &'a RunId) -> BoxFuture<'a, Result<RunRow>>;

    /// Returns the last run of each thread, except activities that wait in a mailbox, of any
    /// organisation, that is due to resume by itself at `now`, given by the clock of the caller,
    /// and whose graph is one of `graphs`. Terminated instances do not resume. Damaged rows are
    /// left out. At most `limit` runs, ordered by the time at which they became due, each with the
    /// principal that created it. For workers only.
    ///
    /// # Errors
    /// Only system errors.
    fn due(
        &self,
        now: Timestamp,
        graphs: Vec<String>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(Principal, RunRow)>>>;

    /// Returns runs of any organisation that can be claimed and that no living worker holds: runs
    /// without a worker, and runs whose worker is dead at `now`. A queued run is included once it
    /// is its [turn](Self::next_run) and its time. Damaged rows are left out. The runs of one page,
    /// oldest first, each with the principal that created it. For workers only.
    ///
    /// # Errors
    /// Only system errors.
    fn orphan_page(
        &self,
        now: Timestamp,
        page: OrphanPage,
    ) -> BoxFuture<'_, Result<Vec<(Principal, RunRow)>>>;

    /// Returns the first runs of all graphs that no living worker holds; see
    /// [`orphan_page`](Self::orphan_page).
    ///
    /// # Errors
    /// Only system errors.
    fn orphans(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(Principal, RunRow)>>> {
        self.orphan_page(now, OrphanPage { graphs: None, after: None, limit })
    }

    /// Returns the run of a thread whose turn it is at `now`, given by the clock of the caller: the
    /// one that is claimed or pending, or else the first one of the [queue](crate::mailbox::turn),
    /// with the principal that created it. A run whose time has not come is returned if there is no
    /// other. `None` if no run of the thread can begin, and for a thread that does not exist.
    ///
    /// # Errors
    /// Only system errors.
    fn next_run<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<(Principal, RunRow)>>>;

    /// Counts the activities of an instance, each by its last run. All are zero for a thread that does
    /// not exist.
    ///
    /// # Errors
    /// Only system errors.
    fn count_activities<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ActivityCounts>>;

    /// Returns the runs of any organisation that a worker holds and whose cancellation was
    /// requested. For workers only.
    ///
    /// # Errors
    /// Only system errors.
    fn to_stop<'a>(&'a self, worker: &'a WorkerId) -> BoxFuture<'a, Result<Vec<(OrgId, RunRef)>>>;
}

/// Creates runs and writes for them.
pub trait WriteRuns: Send + Sync {
    /// Creates a run, and its thread if it does not exist, and stores the given answers to open
    /// questions, in one transaction. If the run is not queued, the thread no longer resumes by
    /// itself. If the idempotency key was used before (within the organisation), or the run id
    /// exists, the run of the first request is returned and nothing changes. Requests are equal if
    /// thread, graph, input and options are, except for deadline, time of beginning and stream modes.
    ///
    /// An [activity](NewRun::is_sent) is always queued, and so is a run that begins later. If the
    /// thread has unfinished runs that [delay](crate::mailbox::delays) it, a run that
    /// [may wait](crate::invariants::may_wait) is
    /// [queued](weftwork_types::run::RunStatus::Queued), and does not change the thread before it
    /// is claimed. Cancellation of the earlier runs is requested if the strategy of the run
    /// requires it. Runs that it rolls back are [marked](RunRow::rolled_back_by); the mark is
    /// removed if the run is cancelled before it starts.
    ///
    /// # Errors
    /// Returns [`StoreError::Busy`] if an unfinished run of the thread delays the new one, which
    /// may not wait, an error of [`check_mailbox`](crate::mailbox::check_mailbox),
    /// [`StoreError::NotFound`] for a question that is not open, [`StoreError::Answered`] for one
    /// that was answered before, [`StoreError::KeyReused`] if the key was used with a different
    /// request, [`StoreError::Conflict`] if the run id was.
    fn create_run<'a>(
        &'a self,
        who: &'a Principal,
        run: NewRun,
        answers: BTreeMap<InterruptId, Answer>,
    ) -> BoxFuture<'a, Result<RunRow>>;

    /// Creates a run as [`create_run`](Self::create_run) does, and claims it for a worker in the
    /// same transaction, at the run's creation time. There is no claim if the run has to wait, or is
    /// that of an earlier request.
    ///
    /// # Errors
    /// Same as [`create_run`](Self::create_run).
    fn create_claimed<'a>(
        &'a self,
        who: &'a Principal,
        run: NewRun,
        answers: BTreeMap<InterruptId, Answer>,
        worker: &'a WorkerId,
    ) -> BoxFuture<'a, Result<(RunRow, Option<Claim>)>>;

    /// Claims a pending run, a queued run if it is its [turn](ReadRuns::next_run), or a running run
    /// whose worker is dead at `now`. The fence increases. A worker that was never registered, or
    /// has retired, is dead. The first claim of a run that [clears](RunRow::clears) its thread
    /// deletes everything of the thread except runs, questions, calls and usage.
    ///
    /// # Errors
    /// Returns [`StoreError::Busy`] if a living worker holds the run, if it is the turn of another run,
    /// or if another activity of the instance waits for an answer,
    /// [`StoreError::MailboxClosed`] for an activity that waits at a terminated instance,
    /// [`StoreError::NotFound`] if the run does not exist or has ended.
    fn claim<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        worker: &'a WorkerId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(Claim, RunRow)>>;

    /// Writes everything in `commit`, in one transaction.
    ///
    /// # Errors
    /// Returns [`StoreError::Fenced`] if the claim is not the newest or the run has ended,
    /// [`StoreError::NotFound`] if the run does not exist, [`StoreError::Conflict`] if a write of a
    /// sequence expects another version of its sequence. Nothing was changed.
    fn commit<'a>(
        &'a self,
        who: &'a Principal,
        claim: &'a Claim,
        commit: Commit,
    ) -> BoxFuture<'a, Result<Committed>>;

    /// Requeues a run that its worker gives up during a graceful shutdown: the run becomes pending,
    /// and [`Released`](weftwork_types::event::AiEvent::Released) is appended to its log. Returns
    /// the number of that event.
    ///
    /// # Errors
    /// Same as [`commit`](Self::commit).
    fn release<'a>(
        &'a self,
        who: &'a Principal,
        claim: &'a Claim,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<u64>>;

    /// Requeues the last run of a thread after it failed: the run becomes pending without an
    /// outcome, and [`Requeued`](weftwork_types::event::AiEvent::Requeued) is appended to its log.
    /// A requested cancellation is cleared.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] if the run does not exist, [`StoreError::Busy`] if the
    /// thread has an unfinished run, [`StoreError::MailboxClosed`] if the run is that of a terminated
    /// instance, [`StoreError::NotRequeued`] if the run is not the last one or did not fail.
    fn requeue<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<RunRow>>;

    /// Requests that a run stop.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] if the run does not exist or has ended.
    fn request_cancel<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
    ) -> BoxFuture<'a, Result<()>>;
}

/// Reads events.
pub trait ReadEvents: Send + Sync {
    /// Returns at most `limit` events of a run with a number above `after`, in order.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] if the run does not exist, [`StoreError::Dropped`] if some
    /// of these events are no longer retained.
    fn events<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>>>;

    /// Returns at most `limit` pieces of partial text of a run that end after a position, in order.
    ///
    /// A reader that reads events first, then partial text, and skips text positioned after the
    /// last event read, misses no text that is not void.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] if the run does not exist.
    fn pieces<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        after: Position,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Piece>>>;
}

/// Reads questions.
pub trait ReadInterrupts: Send + Sync {
    /// Returns the questions of a thread in the order in which they were asked, including answered
    /// and closed ones.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] if the thread does not exist.
    fn interrupts<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<InterruptRow>>>;
}

/// Reads the journal.
pub trait JournalRead: Send + Sync {
    /// Returns the recorded calls of a thread, in the order in which they were first recorded.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] if the thread does not exist.
    fn calls<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<CallRecord>>>;

    /// Returns a recorded call of a thread; `None` if the call or the thread does not exist.
    ///
    /// # Errors
    /// Only system errors.
    fn call<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        key: CallKey,
    ) -> BoxFuture<'a, Result<Option<CallRecord>>>;

    /// Returns a recorded call, given a checkpoint of the root graph at or after which it was made.
    /// The call is found if it was recorded in the commit that made this checkpoint the head of the
    /// thread, in a later commit, or by the same run if that stores its checkpoints at its end. A
    /// call recorded earlier need not be found. A store may use the checkpoint to read less.
    ///
    /// # Errors
    /// Only system errors.
    fn call_since<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        key: CallKey,
        _since: CheckpointId,
    ) -> BoxFuture<'a, Result<Option<CallRecord>>> {
        self.call(who, thread, key)
    }
}

/// Reads usage.
pub trait ReadUsage: Send + Sync {
    /// Returns the usage of a thread's runs, ordered by start time.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] if the thread does not exist.
    fn usage_of_thread<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>>;

    /// Returns the usage of a run, ordered by start time. Available after its thread was deleted,
    /// too.
    ///
    /// # Errors
    /// Only system errors.
    fn usage_of_run<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>>;
}

/// Writes usage.
pub trait WriteUsage: Send + Sync {
    /// Records a usage fact. Recording the same invocation id again has no effect. The run need not
    /// exist, so that no fact is lost.
    ///
    /// # Errors
    /// Only system errors.
    fn record_usage<'a>(&'a self, who: &'a Principal, usage: UsageRow)
    -> BoxFuture<'a, Result<()>>;
}

/// Tracks the workers that are alive.
pub trait Workers: Send + Sync {
    /// Registers a worker, or extends its lease.
    ///
    /// # Errors
    /// Only system errors.
    fn keep_alive(&self, worker: WorkerRow) -> BoxFuture<'_, Result<()>>;

    /// Ends the lease of a worker immediately, so that other workers can claim its runs.
    ///
    /// # Errors
    /// Only system errors.
    fn retire<'a>(&'a self, worker: &'a WorkerId) -> BoxFuture<'a, Result<()>>;
}

/// Combination of all tables.
pub trait Store:
    ReadThreads
    + WriteThreads
    + ReadRuns
    + WriteRuns
    + ReadEvents
    + ReadInterrupts
    + JournalRead
    + ReadUsage
    + WriteUsage
    + ReadBill
    + WriteBill
    + LimitTable
    + Workers
    + CheckpointStore
    + ExportThreads
    + ImportThreads
    + Retention
    + SequenceTable
    + ItemTable
    + std::fmt::Debug
{
    /// Returns the address of the store for messages: a file, a URL without secrets, or `memory`.
    fn location(&self) -> &str;
}
