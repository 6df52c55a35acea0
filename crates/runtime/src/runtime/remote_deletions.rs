//! Deletion of threads on other servers, after their local thread was deleted.

use super::core::{Inner, Runtime};
use super::remote_servers::{RemoteDeletions, delete_remote_threads};
use std::sync::{Arc, Weak};
use std::time::Duration;
use weftwork_graph::RuntimeError;

/// Interval of attempts. In machine time.
const ATTEMPT_EVERY: Duration = Duration::from_secs(60);

impl Runtime {
    /// Deletes threads on other servers whose local thread was deleted, as
    /// [`delete_remote_threads`] does. With [`Recovery::Automatic`](crate::Recovery::Automatic), the
    /// runtime does it by itself, after deletions and at intervals.
    ///
    /// # Errors
    /// [`RuntimeError::Store`].
    pub async fn delete_remote_threads(&self) -> Result<RemoteDeletions, RuntimeError> {
        let context = &self.0.context;
        let servers = &self.0.remote_servers.all;
        Ok(delete_remote_threads(context.store.as_ref(), context.clock.as_ref(), servers).await?)
    }
}

/// Passes deletions on after each deletion and at intervals, as long as the runtime exists.
pub(super) async fn pass_on(runtime: Weak<Inner>) {
    while let Some(inner) = runtime.upgrade() {
        if inner.context.shutdown.drains() {
            return;
        }
        let runtime = Runtime(inner);
        if let Err(error) = runtime.delete_remote_threads().await {
            tracing::warn!(%error, "cannot read the deletions of remote threads");
        }
        let servers = Arc::clone(&runtime.0.remote_servers);
        drop(runtime);
        tokio::select! {
            () = tokio::time::sleep(ATTEMPT_EVERY) => {}
            () = servers.deleted.notified() => {}
        }
    }
}
