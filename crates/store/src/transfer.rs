//! Export and import of complete threads.

use crate::StoreError;
use crate::checkpoint::CheckpointBatch;
use crate::record::{InterruptRow, RunRow, StoredEvent, ThreadRow, UsageRow};
use crate::sequence::{EXPORTED_KINDS, SequenceRow, of_thread};
use crate::table::Result;
use std::collections::BTreeSet;
use weftwork_types::canonical::{Hash, hash_bytes};
use weftwork_types::port::CallRecord;
use weftwork_types::run::RunStatus;
use weftwork_types::{BoxFuture, Principal, ThreadId};

/// A thread with all its records at one moment, except partial text of an unfinished run, which is
/// void once the run continues elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadExport {
    /// Row of the thread.
    pub thread: ThreadRow,
    /// Runs, oldest first.
    pub runs: Vec<RunExport>,
    /// Questions, in the order in which they were asked.
    pub interrupts: Vec<InterruptRow>,
    /// Calls, in the order in which they were first recorded.
    pub calls: Vec<CallRecord>,
    /// Checkpoints by graph and age, parts of open supersteps by graph, age and the order in which
    /// they were stored, and the blobs that both refer to, by hash. Layouts are not included in
    /// what a store reads: only the graph crate can find out which are needed.
    pub kept: CheckpointBatch,
    /// Usage of the runs, ordered by start time.
    pub usage: Vec<UsageRow>,
    /// Records of the sequences of the [exported kinds](EXPORTED_KINDS), by sequence and version.
    pub records: Vec<SequenceRow>,
}

/// A run with its events.
#[derive(Debug, Clone, PartialEq)]
pub struct RunExport {
    /// Subject that created the run, within the organisation.
    pub subject: String,
    /// Row of the run.
    pub row: RunRow,
    /// Retained events, in order.
    pub events: Vec<StoredEvent>,
}

/// Reads complete threads.
pub trait ExportThreads: Send + Sync {
    /// Returns a thread with all its records, as of one moment.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] if the thread does not exist, [`StoreError::Corrupt`] if a
    /// record is damaged, or missing although other rows refer to it.
    fn export_thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ThreadExport>>;
}

/// Writes complete threads.
pub trait ImportThreads: Send + Sync {
    /// Imports a complete thread into this store, in one transaction, as a thread of `who`'s
    /// organisation. Existing usage facts, blobs and layouts are not changed.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`] if the thread, a checkpoint or a run already exists,
    /// [`StoreError::KeyReused`] if the idempotency key of a run is in use, [`StoreError::Corrupt`]
    /// if the parts are inconsistent. Nothing was changed.
    fn import_thread<'a>(
        &'a self,
        who: &'a Principal,
        whole: ThreadExport,
    ) -> BoxFuture<'a, Result<()>>;
}

impl ThreadExport {
    /// Sorts the parts and checks their consistency. Every store calls this on the data that it
    /// reads, and before it writes.
    ///
    /// # Errors
    /// Returns [`StoreError::Corrupt`] with the first inconsistency.
    pub fn checked(mut self) -> Result<Self> {
        self.sort();
        self.check_runs()?;
        self.check_blobs()?;
        self.check_records()?;
        Ok(self)
    }

    fn sort(&mut self) {
        let CheckpointBatch { checkpoints, pending, blobs, layouts } = &mut self.kept;
        checkpoints.sort_by(|a, b| (&a.ns, a.id).cmp(&(&b.ns, b.id)));
        // A stable sort: parts of the same kind stay in the order in which they were stored.
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
        self.records.sort_by(|a, b| (&a.sequence, a.version).cmp(&(&b.sequence, b.version)));
    }

    fn check_runs(&self) -> Result<()> {
        let thread = &self.thread.id;
        for (n, run) in self.runs.iter().enumerate() {
            let at = &run.row.new.at;
            let mut after = self.runs[n + 1..].iter();
            let last = after.all(|run| run.row.status == RunStatus::Queued);
            if at.thread != *thread {
                return Err(
                    self.corrupt(format!("run `{}` belongs to thread `{}`", at.run, at.thread))
                );
            }
            // Activities begin in the order of their mailbox, others in that of their arrival.
            let in_order = run.row.new.options.mailbox.is_none();
            if in_order && !last && !run.row.status.is_final() {
                return Err(self.corrupt(format!(
                    "run `{}` has not ended, but later runs of the thread have started",
                    at.run
                )));
            }
            // Earlier events may have been dropped.
            let first = run.events.first().map_or(1, |event| event.seq.max(1));
            let gap = run.events.iter().zip(first..).find(|(event, seq)| event.seq != *seq);
            if let Some((_, seq)) = gap {
                return Err(self.corrupt(format!("event {seq} of run `{}` is missing", at.run)));
            }
        }
        Ok(())
    }

    fn check_records(&self) -> Result<()> {
        let (first, last) = of_thread(&self.thread.id);
        let keys = first..=last;
        let is_ours = |row: &&SequenceRow| {
            let kind = row.sequence.kind.as_str();
            EXPORTED_KINDS.contains(&kind) && keys.contains(&row.sequence.key) && row.version > 0
        };
        if let Some(row) = self.records.iter().find(|row| !is_ours(row)) {
            let key = &row.sequence.key;
            return Err(self.corrupt(format!("record {key:?} does not belong to the thread")));
        }
        let name = |row: &SequenceRow| (row.sequence.clone(), row.version);
        match self.records.windows(2).find(|two| name(&two[0]) == name(&two[1])) {
            Some(two) => {
                let key = &two[0].sequence.key;
                Err(self.corrupt(format!("record {key:?} has one version twice")))
            }
            None => Ok(()),
        }
    }

    fn check_blobs(&self) -> Result<()> {
        for (hash, body) in &self.kept.blobs {
            if hash_bytes(body) != *hash {
                return Err(
                    self.corrupt(format!("the bytes of blob `{hash}` do not match its hash"))
                );
            }
        }
        let there: BTreeSet<Hash> = self.kept.blobs.iter().map(|(hash, _)| *hash).collect();
        let mut spoken = self.spoken();
        match spoken.find(|hash| !there.contains(hash)) {
            Some(hash) => Err(self.corrupt(format!("its blob `{hash}` is missing"))),
            None => Ok(()),
        }
    }

    /// Returns the blobs that the rows refer to, once for each reference.
    pub fn spoken(&self) -> impl Iterator<Item = Hash> {
        let checkpoints = self.kept.checkpoints.iter().flat_map(|new| &new.blobs);
        checkpoints.chain(self.kept.pending.iter().flat_map(|part| &part.blobs)).copied()
    }

    /// Returns the number of the last event of the last run that was started.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        let mut begun = self.runs.iter().rev().filter(|run| run.row.status != RunStatus::Queued);
        begun.next().and_then(|run| run.events.last()).map_or(0, |event| event.seq)
    }

    fn corrupt(&self, what: String) -> StoreError {
        StoreError::Corrupt { location: format!("thread `{}`", self.thread.id), what }
    }
}
