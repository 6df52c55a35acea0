//! Threads as a whole: what is taken from one store to another.

use crate::checkpoint::Keep;
use crate::error::StoreError;
use crate::record::{InterruptRow, RunRow, StoredEvent, ThreadRow, UsageRow};
use crate::table::Result;
use std::collections::BTreeSet;
use weftwork_types::canonical::{Hash, hash_bytes};
use weftwork_types::port::CallRecord;
use weftwork_types::run::RunStatus;
use weftwork_types::{BoxFuture, Principal, ThreadId};

/// A thread with everything a store has of it, as it was at one moment, but for pieces of text of a
/// run that goes on: they are void once it went on elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeThread {
    /// The thread.
    pub thread: ThreadRow,
    /// Its runs, oldest first.
    pub runs: Vec<WholeRun>,
    /// Its questions, in the order in which they were asked.
    pub interrupts: Vec<InterruptRow>,
    /// Its calls, in the order in which they were first announced.
    pub calls: Vec<CallRecord>,
    /// Its checkpoints by graph and age, the parts of its open supersteps by graph, age and the
    /// order in which they were kept, and the blobs that both speak of by their hashes. The names
    /// that rows leave out are not among what is read: only the graph crate knows which those are.
    pub kept: Keep,
    /// The usage of its runs, the first begun first.
    pub usage: Vec<UsageRow>,
}

/// A run with its events.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeRun {
    /// Who made it, within the organisation.
    pub subject: String,
    /// The run.
    pub row: RunRow,
    /// Its events, in order; those that are kept.
    pub events: Vec<StoredEvent>,
}

/// Reads threads as a whole.
pub trait ReadWhole: Send + Sync {
    /// A thread with everything that belongs to it, as it is at one moment.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is none, [`StoreError::Corrupt`] when something of it
    /// is damaged, or missing although other rows speak of it.
    fn whole<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<WholeThread>>;
}

/// Writes threads as a whole.
pub trait WriteWhole: Send + Sync {
    /// Puts a thread that was read as a whole into this store, in one transaction, as a thread of
    /// `who`'s organisation. Facts of usage, blobs and names that are there already stay.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when there is such a thread, checkpoint or run already,
    /// [`StoreError::KeyReused`] when a run's idempotency key is taken, [`StoreError::Corrupt`]
    /// when the parts do not belong together. Nothing was changed then.
    fn put_whole<'a>(&'a self, who: &'a Principal, whole: WholeThread)
    -> BoxFuture<'a, Result<()>>;
}

impl WholeThread {
    /// Puts what has no order of its own in order, and lets a thread pass whose parts belong
    /// together. Every store does so with what it reads, and before it writes.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] naming what does not belong.
    pub fn checked(mut self) -> Result<Self> {
        self.sort();
        self.check_runs()?;
        self.check_blobs()?;
        Ok(self)
    }

    fn sort(&mut self) {
        let Keep { checkpoints, pending, blobs, layouts } = &mut self.kept;
        checkpoints.sort_by(|a, b| (&a.ns, a.id).cmp(&(&b.ns, b.id)));
        // Stable: parts of one kind stay in the order in which they were kept.
        pending.sort_by(|a, b| (&a.ns, a.of, a.what).cmp(&(&b.ns, b.of, b.what)));
        let spoken = checkpoints.iter_mut().map(|new| &mut new.blobs);
        for hashes in spoken.chain(pending.iter_mut().map(|part| &mut part.blobs)) {
            hashes.sort_unstable();
            hashes.dedup();
        }
        for rows in [blobs, layouts] {
            rows.sort_unstable_by_key(|(hash, _)| *hash);
            rows.dedup_by_key(|(hash, _)| *hash);
        }
    }

    fn check_runs(&self) -> Result<()> {
        let thread = &self.thread.id;
        for (n, run) in self.runs.iter().enumerate() {
            let at = &run.row.new.at;
            let mut after = self.runs[n + 1..].iter();
            let last = after.all(|run| run.row.status == RunStatus::Queued);
            if at.thread != *thread {
                return Err(self.corrupt(format!("run `{}` is of thread `{}`", at.run, at.thread)));
            }
            if !last && !run.row.status.is_final() {
                return Err(self.corrupt(format!(
                    "run `{}` has not ended, but others went on after it",
                    at.run
                )));
            }
            // Those before the first may have been dropped.
            let first = run.events.first().map_or(1, |event| event.seq.max(1));
            let gap = run.events.iter().zip(first..).find(|(event, seq)| event.seq != *seq);
            if let Some((_, seq)) = gap {
                return Err(self.corrupt(format!("event {seq} of run `{}` is missing", at.run)));
            }
        }
        Ok(())
    }

    fn check_blobs(&self) -> Result<()> {
        for (hash, body) in &self.kept.blobs {
            if hash_bytes(body) != *hash {
                return Err(self.corrupt(format!("the bytes of blob `{hash}` do not match it")));
            }
        }
        let there: BTreeSet<Hash> = self.kept.blobs.iter().map(|(hash, _)| *hash).collect();
        let mut spoken = self.spoken();
        match spoken.find(|hash| !there.contains(hash)) {
            Some(hash) => Err(self.corrupt(format!("its blob `{hash}` is missing"))),
            None => Ok(()),
        }
    }

    /// The blobs that its rows speak of, as often as they do.
    pub fn spoken(&self) -> impl Iterator<Item = Hash> {
        let checkpoints = self.kept.checkpoints.iter().flat_map(|new| &new.blobs);
        checkpoints.chain(self.kept.pending.iter().flat_map(|part| &part.blobs)).copied()
    }

    /// The number of the last event of the last run that was begun.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        let mut begun = self.runs.iter().rev().filter(|run| run.row.status != RunStatus::Queued);
        begun.next().and_then(|run| run.events.last()).map_or(0, |event| event.seq)
    }

    fn corrupt(&self, what: String) -> StoreError {
        StoreError::Corrupt { place: format!("thread `{}`", self.thread.id), what }
    }
}
