//! Stopping in order.

use super::core::Runtime;
use std::time::Duration;
use weftwork_graph::RuntimeError;
use weftwork_types::RunId;

/// Interval at which to check that all runs have ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Time limit for requeueing runs once they were cancelled.
const PUTTING_BACK: Duration = Duration::from_secs(5);

impl Runtime {
    /// Stops in order: takes no more runs, lets those that go come to the end of their superstep,
    /// puts them back into the store, and gives up this worker's lease. Others go on with them at
    /// once, and no attempt is counted. Runs that end by themselves meanwhile have ended; those
    /// that do not come to the end of their superstep within `grace`, by the time of the machine,
    /// are cut off there, and what they did since is done again, recorded calls apart.
    ///
    /// Returns the runs that could not be put back, because their store took nothing: others take
    /// them over as from a worker that died. Whoever holds the handle of a run that was put back
    /// sees its stream end with [`Released`](weftwork_types::event::AiEvent::Released).
    ///
    /// # Errors
    /// What the store said to the end of the lease, which then runs out by itself.
    ///
    /// # Cancel safety
    /// The runtime takes no more runs, and those that go are put back or not; call it again to
    /// wait for them.
    pub async fn shutdown(&self, grace: Duration) -> Result<Vec<RunId>, RuntimeError> {
        let shutdown = &self.0.context.shutdown;
        {
            // Whoever is about to start a run sees it, or is seen.
            let _running = self.running();
            shutdown.drain();
        }
        self.until_empty(grace).await;
        shutdown.cut();
        self.until_empty(PUTTING_BACK).await;
        let left = self.running().keys().cloned().collect();
        self.0.heartbeat.end().await?;
        Ok(left)
    }

    /// Waits until no run goes here, but not longer than this.
    async fn until_empty(&self, longest: Duration) {
        let empty = async {
            while !self.running().is_empty() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        // Whatever is left then is dealt with by the caller.
        drop(tokio::time::timeout(longest, empty).await);
    }
}
