//! Checkpoints that are written while the next superstep runs.
//!
//! A loop has at most one of them, and begins the next when it is stored. Only the loop itself
//! drives the write, beside its tasks: so no task holds what the write needs while nobody polls
//! it. TaskOutcome tasks store on top of the checkpoint waits for it.

use super::api::{Durability, Going, LoopOutcome};
use super::cycle::Cycle;
use super::environment::RunEnvironment;
use super::job::{End, TaskOutcome};
use super::saver::{Memo, Puts, SaverError};
use super::scope::Scope;
use super::tick::Running;
use futures_util::future::{Either, select};
use futures_util::stream::StreamExt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::watch;
use weftwork_types::{BoxFuture, StoreError};

/// Progress of writing a loop's newest checkpoint.
#[derive(Debug, Clone)]
enum Stage {
    Stored,
    Writing,
    Failed(SaverError),
}

/// Tells what runs within a loop how far its writes have come.
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
            // Fails only without a sender, and we are one.
            _ => Ok(()),
        }
    }
}

impl Scope {
    /// This loop and those around it, as far as they write behind their supersteps.
    fn behinds<'a>(&'a self) -> impl Iterator<Item = &'a Behind> {
        let first = Some(self).filter(|scope| scope.shared.durability == Durability::Async);
        let around = |scope: &&'a Self| -> Option<&'a Self> {
            let scope: &'a Self = scope;
            scope.outer.as_ref().map(|outer| &**outer.scope())
        };
        std::iter::successors(first, around).filter_map(|scope| scope.behind.as_ref())
    }

    /// Waits until the checkpoints are stored that the open superstep stands on: this loop's and
    /// those of the loops around it. Cancel safe.
    pub(super) async fn stored(&self) -> Result<(), SaverError> {
        for behind in self.behinds() {
            behind.stored().await?;
        }
        Ok(())
    }

    /// The same for the loops around this one.
    pub(super) async fn stored_around(&self) -> Result<(), SaverError> {
        match &self.outer {
            Some(outer) => outer.scope().stored().await,
            None => Ok(()),
        }
    }
}

/// A write that is on its way.
pub(super) struct Writing {
    kept: BoxFuture<'static, Result<Memo, SaverError>>,
    scope: Arc<Scope>,
}

impl Drop for Writing {
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

impl End {
    /// Returns `true` if a task ended with a question, which is emitted only once the checkpoint it
    /// depends on is stored.
    pub(super) fn asks(&self) -> bool {
        matches!(self.what, TaskOutcome::Waiting(_))
    }
}

impl Cycle {
    /// Begins to write a checkpoint, when what was written before it is stored. The saver is asked
    /// at once: what it writes is as it is before any task of the next superstep begins.
    pub(super) async fn write_behind(&mut self, puts: Puts) -> Going<()> {
        self.caught_up().await?;
        let around = Arc::clone(&self.scope);
        let environment = around.shared.host.environment();
        let turn = match environment.reserve() {
            Some(reserved) => {
                reserved.await;
                Some(Turn(environment))
            }
            None => None,
        };
        // Whoever looks for calls of a branch looks for its first checkpoint.
        let begins_branch = puts.iter().any(|put| {
            let checkpoint = &put.checkpoint;
            checkpoint.metadata.branch == Some(checkpoint.id)
        });
        let (scope, memo) = (Arc::clone(&self.scope), self.memo.clone());
        let mut kept: BoxFuture<'static, _> = Box::pin(async move {
            match &scope.keep.saver {
                Some(saver) => saver.put(&scope.place, &memo, puts).done().await,
                None => Ok(memo),
            }
        });
        let polled = poll_fn(|cx| Poll::Ready(kept.as_mut().poll(cx))).await;
        drop(turn);
        match polled {
            Poll::Ready(kept) => self.wrote(kept),
            Poll::Pending if begins_branch => {
                let kept = kept.await;
                self.wrote(kept)
            }
            Poll::Pending => {
                self.stage(Stage::Writing);
                self.writing = Some(Writing { kept, scope: Arc::clone(&self.scope) });
                Ok(())
            }
        }
    }

    fn stage(&self, stage: Stage) {
        if let Some(Behind(told)) = &self.scope.behind {
            told.send_replace(stage);
        }
    }

    fn wrote(&mut self, kept: Result<Memo, SaverError>) -> Going<()> {
        match kept {
            Ok(memo) => {
                self.memo = memo;
                if self.writing.is_some() {
                    self.stage(Stage::Stored);
                }
            }
            Err(error) => {
                self.broken = true;
                self.stage(Stage::Failed(error.clone()));
                self.writing = None;
                return Err(error.into());
            }
        }
        self.writing = None;
        Ok(())
    }

    /// Waits until all is stored that the open superstep stands on. Not while tasks run: they may
    /// hold what the write needs.
    pub(super) async fn caught_up(&mut self) -> Going<()> {
        if self.scope.shared.durability != Durability::Async {
            return Ok(());
        }
        if let Some(writing) = &mut self.writing {
            let kept = (&mut writing.kept).await;
            self.wrote(kept)?;
        }
        Ok(self.scope.stored_around().await?)
    }

    /// Returns `true` if the open superstep depends on a write that is not stored yet.
    pub(super) fn is_behind(&self) -> bool {
        self.scope.behinds().any(Behind::is_writing)
    }

    /// Writes while the tasks go on, until the checkpoint is stored or a task has ended.
    pub(super) async fn write_beside(&mut self, running: &mut Running) -> Going<Ends> {
        let Some(writing) = &mut self.writing else { return Ok(None) };
        match select(&mut writing.kept, running.next()).await {
            Either::Left((kept, _)) => self.wrote(kept).map(|()| None),
            Either::Right((ended, _)) => Ok(ended),
        }
    }

    /// Settles how a task ended; what asks waits while the loop is behind.
    pub(super) fn settle_or_park(
        &mut self,
        (index, end): (usize, End),
        ends: &mut Option<LoopOutcome>,
        parked: &mut Vec<(usize, End)>,
    ) {
        if end.asks() && self.is_behind() {
            parked.push((index, end));
        } else {
            self.settle(index, end, ends);
        }
    }
}

/// A task that ended, if one did.
type Ends = Option<(usize, End)>;
