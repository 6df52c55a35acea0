//! Deletion of old threads, checkpoints, events and items.

use super::Runtime;
use std::time::Duration;
use weftwork_graph::RuntimeError;
use weftwork_store::{StoreError, Untouched, Waiting, delete_all_untouched, drop_all_events};
use weftwork_types::{Principal, ThreadId, Timestamp};

/// Number of items swept in one transaction.
const SWEPT_AT_ONCE: usize = 1_000;

impl Runtime {
    /// Forgets the threads of an organisation that nothing has changed for this long, with their
    /// runs, checkpoints, events, questions and journal; says which. Threads with a run that has
    /// not ended are kept, and so are those that wait unless they are included. What was paid for
    /// stays on record.
    ///
    /// # Errors
    /// What the store said. Threads that were forgotten before stay so.
    pub async fn delete_untouched_threads(
        &self,
        who: &Principal,
        untouched_for: Duration,
        waiting: Waiting,
    ) -> Result<Vec<ThreadId>, RuntimeError> {
        let which = Untouched { before: self.ago(untouched_for), waiting, limit: usize::MAX };
        Ok(delete_all_untouched(self.store().as_ref(), who, which).await?)
    }

    /// Forgets all checkpoints but the newest `keep` of the threads of an organisation that nothing
    /// has changed for this long and whose graphs are hosted here; says which threads these are.
    /// They go on from their newest checkpoint as before, those that wait too.
    ///
    /// # Errors
    /// What the store said, or that a checkpoint does not fit its graph.
    pub async fn prune_checkpoints(
        &self,
        who: &Principal,
        untouched_for: Duration,
        keep: usize,
    ) -> Result<Vec<ThreadId>, RuntimeError> {
        let (before, waiting) = (self.ago(untouched_for), Waiting::Included);
        let which = Untouched { before, waiting, limit: usize::MAX };
        let host = self.0.host.looking(who);
        let mut thinned = Vec::new();
        for row in self.store().untouched(who, which).await? {
            let Ok(graph) = self.graph(row.graph.as_deref().unwrap_or_default()) else { continue };
            match graph.prune(&host, row.id.as_str(), keep.max(1)).await {
                Ok(()) => thinned.push(row.id),
                // It went on meanwhile.
                Err(RuntimeError::Store(StoreError::Conflict { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        if !thinned.is_empty() {
            self.store().collect_blobs(who).await?;
        }
        Ok(thinned)
    }

    /// Drops the events of an organisation's runs that ended this long ago, but for the last of
    /// each; says of how many runs. Outcomes, checkpoints with their messages, calls and usage
    /// stay, and so do the events of a failed run that can be requeued. Whoever reads from before
    /// what is kept is told where it begins (W0218).
    ///
    /// # Errors
    /// What the store said. Events that were dropped before stay so.
    pub async fn drop_events(
        &self,
        who: &Principal,
        ended_for: Duration,
    ) -> Result<u64, RuntimeError> {
        Ok(drop_all_events(self.store().as_ref(), who, self.ago(ended_for)).await?)
    }

    /// Frees the room of all items that have expired, of every organisation; says of how many. Until
    /// then they are only not found, but for the few that each put frees.
    ///
    /// # Errors
    /// What the store said. What was freed before stays so.
    pub async fn sweep_items(&self) -> Result<usize, RuntimeError> {
        let (now, mut swept) = (self.0.host.clock.now(), 0);
        loop {
            match self.store().sweep_items(SWEPT_AT_ONCE, now).await? {
                0 => return Ok(swept),
                some => swept += some,
            }
        }
    }

    fn ago(&self, duration: Duration) -> Timestamp {
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.0.host.clock.now().0.saturating_sub(ms))
    }
}
