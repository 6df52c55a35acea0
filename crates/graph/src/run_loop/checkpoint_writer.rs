//! Writing of checkpoints: at once, together with the next one, or while the next superstep runs.
//!
//! A loop has at most one write in flight, and begins the next when it is stored. Only the loop
//! drives the write, beside its tasks, so a task that is not polled cannot hold a resource that the
//! write needs. Records that tasks store on top of the checkpoint wait for it.

use crate::run_loop::checkpointer::{
    CheckpointWrite, CheckpointWrites, CheckpointerError, WriteHint, WriteResult,
};
use crate::run_loop::context::{LoopContext, RunEnvironment, Stage, WriteProgress};
use crate::run_loop::options::LoopResult;
use futures_util::future::{Either, select};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use weftwork_types::run::Durability;
use weftwork_types::{BoxFuture, CheckpointId, StoreError};

/// A checkpoint write in flight.
struct InFlightWrite {
    stored: BoxFuture<'static, Result<WriteHint, CheckpointerError>>,
    loop_context: Arc<LoopContext>,
}

impl std::fmt::Debug for InFlightWrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InFlightWrite")
    }
}

impl Drop for InFlightWrite {
    /// Marks an unfinished write as failed, so that tasks that outlive the loop do not wait for it.
    fn drop(&mut self) {
        let Some(WriteProgress(stage)) = &self.loop_context.write_progress else { return };
        let error = StoreError::Unavailable {
            location: format!("thread {}", self.loop_context.address.thread),
            reason: "the run was cut off while its last checkpoint was written".to_owned(),
            retriable: false,
        };
        stage.send_if_modified(|stage| {
            // A write that came to its end has set its stage already.
            let cut = matches!(stage, Stage::Writing);
            if cut {
                *stage = Stage::Failed(error.into());
            }
            cut
        });
    }
}

/// The right to the next commit of a hosted run.
struct Turn<'a>(&'a dyn RunEnvironment);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.unreserve();
    }
}

/// Writer of the checkpoints of a loop.
#[derive(Debug)]
pub(crate) struct CheckpointWriter {
    state: WriterState,
    /// Base for delta-encoding the next checkpoint, returned by the checkpointer.
    hint: WriteHint,
    /// Newest checkpoint that is stored, deferred or in flight.
    newest: Option<CheckpointId>,
}

#[derive(Debug)]
enum WriterState {
    /// The loop has no checkpointer.
    Off,
    Idle,
    /// A checkpoint is stored together with the next one.
    Deferred(Box<CheckpointWrite>),
    /// A checkpoint is written while tasks run.
    InFlight(InFlightWrite),
    /// A write in flight failed: nothing is stored after it.
    Failed,
}

impl CheckpointWriter {
    /// Writer of a loop that starts from the checkpoint `newest`.
    pub(crate) fn new(
        loop_context: &LoopContext,
        hint: WriteHint,
        newest: Option<CheckpointId>,
    ) -> Self {
        let off = loop_context.storage.checkpointer.is_none();
        let state = if off { WriterState::Off } else { WriterState::Idle };
        Self { state, hint, newest }
    }

    /// Returns `true` if the loop has a checkpointer.
    pub(crate) fn is_on(&self) -> bool {
        !matches!(self.state, WriterState::Off)
    }

    /// Returns `true` if a write in flight failed.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.state, WriterState::Failed)
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        matches!(self.state, WriterState::InFlight(_))
    }

    pub(crate) fn has_deferred(&self) -> bool {
        matches!(self.state, WriterState::Deferred(_))
    }

    /// Newest checkpoint that is stored, deferred or in flight.
    pub(crate) fn newest(&self) -> Option<CheckpointId> {
        self.newest
    }

    pub(crate) fn set_newest(&mut self, id: CheckpointId) {
        self.newest = Some(id);
    }

    pub(crate) fn set_hint(&mut self, hint: WriteHint) {
        self.hint = hint;
    }

    /// Defers a checkpoint, to be stored together with the next one.
    pub(crate) fn defer(&mut self, put: Box<CheckpointWrite>) {
        self.state = WriterState::Deferred(put);
    }

    /// Takes the deferred checkpoint, if there is one.
    pub(crate) fn take_deferred(&mut self) -> Option<Box<CheckpointWrite>> {
        match std::mem::replace(&mut self.state, WriterState::Idle) {
            WriterState::Deferred(put) => Some(put),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Stores checkpoints before the loop continues.
    pub(crate) async fn write(
        &mut self,
        loop_context: &LoopContext,
        puts: CheckpointWrites,
    ) -> LoopResult<()> {
        let Some(checkpointer) = &loop_context.storage.checkpointer else { return Ok(()) };
        self.hint = match checkpointer.put(&loop_context.address, &self.hint, puts) {
            WriteResult::Now(result) => result?,
            WriteResult::Later(future) => future.await?,
        };
        Ok(())
    }

    /// Stores the deferred checkpoint, if there is one.
    pub(crate) async fn write_deferred(&mut self, loop_context: &LoopContext) -> LoopResult<()> {
        match self.take_deferred() {
            Some(put) => self.write(loop_context, CheckpointWrites::from_buf([put])).await,
            None => Ok(()),
        }
    }

    /// Begins to write checkpoints once the write before is stored. The checkpointer is called at
    /// once, so it writes the state before any task of the next superstep begins.
    pub(crate) async fn write_behind(
        &mut self,
        loop_context: &Arc<LoopContext>,
        puts: CheckpointWrites,
    ) -> LoopResult<()> {
        // In order: a checkpoint names its parent, which must not be missing after a crash.
        self.wait_durable(loop_context).await?;
        let environment = loop_context.run.host.environment();
        // Before the checkpoint is encoded: its commit has what was emitted up to here, and nothing
        // of the next superstep (ADR 0019).
        let turn = match environment.reserve() {
            Some(reserved) => {
                reserved.await;
                Some(Turn(environment))
            }
            None => None,
        };
        // Calls of a branch are found through its first checkpoint.
        let begins_branch = puts.iter().any(|put| {
            let checkpoint = &put.checkpoint;
            checkpoint.metadata.branch == Some(checkpoint.id)
        });
        let within = Arc::clone(loop_context);
        // Cloned: the write may fail, and only a stored checkpoint is the base of a later one.
        let hint = self.hint.clone();
        let mut stored: BoxFuture<'static, _> = Box::pin(async move {
            match &within.storage.checkpointer {
                Some(checkpointer) => checkpointer.put(&within.address, &hint, puts).done().await,
                None => Ok(hint),
            }
        });
        // Polled once before the turn is returned: a hosted checkpointer takes the reserved commit
        // at its first poll.
        let polled = poll_fn(|cx| Poll::Ready(stored.as_mut().poll(cx))).await;
        drop(turn);
        match polled {
            Poll::Ready(stored) => self.record_written(loop_context, stored),
            Poll::Pending if begins_branch => {
                let stored = stored.await;
                self.record_written(loop_context, stored)
            }
            Poll::Pending => {
                set_stage(loop_context, Stage::Writing);
                self.state = WriterState::InFlight(InFlightWrite {
                    stored,
                    loop_context: loop_context.clone(),
                });
                Ok(())
            }
        }
    }

    /// Records the result of a write that was in flight, or that was ready at once.
    fn record_written(
        &mut self,
        loop_context: &LoopContext,
        stored: Result<WriteHint, CheckpointerError>,
    ) -> LoopResult<()> {
        match stored {
            Ok(hint) => {
                self.hint = hint;
                if self.is_in_flight() {
                    set_stage(loop_context, Stage::Stored);
                    self.state = WriterState::Idle;
                }
                Ok(())
            }
            Err(error) => {
                // The store may have the checkpoint or not. A later one could follow a checkpoint
                // that is missing.
                set_stage(loop_context, Stage::Failed(error.clone()));
                self.state = WriterState::Failed;
                Err(error.into())
            }
        }
    }

    /// Waits until all checkpoints are stored that the open superstep depends on. Must not be
    /// called while tasks run: they may hold a resource that the write needs.
    pub(crate) async fn wait_durable(&mut self, loop_context: &LoopContext) -> LoopResult<()> {
        if loop_context.run.options.durability != Durability::Async {
            return Ok(());
        }
        // Polled by reference: a caller that is dropped leaves the write in flight, and tasks learn
        // from its drop that it was cut off.
        if let WriterState::InFlight(write) = &mut self.state {
            let stored = (&mut write.stored).await;
            self.record_written(loop_context, stored)?;
        }
        // Records of a nested loop name checkpoints of the loops around it, which must be stored
        // too.
        Ok(loop_context.wait_durable_around().await?)
    }

    /// Writes while the tasks run, until the checkpoint is stored or a task has `ended`.
    pub(crate) async fn write_beside<T>(
        &mut self,
        loop_context: &LoopContext,
        ended: impl Future<Output = Option<T>> + Unpin,
    ) -> LoopResult<Option<T>> {
        let WriterState::InFlight(write) = &mut self.state else { return Ok(None) };
        match select(&mut write.stored, ended).await {
            Either::Left((stored, _)) => self.record_written(loop_context, stored).map(|()| None),
            Either::Right((ended, _)) => Ok(ended),
        }
    }
}

fn set_stage(loop_context: &LoopContext, stage: Stage) {
    if let Some(WriteProgress(progress)) = &loop_context.write_progress {
        progress.send_replace(stage);
    }
}
