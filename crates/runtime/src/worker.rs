//! The lease by which a process is alive as a worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use weftwork_store::{Store, WorkerRow};
use weftwork_types::port::Clock;
use weftwork_types::{Timestamp, WorkerId};

/// Intervals that decide how fast the death of a worker is detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseConfig {
    /// Interval at which a worker renews its lease. In machine time, as all of these.
    pub renew_every: Duration,
    /// Time for which a renewed lease is valid. Several times `renew_every`.
    pub lease: Duration,
    /// Interval at which a worker looks for runs without a living worker.
    pub look_every: Duration,
}

impl Default for LeaseConfig {
    /// Two seconds, eight seconds, two seconds: runs of a dead worker are taken over within twelve.
    fn default() -> Self {
        let two = Duration::from_secs(2);
        Self { renew_every: two, lease: Duration::from_secs(8), look_every: two }
    }
}

/// Renews the worker's lease from a thread of its own, so that a busy runtime does not lose its
/// runs. Ends the lease when dropped.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    id: WorkerId,
    store: Arc<dyn Store>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    /// Registers the worker and starts to renew it.
    ///
    /// # Errors
    /// The error of the store on the first registration.
    pub(crate) async fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        id: WorkerId,
        config: LeaseConfig,
    ) -> weftwork_store::Result<Self> {
        store.keep_alive(lease_row(&id, clock.now(), config)).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("weft-heartbeat".to_owned()).spawn({
            let stop = Arc::clone(&stop);
            let id = id.clone();
            let store = Arc::clone(&store);
            let handle = tokio::runtime::Handle::current();
            move || {
                while !stop.load(Ordering::Acquire) {
                    std::thread::park_timeout(config.renew_every);
                    if stop.load(Ordering::Acquire) {
                        break;
                    }
                    let renewed =
                        handle.block_on(store.keep_alive(lease_row(&id, clock.now(), config)));
                    if let Err(error) = renewed {
                        tracing::warn!(%error, worker = %id, "cannot renew the worker's lease");
                    }
                }
                if let Err(error) = handle.block_on(store.retire(&id)) {
                    tracing::warn!(%error, worker = %id, "cannot end the worker's lease");
                }
            }
        });
        let thread = thread.map_err(|e| weftwork_store::StoreError::Unavailable {
            location: "heartbeat thread".to_owned(),
            reason: e.to_string(),
            retriable: true,
        })?;
        Ok(Self { id, store, stop, thread: Some(thread) })
    }

    /// Ends the lease now.
    ///
    /// # Errors
    /// The error of the store.
    pub(crate) async fn end(&self) -> weftwork_store::Result<()> {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            // If the thread renews the lease at this moment, it ends it again.
            thread.thread().unpark();
        }
        self.store.retire(&self.id).await
    }

    /// Returns the id of the worker.
    pub(crate) fn id(&self) -> &WorkerId {
        &self.id
    }
}

fn lease_row(id: &WorkerId, now: Timestamp, config: LeaseConfig) -> WorkerRow {
    WorkerRow { id: id.clone(), renewed_at: now, expires_at: now.plus(config.lease) }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // Not joined: the thread may need the very runtime thread that drops us.
            thread.thread().unpark();
        }
    }
}
