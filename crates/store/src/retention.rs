//! How long things are kept.

use crate::record::ThreadRow;
use crate::table::{Result, Store};
use weftwork_types::run::RunStatus;
use weftwork_types::{BoxFuture, Principal, ThreadId, Timestamp};

/// What becomes of threads that wait for an answer, or for a time: those of which a question is
/// open, however their last run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waiting {
    /// They are left alone.
    #[default]
    Spared,
    /// They are threads like the others.
    Included,
}

/// Threads that nothing has changed for long. Those with a run that has not ended are never among
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Untouched {
    /// They changed last before this.
    pub before: Timestamp,
    /// Whether those that wait are among them.
    pub waiting: Waiting,
    /// How many at most.
    pub limit: usize,
}

impl Untouched {
    /// Whether a thread is among them whose runs have ended, of which a question is open if it asks.
    #[must_use]
    pub fn has(&self, row: &ThreadRow, asks: bool) -> bool {
        let waits = asks || row.status == RunStatus::Interrupted;
        let spared = self.waiting == Waiting::Spared && waits;
        row.updated_at < self.before && row.status.is_final() && !spared
    }
}

/// Forgets what is old.
pub trait Retention: Send + Sync {
    /// Threads that nothing has changed for long, the longest first (of two, the lesser id first).
    ///
    /// # Errors
    /// Only those of the system.
    fn untouched<'a>(
        &'a self,
        who: &'a Principal,
        which: Untouched,
    ) -> BoxFuture<'a, Result<Vec<ThreadRow>>>;

    /// Removes these threads in one transaction, as [`delete_thread`](crate::WriteThreads) removes
    /// each, and says which it removed. Threads that somebody works on in this moment are left.
    ///
    /// # Errors
    /// Only those of the system.
    fn forget_untouched<'a>(
        &'a self,
        who: &'a Principal,
        which: Untouched,
    ) -> BoxFuture<'a, Result<Vec<ThreadId>>>;

    /// Drops the events of runs that ended before a time, but for the last of each; those of at
    /// most `limit` runs. Says of how many runs it did. Outcomes, checkpoints, calls, usage stay,
    /// and so do the events of a failed run that can be requeued: it would go on by them.
    ///
    /// # Errors
    /// Only those of the system.
    fn drop_events<'a>(
        &'a self,
        who: &'a Principal,
        ended_before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<u64>>;
}

/// How many threads are forgotten in one transaction, and the events of how many runs are dropped.
const AT_ONCE: usize = 100;

/// Forgets all threads that nothing has changed for long, some at a time, and the blobs that only
/// they spoke of; says which. The limit of `which` does not count.
///
/// # Errors
/// Only those of the system. Threads that were forgotten before stay so.
pub async fn forget_all(
    store: &dyn Store,
    who: &Principal,
    which: Untouched,
) -> Result<Vec<ThreadId>> {
    let mut forgotten = Vec::new();
    loop {
        let gone = store.forget_untouched(who, Untouched { limit: AT_ONCE, ..which }).await?;
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

/// Drops the events of all runs that ended before a time, but for the last of each, those of some
/// runs at a time; says of how many runs it did.
///
/// # Errors
/// Only those of the system. Events that were dropped before stay so.
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
