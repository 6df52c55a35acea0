//! Retries of calls to a store that is full or out of reach.

use crate::event_bus::EventBus;
use std::time::Duration;
use weftwork_graph::RuntimeError;
use weftwork_store::StoreError;
use weftwork_types::port::Clock;
use weftwork_types::run::RunRef;

/// Maximum delay between two attempts at a write that the store does not accept now.
const PATIENCE_MAX: Duration = Duration::from_secs(60);

/// Delay between attempts to write to a full or unreachable store: one second, doubled each time.
#[derive(Debug)]
pub(crate) struct Patience {
    wait: Duration,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { wait: Duration::from_secs(1) }
    }

    /// Waits once more, and reports the pause to the watchers of the run. Returns the error if
    /// waiting cannot resolve it.
    pub(crate) async fn after(
        &mut self,
        error: StoreError,
        clock: &dyn Clock,
        run: &RunRef,
        watched: Option<&EventBus>,
    ) -> Result<(), StoreError> {
        let passes = !matches!(error, StoreError::Busy { .. }) && error.is_retriable();
        if !passes {
            return Err(error);
        }
        let wait_ms = self.wait.as_millis();
        tracing::warn!(%error, run = %run.run, thread = %run.thread, wait_ms, "the run waits for its store");
        if let Some(bus) = watched {
            bus.pause(RuntimeError::Store(error).fault());
        }
        clock.sleep(self.wait).await;
        // A test clock may not wait at all.
        tokio::task::yield_now().await;
        self.wait = (self.wait * 2).min(PATIENCE_MAX);
        Ok(())
    }
}
