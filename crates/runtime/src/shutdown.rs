//! Orderly shutdown: runs complete their superstep and are released.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// Progress of the process's shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Open,
    /// Runs stop after their superstep.
    Draining,
    /// Runs stop at once.
    Cutting,
    /// No run is active; followers end.
    Closed,
}

/// Shutdown state of a process, observed by all its runs.
#[derive(Debug)]
pub(crate) struct Shutdown {
    stage: watch::Sender<Stage>,
    /// `true` once a shutdown has begun; for frequent checks.
    drains: AtomicBool,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { stage: watch::channel(Stage::Open).0, drains: AtomicBool::new(false) }
    }
}

impl Shutdown {
    /// Stops runs after their superstep.
    pub(crate) fn drain(&self) {
        self.drains.store(true, Ordering::Release);
        self.stage.send_if_modified(|stage| {
            let earlier = *stage < Stage::Draining;
            *stage = (*stage).max(Stage::Draining);
            earlier
        });
    }

    /// Stops runs at once.
    pub(crate) fn cut(&self) {
        self.drains.store(true, Ordering::Release);
        self.stage.send_modify(|stage| *stage = (*stage).max(Stage::Cutting));
    }

    /// Ends the followers of runs.
    pub(crate) fn close(&self) {
        self.stage.send_replace(Stage::Closed);
    }

    /// Waits until followers must end. Cancel safe.
    pub(crate) async fn closed(&self) {
        self.wait_for_stage(Stage::Closed).await;
    }

    /// Returns `true` if followers must end.
    pub(crate) fn is_closed(&self) -> bool {
        *self.stage.borrow() == Stage::Closed
    }

    /// Returns `true` if the process is shutting down.
    pub(crate) fn drains(&self) -> bool {
        self.drains.load(Ordering::Acquire)
    }

    /// Waits until runs must stop at once. Cancel safe.
    pub(crate) async fn cuts(&self) {
        self.wait_for_stage(Stage::Cutting).await;
    }

    async fn wait_for_stage(&self, reached: Stage) {
        let mut stage = self.stage.subscribe();
        // Fails only without a sender, and we are one.
        stage.wait_for(|stage| *stage >= reached).await.map(drop).unwrap_or_default();
    }
}
