//! Termination of instances.

use super::AgentRuntime;
use super::activity::Activity;
use super::error::{invalid_request, of_runtime, of_store};
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::time::Duration;
use weftwork_runtime::Runtime;
use weftwork_store::mailbox::{self, Gate, TERMINATED, TERMINATED_AT, is_terminated};
use weftwork_store::{
    Metadata, RunRow, StoreError, cancel_orphan, end_asking, has_begun, invariants,
};
use weftwork_types::caller::Caller;
use weftwork_types::instance::AgentRuntimeError;
use weftwork_types::run::{CancelAction, RunInput, RunOptions, RunOutcome, RunRef, RunStatus};
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
    /// The activity that was executed, if it ended by itself, before it was cut off.
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
    /// One that waits for an answer or for a time is cancelled. State and history stay. A repeated
    /// call reports all activities that were cancelled since the first one.
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
        let clock = self.runtime().clock();
        // Before the row is read: nothing that another termination has ended was ended before this time.
        let now = clock.now();
        let (row, options) = self.instance(id).await?;
        let since = row.metadata.get(TERMINATED_AT).and_then(Json::as_i64).map_or(now, Timestamp);
        let mark = [(TERMINATED, Json::Bool(true)), (TERMINATED_AT, Json::from(since.0))];
        let mark = Metadata::from_iter(mark.map(|(name, value)| (name.to_owned(), value)));
        let marked = self.store().update_metadata(&self.who, &row.id, mark, now).await;
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
                Some(ended) => match ended.map_err(|error| of_runtime(id.as_str(), error))? {
                    RunOutcome::Interrupted { .. } | RunOutcome::Cancelled { .. } => {}
                    _ => report.ended = Some(activity),
                },
                // It may have ended by itself nevertheless, before the request reached it.
                None => match self.cut_activity(at).await? {
                    RunStatus::Interrupted | RunStatus::Cancelled => {}
                    _ => report.ended = Some(activity),
                },
            }
        }
        self.end_asking(&row.id).await.map_err(of_store)?;
        if queued == QueuedActivities::DeadLetter {
            self.dead_letter(&row.id).await.map_err(of_store)?;
        }
        self.report_cancelled(&row.id, since, &options.run, &mut report).await.map_err(of_store)?;
        let kept = self.store().unfinished_runs(&self.who, &row.id).await;
        let mut kept = kept.map_err(of_store)?;
        let now = clock.now();
        kept.sort_by_key(|run| mailbox::turn(run, now, Gate::Open));
        report.kept = kept.iter().map(|run| letter(run, &options.run, None)).collect();
        Ok(report)
    }

    /// Cuts an activity off, and waits for its end. An activity whose process is dead is ended here.
    /// Returns the status with which it ended.
    async fn cut_activity(&self, at: &RunRef) -> Result<RunStatus, AgentRuntimeError> {
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
                return Ok(run.status);
            }
            let worker = self.runtime().worker();
            let now = self.runtime().clock().now();
            match cancel_orphan(self.store().as_ref(), &self.who, at, worker, now).await {
                Ok(()) => return Ok(RunStatus::Cancelled),
                Err(StoreError::Busy { .. } | StoreError::NotFound { .. }) => {}
                Err(error) => return Err(of_store(instance, error)),
            }
            // Not by the clock of runs, which tests may stop.
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Returns an activity of an instance as it was sent, to send it again: a dead letter, or one that
    /// failed or was cancelled. A run that continues an activity stands for that activity.
    ///
    /// # Errors
    /// Kinds `UnknownInstance`, and `InvalidState` for an activity that succeeded, that waits or that is
    /// executed; errors of the store: `NotFound` for a run that is no activity of the instance.
    pub async fn letter(
        &self,
        id: impl AsRef<InstanceId>,
        activity: &RunId,
    ) -> Result<DeadLetter, AgentRuntimeError> {
        let id = id.as_ref();
        let of_store = |error| of_store(id.as_str(), error);
        let (row, options) = self.instance(id).await?;
        let at = RunRef { thread: row.id.clone(), run: activity.clone() };
        let named = self.store().run(&self.who, &at).await.map_err(of_store)?;
        let at = named.activity().filter(|activity| activity.thread == row.id);
        let at = at.ok_or_else(|| of_store(invariants::missing("activity", activity)))?;
        let run = self.store().run(&self.who, &at).await.map_err(of_store)?;
        let last = self.last_run(&at).await.map_err(of_store)?.unwrap_or_else(|| run.clone());
        let state = match (&last.outcome, last.status) {
            (Some(RunOutcome::Completed { .. }), _) => "succeeded",
            (Some(RunOutcome::Interrupted { .. }), _) => "waits for an answer or for a time",
            (Some(_), _) => return Ok(letter(&run, &options.run, last.outcome.as_ref())),
            (None, RunStatus::Queued) if is_terminated(&row.metadata) => {
                "is kept in the mailbox of the terminated instance; terminate it again with dead letters (`--dead-letter`)"
            }
            (None, RunStatus::Queued) => "waits in the mailbox",
            (None, _) => "is executed",
        };
        Err(invalid_request(format!(
            "activity `{}` {state}; only a dead letter, or an activity that failed or was cancelled, is sent again",
            at.run
        )))
    }

    /// Returns the last run of an activity, in the thread of its instance or in the one in which the
    /// activity was set aside.
    async fn last_run(&self, activity: &RunRef) -> Result<Option<RunRow>, StoreError> {
        let last_of = |runs: Vec<RunRow>| {
            runs.into_iter().rev().find(|run| run.activity().as_ref() == Some(activity))
        };
        let Some(last) = last_of(self.store().runs(&self.who, &activity.thread).await?) else {
            return Ok(None);
        };
        if !matches!(last.outcome, Some(RunOutcome::Interrupted { .. })) {
            return Ok(Some(last));
        }
        let aside = Runtime::aside_of(&self.who, &last.new.at);
        match self.store().runs(&self.who, &aside).await {
            Ok(runs) => Ok(last_of(runs).or(Some(last))),
            Err(StoreError::NotFound { .. }) => Ok(Some(last)),
            Err(error) => Err(error),
        }
    }

    /// Ends the activity that waits for an answer or for a time.
    async fn end_asking(&self, thread: &ThreadId) -> Result<(), StoreError> {
        let store = self.store().as_ref();
        let clock = self.runtime().clock();
        loop {
            let run = RunId::from_uuid(uuid::Uuid::from_u128(clock.unique()));
            let end = RunRef { thread: thread.clone(), run };
            let worker = self.runtime().worker();
            match end_asking(store, &self.who, &end, worker, clock.now()).await {
                // An activity of the mailbox that was cancelled ends now.
                Err(StoreError::Busy { .. }) => tokio::time::sleep(LOOK_EVERY).await,
                ended => return ended.map(drop),
            }
        }
    }

    /// Ends the activities that wait, in their order.
    async fn dead_letter(&self, thread: &ThreadId) -> Result<(), StoreError> {
        for run in self.store().unfinished_runs(&self.who, thread).await? {
            match self.store().request_cancel(&self.who, &run.new.at).await {
                Ok(()) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let clock = self.runtime().clock();
        while let Some((_, next)) = self.store().next_run(&self.who, thread, clock.now()).await? {
            let at = &next.new.at;
            let now = clock.now();
            let worker = self.runtime().worker();
            match cancel_orphan(self.store().as_ref(), &self.who, at, worker, now).await {
                Ok(()) | Err(StoreError::NotFound { .. }) => {}
                // Another process ends it.
                Err(StoreError::Busy { .. }) => tokio::time::sleep(LOOK_EVERY).await,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reports the activities that were cancelled since the instance was terminated first: by this
    /// call, by one before it that did not report them, or by another process.
    async fn report_cancelled(
        &self,
        thread: &ThreadId,
        since: Timestamp,
        options: &RunOptions,
        report: &mut Terminated,
    ) -> Result<(), StoreError> {
        let store = self.store().as_ref();
        let runs = store.runs(&self.who, thread).await?;
        let last: BTreeMap<_, _> =
            runs.iter().filter_map(|run| Some((run.activity()?.run, run))).collect();
        let mut dead = Vec::new();
        for run in runs.iter().filter(|run| run.new.is_sent()) {
            let Some(last) = last.get(&run.new.at.run) else { continue };
            let ended_at = last.ended_at.filter(|at| *at >= since);
            let ended_at = ended_at.filter(|_| last.status == RunStatus::Cancelled);
            let Some(ended_at) = ended_at else { continue };
            // The error of an activity that did not begin may be in the state, too.
            let changed = last.base.is_some_and(|base| base != last.last_checkpoint.into());
            let has_begun = changed && has_begun(store, &self.who, &last.new.at).await?;
            match (&last.new.input, has_begun) {
                (RunInput::Continue, false) => {
                    report.asking = Some(letter(run, options, last.outcome.as_ref()));
                }
                (_, true) => report.cut = Some(run.new.at.run.clone()),
                (_, false) => dead.push((ended_at, run, last)),
            }
        }
        dead.sort_by_key(|(ended_at, run, _)| mailbox::position(run, *ended_at));
        let letters = dead.iter().map(|(_, run, last)| letter(run, options, last.outcome.as_ref()));
        report.dead_lettered = letters.collect();
        Ok(())
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
