//! Writing of checkpoints: at once, together with the next one, or while the next superstep runs.
//!
//! A loop has at most one write in flight, and begins the next when it is stored. Only the loop
//! drives the write, beside its tasks, so a task that is not polled cannot hold a resource that the
//! write needs. Records that tasks store on top of the checkpoint wait for it.

use super::api::{Durability, Going};
use super::environment::RunEnvironment;
use super::job::End;
use super::saver::{Kept, Memo, Put, Puts, SaverError};
use super::scope::Scope;
use super::tick::Running;
use futures_util::future::{Either, select};
use futures_util::stream::StreamExt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::watch;
use weftwork_types::{BoxFuture, CheckpointId, StoreError};

/// Progress of writing a loop's newest checkpoint.
#[derive(Debug, Clone)]
enum Stage {
    Stored,
    Writing,
    Failed(SaverError),
}

/// Progress of a loop's writes, as seen by the tasks and loops within it.
#[derive(Debug)]
pub(crate) struct Behind(watch::Sender<Stage>);

impl Behind {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Stage::Stored))
    }

    fn is_writing(&self) -> bool {
        matches!(*self.0.borrow(), Stage::Writing)
    }

    /// Cancel safe.
    async fn stored(&self) -> Result<(), SaverError> {
        let mut stage = self.0.subscribe();
        let over = stage.wait_for(|stage| !matches!(stage, Stage::Writing)).await;
        match over.as_deref() {
            Ok(Stage::Failed(error)) => Err(error.clone()),
            // Fails only without a sender, which `self` is.
            _ => Ok(()),
        }
    }
}

impl Scope {
    /// The writes of this loop and of those around it, as far as they run beside supersteps.
    fn behinds<'a>(&'a self) -> impl Iterator<Item = &'a Behind> {
        let first = Some(self).filter(|scope| scope.shared.durability == Durability::Async);
        let around = |scope: &&'a Self| -> Option<&'a Self> {
            let scope: &'a Self = scope;
            scope.outer.as_ref().map(|outer| &**outer.scope())
        };
        std::iter::successors(first, around).filter_map(|scope| scope.behind.as_ref())
    }

    /// Waits until the checkpoints are stored that the open superstep depends on: those of this loop
    /// and of the loops around it. Cancel safe.
    pub(super) async fn stored(&self) -> Result<(), SaverError> {
        for behind in self.behinds() {
            behind.stored().await?;
        }
        Ok(())
    }

    /// Waits until the checkpoints of the loops around this one are stored.
    pub(super) async fn stored_around(&self) -> Result<(), SaverError> {
        match &self.outer {
            Some(outer) => outer.scope().stored().await,
            None => Ok(()),
        }
    }
}

/// A checkpoint write in flight.
struct InFlightWrite {
    stored: BoxFuture<'static, Result<Memo, SaverError>>,
    scope: Arc<Scope>,
}

impl std::fmt::Debug for InFlightWrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InFlightWrite")
    }
}

impl Drop for InFlightWrite {
    /// Marks an unfinished write as failed, so that tasks that outlive the loop do not wait for it.
    fn drop(&mut self) {
        let Some(Behind(stage)) = &self.scope.behind else { return };
        let error = StoreError::Unavailable {
            place: format!("thread {}", self.scope.place.thread),
            reason: "the run was cut off while its last checkpoint was written".to_owned(),
            retriable: false,
        };
        stage.send_if_modified(|stage| {
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
pub(super) struct CheckpointWriter {
    state: WriterState,
    /// Base for delta-encoding the next checkpoint, returned by the checkpointer.
    hint: Memo,
    /// Newest checkpoint that is stored, deferred or in flight.
    newest: Option<CheckpointId>,
}

#[derive(Debug)]
enum WriterState {
    /// The loop has no checkpointer.
    Off,
    Idle,
    /// A checkpoint is stored together with the next one.
    Deferred(Box<Put>),
    /// A checkpoint is written while tasks run.
    InFlight(InFlightWrite),
    /// A write in flight failed: nothing is stored after it.
    Failed,
}

impl CheckpointWriter {
    /// Writer of a loop that starts from the checkpoint `newest`.
    pub(super) fn new(scope: &Scope, hint: Memo, newest: Option<CheckpointId>) -> Self {
        let off = scope.keep.saver.is_none();
        let state = if off { WriterState::Off } else { WriterState::Idle };
        Self { state, hint, newest }
    }

    /// Returns `true` if the loop has a checkpointer.
    pub(super) fn is_on(&self) -> bool {
        !matches!(self.state, WriterState::Off)
    }

    /// Returns `true` if a write in flight failed.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, WriterState::Failed)
    }

    pub(super) fn is_in_flight(&self) -> bool {
        matches!(self.state, WriterState::InFlight(_))
    }

    pub(super) fn has_deferred(&self) -> bool {
        matches!(self.state, WriterState::Deferred(_))
    }

    /// Newest checkpoint that is stored, deferred or in flight.
    pub(super) fn newest(&self) -> Option<CheckpointId> {
        self.newest
    }

    pub(super) fn set_newest(&mut self, id: CheckpointId) {
        self.newest = Some(id);
    }

    pub(super) fn set_hint(&mut self, hint: Memo) {
        self.hint = hint;
    }

    /// Defers a checkpoint, to be stored together with the next one.
    pub(super) fn defer(&mut self, put: Box<Put>) {
        self.state = WriterState::Deferred(put);
    }

    /// Takes the deferred checkpoint, if there is one.
    pub(super) fn take_deferred(&mut self) -> Option<Box<Put>> {
        match std::mem::replace(&mut self.state, WriterState::Idle) {
            WriterState::Deferred(put) => Some(put),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Stores checkpoints before the loop continues.
    pub(super) async fn write(&mut self, scope: &Scope, puts: Puts) -> Going<()> {
        let Some(saver) = &scope.keep.saver else { return Ok(()) };
        self.hint = match saver.put(&scope.place, &self.hint, puts) {
            Kept::Now(result) => result?,
            Kept::Later(future) => future.await?,
        };
        Ok(())
    }

    /// Stores the deferred checkpoint, if there is one.
    pub(super) async fn write_deferred(&mut self, scope: &Scope) -> Going<()> {
        match self.take_deferred() {
            Some(put) => self.write(scope, Puts::from_buf([put])).await,
            None => Ok(()),
        }
    }

    /// Begins to write checkpoints once the write before is stored. The checkpointer is called at
    /// once, so it writes the state before any task of the next superstep begins.
    pub(super) async fn write_behind(&mut self, scope: &Arc<Scope>, puts: Puts) -> Going<()> {
        self.wait_durable(scope).await?;
        let environment = scope.shared.host.environment();
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
        let (within, hint) = (Arc::clone(scope), self.hint.clone());
        let mut stored: BoxFuture<'static, _> = Box::pin(async move {
            match &within.keep.saver {
                Some(saver) => saver.put(&within.place, &hint, puts).done().await,
                None => Ok(hint),
            }
        });
        let polled = poll_fn(|cx| Poll::Ready(stored.as_mut().poll(cx))).await;
        drop(turn);
        match polled {
            Poll::Ready(stored) => self.wrote(scope, stored),
            Poll::Pending if begins_branch => {
                let stored = stored.await;
                self.wrote(scope, stored)
            }
            Poll::Pending => {
                set_stage(scope, Stage::Writing);
                self.state = WriterState::InFlight(InFlightWrite { stored, scope: scope.clone() });
                Ok(())
            }
        }
    }

    /// Records the result of a write that was in flight, or that was ready at once.
    fn wrote(&mut self, scope: &Scope, stored: Result<Memo, SaverError>) -> Going<()> {
        match stored {
            Ok(hint) => {
                self.hint = hint;
                if self.is_in_flight() {
                    set_stage(scope, Stage::Stored);
                    self.state = WriterState::Idle;
                }
                Ok(())
            }
            Err(error) => {
                set_stage(scope, Stage::Failed(error.clone()));
                self.state = WriterState::Failed;
                Err(error.into())
            }
        }
    }

    /// Waits until all checkpoints are stored that the open superstep depends on. Must not be
    /// called while tasks run: they may hold a resource that the write needs.
    pub(super) async fn wait_durable(&mut self, scope: &Scope) -> Going<()> {
        if scope.shared.durability != Durability::Async {
            return Ok(());
        }
        if let WriterState::InFlight(write) = &mut self.state {
            let stored = (&mut write.stored).await;
            self.wrote(scope, stored)?;
        }
        Ok(scope.stored_around().await?)
    }

    /// Writes while the tasks run, until the checkpoint is stored or a task has ended.
    pub(super) async fn write_beside(
        &mut self,
        scope: &Scope,
        running: &mut Running,
    ) -> Going<Option<(usize, End)>> {
        let WriterState::InFlight(write) = &mut self.state else { return Ok(None) };
        match select(&mut write.stored, running.next()).await {
            Either::Left((stored, _)) => self.wrote(scope, stored).map(|()| None),
            Either::Right((ended, _)) => Ok(ended),
        }
    }
}

fn set_stage(scope: &Scope, stage: Stage) {
    if let Some(Behind(progress)) = &scope.behind {
        progress.send_replace(stage);
    }
}

impl Scope {
    /// Returns `true` if the open superstep depends on a write that is not stored yet.
    pub(super) fn is_behind(&self) -> bool {
        self.behinds().any(Behind::is_writing)
    }
}
