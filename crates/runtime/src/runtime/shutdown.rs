//! Orderly shutdown.

use super::core::Runtime;
use super::execution::stopped_outcome;
use futures_util::{FutureExt, StreamExt, stream};
use std::future::pending;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use weftwork_graph::RuntimeError;
use weftwork_types::port::RunHandle;
use weftwork_types::{Principal, RunId};

/// Interval at which to check that all runs have ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Time limit for requeueing runs once they were cancelled.
const PUTTING_BACK: Duration = Duration::from_secs(5);
/// Time limit for the observer of ended runs.
const OBSERVED: Duration = Duration::from_secs(5);

impl Runtime {
    /// Shuts down in order: accepts no more runs, lets the active ones complete their superstep,
    /// releases them into the store, and ends the lease of this worker. Other workers can resume
    /// them at once, and no attempt is counted. Runs that end in the meantime have ended. Runs that
    /// do not complete their superstep within `grace`, in machine time, are interrupted there;
    /// their work since the last commit is repeated, except recorded calls.
    ///
    /// Then the handles of runs that are followed end, those of waiting runs too. The handle of a run
    /// that has ended has its outcome.
    ///
    /// Returns the runs that could not be released because their store accepted no writes: others
    /// take them over as from a dead worker. The stream of a released run ends with
    /// [`Released`](weftwork_types::event::AiEvent::Released).
    ///
    /// # Errors
    /// [`RuntimeError::Store`] if the lease cannot be ended; it expires later.
    ///
    /// # Cancel safety
    /// The runtime accepts no more runs; active ones are released or not. Call it again to wait for
    /// them.
    pub async fn shutdown(&self, grace: Duration) -> Result<Vec<RunId>, RuntimeError> {
        let shutdown = &self.0.context.shutdown;
        {
            // A concurrent start either observes the shutdown or is registered already.
            let _running = self.running();
            shutdown.drain();
        }
        self.until_empty(grace).await;
        shutdown.cut();
        self.until_empty(PUTTING_BACK).await;
        shutdown.close();
        let left = self.running().keys().cloned().collect();
        if let Some(observer) = &self.0.context.observer {
            observer.close(OBSERVED).await;
        }
        self.0.heartbeat.end().await?;
        Ok(left)
    }

    /// Ends the handle of a followed run when this process has shut down and the run has not ended:
    /// its events, once those that are available have been read, and its outcome, as one that is not
    /// known here.
    pub(super) fn until_closed(&self, who: &Principal, handle: RunHandle) -> RunHandle {
        let RunHandle { run, mut events, mut outcome } = handle;
        let closed = || {
            let context = Arc::clone(&self.0.context);
            let who = who.clone();
            let run = run.clone();
            Box::pin(async move {
                context.shutdown.closed().await;
                let row = context.store.run(&who, &run).await;
                if row.is_ok_and(|row| row.status.is_final()) {
                    // The end is in the store, and the handle reads it there.
                    pending::<()>().await;
                }
            })
        };
        let mut events_end = closed();
        let outcome_ends = closed();
        let events = stream::poll_fn(move |cx| match events.poll_next_unpin(cx) {
            Poll::Pending => events_end.poll_unpin(cx).map(|()| None),
            event => event,
        });
        let outcome = async move {
            tokio::select! {
                biased;
                ended = &mut outcome => ended,
                () = outcome_ends => stopped_outcome(),
            }
        };
        RunHandle { run, events: events.fuse().boxed(), outcome: outcome.boxed() }
    }

    /// Waits until no run is active here, at most for this time.
    async fn until_empty(&self, longest: Duration) {
        let empty = async {
            while !self.running().is_empty() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        // The caller handles the remaining runs.
        drop(tokio::time::timeout(longest, empty).await);
    }
}
