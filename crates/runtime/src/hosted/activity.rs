//! Runs that are activities of instances: retries in place, and the error in the state.

use super::claimed::{ClaimedRun, RunResources};
use super::end::{LazyOutcome, ready_outcome};
use super::local::local_host;
use super::writer::Writer;
use crate::run_kind::{Activity, Repetition};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{AsNode, Finished, Host as Local, StateQuery, StateUpdate};
use weftwork_store::InterruptRow;
use weftwork_types::code::Fault;
use weftwork_types::instance::AgentRuntimeError;
use weftwork_types::run::RunOutcome;

impl ClaimedRun {
    /// Waits before the next repetition of an activity that failed; `false` if there is none, or the
    /// run is cancelled.
    pub(super) async fn wait_to_repeat(&self, error: &RuntimeError) -> bool {
        let RuntimeError::Node(fault) = error else { return false };
        if !self.will_repeat(fault) {
            return false;
        }
        let next = self.kind.activity().and_then(Activity::next_repetition);
        let Some(Repetition { number, delay }) = next else { return false };
        // The deadline ends the wait, too.
        let now = self.context.clock.now();
        let deadline = self.row.new.options.deadline;
        let delay = deadline.map_or(delay, |deadline| delay.min(deadline.since(now)));
        tracing::debug!(run = %self.claim.at.run, %fault, number, "the activity is repeated");
        let waited = tokio::select! {
            // With a clock that does not wait, both are ready, and a cancelled activity must not be
            // repeated.
            biased;
            () = self.cancelled() => false,
            () = self.context.clock.sleep(delay) => true,
        };
        // A test clock may not wait at all.
        tokio::task::yield_now().await;
        waited
    }

    /// Returns `true` if an activity with this failure is repeated.
    pub(super) fn will_repeat(&self, fault: &Fault) -> bool {
        let is_left = self.kind.activity().is_some_and(Activity::has_repetition);
        is_left && fault.retriable && !self.is_cancelled()
    }

    /// Returns `true` for an activity whose deadline has passed. Other runs are cut off while they
    /// wait.
    pub(super) fn is_expired(&self) -> bool {
        let now = self.context.clock.now();
        let has_passed = self.row.new.options.deadline.is_some_and(|deadline| deadline <= now);
        has_passed && self.kind.activity().is_some()
    }

    /// Returns `true` for an activity whose deadline has passed before it began, behind another one that
    /// waits for an answer or for a time.
    pub(super) fn is_too_late(&self, has_begun: bool, questions: &[InterruptRow]) -> bool {
        let asks = || questions.iter().any(InterruptRow::is_open);
        !has_begun && self.row.new.is_sent() && self.is_expired() && asks()
    }

    /// Ends an activity that [is too late](Self::is_too_late). The state and the questions are those of
    /// the activity that waits, so that the error is not recorded in the state.
    pub(super) async fn end_too_late(
        &self,
        local: &Local,
        writer: &Writer,
    ) -> Result<RunOutcome, RuntimeError> {
        let fault = RuntimeError::DeadlinePassed { limit_ms: 0 }.fault();
        let outcome = RunOutcome::Failed { fault };
        if let Some(error) = self.activity_error(&outcome) {
            self.log_activity_error(&error);
        }
        let at = StateQuery::thread(self.claim.at.thread.as_str()).whole();
        let open = self.graph.state(local, &at, false).await?.interrupts;
        writer.finish_unbegun(outcome, open).await
    }

    /// Returns the error of the activity that the run is or continues, with the id by which it was sent.
    fn activity_error(&self, outcome: &RunOutcome) -> Option<AgentRuntimeError> {
        let activity = self.row.activity().unwrap_or_else(|| self.claim.at.clone());
        AgentRuntimeError::of_outcome(activity.run.as_str(), outcome)
    }

    fn log_activity_error(&self, error: &AgentRuntimeError) {
        let at = &self.claim.at;
        let Fault { code, message: reason, .. } = &error.fault;
        tracing::warn!(instance = %at.thread, activity = %at.run, code, reason, "an activity failed");
    }

    /// Records the error of an activity in the state, before its end is recorded. The nodes that were
    /// due are dropped.
    pub(super) async fn record_error(
        &self,
        local: &Local,
        activity: &Activity,
        outcome: &RunOutcome,
    ) -> Result<(), RuntimeError> {
        let Some(error) = self.activity_error(outcome) else { return Ok(()) };
        self.log_activity_error(&error);
        match activity.error_channel() {
            Some(channel) => self.write_channel(local, channel, json!(error)).await,
            None => Ok(()),
        }
    }

    /// Records the error of an activity that its graph did not reach.
    pub(super) async fn record_outside_error(&self, writer: &Arc<Writer>, outcome: &RunOutcome) {
        let channel = self.kind.activity().and_then(Activity::error_channel);
        let Some(channel) = channel else { return };
        let at = &self.claim.at;
        let error = self.activity_error(outcome);
        let resources = RunResources::empty(self);
        let local = local_host(self, writer, &resources, BTreeMap::new(), 0);
        let written = self.write_channel(&local, channel, json!(error)).await;
        let written = match written {
            Ok(()) => writer.let_go().await.map_err(RuntimeError::from),
            error => error,
        };
        if let Err(error) = written {
            let error = error.log_text();
            tracing::warn!(error, instance = %at.thread, "the state has no error of the activity");
        }
    }

    /// Returns the channel in which an activity that completed left the error of an earlier one.
    pub(super) fn error_left(&self, finished: &Finished) -> Option<&str> {
        let channel = self.kind.activity()?.error_channel()?;
        finished.channel(channel).filter(|error| !error.is_null()).map(|_| channel)
    }

    /// Clears the error in the state, and ends the activity as completed.
    pub(super) async fn end_without_error(
        &self,
        local: &Local,
        writer: &Writer,
        channel: &str,
    ) -> Result<LazyOutcome, RuntimeError> {
        writer.let_go().await?;
        self.write_channel(local, channel, Json::Null).await?;
        let at = StateQuery::thread(self.claim.at.thread.as_str());
        let output = self.graph.state(local, &at, false).await?.values;
        let outcome = RunOutcome::Completed { output };
        Ok(ready_outcome(writer.finish(outcome, Vec::new()).await?))
    }

    /// Writes a channel in the name of no node. A value that does not fit the channel is reported, and
    /// does not fail the activity.
    async fn write_channel(
        &self,
        local: &Local,
        channel: &str,
        value: Json,
    ) -> Result<(), RuntimeError> {
        let thread = &self.claim.at.thread;
        let at = StateQuery::thread(thread.as_str());
        let values = Some(vec![(channel.to_owned(), value)]);
        let update = StateUpdate { values, as_node: AsNode::State };
        match self.graph.update(local, &at, vec![vec![update]]).await {
            Err(RuntimeError::Store(error)) => Err(error.into()),
            Err(error) => {
                let error = error.log_text();
                tracing::warn!(error, instance = %thread, channel, "the error cannot be written");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }
}
