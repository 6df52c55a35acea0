//! The connection that writes, and group commit.
//!
//! A commit that waits for the disk goes to a thread, which writes everything that waits meanwhile
//! in one transaction. That costs two changes of threads, about as much as the rest of the commit,
//! so a caller who finds nobody else writing, and a disk that was quick lately, commits by itself
//! (`docs/adr/0014-commits-at-full.md`).

use crate::error::{Done, Place};
use crate::reader;
use futures_channel::oneshot;
use rusqlite::Connection;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weftwork_store::StoreError;

/// The most jobs of one transaction; bounds how long the first of them waits.
const BATCH_MAX: usize = 256;

/// A commit that took longer than this is slow: the disk is, or another process was in the way.
const QUICK: Duration = Duration::from_millis(2);

/// A slow commit weighs as much as so many quick ones: one among them is none of a slow disk, as when
/// the log is written back.
const SLOW_WEIGHS: u32 = 8;

/// The most that slow commits weigh together. The disk is slow as long as they weigh more than one
/// of them, so that this is how many quick commits it takes after that.
const SLOW_MAX: u32 = 64 + SLOW_WEIGHS;

/// Where writes go.
#[derive(Debug)]
pub(crate) enum Writer {
    /// The caller writes, one at a time.
    Inline(Mutex<Session>),
    /// A thread writes everything that waits in one transaction; callers write by themselves
    /// while nobody else does.
    Thread(Thread),
}

impl Writer {
    pub(crate) fn inline(conn: Connection, place: Place) -> Self {
        Self::Inline(Mutex::new(Session { conn, place, patient: true }))
    }

    pub(crate) fn thread(conn: Connection, place: Place) -> Result<Self, StoreError> {
        let (jobs, waiting) = channel();
        let session = Mutex::new(Session { conn, place: place.clone(), patient: true });
        let desk = Arc::new(Desk::new(session, QUICK));
        let shared = Arc::clone(&desk);
        let handle = std::thread::Builder::new()
            .name("weft-db-write".to_owned())
            .spawn(move || shared.serve(&waiting))
            .map_err(|error| place.unavailable(format!("no thread for writing: {error}")))?;
        Ok(Self::Thread(Thread { desk, jobs: Some(jobs), handle: Some(handle), place }))
    }

    /// Does the work in a transaction; returns when it is committed. The work may be done more
    /// than once, when another job spoils the transaction that both were in. Whoever writes alone
    /// tries first what `single` can do in one statement, which is a transaction by itself.
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
    /// Does work that only reads a little, unless somebody writes just now; gives it back then.
    /// What this connection wrote last it has at hand, where others read the pages again.
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
        Ok(found.map_err(|fail| session.place.fail(fail)))
    }
}

#[derive(Debug)]
pub(crate) struct Thread {
    desk: Arc<Desk>,
    jobs: Option<Sender<Box<dyn Job>>>,
    handle: Option<JoinHandle<()>>,
    place: Place,
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
        let ended = || self.place.unavailable("its writing thread has ended");
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
            // The thread fails only if a job panicked, which was reported where it happened.
            drop(handle.join());
        }
    }
}

/// What the thread and callers share.
#[derive(Debug)]
struct Desk {
    session: Mutex<Session>,
    /// A commit that takes longer is a slow one.
    quick: Duration,
    /// The jobs that were sent to the thread and are not done.
    queued: AtomicUsize,
    /// What slow commits weigh, less the quick ones since.
    slow: AtomicU32,
}

impl Desk {
    fn new(session: Mutex<Session>, quick: Duration) -> Self {
        Self { session, quick, queued: AtomicUsize::new(0), slow: AtomicU32::new(0) }
    }

    /// Does the work on the caller's thread, when nobody else writes and the disk is quick.
    fn at_once<T>(
        &self,
        single: impl Fn(&Connection) -> Done<Option<T>>,
        work: impl Fn(&Connection) -> Done<T>,
    ) -> Option<Result<T, StoreError>> {
        let slow = self.slow.load(Ordering::Relaxed) > SLOW_WEIGHS;
        if slow || self.queued.load(Ordering::Acquire) > 0 {
            return None;
        }
        // Not after a panic either: the thread says what became of it.
        let mut session = self.session.try_lock().ok()?;
        session.wait_for_others(false).ok()?;
        let began = now();
        let written = session.alone(single, work);
        self.note(began);
        match written {
            // Another process writes. To wait for it is for the thread.
            Err(StoreError::Locked { .. }) => None,
            written => Some(written),
        }
    }

    fn note(&self, began: Instant) {
        // Those who count at the same time may count one too few.
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
            // Ends, because every turn finishes at least one job.
            while !batch.is_empty() {
                let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
                let began = now();
                let (done, outcome) = session.transaction(&mut batch);
                drop(session);
                self.note(began);
                // Before they are told, so that each may write its next by itself.
                self.queued.fetch_sub(done.len(), Ordering::AcqRel);
                for job in done {
                    job.finish(outcome.clone());
                }
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "it is the disk's time, not that of runs")]
fn now() -> Instant {
    Instant::now()
}

/// Work that waits for its transaction.
trait Job: Send {
    /// Does the work and keeps its result; says whether its changes may stay.
    fn run(&mut self, conn: &Connection, place: &Place) -> Verdict;

    /// Tells the caller its own result, or why the transaction was lost.
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
    fn run(&mut self, conn: &Connection, place: &Place) -> Verdict {
        let result = (self.work)(conn).map_err(|fail| place.fail(fail));
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
        // Nobody may be waiting any more; what was committed stays.
        drop(self.reply.send(result));
    }
}

/// How a transaction of several jobs ended.
enum End {
    Committed,
    /// Nobody's fault: the whole transaction failed.
    Failed(StoreError),
    /// The last job that ran failed in a way that took everybody's changes back, such as a full
    /// disk. The others get another transaction, without it.
    Spoilt,
}

#[derive(Debug)]
pub(crate) struct Session {
    conn: Connection,
    place: Place,
    /// Whether it waits for other processes.
    patient: bool,
}

impl Session {
    fn wait_for_others(&mut self, patient: bool) -> Done<()> {
        if self.patient != patient {
            let wait = if patient { self.place.busy_timeout_ms } else { 0 };
            self.conn.busy_timeout(Duration::from_millis(wait))?;
            self.patient = patient;
        }
        Ok(())
    }

    /// Does the jobs of the batch in one transaction; returns those that are done, and what came
    /// of it. Jobs that must go into another transaction stay in the batch.
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
        let began = self.wait_for_others(true).map_err(|fail| self.place.fail(fail));
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
        if job.run(&self.conn, &self.place) == Verdict::TakeBack {
            self.roll_back();
        }
        Ok(())
    }

    /// Runs one job of several, so that its failure takes nothing from the others.
    fn part(&self, job: &mut dyn Job) -> Result<(), StoreError> {
        self.execute("SAVEPOINT job")?;
        let verdict = job.run(&self.conn, &self.place);
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
        if let Some(done) = single(&self.conn).map_err(|fail| self.place.fail(fail))? {
            return Ok(done);
        }
        self.execute("BEGIN IMMEDIATE")?;
        match work(&self.conn) {
            Ok(value) => self.commit().map(|()| value),
            Err(fail) => {
                self.roll_back();
                Err(self.place.fail(fail))
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

    /// Ends a transaction that failed. When even this fails there is none any more.
    fn roll_back(&self) {
        if !self.conn.is_autocommit() {
            drop(self.execute("ROLLBACK"));
        }
    }

    fn execute(&self, sql: &str) -> Result<(), StoreError> {
        let done = self.conn.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
        done.map(drop).map_err(|error| self.place.fail(error.into()))
    }
}

#[cfg(test)]
mod tests;
