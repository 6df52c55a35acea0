//! A saver that holds each write of checkpoints until a test lets it through.

use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Semaphore;
use weftwork_graph::run_loop::{
    Kept, Memo, Outside, Place, Plan, Puts, Records, Saved, SaverError,
};
use weftwork_graph::run_loop::{MemorySaver, Saver};
use weftwork_store::StoreError;
use weftwork_types::{BoxFuture, CheckpointId};

/// When the saver behind it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Asked,
    LetThrough,
}

/// Holds each write of checkpoints until it is let through, and notes what comes.
#[derive(Debug)]
pub(super) struct Gated {
    pub(super) inner: Arc<dyn Saver>,
    gate: Semaphore,
    seen: Mutex<Vec<String>>,
    when: When,
    /// The write that fails.
    fails: Option<usize>,
}

impl Gated {
    pub(super) fn over(inner: Arc<dyn Saver>, when: When) -> Arc<Self> {
        Arc::new(Self { when, ..Self::plain(inner) })
    }

    fn plain(inner: Arc<dyn Saver>) -> Self {
        let (gate, seen) = (Semaphore::new(0), Mutex::default());
        Self { inner, gate, seen, when: When::LetThrough, fails: None }
    }

    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self::plain(MemorySaver::new()))
    }

    pub(super) fn failing(at: usize) -> Arc<Self> {
        Arc::new(Self { fails: Some(at), ..Self::plain(MemorySaver::new()) })
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Vec<String>> {
        self.seen.lock().expect("not poisoned")
    }

    fn note(&self, what: impl Into<String>) {
        self.seen().push(what.into());
    }

    pub(super) fn count(&self, what: &str) -> usize {
        self.seen().iter().filter(|seen| seen.starts_with(what)).count()
    }

    pub(super) fn is_behind(&self) -> bool {
        self.count("begins") > self.count("stored")
    }

    pub(super) fn release(&self) {
        self.gate.add_permits(1);
    }
}

impl Saver for Gated {
    fn load<'a>(
        &'a self,
        at: &'a Place,
        plan: &'a Arc<Plan>,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<Saved>, SaverError>> {
        self.inner.load(at, plan, id)
    }

    fn newest<'a>(
        &'a self,
        at: &'a Place,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>, SaverError>> {
        self.inner.newest(at)
    }

    fn newest_of_all<'a>(
        &'a self,
        thread: &'a str,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>, SaverError>> {
        self.inner.newest_of_all(thread)
    }

    fn list<'a>(
        &'a self,
        at: &'a Place,
        plan: &'a Arc<Plan>,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Saved>, SaverError>> {
        self.inner.list(at, plan, before, limit)
    }

    fn put<'a>(&'a self, at: &'a Place, memo: &Memo, puts: Puts) -> Kept<'a> {
        let memo = memo.clone();
        let step = puts.last().map(|put| put.checkpoint.metadata.step).expect("not empty");
        let what = format!("{}{step}", at.ns.split(':').next().unwrap_or_default());
        let fails = self.fails == Some(self.count("begins"));
        self.note(format!("begins {what}"));
        let (now, later) = match self.when {
            When::Asked => (Some(self.inner.put(at, &memo, puts)), None),
            When::LetThrough => (None, Some(puts)),
        };
        Kept::Later(Box::pin(async move {
            self.gate.acquire().await.expect("is never closed").forget();
            if fails {
                let (place, reason) = ("gated".to_owned(), "it fails".to_owned());
                return Err(StoreError::Unavailable { place, reason, retriable: false }.into());
            }
            let kept = match (now, later) {
                (Some(kept), _) => kept.done().await,
                (None, puts) => self.inner.put(at, &memo, puts.unwrap_or_default()).done().await,
            };
            self.note(format!("stored {what}"));
            kept
        }))
    }

    fn put_tasks<'a>(
        &'a self,
        at: &'a Place,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        tasks: Records,
    ) -> BoxFuture<'a, Result<(), SaverError>> {
        self.note("tasks");
        self.inner.put_tasks(at, plan, of, tasks)
    }

    fn put_outside<'a>(
        &'a self,
        at: &'a Place,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        outside: Outside,
    ) -> BoxFuture<'a, Result<(), SaverError>> {
        self.inner.put_outside(at, plan, of, outside)
    }

    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<(), SaverError>> {
        self.inner.delete(thread)
    }

    fn copy<'a>(&'a self, from: &'a str, to: &'a str) -> BoxFuture<'a, Result<(), SaverError>> {
        self.inner.copy(from, to)
    }

    fn graphs<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<Vec<Arc<str>>, SaverError>> {
        self.inner.graphs(thread)
    }

    fn prune<'a>(
        &'a self,
        at: &'a Place,
        plan: &'a Arc<Plan>,
        keep: usize,
    ) -> BoxFuture<'a, Result<(), SaverError>> {
        self.inner.prune(at, plan, keep)
    }
}
