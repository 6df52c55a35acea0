//! Checkpointers that violate a rule of the port.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use weftwork_graph::run_loop::{
    CheckpointAddress, CheckpointWrites, CheckpointerError, ExternalInput, Plan, StoredCheckpoint,
    TaskRecord, TaskRecords, WriteHint, WriteResult,
};
use weftwork_graph::run_loop::{Checkpointer, InMemoryCheckpointer};
use weftwork_types::{BoxFuture, CheckpointId};

/// Fault of a checkpointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Drops what open supersteps left, and says that it kept it.
    DropsOpen,
    /// Drops their results alone. Questions and failures are kept, so that nothing shows before a
    /// crash.
    DropsResults,
    /// Keeps checkpoints while others have a turn.
    TakesTime,
}

/// A checkpointer that violates a rule of the port.
#[derive(Debug)]
pub(crate) struct Odd {
    pub(crate) checkpointer: Arc<InMemoryCheckpointer>,
    pub(crate) manner: Manner,
    /// Number of checkpoints loaded by id.
    pub(crate) loads: Arc<AtomicUsize>,
}

impl Checkpointer for Odd {
    fn load<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<StoredCheckpoint>, CheckpointerError>> {
        self.loads.fetch_add(usize::from(id.is_some()), Ordering::Relaxed);
        self.checkpointer.load(at, plan, id)
    }

    fn newest<'a>(
        &'a self,
        at: &'a CheckpointAddress,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>, CheckpointerError>> {
        self.checkpointer.newest(at)
    }

    fn newest_of_all<'a>(
        &'a self,
        thread: &'a str,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>, CheckpointerError>> {
        self.checkpointer.newest_of_all(thread)
    }

    fn list<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredCheckpoint>, CheckpointerError>> {
        self.checkpointer.list(at, plan, before, limit)
    }

    fn put<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        hint: &WriteHint,
        puts: CheckpointWrites,
    ) -> WriteResult<'a> {
        if self.manner != Manner::TakesTime {
            return self.checkpointer.put(at, hint, puts);
        }
        let hint = hint.clone();
        WriteResult::Later(Box::pin(async move {
            tokio::task::yield_now().await;
            self.checkpointer.put(at, &hint, puts).done().await
        }))
    }

    fn put_tasks<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        tasks: TaskRecords,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        let kept = |record: &TaskRecord| match self.manner {
            Manner::DropsOpen => false,
            Manner::DropsResults => !record.is_finished(),
            Manner::TakesTime => true,
        };
        let tasks = tasks.into_iter().filter(|(_, record)| kept(record)).collect();
        self.checkpointer.put_tasks(at, plan, of, tasks)
    }

    fn put_outside<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        outside: ExternalInput,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        self.checkpointer.put_outside(at, plan, of, outside)
    }

    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        self.checkpointer.delete(thread)
    }

    fn copy<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        self.checkpointer.copy(from, to)
    }

    fn graphs<'a>(
        &'a self,
        thread: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Arc<str>>, CheckpointerError>> {
        self.checkpointer.graphs(thread)
    }

    fn prune<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        keep: usize,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        self.checkpointer.prune(at, plan, keep)
    }
}
