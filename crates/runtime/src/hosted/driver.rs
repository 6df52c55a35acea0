//! Execution of a claimed run, from its first action to the record of its outcome.

use super::accepted::Requester;
use super::attempts::AttemptHistory;
use super::begin::{FirstAction, first_action};
use super::claimed::{ClaimedRun, RunResources};
use super::end::{ClaimEnd, LazyOutcome, Unrecorded, ready_outcome};
use super::finish::wakes_at;
use super::local::local_host;
use super::spans::{claim_span, record_claim_end};
use super::writer::Writer;
use crate::patience::Patience;
use crate::thread_snapshot::ThreadSnapshot;
use futures_util::FutureExt;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument as _;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{Finished, Run as GraphRun, StateQuery, out_of_node};
use weftwork_store::{InterruptRow, RunRow, StoreError};
use weftwork_types::code::{Fault, Phase};
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::{Answer, Ask};
use weftwork_types::port::Budget;
use weftwork_types::run::{RunInput, RunOutcome};
use weftwork_types::usage::Usage;
use weftwork_types::{InterruptId, RunId};

/// Time for which a run without progress is a suspect.
const SUSPICION: Duration = Duration::from_secs(10);
/// The most events read at once.
const LOG_PAGE: usize = 1_000;

/// Time limit for a commit in progress when the process stops.
const LAST_COMMIT: Duration = Duration::from_secs(1);

impl ClaimedRun {
    /// Executes the run to its end, or releases it when the process shuts down.
    pub(crate) async fn drive(self: Box<Self>) -> ClaimEnd {
        let span = claim_span(&self);
        let end = self.drive_claim().instrument(span.clone()).await;
        record_claim_end(&span, &end);
        end
    }

    async fn drive_claim(self: Box<Self>) -> ClaimEnd {
        let writer = Writer::new(&self);
        let cut = async {
            self.context.shutdown.cuts().await;
            // A commit in progress may finish; after this time the run is released without it.
            drop(tokio::time::timeout(LAST_COMMIT, writer.idle()).await);
        };
        // The run is polled first: an end that is ready with the cut is recorded, and not repeated.
        let ended = tokio::select! {
            biased;
            ended = Box::pin(self.run_to_end(&writer)) => Some(ended),
            () = cut => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => Box::pin(self.release(&writer)).await,
        };
        // An unrecorded end is still tried, and its commit includes these facts.
        if !matches!(ended, ClaimEnd::Unrecorded(_)) {
            Box::pin(writer.bill_the_rest()).await;
        }
        ended
    }

    async fn release(&self, writer: &Writer) -> ClaimEnd {
        match writer.release().await {
            Ok(()) => ClaimEnd::Released,
            Err(StoreError::Fenced { .. }) => ClaimEnd::Lost,
            Err(error) => {
                let run = &self.claim.at.run;
                tracing::warn!(%error, %run, "the run cannot be put back; it is taken over later");
                ClaimEnd::Released
            }
        }
    }

    async fn run_to_end(&self, writer: &Arc<Writer>) -> ClaimEnd {
        let mut patience = Patience::new();
        // No claim before ours, and nothing of ours yet: the log is empty.
        let mut fresh = self.claim.fence == 1;
        let mut counted = fresh;
        let error = loop {
            // Types of users are written, read and dropped outside of nodes too, and may panic.
            let attempt = self.attempt_run(writer, fresh, &mut counted);
            let ended = AssertUnwindSafe(attempt).catch_unwind().await;
            fresh = false;
            let error = match ended.unwrap_or_else(|panic| Err(out_of_node(panic.as_ref()))) {
                Ok(Some(end)) => return ClaimEnd::Recorded(end),
                Ok(None) => return self.release(writer).await,
                Err(error) => error,
            };
            // A further attempt executes again what was held. Its calls are in the log of the writer
            // or in the store, and are not made again.
            writer.forget_held().await;
            if self.wait_to_repeat(&error).await {
                continue;
            }
            let RuntimeError::Store(error) = error else { break error };
            // A cancelled run does not wait for its store: its end is recorded when the store is
            // back.
            if self.is_cancelled() {
                break error.into();
            }
            // The store may be readable later; the run continues from what is committed by then.
            let clock = self.context.clock.as_ref();
            let waited = patience.after(error, clock, &self.claim.at, Some(&self.bus)).await;
            if let Err(error) = waited {
                break error.into();
            }
        };
        self.record_failure(writer, error).await
    }

    /// Records the end of a run that its graph did not reach: an error, or a cancellation while the
    /// store accepted nothing.
    async fn record_failure(&self, writer: &Arc<Writer>, error: RuntimeError) -> ClaimEnd {
        let run = &self.claim.at.run;
        if let RuntimeError::Store(StoreError::Fenced { .. }) = &error {
            tracing::warn!(%error, %run, "another worker has the run");
            return ClaimEnd::Lost;
        }
        let is_late = matches!(&error, RuntimeError::Store(error) if error.is_retriable());
        let outcome = if is_late && self.is_cancelled() {
            RunOutcome::cancelled()
        } else {
            let fault = error.fault();
            self.log_failure(&fault);
            RunOutcome::Failed { fault }
        };
        if !is_late {
            self.record_outside_error(writer, &outcome).await;
        }
        let Err(error) = writer.failed(outcome.clone()).await else {
            return ClaimEnd::Recorded(ready_outcome(outcome));
        };
        tracing::warn!(%error, %run, "cannot record the end of the run");
        if matches!(error, StoreError::Fenced { .. }) {
            return ClaimEnd::Lost;
        }
        self.bus.give_up(AiEvent::Done { outcome: outcome.status() });
        if error.is_retriable() {
            let writer = Arc::clone(writer);
            return ClaimEnd::Unrecorded(Unrecorded { writer, outcome });
        }
        ClaimEnd::Recorded(ready_outcome(outcome))
    }

    /// Returns the run that this one continues; `None` for a run with input of its own.
    async fn continued_run(&self, thread: &ThreadSnapshot) -> Result<Option<RunId>, RuntimeError> {
        let new = &self.row.new;
        if !matches!(new.input, RunInput::Continue | RunInput::Command(_)) {
            return Ok(None);
        }
        let made_state = |row: &&RunRow| row.fence > 0 && row.rolled_back_by.is_none();
        if let Some(last) = thread.last_ended().await?.filter(made_state) {
            return Ok(Some(last.new.at.run.clone()));
        }
        let before = thread.runs().await?.iter().take_while(|row| row.new.at != new.at);
        Ok(before.filter(made_state).last().map(|row| row.new.at.run.clone()))
    }

    /// Executes the run from what is committed; `None` if the process shuts down before its end.
    ///
    /// `fresh`: no process executed it before. `counted`: this process is on record as one that has.
    async fn attempt_run(
        &self,
        writer: &Arc<Writer>,
        fresh: bool,
        counted: &mut bool,
    ) -> Result<Option<LazyOutcome>, RuntimeError> {
        let attempts = if fresh { AttemptHistory::default() } else { self.read_attempts().await? };
        let thread = ThreadSnapshot::new(&self.context.store, &self.who, &self.claim.at.thread);
        let lost = self.record_attempt(writer, &thread, &attempts, fresh, counted).await?;
        let store = &self.context.store;
        let began = self.context.clock.now();
        let questions = thread.questions().await?;
        let is_approval = |row: &InterruptRow| matches!(row.interrupt.ask, Ask::Approval(_));
        // The first run of a thread that begins has taken no decision.
        if attempts.begun || questions.iter().any(is_approval) {
            writer.decisions.read(store.as_ref(), &self.who).await?;
        }
        // The newest checkpoint has what an earlier process committed for the run.
        let begins_at = if attempts.begun { None } else { self.begins_at(&thread).await? };
        let first = first_action(self, &thread, begins_at, attempts.begun).await?;
        let executes = first.executes();
        if self.is_too_late(attempts.begun, questions) {
            let resources = RunResources::empty(self);
            let local = local_host(self, writer, &resources, given_answers(questions), lost);
            return Ok(Some(ready_outcome(self.end_too_late(&local, writer).await?)));
        }
        let resources = if executes { self.open_resources(attempts.used()).await? } else { None };
        let is_cancelled = executes && resources.is_none();
        let resources = resources.cloned().unwrap_or_else(|| RunResources::empty(self));
        let local = local_host(self, writer, &resources, given_answers(questions), lost);
        if is_cancelled {
            let outcome = RunOutcome::cancelled();
            return Ok(Some(ready_outcome(self.end_early(&local, writer, outcome).await?)));
        }
        match first {
            FirstAction::Update(update) => {
                let at = self.at(begins_at);
                self.graph.update(&local, &at, vec![vec![update]]).await?;
                // The state is read below: the change must be in the store.
                writer.let_go().await?;
            }
            FirstAction::Nothing => {}
            FirstAction::Run(start) => {
                let run = self.requested_run(&local, start, begins_at, &attempts);
                let ended = match self.run_supersteps(writer, run, &*resources.budget).await {
                    Ok(Some(finished)) => {
                        return self.finish(&local, writer, finished, began).await;
                    }
                    Ok(None) => RunOutcome::cancelled(),
                    // Its siblings may have asked something meanwhile.
                    Err(RuntimeError::Node(fault)) if !self.will_repeat(&fault) => {
                        RunOutcome::Failed { fault: self.with_limit_of_time(fault) }
                    }
                    // The deadline had passed before any node.
                    Err(error @ RuntimeError::DeadlinePassed { limit_ms: 0 }) => {
                        RunOutcome::Failed { fault: error.fault() }
                    }
                    Err(RuntimeError::DeadlinePassed { .. }) => {
                        let fault = self.deadline_passed().fault();
                        RunOutcome::Failed { fault: fault.in_phase(Phase::Node) }
                    }
                    Err(error @ RuntimeError::Budget(_)) => {
                        RunOutcome::Failed { fault: error.fault().in_phase(Phase::Node) }
                    }
                    Err(error) => return Err(error),
                };
                return Ok(Some(ready_outcome(self.end_unfinished(&local, writer, ended).await?)));
            }
        }
        // A change of a waiting subgraph leaves questions open.
        let at = StateQuery::thread(self.claim.at.thread.as_str());
        let state = self.graph.state(&local, &at, false).await?;
        let outcome = RunOutcome::Completed { output: state.values };
        let wakes_at = wakes_at(&state.interrupts, began);
        Ok(Some(ready_outcome(writer.leave(outcome, state.interrupts, wakes_at).await?)))
    }

    /// Returns the error at the deadline, with the time that it gave the run when it was accepted.
    fn deadline_passed(&self) -> RuntimeError {
        let new = &self.row.new;
        let time = new.options.deadline.map(|deadline| deadline.since(new.created_at));
        let limit_ms = u64::try_from(time.unwrap_or_default().as_millis()).unwrap_or(u64::MAX);
        RuntimeError::DeadlinePassed { limit_ms }
    }

    /// Adds the limit to the error of a node that noticed the deadline before the run did, such as that
    /// of a model call.
    fn with_limit_of_time(&self, fault: Fault) -> Fault {
        let now = self.context.clock.now();
        if self.row.new.options.deadline.is_none_or(|deadline| now < deadline) {
            // The deadline was that of a part of the run, such as an evaluation.
            return fault;
        }
        let passed = self.deadline_passed().fault();
        let limit = passed.details.and_then(|details| details.limit);
        let is_known = fault.details.as_ref().is_some_and(|details| details.limit.is_some());
        match limit {
            Some(limit) if fault.code == passed.code && !is_known => fault.with_limit(limit),
            _ => fault,
        }
    }

    /// Records that this process executes the run, and returns the number of earlier processes that
    /// may have died in its open superstep.
    async fn record_attempt(
        &self,
        writer: &Arc<Writer>,
        thread: &ThreadSnapshot,
        attempts: &AttemptHistory,
        fresh: bool,
        counted: &mut bool,
    ) -> Result<u32, RuntimeError> {
        if attempts.begun {
            writer.has_begun().await;
        } else {
            writer.continues(self.continued_run(thread).await?).await;
        }
        // This process does not count among those that may have died.
        let ours = u32::from(fresh || *counted);
        let lost = attempts.lost(self.row.new.options.durability).saturating_sub(ours);
        if !*counted {
            let attempts = attempts.attempts();
            let is_limited = self.requester == Requester::Recovery;
            if attempts >= self.context.attempts_max && is_limited {
                let run = self.claim.at.run.to_string();
                return Err(RuntimeError::CrashLoop { run, attempts });
            }
            if attempts > 1 {
                self.wait_for_turn(writer).await;
            }
            // The takeover is on record before anything of the run can end this process too.
            writer.take_over().await?;
            *counted = true;
        } else if !fresh {
            writer.reset().await?;
        }
        writer.open_steps().clone_from(&attempts.open_steps);
        Ok(lost)
    }

    /// Returns the resources of the run, and opens them first if it has none yet; `None` if the run
    /// is cancelled meanwhile.
    async fn open_resources(&self, used: Usage) -> Result<Option<&RunResources>, RuntimeError> {
        let opened = self.resources.get_or_try_init(|| RunResources::open(self, used));
        tokio::select! {
            biased;
            resources = opened => resources.map(Some),
            () = self.cancelled() => Ok(None),
        }
    }

    /// Waits for the turn of a suspect: a run during which two processes died. Suspects start one
    /// at a time, each after the one before has made progress, has ended, or has had its time; so
    /// runs that were only present do not count the deaths that another one causes.
    async fn wait_for_turn(&self, writer: &Arc<Writer>) {
        let turn = tokio::select! {
            biased;
            () = self.cancelled() => return,
            turn = Arc::clone(&self.context.suspects).acquire_owned() => turn.ok(),
        };
        writer.hold(turn);
        let writer = Arc::downgrade(writer);
        let end = self.context.clock.sleep(SUSPICION);
        tokio::spawn(async move {
            end.await;
            if let Some(writer) = writer.upgrade() {
                writer.hold(None);
            }
        });
    }

    /// Reads the log of earlier claims.
    async fn read_attempts(&self) -> Result<AttemptHistory, RuntimeError> {
        let store = &self.context.store;
        let mut attempts = AttemptHistory::default();
        let mut after = 0;
        loop {
            let page = store.events(&self.who, &self.claim.at, after, LOG_PAGE).await?;
            let Some(last) = page.last() else { return Ok(attempts) };
            after = last.seq;
            page.iter().for_each(|logged| attempts.read(logged.at, &logged.event));
        }
    }

    /// Executes the supersteps; `None` if the run was cancelled. Events that watchers wait for are
    /// written to the log in the meantime.
    async fn run_supersteps(
        &self,
        writer: &Arc<Writer>,
        run: GraphRun,
        budget: &dyn Budget,
    ) -> Result<Option<Finished>, RuntimeError> {
        if self.is_expired() {
            return Err(RuntimeError::DeadlinePassed { limit_ms: 0 });
        }
        let clock = &self.context.clock;
        let begun = clock.now();
        let wall_time = budget.wall_time(begun);
        if let Some(limit) = wall_time.filter(|limit| limit.until <= begun) {
            return Err(limit.exceeded().into());
        }
        let mut run = std::pin::pin!(run.finish());
        let mut log = std::pin::pin!(writer.keep_log());
        let _open = writer.calls.goes_on();
        let outcome = tokio::select! {
            biased;
            () = async {
                self.cancelled().await;
                // A commit in progress finishes first: the commit of the end would report its events
                // again.
                writer.idle().await;
            } => return Ok(None),
            outcome = &mut run => outcome,
            error = &mut log => return Err(error.into()),
            exceeded = async {
                let Some(limit) = wall_time else { return std::future::pending().await };
                clock.sleep(limit.until.since(clock.now())).await;
                writer.idle().await;
                // The log counts from the first commit: a run that continues this one must have
                // nothing left.
                let late = writer.started.get().map(|started| started.since(begun));
                clock.sleep(late.unwrap_or_default()).await;
                limit.exceeded()
            } => return Err(exceeded.into()),
        };
        // The same for a run that ends by itself; a store that accepts no writes must not delay it.
        tokio::select! {
            biased;
            _ = tokio::time::timeout(LAST_COMMIT, writer.idle()) => {}
            // The commit of the end reports it again.
            _ = &mut log => {}
        }
        outcome.map(Some)
    }
}

/// Returns the answers of the questions that have one.
fn given_answers(questions: &[InterruptRow]) -> BTreeMap<InterruptId, Answer> {
    let answered = |row: &InterruptRow| Some((row.interrupt.id, row.answer.clone()?));
    questions.iter().filter_map(answered).collect()
}
