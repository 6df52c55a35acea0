//! Retention: deletion of old threads and events.

use crate::mailbox::is_living_instance;
use crate::record::ThreadRow;
use crate::table::{Result, Store};
use weftwork_types::run::RunStatus;
use weftwork_types::{BoxFuture, Principal, ThreadId, Timestamp};

/// The treatment of waiting threads: threads with an open question or timer, regardless of the
/// outcome of their last run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waiting {
    /// Waiting threads are not selected.
    #[default]
    Spared,
    /// Waiting threads are selected like others.
    Included,
}

/// A selection of threads that have not changed for a time. Threads with an unfinished run and those
/// of instances that are not terminated are never selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Untouched {
    /// Latest time of the last change, exclusive.
    pub before: Timestamp,
    /// Treatment of waiting threads.
    pub waiting: Waiting,
    /// Maximum number of threads.
    pub limit: usize,
}

impl Untouched {
    /// Returns `true` if a thread is selected, given that its runs have ended. `asks` is `true` if
    /// a question of the thread is open.
    #[must_use]
    pub fn has(&self, row: &ThreadRow, asks: bool) -> bool {
        let waits = asks || row.status == Some(RunStatus::Interrupted);
        let spared = self.waiting == Waiting::Spared && waits;
        let rests =
            row.status.is_none_or(RunStatus::is_final) && !is_living_instance(&row.metadata);
        row.updated_at < self.before && rests && !spared
    }
}

/// Deletes old data.
pub trait Retention: Send + Sync {
    /// Returns the selected threads, ordered by the time of their last change, then by id.
    ///
    /// # Errors
    /// Only system errors.
    fn untouched<'a>(
        &'a self,
        who: &'a Principal,
        which: Untouched,
    ) -> BoxFuture<'a, Result<Vec<ThreadRow>>>;

    /// Deletes the selected threads in one transaction, each as
    /// [`delete_thread`](crate::WriteThreads) does, and returns their ids. Threads that are in use
    /// at this moment are skipped.
    ///
    /// # Errors
    /// Only system errors.
    fn delete_untouched<'a>(
        &'a self,
        who: &'a Principal,
        which: Untouched,
    ) -> BoxFuture<'a, Result<Vec<ThreadId>>>;

    /// Deletes the events of at most `limit` runs that ended before a time, except the last event
    /// of each, and returns the number of these runs. Outcomes, checkpoints, calls and usage are
    /// retained. So are the events of a failed run that can be requeued, because it would continue
    /// its log.
    ///
    /// # Errors
    /// Only system errors.
    fn drop_events<'a>(
        &'a self,
        who: &'a Principal,
        ended_before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<u64>>;
}

/// Number of threads, or of runs whose events are dropped, per transaction.
const AT_ONCE: usize = 100;

/// Deletes all selected threads, in several transactions, and the blobs that only they referred to.
/// Returns the ids of the threads. The limit of `which` is ignored.
///
/// # Errors
/// Only system errors. Deletions up to then are retained.
pub async fn delete_all_untouched(
    store: &dyn Store,
    who: &Principal,
    which: Untouched,
) -> Result<Vec<ThreadId>> {
    let mut forgotten = Vec::new();
    loop {
        let gone = store.delete_untouched(who, Untouched { limit: AT_ONCE, ..which }).await?;
        if gone.is_empty() {
            break;
        }
        forgotten.extend(gone);
    }
    if !forgotten.is_empty() {
        store.collect_blobs(who).await?;
    }
    Ok(forgotten)
}

/// Deletes the events of all runs that ended before a time, except the last event of each, in
/// several transactions. Returns the number of these runs.
///
/// # Errors
/// Only system errors. Deletions up to then are retained.
pub async fn drop_all_events(
    store: &dyn Store,
    who: &Principal,
    ended_before: Timestamp,
) -> Result<u64> {
    let mut runs = 0;
    loop {
        match store.drop_events(who, ended_before, AT_ONCE).await? {
            0 => return Ok(runs),
            dropped => runs += dropped,
        }
    }
}
