//! The writer of the bill.

use super::core::{Inner, Runtime};
use std::sync::{Arc, Weak};
use std::time::Duration;
use weftwork_graph::RuntimeError;
use weftwork_store::move_all_usage;

/// Time from a commit with usage until its facts are moved, in which more may follow.
const MOVED_AFTER: Duration = Duration::from_secs(1);
/// Maximum time between attempts while the store accepts nothing.
const MOVED_AFTER_MAX: Duration = Duration::from_secs(60);

impl Runtime {
    /// Moves all usage of the store that is not yet in the bill, of all organisations, and returns the
    /// number of facts. The runtime does it by itself: when it is opened, and a second after commits
    /// with usage. Several processes may do it at the same time.
    ///
    /// # Errors
    /// [`RuntimeError::Store`]. Facts that were moved before the error stay moved.
    pub async fn move_usage(&self) -> Result<usize, RuntimeError> {
        Ok(move_all_usage(self.store().as_ref()).await?)
    }
}

/// Moves usage to the bill, as long as the runtime exists: that of earlier processes first.
pub(super) async fn move_usage(runtime: Weak<Inner>) {
    let mut wait = MOVED_AFTER;
    while let Some(inner) = runtime.upgrade() {
        let clock = Arc::clone(&inner.context.clock);
        let stored = inner.context.ledger.signal();
        let moved = Runtime(inner).move_usage().await;
        // The store is not held while the task waits.
        match moved {
            Ok(_) => {
                wait = MOVED_AFTER;
                stored.notified().await;
                if runtime.strong_count() == 0 {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot move usage to the bill");
                wait = (wait * 2).min(MOVED_AFTER_MAX);
            }
        }
        clock.sleep(wait).await;
    }
}
