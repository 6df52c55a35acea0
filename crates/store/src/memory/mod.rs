//! The tables of a store as values, with all operations on them, and the store in memory.
//!
//! An operation is a function of [`Tables`], which a [`Backend`] executes: [`Locked`] on all tables of
//! a store in memory, [`rows`](crate::rows) on the part that the `Scope` of the operation names.

pub(crate) mod bill;
mod checkpoints;
mod commit;
mod items;
pub(crate) mod limit;
mod read;
mod retention;
pub(crate) mod scope;
mod sequences;
mod threads;
mod transfer;
mod write;

use self::scope::Scope;
use crate::invariants;
use crate::mailbox;
use crate::record::{InterruptRow, NewRun, RunRow, StoredEvent, ThreadRow, UsageRow, WorkerRow};
use crate::table::{Result, Store};
use crate::thread::{Metadata, UnfinishedRuns};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weftwork_types::event::{Piece, Position};
use weftwork_types::port::CallRecord;
use weftwork_types::run::{RunRef, RunStatus};
use weftwork_types::{
    BoxFuture, InvocationId, OrgId, Principal, RunId, ThreadId, Timestamp, WorkerId,
};

/// A store whose operations are functions of [`Tables`]. A worker is dead if its row has expired or
/// does not exist.
#[derive(Debug, Default)]
pub struct TableStore<B> {
    pub(crate) backend: B,
}

/// A store in memory, with all tables behind one lock. Every future is ready at its first poll.
pub type MemoryStore = TableStore<Locked>;

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl<B: Backend> Store for TableStore<B> {
    fn location(&self) -> &str {
        self.backend.location()
    }
}

/// Executes operations on tables.
pub trait Backend: std::fmt::Debug + Send + Sync {
    /// `true` if operations see only the part of the tables that their scopes name.
    const IS_PARTIAL: bool;

    /// Returns the address of the store for messages.
    fn location(&self) -> &str;

    /// Runs an operation that changes nothing when the future is first polled.
    fn read<'a, T: Send + 'a>(
        &'a self,
        scope: Scope,
        work: impl FnOnce(&mut Tables) -> Result<T> + Clone + Send + 'a,
    ) -> BoxFuture<'a, Result<T>>;

    /// Runs an operation and stores its changes, or none of them if it fails. It may be run several
    /// times, on the tables of several moments; the changes of the last time are stored.
    fn write<'a, T: Send + 'a>(
        &'a self,
        scope: Scope,
        work: impl FnOnce(&mut Tables) -> Result<T> + Clone + Send + 'a,
    ) -> BoxFuture<'a, Result<T>>;

    /// Deletes the blobs of an organisation that no row refers to and returns their number.
    fn collect_blobs<'a>(&'a self, org: &'a OrgId) -> BoxFuture<'a, Result<u64>>;
}

/// Returns the scope of an operation, if the backend needs it.
fn partial_scope<B: Backend>(scope: impl FnOnce() -> Scope) -> Scope {
    if B::IS_PARTIAL { scope() } else { Scope::default() }
}

/// All tables of a store, behind a lock.
#[derive(Debug, Default)]
pub struct Locked(Mutex<Tables>);

impl Locked {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Each change is validated before its first write, so a panic cannot leave a partial
        // change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Locked {
    const IS_PARTIAL: bool = false;

    fn location(&self) -> &str {
        "memory"
    }

    fn read<'a, T: Send + 'a>(
        &'a self,
        _: Scope,
        work: impl FnOnce(&mut Tables) -> Result<T> + Clone + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        Box::pin(async move { work(&mut self.tables()) })
    }

    fn write<'a, T: Send + 'a>(
        &'a self,
        _: Scope,
        work: impl FnOnce(&mut Tables) -> Result<T> + Clone + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        Box::pin(async move { work(&mut self.tables()) })
    }

    fn collect_blobs<'a>(&'a self, org: &'a OrgId) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async move { Ok(self.tables().checkpoints.collect(org)) })
    }
}

/// The tables of a store, or the part of them that an operation uses.
#[derive(Debug, Default)]
pub struct Tables {
    pub(crate) threads: BTreeMap<(OrgId, ThreadId), Thread>,
    /// Thread of each run id; also the set of used run ids.
    pub(crate) runs: BTreeMap<(OrgId, RunId), ThreadId>,
    /// Run of each idempotency key.
    pub(crate) keys: BTreeMap<(OrgId, String), RunRef>,
    pub(crate) usage: BTreeMap<(OrgId, InvocationId), UsageRow>,
    pub(crate) bill: bill::Bill,
    pub(crate) starts: limit::Starts,
    pub(crate) workers: BTreeMap<WorkerId, WorkerRow>,
    pub(crate) checkpoints: checkpoints::Checkpoints,
    pub(crate) items: crate::items::Tables,
    pub(crate) sequences: sequences::Sequences,
    /// Counter that orders runs by age.
    pub(crate) run_count: u64,
}

#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) row: ThreadRow,
    pub(crate) runs: Vec<Run>,
    pub(crate) interrupts: Vec<InterruptRow>,
    /// Calls, each with its number.
    pub(crate) calls: Vec<(u64, CallRecord)>,
    /// Counter that orders calls by age.
    pub(crate) call_count: u64,
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) row: RunRow,
    pub(crate) subject: String,
    pub(crate) number: u64,
    pub(crate) events: Vec<StoredEvent>,
    /// Partial text by commit, under the position after its last piece.
    pub(crate) pieces: BTreeMap<Position, Vec<Piece>>,
}

impl Tables {
    fn thread(&self, who: &Principal, id: &ThreadId) -> Result<&Thread> {
        self.threads
            .get(&(who.org.clone(), id.clone()))
            .ok_or_else(|| invariants::missing("thread", id))
    }

    fn run(&self, who: &Principal, at: &RunRef) -> Result<&Run> {
        let thread = self.threads.get(&(who.org.clone(), at.thread.clone()));
        thread
            .and_then(|thread| thread.runs.iter().find(|run| run.row.new.at.run == at.run))
            .ok_or_else(|| invariants::missing("run", &at.run))
    }

    /// Returns the number of a run of an organisation.
    fn run_number(&self, org: &OrgId, run: &RunId) -> Option<u64> {
        let thread = self.runs.get(&(org.clone(), run.clone()))?;
        let runs = &self.threads.get(&(org.clone(), thread.clone()))?.runs;
        runs.iter().find(|found| found.row.new.at.run == *run).map(|found| found.number)
    }

    /// Returns the thread of a run, and the index of the run in it.
    fn run_mut(&mut self, who: &Principal, at: &RunRef) -> Result<(&mut Thread, usize)> {
        let missing = || invariants::missing("run", &at.run);
        let thread =
            self.threads.get_mut(&(who.org.clone(), at.thread.clone())).ok_or_else(missing)?;
        let index =
            thread.runs.iter().position(|run| run.row.new.at.run == at.run).ok_or_else(missing)?;
        Ok((thread, index))
    }

    fn is_alive(&self, worker: &WorkerId, now: Timestamp) -> bool {
        self.workers.get(worker).is_some_and(|row| row.is_valid(now))
    }
}

impl Thread {
    pub(crate) fn new(row: ThreadRow) -> Self {
        Self { row, runs: Vec::new(), interrupts: Vec::new(), calls: Vec::new(), call_count: 0 }
    }

    /// Creates the thread of its first run. Its status is that of the run once that has its turn.
    fn of(run: &NewRun) -> Self {
        Self::new(ThreadRow {
            id: run.at.thread.clone(),
            graph: Some(run.graph.clone()),
            status: None,
            head: None,
            created_at: run.created_at,
            updated_at: run.created_at,
            wakes_at: None,
            metadata: Metadata::new(),
        })
    }

    /// Returns `true` if a question of the thread is open.
    fn asks(&self) -> bool {
        self.interrupts.iter().any(InterruptRow::is_open)
    }

    fn unfinished_runs(&self) -> UnfinishedRuns {
        UnfinishedRuns::of(self.runs.iter().map(|run| &run.row))
    }

    /// Adds the record of a call that is not recorded yet.
    fn add_call(&mut self, call: CallRecord) {
        self.call_count += 1;
        self.calls.push((self.call_count, call));
    }

    /// Returns `true` if all runs of the thread have ended.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.runs.iter().all(|run| run.row.status.is_final())
    }

    /// Returns the oldest unfinished run.
    fn open_run(&self) -> Option<&Run> {
        self.unfinished().next()
    }

    /// Returns the last run, except those that are queued, which have not begun.
    fn last_begun(&self) -> Option<&Run> {
        let begun = self.runs.iter().filter(|run| run.row.status != RunStatus::Queued);
        let place = |run: &&Run| {
            let RunRow { ended_at, last_checkpoint, .. } = &run.row;
            (ended_at.is_none(), *ended_at, *last_checkpoint, run.number)
        };
        begun.max_by_key(place)
    }

    fn unfinished(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| !run.row.status.is_final())
    }

    /// Returns the run whose turn it is.
    fn next_run(&self, now: Timestamp) -> Option<&Run> {
        let gate = mailbox::gate(&self.row.metadata, self.asks());
        let turns = self.unfinished().filter_map(|run| {
            let turn = mailbox::turn(&run.row, now, gate)?;
            Some((turn, run))
        });
        turns.min_by_key(|(turn, run)| (*turn, run.number)).map(|(_, run)| run)
    }
}
