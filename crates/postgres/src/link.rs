//! The thread that serves the connections.

use crate::pool::{Pool, Work};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use weftwork_store::StoreError;

/// Ends the thread when dropped, and waits for it: connections are closed then.
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
        let cannot = |error: std::io::Error| pool.place().away(format!("no thread: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("weft-postgres".to_owned());
        let closing = Arc::clone(&pool);
        let thread = thread.spawn(move || {
            runtime.block_on(async move {
                // An error says that the store is gone, which is what we wait for.
                drop(stopped.await);
                closing.close().await;
            });
        });
        let thread = Some(thread.map_err(cannot)?);
        Ok(Self { handle, pool, stop: Some(stop), thread })
    }

    /// Does the work on the thread. It goes on when the caller no longer waits.
    pub(crate) async fn run<A, T>(&self, args: A, work: Work<A, T>) -> Result<T, StoreError>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let pool = Arc::clone(&self.pool);
        let (tell, told) = oneshot::channel();
        self.handle.spawn(async move {
            let done = pool.run(&args, work).await;
            // Nobody may be waiting any more.
            drop(tell.send(done));
        });
        told.await.unwrap_or_else(|_| Err(self.pool.place().unavailable("it was closed")))
    }

    /// The same for a thread that may wait.
    pub(crate) fn wait<A, T>(&self, args: A, work: Work<A, T>) -> Result<T, StoreError>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let pool = Arc::clone(&self.pool);
        let (tell, told) = std::sync::mpsc::channel();
        self.handle.spawn(async move {
            let done = pool.once(&args, work).await;
            // Nobody may be waiting any more.
            drop(tell.send(done));
        });
        told.recv().unwrap_or_else(|_| Err(self.pool.place().unavailable("it was closed")))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been told by the panic hook.
            drop(thread.join());
        }
    }
}
