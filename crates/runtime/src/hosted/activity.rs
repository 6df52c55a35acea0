//! Runs that are activities of instances: retries in place, and the error in the state.

use super::driver::RunDriver;
use super::end::{LazyOutcome, ready};
use super::local::local;
use super::run_scope::RunScope;
use super::writer::Writer;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{AsNode, Finished, Host as Local, StateQuery, StateUpdate};
use weftwork_types::code::Fault;
use weftwork_types::instance::AgentRuntimeError;
use weftwork_types::run::RunOutcome;

impl RunDriver {
    /// Waits before the next repetition of an activity that failed; `false` if there is none, or the
    /// run is cancelled.
    pub(super) async fn waits_to_retry(&self, error: &RuntimeError) -> bool {
        let RuntimeError::Node(fault) = error else { return false };
        if !self.will_retry(fault) {
            return false;
        }
        let number = self.retries.fetch_add(1, Ordering::Relaxed);
        let retry = self.run.row.new.options.mailbox.as_ref().and_then(|mailbox| mailbox.retry);
        let Some(delay) = retry.and_then(|retry| retry.delay(number)) else { return false };
        // The deadline ends the wait, too.
        let (now, deadline) = (self.run.context.clock.now(), self.run.row.new.options.deadline);
        let delay = deadline.map_or(delay, |deadline| delay.min(deadline.since(now)));
        tracing::debug!(run = %self.run.claim.at.run, %fault, number, "the activity is repeated");
        let mut cancelled = self.run.cancel.subscribe();
        let waited = tokio::select! {
            biased;
            _ = cancelled.wait_for(|cancelled| *cancelled) => false,
            () = self.run.context.clock.sleep(delay) => true,
        };
        // A test clock may not wait at all.
        tokio::task::yield_now().await;
        waited
    }

    /// Returns `true` if an activity with this failure is repeated.
    pub(super) fn will_retry(&self, fault: &Fault) -> bool {
        let retry = self.run.row.new.options.mailbox.as_ref().and_then(|mailbox| mailbox.retry);
        let number = self.retries.load(Ordering::Relaxed);
        let is_left = retry.is_some_and(|retry| retry.delay(number).is_some());
        is_left && fault.retriable && !*self.run.cancel.borrow()
    }

    /// Returns `true` for an activity whose deadline has passed. Other runs are cut off while they
    /// wait.
    pub(super) fn is_expired(&self) -> bool {
        let options = &self.run.row.new.options;
        let now = self.run.context.clock.now();
        options.mailbox.is_some() && options.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Records the error of an activity in the state, before its end is recorded. The nodes that were
    /// due are dropped.
    pub(super) async fn record_error(
        &self,
        local: &Local,
        outcome: &RunOutcome,
    ) -> Result<(), RuntimeError> {
        let Some(mailbox) = &self.run.row.new.options.mailbox else { return Ok(()) };
        let at = &self.run.claim.at;
        let Some(error) = AgentRuntimeError::of_outcome(at.run.as_str(), outcome) else {
            return Ok(());
        };
        let Fault { code, message: reason, .. } = &error.fault;
        tracing::warn!(instance = %at.thread, activity = %at.run, code, reason, "an activity failed");
        match &mailbox.error_channel {
            Some(channel) => self.write(local, channel, json!(error)).await,
            None => Ok(()),
        }
    }

    /// Records the error of an activity that its graph did not reach.
    pub(super) async fn record_outside_error(&self, writer: &Arc<Writer>, outcome: &RunOutcome) {
        let mailbox = self.run.row.new.options.mailbox.as_ref();
        let Some(channel) = mailbox.and_then(|mailbox| mailbox.error_channel.as_ref()) else {
            return;
        };
        let at = &self.run.claim.at;
        let error = AgentRuntimeError::of_outcome(at.run.as_str(), outcome);
        let scope = RunScope::empty(&self.run, &self.graph);
        let local = local((&self.run, &self.graph), writer, &scope, (BTreeMap::new(), 0));
        let written = self.write(&local, channel, json!(error)).await;
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
        let channel = self.run.row.new.options.mailbox.as_ref()?.error_channel.as_deref()?;
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
        self.write(local, channel, Json::Null).await?;
        let at = StateQuery::thread(self.run.claim.at.thread.as_str());
        let output = self.graph.state(local, &at, false).await?.values;
        let outcome = RunOutcome::Completed { output };
        Ok(ready(writer.finish(outcome, Vec::new()).await?))
    }

    /// Writes a channel in the name of no node. A value that does not fit the channel is reported, and
    /// does not fail the activity.
    async fn write(&self, local: &Local, channel: &str, value: Json) -> Result<(), RuntimeError> {
        let thread = &self.run.claim.at.thread;
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
