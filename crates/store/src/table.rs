//! The tables, as traits.
//!
//! # Cancel safety
//! Nothing happens before a future is first polled. A future that is dropped after that may still
//! take effect: who drops a write must read before it decides what to do next.

use crate::checkpoint::CheckpointStore;
use crate::error::StoreError;
use crate::items::ItemTable;
use crate::record::{
    Claim, Commit, Committed, InterruptRow, NewRun, RunRow, StoredEvent, ThreadRow, UsageRow,
    WorkerRow,
};
use crate::retention::Retention;
use crate::whole::{ReadWhole, WriteWhole};
use std::collections::BTreeMap;
use weftwork_types::event::{Piece, Position};
use weftwork_types::interrupt::Answer;
use weftwork_types::port::{CallKey, CallRecord};
use weftwork_types::run::RunRef;
use weftwork_types::{
    BoxFuture, CheckpointId, InterruptId, OrgId, Principal, RunId, ThreadId, Timestamp, WorkerId,
};

/// The result of a store call.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Reads threads.
pub trait ReadThreads: Send + Sync {
    /// One thread.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is none.
    fn thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ThreadRow>>;

    /// Threads, the last changed first (of two changed at the same time, the greater id first), at
    /// most `limit`, after skipping `offset`.
    ///
    /// # Errors
    /// Only those of the system.
    fn threads<'a>(
        &'a self,
        who: &'a Principal,
        offset: usize,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ThreadRow>>>;
}

/// Removes threads.
pub trait WriteThreads: Send + Sync {
    /// Removes a thread with its runs, checkpoints, events, questions and journal. Usage facts
    /// stay: they are what somebody is billed for.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is none, [`StoreError::Busy`] while a run of it goes.
    fn delete_thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>>;
}

/// Reads runs.
pub trait ReadRuns: Send + Sync {
    /// One run.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is none.
    fn run<'a>(&'a self, who: &'a Principal, at: &'a RunRef) -> BoxFuture<'a, Result<RunRow>>;

    /// The runs of a thread, oldest first.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such thread.
    fn runs<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<RunRow>>>;

    /// One run by its id alone.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is none.
    fn find_run<'a>(&'a self, who: &'a Principal, id: &'a RunId) -> BoxFuture<'a, Result<RunRow>>;

    /// The last runs of threads of any organisation whose time to go on by itself has come at `now`,
    /// by the clock of the caller, and that belong to one of these graphs. The one whose time came
    /// first is first, at most `limit`, each with the principal that made it. For workers only.
    ///
    /// # Errors
    /// Only those of the system.
    fn due(
        &self,
        now: Timestamp,
        graphs: Vec<String>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(Principal, RunRow)>>>;

    /// Runs of any organisation that are due and that no living worker has: those without a worker,
    /// and those whose worker is dead at `now`. Queued ones are due when all before them have
    /// ended. Oldest first, at most `limit`,
    /// each with the principal that made it. For workers only.
    ///
    /// # Errors
    /// Only those of the system.
    fn orphans(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(Principal, RunRow)>>>;

    /// The runs of any organisation that a worker has and that somebody asked to stop. For workers
    /// only.
    ///
    /// # Errors
    /// Only those of the system.
    fn to_stop<'a>(&'a self, worker: &'a WorkerId) -> BoxFuture<'a, Result<Vec<(OrgId, RunRef)>>>;
}

/// Makes runs and writes for them.
pub trait WriteRuns: Send + Sync {
    /// Makes a run, and its thread when there is none, and gives the given answers to the open
    /// questions: all in one transaction. The thread goes on now and not by itself. A repeated idempotency key (within the organisation)
    /// returns the first request's run and changes nothing; so does a repeated run id. Requests
    /// are the same when thread, graph, input and options are.
    ///
    /// While the thread has unfinished runs, one that [may wait](crate::rule::may_wait) is
    /// [queued](weftwork_types::run::RunStatus::Queued), and changes nothing of the thread before
    /// it is claimed. Those before it are asked to stop when its strategy says so.
    ///
    /// # Errors
    /// [`StoreError::Busy`] while the thread has an unfinished run that it does not wait for,
    /// [`StoreError::NotFound`] for a
    /// question that is not open, [`StoreError::Answered`] for one that was answered before,
    /// [`StoreError::KeyReused`] when the key came with another request, [`StoreError::Conflict`]
    /// when the run id did.
    fn create_run<'a>(
        &'a self,
        who: &'a Principal,
        run: NewRun,
        answers: BTreeMap<InterruptId, Answer>,
    ) -> BoxFuture<'a, Result<RunRow>>;

    /// Takes a pending run, a queued one when all before it have ended, or a running one whose
    /// worker is dead at `now`. The fence goes up. A worker that was never registered, or retired,
    /// is dead. The first claim of a run that [clears](RunRow::clears) its thread forgets all that
    /// this has besides runs, questions, calls and usage.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when a living worker has it, or one before it has not ended,
    /// [`StoreError::NotFound`] when it does not
    /// exist or has ended.
    fn claim<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        worker: &'a WorkerId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(Claim, RunRow)>>;

    /// Writes everything in `commit` in one transaction.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when the claim is not the newest or the run has ended,
    /// [`StoreError::NotFound`] when there is no such run.
    fn commit<'a>(
        &'a self,
        who: &'a Principal,
        claim: &'a Claim,
        commit: Commit,
    ) -> BoxFuture<'a, Result<Committed>>;

    /// Puts a run back that a worker gives up in order: it is pending again, and the log says
    /// [`Released`](weftwork_types::event::AiEvent::Released). Returns the number of that event.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    fn release<'a>(
        &'a self,
        who: &'a Principal,
        claim: &'a Claim,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<u64>>;

    /// Puts the last run of a thread back once it failed: it is pending again and has no outcome,
    /// and the log says [`Requeued`](weftwork_types::event::AiEvent::Requeued). Nobody has asked
    /// it to stop.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such run, [`StoreError::Busy`] while a run of the
    /// thread goes, [`StoreError::NotRequeued`] when it is not the last one or did not fail.
    fn requeue<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<RunRow>>;

    /// Asks a run to stop.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such run or it has ended.
    fn request_cancel<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
    ) -> BoxFuture<'a, Result<()>>;
}

/// Reads events.
pub trait ReadEvents: Send + Sync {
    /// Events of a run with a sequence above `after`, in order, at most `limit`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such run, [`StoreError::Dropped`] when some of
    /// these are not kept any more.
    fn events<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>>>;

    /// Pieces of a run of which something stands after a position, in order, at most `limit`.
    ///
    /// Who reads events first and pieces then, and leaves aside those that stand after the last
    /// event read, misses none that is not void.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such run.
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
    /// The questions of a thread in the order in which they were asked, answered and closed ones
    /// included.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such thread.
    fn interrupts<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<InterruptRow>>>;
}

/// Reads the journal.
pub trait JournalRead: Send + Sync {
    /// The recorded calls of a thread, in the order in which they came on record.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such thread.
    fn calls<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<CallRecord>>>;

    /// A recorded call of a thread; `None` when it is not on record, or there is no such thread.
    ///
    /// # Errors
    /// Only those of the system.
    fn call<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        key: CallKey,
    ) -> BoxFuture<'a, Result<Option<CallRecord>>>;

    /// The same, of a call that was made on top of a checkpoint of the outermost graph, or later. It
    /// is found if it was recorded in the commit that left this checkpoint as the thread's head, or
    /// after it, or by the same run when that keeps its checkpoints until its end; one that was
    /// recorded before need not be found. For stores that read the less the less they are asked for.
    ///
    /// # Errors
    /// Only those of the system.
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
    /// The usage of a thread's runs, the first begun first.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such thread.
    fn usage_of_thread<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>>;

    /// The usage of a run, the first begun first; also after its thread was deleted.
    ///
    /// # Errors
    /// Only those of the system.
    fn usage_of_run<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>>;
}

/// Writes usage.
pub trait WriteUsage: Send + Sync {
    /// Records one fact. The same invocation id a second time changes nothing. The run need not
    /// be stored, so that no fact is lost.
    ///
    /// # Errors
    /// Only those of the system.
    fn record_usage<'a>(&'a self, who: &'a Principal, usage: UsageRow)
    -> BoxFuture<'a, Result<()>>;
}

/// Who is alive.
pub trait Workers: Send + Sync {
    /// Registers a worker, or prolongs its life.
    ///
    /// # Errors
    /// Only those of the system.
    fn keep_alive(&self, worker: WorkerRow) -> BoxFuture<'_, Result<()>>;

    /// Ends a worker's life at once, so that others may take its runs.
    ///
    /// # Errors
    /// Only those of the system.
    fn retire<'a>(&'a self, worker: &'a WorkerId) -> BoxFuture<'a, Result<()>>;
}

/// All tables.
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
    + Workers
    + CheckpointStore
    + ReadWhole
    + WriteWhole
    + Retention
    + ItemTable
    + std::fmt::Debug
{
    /// Where the store is, for messages: a file, a URL without secrets, or `memory`.
    fn place(&self) -> &str;
}
