//! The write connection and group commit.
//!
//! A commit that waits for the disk is sent to a thread, which writes all jobs that are waiting in
//! one transaction. This costs two thread switches, about as much as the rest of the commit. A
//! caller therefore commits on its own thread if no other write is in progress and the last commits
//! were fast (`docs/adr/0014-commits-at-full.md`).

use crate::error::{Done, StoreLocation};
use crate::{open, reader};
use futures_channel::oneshot;
use rusqlite::Connection;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weftwork_store::StoreError;

/// Maximum number of jobs per transaction. It limits the wait of the first of them.
const BATCH_MAX: usize = 256;

/// A commit that takes longer than this is slow, because of the disk or of another process.
const QUICK: Duration = Duration::from_millis(2);

/// Amount by which a slow commit increments the slow counter; a fast one decrements it by 1. A
/// single slow commit does not indicate a slow disk; it also occurs when the log is moved into the
/// file.
const SLOW_WEIGHS: u32 = 8;

/// Maximum of the slow counter. The disk is considered slow while the counter exceeds
/// [`SLOW_WEIGHS`], so at most 64 fast commits in a row end that state.
const SLOW_MAX: u32 = 64 + SLOW_WEIGHS;

/// The write path of a store.
#[derive(Debug)]
pub(crate) enum Writer {
    /// The caller writes, one at a time.
    Inline(Mutex<Session>),
    /// A thread writes all waiting jobs in one transaction. A caller writes on its own thread if no
    /// other write is in progress.
    Thread(Thread),
}

impl Writer {
    pub(crate) fn inline(conn: Connection, location: StoreLocation) -> Self {
        Self::Inline(Mutex::new(Session { conn, location, patient: true }))
    }

    pub(crate) fn thread(conn: Connection, location: StoreLocation) -> Result<Self, StoreError> {
        let (jobs, waiting) = channel();
        let session = Mutex::new(Session { conn, location: location.clone(), patient: true });
        let desk = Arc::new(Desk::new(session, QUICK));
        let shared = Arc::clone(&desk);
        let handle = std::thread::Builder::new()
            .name("weft-db-write".to_owned())
            .spawn(move || shared.serve(&waiting))
            .map_err(|error| {
                location.unavailable(format!("cannot start the writer thread: {error}"))
            })?;
        Ok(Self::Thread(Thread { desk, jobs: Some(jobs), handle: Some(handle), location }))
    }

    /// Runs `work` in a transaction and returns after its commit. `work` may run more than once, if
    /// another job breaks the transaction that both were part of. A caller that writes on its own
    /// thread first tries `single`, one statement that is a transaction by itself.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        single: impl Fn(&Connection) -> Done<Option<T>> + Send + 'static,
        work: impl Fn(&Connection) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        match self {
            Self::Inline(session) => {
                session.lock().unwrap_or_else(PoisonError::into_inner).alone(single, work)
            }
            Self::Thread(thread) => thread.write(single, work).await,
        }
    }
}

impl Writer {
    /// Runs a short read on the write connection, or returns it if a write is in progress. This
    /// connection has the pages that it last wrote in its cache; other connections read them again.
    pub(crate) fn look<T, W: FnOnce(&Connection) -> Done<T>>(
        &self,
        work: W,
    ) -> Result<Result<T, StoreError>, W> {
        let session = match self {
            Self::Inline(session) => session,
            Self::Thread(thread) => &thread.desk.session,
        };
        let Ok(session) = session.try_lock() else { return Err(work) };
        let found = reader::transaction(&session.conn, work);
        Ok(found.map_err(|fail| session.location.fail(fail)))
    }
}

#[derive(Debug)]
pub(crate) struct Thread {
    desk: Arc<Desk>,
    jobs: Option<Sender<Box<dyn Job>>>,
    handle: Option<JoinHandle<()>>,
    location: StoreLocation,
}

impl Thread {
    async fn write<T: Send + 'static>(
        &self,
        single: impl Fn(&Connection) -> Done<Option<T>>,
        work: impl Fn(&Connection) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        if let Some(written) = self.desk.at_once(&single, &work) {
            return written;
        }
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Write { work, result: None, reply });
        self.desk.queued.fetch_add(1, Ordering::AcqRel);
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        let ended = || self.location.unavailable("its writer thread has ended");
        if !sent {
            return Err(ended());
        }
        answer.await.map_err(|_| ended())?
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(handle) = self.handle.take() {
            // The thread fails only if a job panicked, and the panic was reported there.
            drop(handle.join());
        }
    }
}

/// The state that the thread and callers share.
#[derive(Debug)]
struct Desk {
    session: Mutex<Session>,
    /// Duration above which a commit is slow.
    quick: Duration,
    /// Number of jobs that were sent to the thread and are not finished.
    queued: AtomicUsize,
    /// Slow counter: the weights of slow commits, less the number of fast ones since.
    slow: AtomicU32,
}

impl Desk {
    fn new(session: Mutex<Session>, quick: Duration) -> Self {
        Self { session, quick, queued: AtomicUsize::new(0), slow: AtomicU32::new(0) }
    }

    /// Runs the work on the caller's thread, if no other write is in progress and the disk is fast.
    fn at_once<T>(
        &self,
        single: impl Fn(&Connection) -> Done<Option<T>>,
        work: impl Fn(&Connection) -> Done<T>,
    ) -> Option<Result<T, StoreError>> {
        let slow = self.slow.load(Ordering::Relaxed) > SLOW_WEIGHS;
        if slow || self.queued.load(Ordering::Acquire) > 0 {
            return None;
        }
        // A poisoned lock is left to the thread, which reports the panic.
        let mut session = self.session.try_lock().ok()?;
        session.wait_for_others(false).ok()?;
        let began = now();
        let written = session.alone(single, work);
        self.note(began);
        match written {
            // Another process is writing. The thread waits for it.
            Err(StoreError::Locked { .. }) => None,
            written => Some(written),
        }
    }

    fn note(&self, began: Instant) {
        // Concurrent updates may lose one count.
        let slow = self.slow.load(Ordering::Relaxed);
        let slow = match began.elapsed() > self.quick {
            true => slow.saturating_add(SLOW_WEIGHS).min(SLOW_MAX),
            false => slow.saturating_sub(1),
        };
        self.slow.store(slow, Ordering::Relaxed);
    }

    fn serve(&self, waiting: &Receiver<Box<dyn Job>>) {
        while let Ok(first) = waiting.recv() {
            let mut batch = VecDeque::from([first]);
            while batch.len() < BATCH_MAX
                && let Ok(job) = waiting.try_recv()
            {
                batch.push_back(job);
            }
            // Terminates, because each iteration finishes at least one job.
            while !batch.is_empty() {
                let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
                let began = now();
                let (done, outcome) = session.transaction(&mut batch);
                drop(session);
                self.note(began);
                // Decremented before the callers are notified, so that each may write its next
                // commit on its own thread.
                self.queued.fetch_sub(done.len(), Ordering::AcqRel);
                for job in done {
                    job.finish(outcome.clone());
                }
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "it measures the disk, not runs")]
fn now() -> Instant {
    Instant::now()
}

/// A job that waits for a transaction.
trait Job: Send {
    /// Runs the work and stores its result. The verdict states if the changes are committed.
    fn run(&mut self, conn: &Connection, location: &StoreLocation) -> Verdict;

    /// Sends the job's own result to the caller, or the error of the transaction.
    fn finish(self: Box<Self>, transaction: Result<(), StoreError>);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Keep,
    TakeBack,
}

struct Write<T, W> {
    work: W,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, W: Fn(&Connection) -> Done<T> + Send> Job for Write<T, W> {
    fn run(&mut self, conn: &Connection, location: &StoreLocation) -> Verdict {
        let result = (self.work)(conn).map_err(|fail| location.fail(fail));
        let verdict = if result.is_ok() { Verdict::Keep } else { Verdict::TakeBack };
        self.result = Some(result);
        verdict
    }

    fn finish(self: Box<Self>, transaction: Result<(), StoreError>) {
        let result = match (self.result, transaction) {
            (Some(Err(own)), _) => Err(own),
            (_, Err(lost)) => Err(lost),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => return,
        };
        // The caller may have stopped waiting; the changes stay committed.
        drop(self.reply.send(result));
    }
}

/// The end of a transaction of several jobs.
enum End {
    Committed,
    /// The whole transaction failed, not because of a particular job.
    Failed(StoreError),
    /// The last job that ran failed and caused SQLite to roll back the whole transaction, for
    /// example because the disk is full. The other jobs get another transaction without it.
    Spoilt,
}

#[derive(Debug)]
pub(crate) struct Session {
    conn: Connection,
    location: StoreLocation,
    /// `true` if the connection waits for locks of other processes.
    patient: bool,
}

impl Drop for Session {
    fn drop(&mut self) {
        open::end_log(&self.conn);
    }
}

impl Session {
    fn wait_for_others(&mut self, patient: bool) -> Done<()> {
        if self.patient != patient {
            let wait = if patient { self.location.busy_timeout_ms } else { 0 };
            self.conn.busy_timeout(Duration::from_millis(wait))?;
            self.patient = patient;
        }
        Ok(())
    }

    /// Runs the jobs of the batch in one transaction. Returns the finished jobs and the outcome.
    /// Jobs that need another transaction stay in the batch.
    fn transaction(
        &mut self,
        batch: &mut VecDeque<Box<dyn Job>>,
    ) -> (Vec<Box<dyn Job>>, Result<(), StoreError>) {
        let mut done = Vec::with_capacity(batch.len());
        let outcome = match self.try_transaction(batch, &mut done) {
            End::Committed => Ok(()),
            End::Failed(error) => {
                done.extend(batch.drain(..));
                Err(error)
            }
            End::Spoilt => {
                let spoiler = done.pop();
                for job in done.drain(..).rev() {
                    batch.push_front(job);
                }
                done.extend(spoiler);
                Ok(())
            }
        };
        (done, outcome)
    }

    fn try_transaction(
        &mut self,
        batch: &mut VecDeque<Box<dyn Job>>,
        done: &mut Vec<Box<dyn Job>>,
    ) -> End {
        let began = self.wait_for_others(true).map_err(|fail| self.location.fail(fail));
        if let Err(error) = began.and_then(|()| self.execute("BEGIN IMMEDIATE")) {
            return End::Failed(error);
        }
        let alone = batch.len() == 1;
        while let Some(mut job) = batch.pop_front() {
            let ran = if alone { self.whole(&mut *job) } else { self.part(&mut *job) };
            done.push(job);
            match ran {
                Err(error) => {
                    self.roll_back();
                    return End::Failed(error);
                }
                Ok(()) if self.conn.is_autocommit() => return End::Spoilt,
                Ok(()) => {}
            }
        }
        self.commit().map_or_else(End::Failed, |()| End::Committed)
    }

    /// Runs the only job of a transaction.
    fn whole(&self, job: &mut dyn Job) -> Result<(), StoreError> {
        if job.run(&self.conn, &self.location) == Verdict::TakeBack {
            self.roll_back();
        }
        Ok(())
    }

    /// Runs one of several jobs, in a savepoint, so that its failure does not affect the others.
    fn part(&self, job: &mut dyn Job) -> Result<(), StoreError> {
        self.execute("SAVEPOINT job")?;
        let verdict = job.run(&self.conn, &self.location);
        if self.conn.is_autocommit() {
            return Ok(());
        }
        if verdict == Verdict::TakeBack {
            self.execute("ROLLBACK TO job")?;
        }
        self.execute("RELEASE job")
    }

    fn alone<T>(
        &self,
        single: impl Fn(&Connection) -> Done<Option<T>>,
        work: impl Fn(&Connection) -> Done<T>,
    ) -> Result<T, StoreError> {
        if let Some(done) = single(&self.conn).map_err(|fail| self.location.fail(fail))? {
            return Ok(done);
        }
        self.execute("BEGIN IMMEDIATE")?;
        match work(&self.conn) {
            Ok(value) => self.commit().map(|()| value),
            Err(fail) => {
                self.roll_back();
                Err(self.location.fail(fail))
            }
        }
    }

    fn commit(&self) -> Result<(), StoreError> {
        let committed = self.execute("COMMIT");
        if committed.is_err() {
            self.roll_back();
        }
        committed
    }

    /// Rolls back a failed transaction. If the rollback fails, the transaction is no longer open.
    fn roll_back(&self) {
        if !self.conn.is_autocommit() {
            drop(self.execute("ROLLBACK"));
        }
    }

    fn execute(&self, sql: &str) -> Result<(), StoreError> {
        let done = self.conn.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
        done.map(drop).map_err(|error| self.location.fail(error.into()))
    }
}

#[cfg(test)]
mod tests;
