//! Options of a stored run, as the run loop takes them.

use super::claimed::ClaimedRun;
use crate::context::begins_from;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{Config, Run as LocalRun, StateQuery};
use weftwork_types::CheckpointId;
use weftwork_types::run::RunInput;

impl ClaimedRun {
    /// Applies the stored options of the run.
    pub(super) fn with_options(&self, mut run: LocalRun) -> LocalRun {
        let options = &self.row.new.options;
        if let Some(limit) = options.step_limit {
            run = run.step_limit(limit);
        }
        if let Some(before) = &options.interrupt_before {
            run = run.interrupt_before(before.clone());
        }
        if let Some(after) = &options.interrupt_after {
            run = run.interrupt_after(after.clone());
        }
        if let Some(deadline) = options.deadline {
            run = run.deadline(deadline.since(self.context.clock.now()));
        }
        if let Some(tasks_max) = options.concurrency {
            run = run.concurrency(usize::try_from(tasks_max).unwrap_or(usize::MAX));
        }
        run.context(options.context.clone()).configurable(options.configurable.clone())
    }

    /// Checkpoint at which the run begins, if it may be another than the newest: the one that the
    /// request names, or the base of the runs that it rolls back. A rollback of nothing begins at
    /// the newest one, as it is.
    pub(super) async fn begins_at(&self) -> Result<Option<CheckpointId>, RuntimeError> {
        let new = &self.row.new;
        let back = match (new.options.at, self.row.back_to()) {
            (None, Some(back)) => back,
            (at, _) => return Ok(at),
        };
        if matches!(new.input, RunInput::Start { .. }) {
            // New input begins in the same way at the newest checkpoint and by its name.
            return Ok(Some(back));
        }
        let by = Some(&self.claim.at.run);
        let runs = self.context.store.runs(&self.who, &self.claim.at.thread).await?;
        Ok(runs.iter().any(|run| run.rolled_back_by.as_ref() == by).then_some(back))
    }

    /// State from which the run begins, given the checkpoint at which it does.
    pub(super) fn at(&self, begins_at: Option<CheckpointId>) -> StateQuery {
        begins_from(&self.claim.at.thread, &self.row.new.options, begins_at)
    }

    /// Sets the checkpoint at which the run begins.
    pub(super) fn placed(&self, run: LocalRun, begins_at: Option<CheckpointId>) -> LocalRun {
        match (&self.row.new.options.within, begins_at) {
            (Some(within), at) => {
                let (ns, map) = (within.namespace.clone(), within.checkpoints.clone());
                run.from(&Config { ns, id: at, map })
            }
            (None, Some(at)) => run.at(at),
            (None, None) => run,
        }
    }
}
