//! Read connections.

use crate::error::{Done, StoreLocation};
use crate::open;
use futures_channel::oneshot;
use rusqlite::Connection;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use weftwork_store::StoreError;

/// Number of reader threads, so that a slow read does not block the others.
const THREADS: usize = 2;

type Job = Box<dyn FnOnce(&Connection) + Send>;

#[derive(Debug)]
pub(crate) struct Readers {
    jobs: Option<Sender<Job>>,
    handles: Vec<JoinHandle<()>>,
    /// Connection for reads on the caller's thread.
    own: Mutex<Connection>,
    location: StoreLocation,
}

impl Readers {
    pub(crate) fn open(path: &Path, location: &StoreLocation) -> Result<Self, StoreError> {
        let (jobs, waiting) = channel::<Job>();
        let waiting = Arc::new(Mutex::new(waiting));
        let own = Mutex::new(open::reader(path, location)?);
        let mut readers =
            Self { jobs: Some(jobs), handles: Vec::new(), own, location: location.clone() };
        for number in 0..THREADS {
            let conn = open::reader(path, location)?;
            let waiting = waiting.clone();
            let spawned = std::thread::Builder::new()
                .name(format!("weft-db-read-{number}"))
                .spawn(move || serve(&conn, &waiting));
            let handle = spawned.map_err(|error| {
                location.unavailable(format!("cannot start a reader thread: {error}"))
            })?;
            readers.handles.push(handle);
        }
        Ok(readers)
    }

    /// Runs a short read. It runs on the caller's thread unless another caller is reading there,
    /// because the transfer to another thread takes longer than reading a few rows.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        if let Ok(conn) = self.own.try_lock() {
            return transaction(&conn, work).map_err(|fail| self.location.fail(fail));
        }
        self.read(work).await
    }

    /// Runs a read in its own transaction, so that it sees one state of the store.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let location = self.location.clone();
        let job: Job = Box::new(move |conn| {
            let result = transaction(conn, work).map_err(|fail| location.fail(fail));
            // The caller may have stopped waiting.
            drop(reply.send(result));
        });
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        let ended = || self.location.unavailable("its reader threads have ended");
        if !sent {
            return Err(ended());
        }
        answer.await.map_err(|_| ended())?
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        drop(self.jobs.take());
        for handle in self.handles.drain(..) {
            // A thread fails only if a job panicked, and the panic was reported there.
            drop(handle.join());
        }
    }
}

fn serve(conn: &Connection, waiting: &Mutex<Receiver<Job>>) {
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        job(conn);
    }
}

/// Runs a read in its own transaction, which is rolled back.
pub(crate) fn transaction<T>(
    conn: &Connection,
    work: impl FnOnce(&Connection) -> Done<T>,
) -> Done<T> {
    let execute = |sql| conn.prepare_cached(sql).and_then(|mut it| it.execute([])).map(drop);
    // A job that panicked leaves its transaction open.
    if !conn.is_autocommit() {
        execute("ROLLBACK")?;
    }
    execute("BEGIN")?;
    let value = work(conn);
    let ended = execute("ROLLBACK");
    let value = value?;
    ended?;
    Ok(value)
}
