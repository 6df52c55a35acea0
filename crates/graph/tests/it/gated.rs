//! A saver that holds each write of checkpoints until a test lets it through.

use crate::pass_on::pass_on;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Semaphore;
use weftwork_graph::run_loop::{
    CheckpointAddress, CheckpointWrites, Checkpointer, CheckpointerError, ExternalInput, Plan,
    StoredCheckpoint, TaskRecords, WriteHint, WriteResult,
};
use weftwork_types::{BoxFuture, CheckpointId, StoreError};

/// When the saver behind it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Asked,
    LetThrough,
}

/// Holds each write of checkpoints until it is let through, and notes what comes.
#[derive(Debug)]
pub(crate) struct Gated {
    pub(crate) checkpointer: Arc<dyn Checkpointer>,
    gate: Semaphore,
    seen: Mutex<Vec<String>>,
    when: When,
    /// The write that fails.
    fails: Option<usize>,
}

impl Gated {
    pub(crate) fn over(
        checkpointer: Arc<dyn Checkpointer>,
        when: When,
        fails: Option<usize>,
    ) -> Arc<Self> {
        let gate = Semaphore::new(0);
        let seen = Mutex::default();
        Arc::new(Self { checkpointer, gate, seen, when, fails })
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Vec<String>> {
        self.seen.lock().expect("not poisoned")
    }

    fn note(&self, what: impl Into<String>) {
        self.seen().push(what.into());
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.seen().iter().filter(|seen| seen.starts_with(what)).count()
    }

    pub(crate) fn is_behind(&self) -> bool {
        self.count("begins") > self.count("stored")
    }

    pub(crate) fn release(&self) {
        self.gate.add_permits(1);
    }
}

impl Checkpointer for Gated {
    pass_on!(load, newest, newest_of_all, list, put_outside, delete, copy, graphs, prune);

    fn put<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        hint: &WriteHint,
        puts: CheckpointWrites,
    ) -> WriteResult<'a> {
        let hint = hint.clone();
        let step = puts.last().map(|put| put.checkpoint.metadata.step).expect("not empty");
        let what = format!("{}{step}", at.ns.split(':').next().unwrap_or_default());
        let fails = self.fails == Some(self.count("begins"));
        self.note(format!("begins {what}"));
        let (now, later) = match self.when {
            When::Asked => (Some(self.checkpointer.put(at, &hint, puts)), None),
            When::LetThrough => (None, Some(puts)),
        };
        WriteResult::Later(Box::pin(async move {
            self.gate.acquire().await.expect("is never closed").forget();
            if fails {
                let location = "gated".to_owned();
                let reason = "it fails".to_owned();
                return Err(StoreError::Unavailable { location, reason, retriable: false }.into());
            }
            let kept = match (now, later) {
                (Some(kept), _) => kept.done().await,
                (None, puts) => {
                    self.checkpointer.put(at, &hint, puts.unwrap_or_default()).done().await
                }
            };
            self.note(format!("stored {what}"));
            kept
        }))
    }

    fn put_tasks<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        tasks: TaskRecords,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        self.note("tasks");
        self.checkpointer.put_tasks(at, plan, of, tasks)
    }
}
