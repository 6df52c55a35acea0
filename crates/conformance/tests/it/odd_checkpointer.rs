//! Checkpointers that violate a rule of the port.

#[path = "../../src/crash/pass_on.rs"]
mod pass_on;

use pass_on::pass_on;
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
    pass_on!(newest, newest_of_all, list, put_outside, delete, copy, graphs, prune);

    fn load<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<StoredCheckpoint>, CheckpointerError>> {
        self.loads.fetch_add(usize::from(id.is_some()), Ordering::Relaxed);
        self.checkpointer.load(at, plan, id)
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
}
