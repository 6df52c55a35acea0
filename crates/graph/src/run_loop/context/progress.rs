//! Progress of the checkpoint writes of a loop.

use super::LoopContext;
use crate::run_loop::checkpointer::CheckpointerError;
use tokio::sync::watch;
use weftwork_types::run::Durability;

/// Progress of writing a loop's newest checkpoint.
#[derive(Debug, Clone)]
pub(crate) enum Stage {
    Stored,
    Writing,
    Failed(CheckpointerError),
}

/// Progress of a loop's writes, as seen by the tasks and loops within it.
#[derive(Debug)]
pub(crate) struct WriteProgress(pub(crate) watch::Sender<Stage>);

impl WriteProgress {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Stage::Stored))
    }

    fn is_writing(&self) -> bool {
        matches!(*self.0.borrow(), Stage::Writing)
    }

    /// Waits until no write is in progress. Cancel safe.
    async fn stored(&self) -> Result<(), CheckpointerError> {
        let mut stage = self.0.subscribe();
        let over = stage.wait_for(|stage| !matches!(stage, Stage::Writing)).await;
        match over.as_deref() {
            Ok(Stage::Failed(error)) => Err(error.clone()),
            // Fails only without a sender, which `self` is.
            _ => Ok(()),
        }
    }
}

impl LoopContext {
    /// The writes of this loop and of those around it, as far as they run beside supersteps.
    fn write_progresses<'a>(&'a self) -> impl Iterator<Item = &'a WriteProgress> {
        let first = Some(self)
            .filter(|loop_context| loop_context.run.options.durability == Durability::Async);
        let around = |loop_context: &&'a Self| -> Option<&'a Self> {
            let loop_context: &'a Self = loop_context;
            loop_context.outer.as_ref().map(|outer| &**outer.loop_context())
        };
        std::iter::successors(first, around)
            .filter_map(|loop_context| loop_context.write_progress.as_ref())
    }

    /// Waits until the checkpoints are stored that the open superstep depends on: those of this loop
    /// and of the loops around it. Cancel safe.
    pub(crate) async fn stored(&self) -> Result<(), CheckpointerError> {
        // The first write that failed fails the caller: what it stores would follow from a
        // checkpoint that may be missing.
        for behind in self.write_progresses() {
            behind.stored().await?;
        }
        Ok(())
    }

    /// Waits until the checkpoints of the loops around this one are stored.
    pub(crate) async fn wait_durable_around(&self) -> Result<(), CheckpointerError> {
        match &self.outer {
            Some(outer) => outer.loop_context().stored().await,
            None => Ok(()),
        }
    }
}

impl LoopContext {
    /// Returns `true` if the open superstep depends on a write that is not stored yet.
    pub(crate) fn is_behind(&self) -> bool {
        self.write_progresses().any(WriteProgress::is_writing)
    }
}
