//! Options of a stored run, as the run loop takes them.

use super::accepted::ModeReceiver;
use super::attempts::AttemptHistory;
use super::claimed::ClaimedRun;
use crate::context::begins_from;
use crate::thread_snapshot::ThreadSnapshot;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{
    CheckpointRef, Host as Local, Run as GraphRun, Start, StateForm, StateQuery,
};
use weftwork_types::CheckpointId;
use weftwork_types::run::RunInput;

impl ClaimedRun {
    /// Returns the run of the graph with the stored options of the run, and with the progress that
    /// earlier processes made.
    pub(super) fn requested_run(
        &self,
        local: &Local,
        start: Start,
        begins_at: Option<CheckpointId>,
        attempts: &AttemptHistory,
    ) -> GraphRun {
        let options = &self.row.new.options;
        let mut run = self.graph.run(local, start).thread(self.claim.at.thread.as_str());
        run = run.in_current_span();
        run = run.durability(options.durability);
        if let Some(limit) = options.step_limit {
            run = run.step_limit(limit);
        }
        if let Some(before) = &options.interrupt_before {
            run = run.interrupt_before(before.clone());
        }
        if let Some(after) = &options.interrupt_after {
            run = run.interrupt_after(after.clone());
        }
        // Stored as a time: waiting for a worker and takeovers count.
        if let Some(deadline) = options.deadline {
            run = run.deadline(deadline.since(self.context.clock.now()));
        }
        if let Some(tasks_max) = options.concurrency {
            run = run.concurrency(usize::try_from(tasks_max).unwrap_or(usize::MAX));
        }
        run = run.context(options.context.clone()).configurable(options.configurable.clone());
        if let Some(ModeReceiver { modes, form, items }) = &self.receiver {
            run = run.report_to(*modes, items.clone());
            if *form == StateForm::Whole {
                run = run.whole_state();
            }
        }
        // A run that has begun continues at its own newest checkpoint: at the named one it would
        // begin another branch.
        if !attempts.begun {
            run = self.begin_at_checkpoint(run, begins_at);
        }
        match attempts.progress(&self.row.new.input) {
            Some(earlier) => run.continued(earlier),
            None => run,
        }
    }

    /// Checkpoint at which the run begins, if it may be another than the newest: the one that the
    /// request names, or the base of the runs that it rolls back. A rollback of nothing begins at
    /// the newest one, as it is.
    pub(super) async fn begins_at(
        &self,
        thread: &ThreadSnapshot,
    ) -> Result<Option<CheckpointId>, RuntimeError> {
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
        let runs = thread.runs().await?;
        Ok(runs.iter().any(|run| run.rolled_back_by.as_ref() == by).then_some(back))
    }

    /// State from which the run begins, given the checkpoint at which it does.
    pub(super) fn at(&self, begins_at: Option<CheckpointId>) -> StateQuery {
        begins_from(&self.claim.at.thread, &self.row.new.options, begins_at)
    }

    /// Sets the checkpoint at which the run begins.
    fn begin_at_checkpoint(&self, run: GraphRun, begins_at: Option<CheckpointId>) -> GraphRun {
        match (&self.row.new.options.within, begins_at) {
            (Some(within), at) => {
                let ns = within.namespace.clone();
                let map = within.checkpoints.clone();
                run.from(&CheckpointRef { ns, id: at, map })
            }
            (None, Some(at)) => run.at(at),
            (None, None) => run,
        }
    }
}
