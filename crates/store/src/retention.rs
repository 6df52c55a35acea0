//! How long things are kept.

use crate::record::ThreadRow;
use crate::table::Result;
use weftwork_types::run::RunStatus;
use weftwork_types::{BoxFuture, Principal, ThreadId, Timestamp};

/// What becomes of threads that wait for an answer, or for a time.
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
    /// Whether a thread is among them.
    #[must_use]
    pub fn has(&self, row: &ThreadRow) -> bool {
        let spared = self.waiting == Waiting::Spared && row.status == RunStatus::Interrupted;
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
