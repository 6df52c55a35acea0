//! Recovery of runs without a living worker, and the decision how a thread is resumed.

use super::admission::Admit;
use super::core::{Inner, Runtime};
use super::spent::waiting_activity;
use super::started::StartedRun;
use crate::hosted::{AcceptedRun, Requester};
use crate::run_kind::is_activity;
use crate::worker::LeaseConfig;
use std::sync::{Arc, Weak};
use std::time::Duration;
use weftwork_graph::{NotResumable, RuntimeError};
use weftwork_store::{
    NewRun, OrphanCursor, OrphanPage, RunRow, StoreError, by_execution, has_begun, open_questions,
};
use weftwork_types::port::{Clock, RunHandle};
use weftwork_types::run::{RunInput, RunOptions, RunOutcome, RunRef, RunRequest, RunStatus};
use weftwork_types::{Principal, ThreadId, Timestamp};

/// Maximum number of runs that one check considers; the next check considers those after them.
const ORPHANS_MAX: usize = 1_000;

impl Runtime {
    /// Takes over a run whose worker is dead, or that was never begun, and executes it until it
    /// ends, however often it ended its process before, because a client requests it.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `Busy` while a living worker has it, with `NotFound` when it
    /// has ended; [`RuntimeError::UnknownGraph`].
    pub async fn take_over(&self, who: &Principal, at: &RunRef) -> Result<RunHandle, RuntimeError> {
        self.take(who, at, Requester::Client).await
    }

    /// Resumes a thread whose last run did not complete:
    ///
    /// - Takes the run over if its process is dead.
    /// - Requeues it, as [`requeue`](Self::requeue) does, if it failed before its input was applied
    ///   to the thread and the thread has no other node due.
    /// - Sends an activity of an instance again if it failed because it came too late to begin.
    /// - Starts a new run if it failed later, was cancelled, reached its limit, or was an update
    ///   from outside that left a node due, or if it ended at a question that has expired since. The
    ///   new run has the options of the last one, except for its checkpoint, idempotency key and
    ///   deadline, and what is left of its budget.
    ///
    /// # Errors
    /// [`RuntimeError::NothingToResume`] if the last run completed or waits for an answer, or is an
    /// activity whose failure is recorded in the state; [`RuntimeError::Store`] with `Busy` if a live
    /// process executes it, with `MailboxClosed` for a terminated instance.
    pub async fn resume(
        &self,
        who: &Principal,
        thread: &ThreadId,
    ) -> Result<StartedRun, RuntimeError> {
        self.resume_by(who, thread, None).await
    }

    /// Resumes a thread as [`resume`](Self::resume) does. If a new run is needed, it has these
    /// options.
    ///
    /// # Errors
    /// As [`resume`](Self::resume).
    pub async fn resume_with(
        &self,
        who: &Principal,
        thread: &ThreadId,
        options: RunOptions,
    ) -> Result<StartedRun, RuntimeError> {
        self.resume_by(who, thread, Some(options)).await
    }

    async fn resume_by(
        &self,
        who: &Principal,
        thread: &ThreadId,
        options: Option<RunOptions>,
    ) -> Result<StartedRun, RuntimeError> {
        let mut runs = by_execution(self.store().runs(who, thread).await?);
        let now = self.0.context.clock.now();
        if runs.iter().any(|run| run.outcome.is_some()) {
            // What stopped comes before a run that begins later.
            runs.retain(|run| !run.waits_for_time(now));
        }
        let nothing = |reason| RuntimeError::NothingToResume { thread: thread.to_string(), reason };
        let is_instance = runs.iter().any(|run| is_activity(&run.new.options));
        // Queued runs behind an unfinished one start when it ends, activities in their own order.
        let unfinished = runs
            .iter()
            .find(|run| !(run.status.is_final() || is_instance && run.status == RunStatus::Queued));
        let ended = match is_instance {
            true => {
                let questions = self.store().interrupts(who, thread).await?;
                waiting_activity(&runs, &questions).cloned()
            }
            false => runs.last().cloned(),
        };
        let last = unfinished.or(ended.as_ref()).ok_or_else(|| nothing(NotResumable::NoRun))?;
        let handle = self.resume_run(who, last, options).await?;
        let graph = self.graph(who, &last.new.graph)?;
        Ok(StartedRun::new(self.clone(), who.clone(), graph, handle))
    }

    /// Resumes the last run of a thread.
    async fn resume_run(
        &self,
        who: &Principal,
        last: &RunRow,
        options: Option<RunOptions>,
    ) -> Result<RunHandle, RuntimeError> {
        let thread = &last.new.at.thread;
        let now = self.0.context.clock.now();
        let nothing = |reason| RuntimeError::NothingToResume { thread: thread.to_string(), reason };
        match &last.outcome {
            None => self.take_over(who, &last.new.at).await,
            Some(RunOutcome::Completed { .. } | RunOutcome::Interrupted { .. })
                if !self.made_due(who, last).await? && !self.has_expired(who, last).await? =>
            {
                Err(nothing(self.ended_well(who, thread).await?))
            }
            Some(RunOutcome::Failed { .. }) if self.begins_anew(who, last).await? => {
                if last.new.options.deadline.is_some_and(|deadline| deadline <= now) {
                    // The requeued run would be cut off at once. A new run applies the input at the
                    // same checkpoint.
                    let before = &last.new.options;
                    let options = options.unwrap_or_else(|| before.clone().for_continuation());
                    let at = before.at.or(last.back_to());
                    let within = before.within.clone();
                    // An activity takes its place in the mailbox again, and stays the same one.
                    let mailbox = before.mailbox.clone();
                    let activity = last.activity();
                    let options = RunOptions { at, within, mailbox, activity, ..options };
                    let input = last.new.input.clone();
                    let resumed = self.follow_up(who, last, input, Some(options)).await?;
                    if is_activity(before) {
                        self.attend(who, thread);
                    }
                    return Ok(resumed);
                }
                Ok(self.requeue(who, &last.new.at).await?.into_handle())
            }
            // A failure that is recorded in the state dropped the nodes that were due.
            Some(_)
                if is_activity(&last.new.options)
                    && self.state(who, thread).await?.next.is_empty() =>
            {
                Err(nothing(NotResumable::Recorded))
            }
            Some(_) => self.follow_up(who, last, RunInput::Continue, options).await,
        }
    }

    /// Returns the reason why a thread is not resumed whose last run did not fail.
    async fn ended_well(
        &self,
        who: &Principal,
        thread: &ThreadId,
    ) -> Result<NotResumable, RuntimeError> {
        let open = open_questions(self.store().interrupts(who, thread).await?);
        let asked = open.iter().filter(|question| question.asks());
        let ids: Vec<_> = asked.map(|question| question.id).collect();
        Ok(match (ids.is_empty(), open.is_empty()) {
            (false, _) => NotResumable::Asks(ids),
            (true, false) => NotResumable::Sleeps,
            (true, true) => NotResumable::Completed,
        })
    }

    /// Starts a run after the last one of a thread, with these options or else those of that run.
    async fn follow_up(
        &self,
        who: &Principal,
        last: &RunRow,
        input: RunInput,
        options: Option<RunOptions>,
    ) -> Result<RunHandle, RuntimeError> {
        let NewRun { at, graph, caller, options: before, .. } = last.new.clone();
        let options = options.unwrap_or_else(|| before.for_continuation());
        let options = match input {
            // The input of the last run once more, which was not applied.
            RunInput::Start { .. } => self.continued_limits(who, last, options).await?,
            _ => options,
        };
        let principal = who.clone();
        let thread = at.thread;
        let request = RunRequest { principal, caller, graph, thread, input, options };
        Ok(self.accept(request, Admit::Run(None)).await?.into_handle())
    }

    /// Returns `true` if the run was an update from outside, which executes no node, and left a
    /// node due.
    async fn made_due(&self, who: &Principal, run: &RunRow) -> Result<bool, RuntimeError> {
        let changed = matches!(run.new.input, RunInput::Update { .. });
        Ok(changed && !self.state(who, &run.new.at.thread).await?.next.is_empty())
    }

    /// Returns `true` if the run ended at open questions and one of them has expired since, a timer
    /// for example.
    async fn has_expired(&self, who: &Principal, run: &RunRow) -> Result<bool, RuntimeError> {
        if !matches!(run.outcome, Some(RunOutcome::Interrupted { .. })) {
            return Ok(false);
        }
        let rows = self.store().interrupts(who, &run.new.at.thread).await?;
        let now = self.0.context.clock.now();
        Ok(open_questions(rows)
            .iter()
            .any(|question| question.lapses_at().is_some_and(|at| at <= now)))
    }

    /// Returns `true` if a failed run is continued by applying its input again.
    async fn begins_anew(&self, who: &Principal, run: &RunRow) -> Result<bool, RuntimeError> {
        let at = &run.new.at;
        let store = self.store();
        if !run.brings() || has_begun(store.as_ref(), who, at).await? {
            return Ok(false);
        }
        let head = store.thread(who, &at.thread).await?.head;
        // Applying the input again would discard nodes that are due.
        let state = self.state(who, &at.thread).await?;
        Ok(run.begins_elsewhere(head) || state.next.is_empty())
    }

    /// Requeues the last run of a thread after it failed, and executes it: with the same input, on
    /// the current state of the thread, and with a new count of attempts. Recorded calls are not
    /// repeated.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` if the run does not exist, with `Busy` while a run
    /// of the thread is unfinished, with `NotRequeued` if it is not the last one or did not fail;
    /// [`RuntimeError::UnknownGraph`], [`RuntimeError::Stopping`].
    pub async fn requeue(&self, who: &Principal, at: &RunRef) -> Result<StartedRun, RuntimeError> {
        let row = self.store().run(who, at).await?;
        let graph = self.graph(who, &row.new.graph)?;
        if self.0.context.shutdown.drains() {
            return Err(RuntimeError::Stopping);
        }
        let row = self.store().requeue(who, at, self.0.context.clock.now()).await?;
        let run = AcceptedRun {
            who: who.clone(),
            at: row.new.at,
            graph: graph.clone(),
            requester: Requester::Client,
            receiver: None,
            made: None,
        };
        let handle = self.start_or_follow(run).await?;
        Ok(StartedRun::new(self.clone(), who.clone(), graph, handle))
    }

    /// Takes over all runs of this store that have no living worker and whose graphs are hosted
    /// here, except those that this process still executes. Runs beyond the limit of this process
    /// ([`RuntimeBuilder::runs_max`](crate::RuntimeBuilder::runs_max)) wait for a slot.
    ///
    /// # Errors
    /// [`RuntimeError::Store`]. Runs that another worker took over first are omitted.
    pub async fn recover(&self) -> Result<Vec<RunHandle>, RuntimeError> {
        let now = self.0.context.clock.now();
        let mut handles = Vec::new();
        let mut after = None;
        loop {
            let page = self.recover_page(now, after).await?;
            handles.extend(page.handles);
            if page.next.is_none() {
                return Ok(handles);
            }
            after = page.next;
        }
    }

    /// Takes over the runs of one page, and returns the place after which the next page begins.
    async fn recover_page(
        &self,
        now: Timestamp,
        after: Option<OrphanCursor>,
    ) -> Result<RecoveredPage, RuntimeError> {
        let page = OrphanPage { graphs: Some(self.graph_ids()), after, limit: ORPHANS_MAX };
        let orphans = self.store().orphan_page(now, page.clone()).await?;
        let next = page.next(&orphans);
        let mut handles = Vec::new();
        for (who, row) in orphans {
            // Our own lease expires too while the store is unreachable.
            let run = &row.new.at.run;
            if self.running().contains_key(run) || self.0.slots.has(run) {
                continue;
            }
            if is_activity(&row.new.options) {
                if let Ok(graph) = self.graph(&who, &row.new.graph) {
                    self.attend(&who, &row.new.at.thread);
                    handles.push(self.handle_of(who, row.new.at, graph));
                }
                continue;
            }
            match self.take(&who, &row.new.at, Requester::Recovery).await {
                Ok(handle) => handles.push(handle),
                Err(RuntimeError::Store(StoreError::Busy { .. } | StoreError::NotFound { .. })) => {
                }
                Err(RuntimeError::UnknownGraph { found, .. }) => {
                    tracing::debug!(graph = found, run = %row.new.at.run, "no such graph here");
                }
                Err(error @ RuntimeError::Dependencies { .. }) => {
                    let error = error.log_text();
                    tracing::debug!(error, run = %row.new.at.run, "no dependencies here");
                }
                // A graph source cannot build the graph here: it lacks a tool, or a model.
                Err(error @ RuntimeError::Node(_)) => {
                    let error = error.log_text();
                    tracing::debug!(error, run = %row.new.at.run, "its graph cannot be built here");
                }
                // Other workers take over the remaining runs.
                Err(RuntimeError::Stopping) => return Ok(RecoveredPage { handles, next: None }),
                Err(RuntimeError::Store(error)) if error.is_retriable() => return Err(error.into()),
                Err(error) => {
                    let error = error.log_text();
                    tracing::warn!(error, run = %row.new.at.run, "a run cannot be taken over");
                }
            }
        }
        Ok(RecoveredPage { handles, next })
    }
}

/// Runs of one page that were taken over.
struct RecoveredPage {
    handles: Vec<RunHandle>,
    /// Place after which the next page begins; `None` after the last one.
    next: Option<OrphanCursor>,
}

/// The time of the next look for runs without a worker, by both clocks.
#[derive(Debug, Clone, Copy)]
struct NextLook {
    now: Timestamp,
    elapsed: Duration,
}

impl NextLook {
    fn after(clock: &dyn Clock, wait: Duration) -> Self {
        Self { now: clock.now().plus(wait), elapsed: clock.elapsed().saturating_add(wait) }
    }

    /// Returns `true` if one of the clocks is beyond this time by more than `tolerance`. The one of
    /// the day also advances while the machine sleeps, and when it is set.
    fn is_missed(self, clock: &dyn Clock, tolerance: Duration) -> bool {
        clock.now() > self.now.plus(tolerance)
            || clock.elapsed() > self.elapsed.saturating_add(tolerance)
    }
}

/// Takes over runs at regular intervals, as long as the runtime exists.
pub(super) async fn recover_at_intervals(runtime: Weak<Inner>, lease: LeaseConfig) {
    let mut next: Option<NextLook> = None;
    let mut after = None;
    while let Some(inner) = runtime.upgrade() {
        if inner.context.shutdown.drains() {
            return;
        }
        let clock = Arc::clone(&inner.context.clock);
        let is_late = next.take().is_some_and(|next| next.is_missed(&*clock, lease.look_every));
        let runtime = Runtime(inner);
        let mut wait = lease.look_every;
        if is_late {
            // The clock was put forward, or the machine or this process stood still: all leases
            // seem to have expired. Workers that are alive renew theirs first.
            wait = wait.max(2 * lease.renew_every);
        } else {
            // One page at a time: runs that cannot be resumed here delay others, and never prevent
            // their recovery.
            match runtime.recover_page(clock.now(), after.take()).await {
                Ok(page) => after = page.next,
                Err(error) => tracing::warn!(%error, "cannot take over runs"),
            }
            next = Some(NextLook::after(&*clock, wait));
        }
        drop(runtime);
        // Not by the clock of runs, which tests may stop or move: leases use the time of the
        // machine.
        tokio::time::sleep(wait).await;
    }
}
