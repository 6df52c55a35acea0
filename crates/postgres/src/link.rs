//! The thread that serves the connections.

use crate::pool::{Pool, Work};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use weftwork_store::StoreError;

/// A handle to the thread. Dropping it closes the connections and waits for the end of the thread.
#[derive(Debug)]
pub(crate) struct Link {
    handle: Handle,
    pool: Arc<Pool>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Link {
    pub(crate) fn start(pool: Pool) -> Result<Self, StoreError> {
        let pool = Arc::new(pool);
        let cannot = |error: std::io::Error| {
            pool.location().away(format!("cannot start its thread: {error}"))
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("weft-postgres".to_owned());
        let closing = Arc::clone(&pool);
        let thread = thread.spawn(move || {
            runtime.block_on(async move {
                // An error means that the store was dropped, which also ends the wait.
                drop(stopped.await);
                closing.close().await;
            });
        });
        let thread = Some(thread.map_err(cannot)?);
        Ok(Self { handle, pool, stop: Some(stop), thread })
    }

    /// Runs the work on the thread. It continues if the caller stops waiting.
    pub(crate) async fn run<A, T>(&self, args: A, work: Work<A, T>) -> Result<T, StoreError>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let pool = Arc::clone(&self.pool);
        let (tell, told) = oneshot::channel();
        self.handle.spawn(async move {
            let done = pool.run(&args, work).await;
            // The caller may have stopped waiting.
            drop(tell.send(done));
        });
        told.await.unwrap_or_else(|_| Err(self.pool.location().unavailable("it was closed")))
    }

    /// Runs the work and blocks the calling thread until its end.
    pub(crate) fn wait<A, T>(&self, args: A, work: Work<A, T>) -> Result<T, StoreError>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let pool = Arc::clone(&self.pool);
        let (tell, told) = std::sync::mpsc::channel();
        self.handle.spawn(async move {
            let done = pool.once(&args, work).await;
            // The caller may have stopped waiting.
            drop(tell.send(done));
        });
        told.recv().unwrap_or_else(|_| Err(self.pool.location().unavailable("it was closed")))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            drop(thread.join());
        }
    }
}
