//! Deletion of old threads, checkpoints, events and items.

use super::core::Runtime;
use std::time::Duration;
use weftwork_graph::RuntimeError;
use weftwork_store::artifact::delete_lapsed;
use weftwork_store::{StoreError, Untouched, Waiting, delete_all_untouched, drop_all_events};
use weftwork_types::{Principal, ThreadId, Timestamp};

/// Number of items swept in one transaction.
const SWEPT_AT_ONCE: usize = 1_000;

impl Runtime {
    /// Deletes a thread with everything it owns, and wakes the task that deletes its threads on other
    /// servers.
    pub(crate) async fn delete_thread(
        &self,
        who: &Principal,
        id: &ThreadId,
    ) -> Result<(), RuntimeError> {
        self.store().delete_thread(who, id).await?;
        self.0.remote_servers.deleted.notify_one();
        Ok(())
    }

    /// Deletes the threads of an organisation that have not changed for this long, with their runs,
    /// checkpoints, events, questions and journal, and returns their ids. Threads with an
    /// unfinished run are retained, and waiting threads too unless they are included. Usage records
    /// are retained.
    ///
    /// # Errors
    /// [`RuntimeError::Store`]. Threads that were deleted before the error stay deleted.
    pub async fn delete_untouched_threads(
        &self,
        who: &Principal,
        untouched_for: Duration,
        waiting: Waiting,
    ) -> Result<Vec<ThreadId>, RuntimeError> {
        let which =
            Untouched { before: self.time_before(untouched_for), waiting, limit: usize::MAX };
        let deleted = delete_all_untouched(self.store().as_ref(), who, which).await;
        self.0.remote_servers.deleted.notify_one();
        Ok(deleted?)
    }

    /// Deletes all checkpoints except the newest `keep` of the threads of an organisation that have
    /// not changed for this long and whose graphs are hosted here, and returns the ids of these
    /// threads. They can still be resumed, waiting threads too.
    ///
    /// # Errors
    /// [`RuntimeError::Store`], and [`RuntimeError::Engine`] if a checkpoint does not fit its
    /// graph.
    pub async fn prune_checkpoints(
        &self,
        who: &Principal,
        untouched_for: Duration,
        keep: usize,
    ) -> Result<Vec<ThreadId>, RuntimeError> {
        let before = self.time_before(untouched_for);
        let waiting = Waiting::Included;
        let which = Untouched { before, waiting, limit: usize::MAX };
        let context = self.0.context.looking(who);
        let mut pruned = Vec::new();
        for row in self.store().untouched(who, which).await? {
            let Ok(graph) = self.graph(who, row.graph.as_deref().unwrap_or_default()) else {
                continue;
            };
            match graph.prune(&context, row.id.as_str(), keep.max(1)).await {
                Ok(()) => pruned.push(row.id),
                // The thread has changed meanwhile.
                Err(RuntimeError::Store(StoreError::Conflict { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        if !pruned.is_empty() {
            self.store().collect_blobs(who).await?;
        }
        Ok(pruned)
    }

    /// Deletes the events of an organisation's runs that ended this long ago, except the last event
    /// of each, and returns the number of these runs. Outcomes, checkpoints with their messages,
    /// calls and usage are retained, and so are the events of a failed run that can be requeued. A
    /// client that reads from a deleted event receives the number of the oldest stored one (W0218).
    ///
    /// # Errors
    /// [`RuntimeError::Store`]. Events that were deleted before the error stay deleted.
    pub async fn drop_events(
        &self,
        who: &Principal,
        ended_for: Duration,
    ) -> Result<u64, RuntimeError> {
        Ok(drop_all_events(self.store().as_ref(), who, self.time_before(ended_for)).await?)
    }

    /// Frees the space of all expired items, of all organisations, and returns their number.
    /// Expired items are not found before that either; each put frees a few of them.
    ///
    /// # Errors
    /// [`RuntimeError::Store`]. Space that was freed before the error stays free.
    pub async fn sweep_items(&self) -> Result<usize, RuntimeError> {
        let now = self.0.context.clock.now();
        let mut swept = 0;
        loop {
            match self.store().sweep_items(SWEPT_AT_ONCE, now).await? {
                0 => return Ok(swept),
                some => swept += some,
            }
        }
    }

    /// Deletes the artifacts of an organisation that have lapsed, and returns their number. Lapsed
    /// artifacts cannot be read before that either.
    ///
    /// # Errors
    /// [`RuntimeError::Store`]. Artifacts that were deleted before the error stay deleted.
    pub async fn delete_lapsed_artifacts(&self, who: &Principal) -> Result<u64, RuntimeError> {
        let now = self.0.context.clock.now();
        Ok(delete_lapsed(self.store().as_ref(), who, now).await?)
    }

    fn time_before(&self, duration: Duration) -> Timestamp {
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.0.context.clock.now().0.saturating_sub(ms))
    }
}
