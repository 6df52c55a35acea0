//! A store that cuts a process off at one of its writes for runs.

use crate::crash::{At, Side};
use crate::node::Shared;
use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use weftwork_store::Result;
use weftwork_store::{Claim, Commit, Committed, NewRun, RunRow, Store, WriteRuns};
use weftwork_types::interrupt::Answer;
use weftwork_types::run::RunRef;
use weftwork_types::{BoxFuture, InterruptId, Principal, Timestamp, WorkerId};

/// A store as one process uses it.
#[derive(Debug)]
pub(super) struct Cutting {
    pub(super) inner: Arc<dyn Store>,
    world: Arc<Shared>,
    seen: Mutex<SeenWrites>,
    dead: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct SeenWrites {
    dies: Option<At>,
    /// Names of the writes of the entry.
    writes: Vec<String>,
}

impl Cutting {
    pub(super) fn new(inner: Arc<dyn Store>, world: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { inner, world, seen: Mutex::default(), dead: watch::Sender::new(false) })
    }

    fn seen(&self) -> MutexGuard<'_, SeenWrites> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An entry begins. The process dies at this write, if it comes that far.
    pub(super) fn begin(&self, dies: Option<At>) {
        self.world.closed();
        *self.seen() = SeenWrites { dies, writes: Vec::new() };
    }

    pub(super) fn writes(&self) -> Vec<String> {
        self.seen().writes.clone()
    }

    /// Waits for the death of the process.
    pub(super) async fn dies(&self) {
        // Fails only without a sender, and this is one.
        self.dead.subscribe().wait_for(|dead| *dead).await.map(drop).unwrap_or_default();
    }

    /// Makes a write, unless the process dies before it. `closes`: what nodes did up to now is
    /// recorded with it.
    async fn write<T>(
        &self,
        name: &str,
        closes: bool,
        write: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let side = {
            let mut seen = self.seen();
            seen.writes.push(name.to_owned());
            let number = seen.writes.len();
            seen.dies.filter(|at| at.write == number).map(|at| at.side)
        };
        if side == Some(Side::Before) {
            self.dead.send_replace(true);
        }
        if *self.dead.borrow() {
            return pending().await;
        }
        let written = write.await;
        if closes && written.is_ok() {
            self.world.closed();
        }
        if side == Some(Side::After) {
            self.dead.send_replace(true);
            return pending().await;
        }
        written
    }
}

/// `true` if no task of the outermost graph is open after a commit.
fn closes(commit: &Commit) -> bool {
    commit.finish.is_some() || commit.batch.checkpoints.iter().any(|new| new.ns.is_empty())
}

fn name(commit: &Commit) -> &'static str {
    match commit {
        _ if commit.finish.is_some() => "commit of the end",
        _ if !commit.batch.checkpoints.is_empty() => "commit of a checkpoint",
        _ if !commit.batch.pending.is_empty() => "commit of tasks",
        _ => "commit of events",
    }
}

impl WriteRuns for Cutting {
    fn create_run<'a>(
        &'a self,
        who: &'a Principal,
        run: NewRun,
        answers: BTreeMap<InterruptId, Answer>,
    ) -> BoxFuture<'a, Result<RunRow>> {
        let write = async move { self.inner.create_run(who, run, answers).await };
        Box::pin(self.write("create_run", false, write))
    }

    fn create_claimed<'a>(
        &'a self,
        who: &'a Principal,
        run: NewRun,
        answers: BTreeMap<InterruptId, Answer>,
        worker: &'a WorkerId,
    ) -> BoxFuture<'a, Result<(RunRow, Option<Claim>)>> {
        let write = async move { self.inner.create_claimed(who, run, answers, worker).await };
        Box::pin(self.write("create_run", false, write))
    }

    fn claim<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        worker: &'a WorkerId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(Claim, RunRow)>> {
        let write = async move { self.inner.claim(who, at, worker, now).await };
        Box::pin(self.write("claim", false, write))
    }

    fn commit<'a>(
        &'a self,
        who: &'a Principal,
        claim: &'a Claim,
        commit: Commit,
    ) -> BoxFuture<'a, Result<Committed>> {
        let name = name(&commit);
        let closes = closes(&commit);
        let write = async move { self.inner.commit(who, claim, commit).await };
        Box::pin(self.write(name, closes, write))
    }

    fn release<'a>(
        &'a self,
        who: &'a Principal,
        claim: &'a Claim,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<u64>> {
        let write = async move { self.inner.release(who, claim, at).await };
        Box::pin(self.write("release", false, write))
    }

    fn requeue<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<RunRow>> {
        let write = async move { self.inner.requeue(who, at, now).await };
        Box::pin(self.write("requeue", false, write))
    }

    fn request_cancel<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
    ) -> BoxFuture<'a, Result<()>> {
        let write = async move { self.inner.request_cancel(who, at).await };
        Box::pin(self.write("request_cancel", false, write))
    }
}
