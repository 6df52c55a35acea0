//! The end of a run that executed nodes: its outcome, its open questions, and when its thread wakes.

use super::claimed::ClaimedRun;
use super::end::{LazyOutcome, completed_outcome, ready_outcome};
use super::writer::Writer;
use crate::run_kind::{Activity, RunKind};
use serde_json::Value as Json;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{Finished, Host as Local, StateQuery, Unanswered};
use weftwork_types::Timestamp;
use weftwork_types::code::Fault;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::RunOutcome;

impl ClaimedRun {
    /// Records how the graph ended.
    pub(super) async fn finish(
        &self,
        local: &Local,
        writer: &Writer,
        finished: Finished,
        began: Timestamp,
    ) -> Result<Option<LazyOutcome>, RuntimeError> {
        if finished.is_completed() {
            if let Some(channel) = self.error_left(&finished) {
                drop(finished);
                return self.end_without_error(local, writer, channel).await.map(Some);
            }
            // The output is the state at the last checkpoint of the thread; it is not stored twice.
            writer.finish(RunOutcome::Completed { output: Json::Null }, Vec::new()).await?;
            return Ok(Some(completed_outcome(Box::new(finished))));
        }
        if finished.is_released() {
            return Ok(None);
        }
        let outcome = finished.outcome();
        match &outcome {
            RunOutcome::Interrupted { questions, .. } if !questions.is_empty() => {
                let open = self.open_after(local, writer, questions).await?;
                let sets_aside = self.kind.activity().is_some_and(Activity::sets_aside);
                let is_set_aside = sets_aside && open.iter().any(Interrupt::asks);
                // The thread is due at once: if this process dies before it sets the activity aside,
                // the process that wakes the thread does.
                let wakes_at = match is_set_aside {
                    true => Some(self.context.clock.now()),
                    false => wakes_at(&open, began),
                };
                return Ok(Some(ready_outcome(writer.stop(outcome, open, wakes_at).await?)));
            }
            RunOutcome::Cancelled { reason: Some(reason) } => {
                tracing::info!(run = %self.claim.at.run, reason, "a node asked the run to stop");
            }
            _ => {}
        }
        Ok(Some(ready_outcome(self.end_unfinished(local, writer, outcome).await?)))
    }

    /// The questions of the thread after a run that ended at some. In the reference, answers at an
    /// older checkpoint make no branch: the run asks there, and the newest checkpoint keeps its own
    /// questions until a superstep is closed.
    async fn open_after(
        &self,
        local: &Local,
        writer: &Writer,
        asked: &[Interrupt],
    ) -> Result<Vec<Interrupt>, RuntimeError> {
        let branches = self.graph.semantics().unanswered == Unanswered::Wait;
        if branches || self.row.new.options.at.is_none() {
            return Ok(asked.to_vec());
        }
        writer.let_go().await?;
        let at = StateQuery::thread(self.claim.at.thread.as_str()).whole();
        Ok(self.graph.state(local, &at, false).await?.interrupts)
    }

    /// Ends a run that executed nodes before its graph has completed, as [`end_early`](Self::end_early)
    /// does. An activity records its error in the state first.
    pub(super) async fn end_unfinished(
        &self,
        local: &Local,
        writer: &Writer,
        outcome: RunOutcome,
    ) -> Result<RunOutcome, RuntimeError> {
        if let RunOutcome::Failed { fault } = &outcome {
            self.log_failure(fault);
        }
        if let RunKind::Activity(activity) = &self.kind {
            // The error is written upon the last superstep of the graph, which must be in the
            // store.
            writer.let_go().await?;
            self.record_error(local, activity, &outcome).await?;
        }
        self.end_early(local, writer, outcome).await
    }

    /// Logs the failure of a run. That of an activity is logged with its instance.
    pub(super) fn log_failure(&self, fault: &Fault) {
        if self.kind.activity().is_some() {
            return;
        }
        let at = &self.claim.at;
        let graph = &self.row.new.graph;
        let Fault { code, message: reason, .. } = fault;
        tracing::warn!(run = %at.run, thread = %at.thread, graph, code, reason, "run failed");
    }

    /// Ends a run before its graph has completed. Unanswered questions stay open.
    pub(super) async fn end_early(
        &self,
        local: &Local,
        writer: &Writer,
        outcome: RunOutcome,
    ) -> Result<RunOutcome, RuntimeError> {
        // The questions are read from the stored state, so the held superstep must be in the store.
        writer.let_go().await?;
        let at = StateQuery::thread(self.claim.at.thread.as_str()).whole();
        let open = self.graph.state(local, &at, false).await?.interrupts;
        writer.finish(outcome, open).await
    }
}

/// Time at which the first of the questions takes its default. A question that had expired when the
/// run started and is still open waits for another to be answered before it.
pub(super) fn wakes_at(open: &[Interrupt], began: Timestamp) -> Option<Timestamp> {
    open.iter().filter_map(Interrupt::lapses_at).filter(|at| *at > began).min()
}
