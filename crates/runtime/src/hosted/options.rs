//! Options of a stored run, as the run loop takes them.

use super::claimed::ClaimedRun;
use crate::context::begins_from;
use weftwork_graph::run_loop::{Config, Run as LocalRun, StateQuery};
use weftwork_types::CheckpointId;

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

    /// Checkpoint at which the run begins, if it may be another than the newest.
    pub(super) fn begins_at(&self) -> Option<CheckpointId> {
        self.row.new.options.at.or(self.row.back_to())
    }

    /// State from which the run begins.
    pub(super) fn at(&self) -> StateQuery {
        begins_from(&self.claim.at.thread, &self.row.new.options, self.begins_at())
    }

    /// Sets the checkpoint at which the run begins.
    pub(super) fn placed(&self, run: LocalRun) -> LocalRun {
        match (&self.row.new.options.within, self.begins_at()) {
            (Some(within), at) => {
                let (ns, map) = (within.namespace.clone(), within.checkpoints.clone());
                run.from(&Config { ns, id: at, map })
            }
            (None, Some(at)) => run.at(at),
            (None, None) => run,
        }
    }
}
