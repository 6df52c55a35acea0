//! The connection that writes, and group commit.

use crate::error::{Done, Place};
use futures_channel::oneshot;
use rusqlite::Connection;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use weftwork_store::StoreError;

/// The most jobs of one transaction; bounds how long the first of them waits.
const BATCH_MAX: usize = 256;

/// Where writes go.
#[derive(Debug)]
pub(crate) enum Writer {
    /// The caller writes, one at a time.
    Inline(Mutex<Session>),
    /// A thread writes everything that waits in one transaction.
    Thread(Thread),
}

impl Writer {
    pub(crate) fn inline(conn: Connection, place: Place) -> Self {
        Self::Inline(Mutex::new(Session { conn, place }))
    }

    pub(crate) fn thread(conn: Connection, place: Place) -> Result<Self, StoreError> {
        let (jobs, waiting) = channel();
        let mut session = Session { conn, place: place.clone() };
        let handle = std::thread::Builder::new()
            .name("weft-db-write".to_owned())
            .spawn(move || session.serve(&waiting))
            .map_err(|error| place.unavailable(format!("no thread for writing: {error}")))?;
        Ok(Self::Thread(Thread { jobs: Some(jobs), handle: Some(handle), place }))
    }

    /// Does the work in a transaction; returns when it is committed.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        match self {
            Self::Inline(session) => {
                session.lock().unwrap_or_else(PoisonError::into_inner).alone(work)
            }
            Self::Thread(thread) => thread.write(work).await,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Thread {
    jobs: Option<Sender<Box<dyn Job>>>,
    handle: Option<JoinHandle<()>>,
    place: Place,
}

impl Thread {
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Write { work: Some(work), result: None, reply });
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

/// Work that waits for its transaction.
trait Job: Send {
    /// Does the work and keeps its result; `Err` when its changes must be taken back.
    fn run(&mut self, conn: &Connection, place: &Place) -> Result<(), StoreError>;

    /// Tells the caller its own result, or why the transaction was lost.
    fn finish(self: Box<Self>, transaction: Result<(), StoreError>);
}

struct Write<T, W> {
    work: Option<W>,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, W: FnOnce(&Connection) -> Done<T> + Send> Job for Write<T, W> {
    fn run(&mut self, conn: &Connection, place: &Place) -> Result<(), StoreError> {
        let Some(work) = self.work.take() else { return Ok(()) };
        let result = work(conn).map_err(|fail| place.fail(fail));
        let verdict = result.as_ref().map(drop).map_err(Clone::clone);
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

#[derive(Debug)]
pub(crate) struct Session {
    conn: Connection,
    place: Place,
}

impl Session {
    fn serve(&mut self, waiting: &Receiver<Box<dyn Job>>) {
        while let Ok(first) = waiting.recv() {
            let mut batch = VecDeque::from([first]);
            while batch.len() < BATCH_MAX
                && let Ok(job) = waiting.try_recv()
            {
                batch.push_back(job);
            }
            while !batch.is_empty() {
                self.transaction(&mut batch);
            }
        }
    }

    /// Does as many jobs of the batch as fit one transaction, and tells them what came of it.
    fn transaction(&mut self, batch: &mut VecDeque<Box<dyn Job>>) {
        let mut done = Vec::with_capacity(batch.len());
        let outcome = self.try_transaction(batch, &mut done);
        for job in done {
            job.finish(outcome.clone());
        }
    }

    fn try_transaction(
        &mut self,
        batch: &mut VecDeque<Box<dyn Job>>,
        done: &mut Vec<Box<dyn Job>>,
    ) -> Result<(), StoreError> {
        if let Err(error) = self.execute("BEGIN IMMEDIATE") {
            done.extend(batch.drain(..));
            return Err(error);
        }
        let alone = batch.len() == 1;
        while let Some(mut job) = batch.pop_front() {
            let control = if alone { self.whole(&mut *job) } else { self.part(&mut *job) };
            done.push(job);
            if control.is_err() {
                self.roll_back();
                return control;
            }
        }
        self.commit()
    }

    /// Runs the only job of a transaction. `Err` when the transaction is lost.
    fn whole(&self, job: &mut dyn Job) -> Result<(), StoreError> {
        job.run(&self.conn, &self.place)
    }

    /// Runs one job of several, so that its failure takes nothing from the others. `Err` when the
    /// transaction is lost: after some errors, such as a full disk, SQLite gives it up.
    fn part(&self, job: &mut dyn Job) -> Result<(), StoreError> {
        self.execute("SAVEPOINT job")?;
        let verdict = job.run(&self.conn, &self.place);
        if self.conn.is_autocommit() {
            return verdict;
        }
        if verdict.is_err() {
            self.execute("ROLLBACK TO job")?;
        }
        self.execute("RELEASE job")
    }

    fn alone<T>(&self, work: impl FnOnce(&Connection) -> Done<T>) -> Result<T, StoreError> {
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
