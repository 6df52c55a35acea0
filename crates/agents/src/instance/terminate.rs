//! Termination of instances.

use super::AgentRuntime;
use super::activity::Activity;
use super::error::{of_runtime, of_store};
use serde::Serialize;
use serde_json::Value as Json;
use std::time::Duration;
use weftwork_store::mailbox::{self, Gate, TERMINATED};
use weftwork_store::{Metadata, RunRow, StoreError, cancel_orphan, end_asking, invariants};
use weftwork_types::caller::Caller;
use weftwork_types::instance::AgentRuntimeError;
use weftwork_types::run::{CancelAction, RunOptions, RunOutcome, RunRef, RunStatus};
use weftwork_types::{InstanceId, RunId, ThreadId, Timestamp};

/// Interval of checks for the end of an activity that is cut off in another process.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Treatment of the activities that wait when an instance is terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueuedActivities {
    /// They stay in the mailbox, and are never executed.
    #[default]
    Keep,
    /// They end as cancelled, and are reported with all that is needed to send them again.
    DeadLetter,
}

/// An activity that was not executed, or not to its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeadLetter {
    /// Id of the activity.
    pub activity: RunId,
    /// Billing identity of its sender.
    pub sender: Caller,
    /// Time of its acceptance.
    pub sent_at: Timestamp,
    /// The error with which it ended; `None` for an activity that stays in the mailbox, or that
    /// succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<AgentRuntimeError>,
    /// The activity as it was sent, for another instance. Its timeout counts from then. It has no
    /// idempotency key: that one belongs to the activity that was not executed.
    pub again: Activity,
}

/// Report of a termination.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Terminated {
    /// The activity that was executed, if it ended by itself before the deadline.
    pub ended: Option<RunId>,
    /// The activity that was executed, if it was cut off.
    pub cut: Option<RunId>,
    /// The activity that waited for an answer or for a time. It ended as cancelled, and its questions
    /// are closed; an activity that is set aside continues in its thread.
    pub asking: Option<DeadLetter>,
    /// Activities that stay in the mailbox, in their order.
    pub kept: Vec<DeadLetter>,
    /// Activities that ended as cancelled, in their order.
    pub dead_lettered: Vec<DeadLetter>,
}

impl AgentRuntime {
    /// Terminates an instance: it takes no more activities, at once and in every process. The activity
    /// that is executed may end until the deadline, by the clock of the runtime, and is cut off then.
    /// One that waits for an answer or for a time is cancelled. State and history stay.
    ///
    /// # Errors
    /// Kind `UnknownInstance`; errors of the store.
    ///
    /// # Cancel safety
    /// Once the future was polled, the instance may be terminated. Call it again to finish.
    pub async fn terminate(
        &self,
        id: impl AsRef<InstanceId>,
        deadline: Duration,
        queued: QueuedActivities,
    ) -> Result<Terminated, AgentRuntimeError> {
        let id = id.as_ref();
        let of_store = |error| of_store(id.as_str(), error);
        let (row, options) = self.instance(id).await?;
        let clock = self.runtime().clock();
        let mark = Metadata::from_iter([(TERMINATED.to_owned(), Json::Bool(true))]);
        let marked = self.store().update_metadata(&self.who, &row.id, mark, clock.now()).await;
        marked.map_err(of_store)?;
        let mut report = Terminated::default();
        let unfinished = self.store().unfinished_runs(&self.who, &row.id).await;
        let unfinished = unfinished.map_err(of_store)?;
        if let Some(running) = unfinished.iter().find(|run| run.status != RunStatus::Queued) {
            let at = &running.new.at;
            // A run that continues an activity is not what was sent.
            let activity = running.activity().unwrap_or_else(|| at.clone()).run;
            let ended = tokio::select! {
                biased;
                ended = self.runtime().ended(&self.who, at) => Some(ended),
                () = clock.sleep(deadline) => None,
            };
            match ended {
                Some(ended) => {
                    let outcome = ended.map_err(|error| of_runtime(id.as_str(), error))?;
                    let asks = matches!(outcome, RunOutcome::Interrupted { .. });
                    report.ended = Some(activity).filter(|_| !asks);
                }
                None => {
                    self.cut_activity(at).await?;
                    report.cut = Some(activity);
                }
            }
        }
        report.asking = self.end_asking(&row.id, &options.run).await.map_err(of_store)?;
        if queued == QueuedActivities::DeadLetter {
            report.dead_lettered =
                self.dead_letter(&row.id, &options.run).await.map_err(of_store)?;
        }
        let kept = self.store().unfinished_runs(&self.who, &row.id).await;
        let mut kept = kept.map_err(of_store)?;
        let now = clock.now();
        kept.sort_by_key(|run| mailbox::turn(run, now, Gate::Open));
        report.kept = kept.iter().map(|run| letter(run, &options.run, None)).collect();
        Ok(report)
    }

    /// Cuts an activity off, and waits for its end. An activity whose process is dead is ended here.
    async fn cut_activity(&self, at: &RunRef) -> Result<(), AgentRuntimeError> {
        let instance = at.thread.as_str();
        let cancel = self.runtime().cancel_run(&self.who, at, CancelAction::Interrupt).await;
        match cancel {
            // It has ended meanwhile.
            Ok(_) | Err(weftwork_graph::RuntimeError::Store(StoreError::NotFound { .. })) => {}
            Err(error) => return Err(of_runtime(instance, error)),
        }
        loop {
            let run = self.store().run(&self.who, at).await;
            let run = run.map_err(|error| of_store(instance, error))?;
            if run.status.is_final() {
                return Ok(());
            }
            let worker = self.runtime().worker();
            let now = self.runtime().clock().now();
            match cancel_orphan(self.store().as_ref(), &self.who, at, worker, now).await {
                Ok(()) => return Ok(()),
                Err(StoreError::Busy { .. } | StoreError::NotFound { .. }) => {}
                Err(error) => return Err(of_store(instance, error)),
            }
            // Not by the clock of runs, which tests may stop.
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Returns an activity of an instance as it was sent, to send it again: a dead letter, or one that
    /// failed.
    ///
    /// # Errors
    /// Kind `UnknownInstance`, and errors of the store: `NotFound` for a run that is no activity of the
    /// instance, or that continues one.
    pub async fn letter(
        &self,
        id: impl AsRef<InstanceId>,
        activity: &RunId,
    ) -> Result<DeadLetter, AgentRuntimeError> {
        let id = id.as_ref();
        let of_store = |error| of_store(id.as_str(), error);
        let (row, options) = self.instance(id).await?;
        let at = RunRef { thread: row.id.clone(), run: activity.clone() };
        let run = self.store().run(&self.who, &at).await.map_err(of_store)?;
        if !run.new.is_sent() {
            return Err(of_store(invariants::missing("activity", activity)));
        }
        // The run that continues it, if any, has its end.
        let runs = self.store().runs(&self.who, &row.id).await.map_err(of_store)?;
        let continued = runs.iter().rev().find(|later| later.activity().as_ref() == Some(&at));
        let outcome = continued.unwrap_or(&run).outcome.clone();
        Ok(letter(&run, &options.run, outcome.as_ref()))
    }

    /// Ends the activity that waits for an answer or for a time.
    async fn end_asking(
        &self,
        thread: &ThreadId,
        options: &RunOptions,
    ) -> Result<Option<DeadLetter>, StoreError> {
        let store = self.store().as_ref();
        let clock = self.runtime().clock();
        let activity = loop {
            let run = RunId::from_uuid(uuid::Uuid::from_u128(clock.unique()));
            let end = RunRef { thread: thread.clone(), run };
            let worker = self.runtime().worker();
            match end_asking(store, &self.who, &end, worker, clock.now()).await {
                // An activity of the mailbox that was cancelled ends now.
                Err(StoreError::Busy { .. }) => tokio::time::sleep(LOOK_EVERY).await,
                ended => break ended?,
            }
        };
        let Some(activity) = activity else { return Ok(None) };
        let cancelled = RunOutcome::cancelled();
        Ok(Some(letter(&store.run(&self.who, &activity).await?, options, Some(&cancelled))))
    }

    /// Ends the activities that wait, in their order.
    async fn dead_letter(
        &self,
        thread: &ThreadId,
        options: &RunOptions,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        for run in self.store().unfinished_runs(&self.who, thread).await? {
            match self.store().request_cancel(&self.who, &run.new.at).await {
                Ok(()) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut letters = Vec::new();
        let clock = self.runtime().clock();
        while let Some((_, next)) = self.store().next_run(&self.who, thread, clock.now()).await? {
            let at = &next.new.at;
            let now = clock.now();
            let worker = self.runtime().worker();
            match cancel_orphan(self.store().as_ref(), &self.who, at, worker, now).await {
                Ok(()) => letters.push(letter(&next, options, Some(&RunOutcome::cancelled()))),
                // Another process ends it.
                Err(StoreError::Busy { .. }) => tokio::time::sleep(LOOK_EVERY).await,
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(letters)
    }
}

fn letter(run: &RunRow, options: &RunOptions, end: Option<&RunOutcome>) -> DeadLetter {
    let activity = run.new.at.run.clone();
    DeadLetter {
        sender: run.new.caller.clone(),
        sent_at: run.new.created_at,
        failure: end.and_then(|end| AgentRuntimeError::of_outcome(activity.as_str(), end)),
        again: Activity::of_run(&run.new, options),
        activity,
    }
}
