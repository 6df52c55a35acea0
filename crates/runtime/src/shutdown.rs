//! Stopping in order: runs come to the end of their superstep, and are put back.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// Progress of the process's shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Open,
    /// Runs go no further than their superstep.
    Draining,
    /// Runs go no further.
    Cutting,
}

/// Tells all runs of a process that it is on its way out.
#[derive(Debug)]
pub(crate) struct Shutdown {
    stage: watch::Sender<Stage>,
    /// The same for those who look often.
    drains: AtomicBool,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { stage: watch::channel(Stage::Open).0, drains: AtomicBool::new(false) }
    }
}

impl Shutdown {
    /// Lets runs go no further than their superstep.
    pub(crate) fn drain(&self) {
        self.drains.store(true, Ordering::Release);
        self.stage.send_if_modified(|stage| {
            let earlier = *stage < Stage::Draining;
            *stage = (*stage).max(Stage::Draining);
            earlier
        });
    }

    /// Lets runs go no further.
    pub(crate) fn cut(&self) {
        self.drains.store(true, Ordering::Release);
        self.stage.send_replace(Stage::Cutting);
    }

    /// Returns `true` if the process is shutting down.
    pub(crate) fn drains(&self) -> bool {
        self.drains.load(Ordering::Acquire)
    }

    /// Waits until runs must go no further. Cancel safe.
    pub(crate) async fn cuts(&self) {
        let mut stage = self.stage.subscribe();
        // Fails only without a sender, and we are one.
        stage.wait_for(|stage| *stage == Stage::Cutting).await.map(drop).unwrap_or_default();
    }
}
