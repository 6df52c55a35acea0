//! Execution of a claimed run, from its first action to the record of its outcome.

use super::attempts::AttemptHistory;
use super::begin::{Begin, begin};
use super::claimed::ClaimedRun;
use super::end::{ClaimEnd, LazyOutcome, Unrecorded, completed, ready};
use super::local::local;
use super::run_scope::RunScope;
use super::writer::Writer;
use crate::patience::Patience;
use futures_util::FutureExt;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use tokio::sync::{OnceCell, mpsc};
use weftwork_graph::run_loop::{
    Finished, Host as Local, Modes, Start, StateForm, StateQuery, StreamItem, Unanswered,
    out_of_node,
};
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_store::{InterruptRow, RunRow, StoreError, by_execution};
use weftwork_types::code::Fault;
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::{Answer, Ask, Interrupt};
use weftwork_types::run::{Durability, Mailbox, RunInput, RunOutcome};
use weftwork_types::usage::Usage;
use weftwork_types::{CheckpointId, InterruptId, RunId, Timestamp};

/// Stream modes, the form of the state in them, and the receiver of their events.
pub(crate) type Live = (Modes, StateForm, mpsc::UnboundedSender<StreamItem>);

/// Executes a claimed run to its end.
pub(crate) struct RunDriver {
    pub(crate) run: ClaimedRun,
    pub(crate) graph: CompiledGraph,
    /// `true` if a client requested it, so that it runs however many processes it has ended before.
    pub(crate) asked: bool,
    /// Receiver of its events in stream modes.
    pub(crate) live: Option<Live>,
    /// Its budget and dependencies, once they are opened.
    pub(crate) scope: OnceCell<RunScope>,
    /// Number of repetitions after failures, for activities of instances.
    pub(crate) retries: AtomicU32,
}

/// Time for which a run without progress is a suspect.
const SUSPICION: Duration = Duration::from_secs(10);
/// The most events read at once.
const LOG_PAGE: usize = 1_000;

/// Time limit for a commit in progress when the process stops.
const LAST_COMMIT: Duration = Duration::from_secs(1);

impl RunDriver {
    /// Executes the run to its end, or releases it when the process shuts down.
    pub(crate) async fn drive(self: Box<Self>) -> ClaimEnd {
        let writer = Writer::new(&self.run);
        let cut = async {
            self.run.context.shutdown.cuts().await;
            // What is on its way to the store gets there, unless the store takes nothing now.
            drop(tokio::time::timeout(LAST_COMMIT, writer.idle()).await);
        };
        let ended = tokio::select! {
            biased;
            ended = Box::pin(self.to_end(&writer)) => Some(ended),
            () = cut => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => Box::pin(self.put_back(&writer)).await,
        };
        if !matches!(ended, ClaimEnd::Unrecorded(_)) {
            Box::pin(writer.bill_the_rest()).await;
        }
        ended
    }

    async fn put_back(&self, writer: &Writer) -> ClaimEnd {
        match writer.release().await {
            Ok(()) => ClaimEnd::Released,
            Err(StoreError::Fenced { .. }) => ClaimEnd::Lost,
            Err(error) => {
                let run = &self.run.claim.at.run;
                tracing::warn!(%error, %run, "the run cannot be put back; it is taken over later");
                ClaimEnd::Released
            }
        }
    }

    async fn to_end(&self, writer: &Arc<Writer>) -> ClaimEnd {
        let mut patience = Patience::new();
        // No claim before ours, and nothing of ours yet: the log is empty.
        let mut fresh = self.run.claim.fence == 1;
        let mut counted = fresh;
        let error = loop {
            // Types of users are written, read and dropped outside of nodes too, and may panic.
            let going = self.enter_and_go(writer, fresh, &mut counted);
            let went = AssertUnwindSafe(going).catch_unwind().await;
            fresh = false;
            let error = match went.unwrap_or_else(|panic| Err(out_of_node(panic.as_ref()))) {
                Ok(Some(end)) => return ClaimEnd::Recorded(end),
                Ok(None) => return self.put_back(writer).await,
                Err(error) => error,
            };
            writer.forget_held().await;
            if self.waits_to_retry(&error).await {
                continue;
            }
            let RuntimeError::Store(error) = error else { break error };
            if *self.run.cancel.borrow() {
                break error.into();
            }
            // What could not be read now may be read later, from what is committed by then.
            let waited = patience
                .after(
                    error,
                    self.run.context.clock.as_ref(),
                    &self.run.claim.at,
                    Some(&self.run.bus),
                )
                .await;
            if let Err(error) = waited {
                break error.into();
            }
        };
        self.end(writer, error).await
    }

    /// Records the end of a run that its graph did not reach: an error, or a cancellation while the
    /// store accepted nothing.
    async fn end(&self, writer: &Arc<Writer>, error: RuntimeError) -> ClaimEnd {
        let run = &self.run.claim.at.run;
        if let RuntimeError::Store(StoreError::Fenced { .. }) = &error {
            tracing::warn!(%error, %run, "another worker has the run");
            return ClaimEnd::Lost;
        }
        let is_late = matches!(&error, RuntimeError::Store(error) if error.is_retriable());
        let outcome = if is_late && *self.run.cancel.borrow() {
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
            return ClaimEnd::Recorded(ready(outcome));
        };
        tracing::warn!(%error, %run, "cannot record the end of the run");
        if matches!(error, StoreError::Fenced { .. }) {
            return ClaimEnd::Lost;
        }
        self.run.bus.give_up(AiEvent::Done { outcome: outcome.status() });
        if error.is_retriable() {
            let writer = Arc::clone(writer);
            return ClaimEnd::Unrecorded(Unrecorded { writer, outcome });
        }
        ClaimEnd::Recorded(ready(outcome))
    }

    /// Returns the run that this one continues; `None` for a run with input of its own.
    async fn continued_run(&self) -> Result<Option<RunId>, RuntimeError> {
        let new = &self.run.row.new;
        if !matches!(new.input, RunInput::Continue | RunInput::Command(_)) {
            return Ok(None);
        }
        let store = &self.run.context.store;
        let made_state = |row: &RunRow| row.fence > 0 && row.rolled_back_by.is_none();
        let last = store.last_ended(&self.run.who, &new.at.thread).await?;
        if let Some(last) = last.filter(|row| made_state(row)) {
            return Ok(Some(last.new.at.run));
        }
        let runs = by_execution(store.runs(&self.run.who, &new.at.thread).await?);
        let before = runs.into_iter().take_while(|row| row.new.at != new.at);
        Ok(before.filter(made_state).last().map(|row| row.new.at.run))
    }

    async fn enter_and_go(
        &self,
        writer: &Arc<Writer>,
        fresh: bool,
        counted: &mut bool,
    ) -> Result<Option<LazyOutcome>, RuntimeError> {
        let attempts = if fresh { AttemptHistory::default() } else { self.attempts().await? };
        if attempts.begun {
            writer.has_begun().await;
        } else {
            writer.continues(self.continued_run().await?).await;
        }
        // On the way again in one process: what was cut off is on record.
        let ours = u32::from(fresh || *counted);
        let lost = attempts.lost(self.run.row.new.options.durability).saturating_sub(ours);
        if !*counted {
            let attempts = attempts.attempts();
            if attempts >= self.run.context.attempts_max && !self.asked {
                let run = self.run.claim.at.run.to_string();
                return Err(RuntimeError::CrashLoop { run, attempts });
            }
            if attempts > 1 {
                self.wait_for_turn(writer).await;
            }
            // Before anything of the run can end this process too.
            writer.take_over().await?;
            *counted = true;
        } else if !fresh {
            writer.reset().await?;
        }
        writer.open_steps().clone_from(&attempts.open_steps);
        self.go(writer, &attempts, lost).await
    }

    /// Returns the resources of the run, and opens them first if it has none yet; `None` if the run
    /// is cancelled meanwhile.
    async fn scope(&self, used: Usage) -> Result<Option<&RunScope>, RuntimeError> {
        let opened = self.scope.get_or_try_init(|| RunScope::open(&self.run, &self.graph, used));
        let mut cancelled = self.run.cancel.subscribe();
        tokio::select! {
            biased;
            scope = opened => scope.map(Some),
            _ = cancelled.wait_for(|cancelled| *cancelled) => Ok(None),
        }
    }

    /// Waits for the turn of a suspect: a run during which two processes died. Suspects start one
    /// at a time, each after the one before has made progress, has ended, or has had its time; so
    /// runs that were only present do not count the deaths that another one causes.
    async fn wait_for_turn(&self, writer: &Arc<Writer>) {
        let mut cancelled = self.run.cancel.subscribe();
        let turn = tokio::select! {
            biased;
            _ = cancelled.wait_for(|cancelled| *cancelled) => return,
            turn = Arc::clone(&self.run.context.suspects).acquire_owned() => turn.ok(),
        };
        writer.hold(turn);
        let (writer, end) = (Arc::downgrade(writer), self.run.context.clock.sleep(SUSPICION));
        tokio::spawn(async move {
            end.await;
            if let Some(writer) = writer.upgrade() {
                writer.hold(None);
            }
        });
    }

    /// Reads the log of earlier claims.
    async fn attempts(&self) -> Result<AttemptHistory, RuntimeError> {
        let (mut attempts, mut after) = (AttemptHistory::default(), 0);
        loop {
            let page = self
                .run
                .context
                .store
                .events(&self.run.who, &self.run.claim.at, after, LOG_PAGE)
                .await?;
            let Some(last) = page.last() else { return Ok(attempts) };
            after = last.seq;
            page.iter().for_each(|told| attempts.read(&told.event));
        }
    }

    /// Executes the run from its first action; `None` if the process shuts down before its end.
    async fn go(
        &self,
        writer: &Arc<Writer>,
        attempts: &AttemptHistory,
        lost: u32,
    ) -> Result<Option<LazyOutcome>, RuntimeError> {
        let (store, thread) = (&self.run.context.store, &self.run.claim.at.thread);
        let began = self.run.context.clock.now();
        let rows = store.interrupts(&self.run.who, thread).await?;
        // The first run of a thread that begins has taken no decision.
        if attempts.begun || rows.iter().any(|row| matches!(row.interrupt.ask, Ask::Approval(_))) {
            writer.decisions.read(store.as_ref(), &self.run.who).await?;
        }
        let answers = answers(rows);
        // What a process before this one committed for the run is at the head.
        let begins_at = if attempts.begun { None } else { self.run.begins_at().await? };
        let first = begin(&self.run, &self.graph, begins_at, attempts.begun).await?;
        let scope = match first {
            Begin::Nothing => None,
            Begin::Update(_) | Begin::Run(_) => self.scope(attempts.used()).await?,
        };
        let is_cancelled = scope.is_none() && !matches!(first, Begin::Nothing);
        let empty = || RunScope::empty(&self.run, &self.graph);
        let scope = scope.cloned().unwrap_or_else(empty);
        let local = local((&self.run, &self.graph), writer, &scope, (answers, lost));
        if is_cancelled {
            let outcome = RunOutcome::cancelled();
            return Ok(Some(ready(self.stopped(&local, writer, outcome).await?)));
        }
        match first {
            Begin::Update(update) => {
                let at = self.run.at(begins_at);
                self.graph.update(&local, &at, vec![vec![update]]).await?;
                writer.let_go().await?;
            }
            Begin::Nothing => {}
            Begin::Run(start) => {
                let ended = match self.run(&local, writer, (start, begins_at), attempts).await {
                    Ok(Some(finished)) => {
                        return self.finish(&local, writer, (finished, began)).await;
                    }
                    Ok(None) => RunOutcome::cancelled(),
                    // Its siblings may have asked something meanwhile.
                    Err(RuntimeError::Node(fault)) if !self.will_retry(&fault) => {
                        RunOutcome::Failed { fault }
                    }
                    Err(error @ RuntimeError::DeadlinePassed { .. }) => {
                        RunOutcome::Failed { fault: error.fault() }
                    }
                    Err(error) => return Err(error),
                };
                return Ok(Some(ready(self.stopped_as(&local, writer, ended).await?)));
            }
        }
        // A change of a waiting subgraph leaves questions open.
        let state = self.graph.state(&local, &StateQuery::thread(thread.as_str()), false).await?;
        let outcome = RunOutcome::Completed { output: state.values };
        let wakes_at = wakes_at(&state.interrupts, began);
        Ok(Some(ready(writer.leave(outcome, state.interrupts, wakes_at).await?)))
    }

    /// Records how the graph ended.
    async fn finish(
        &self,
        local: &Local,
        writer: &Writer,
        (finished, began): (Finished, Timestamp),
    ) -> Result<Option<LazyOutcome>, RuntimeError> {
        if finished.is_completed() {
            if let Some(channel) = self.error_left(&finished) {
                drop(finished);
                return self.end_without_error(local, writer, channel).await.map(Some);
            }
            writer.finish(RunOutcome::Completed { output: Json::Null }, Vec::new()).await?;
            return Ok(Some(completed(Box::new(finished))));
        }
        if finished.is_released() {
            return Ok(None);
        }
        let outcome = finished.outcome();
        match &outcome {
            RunOutcome::Interrupted { questions, .. } if !questions.is_empty() => {
                let open = self.open_after(local, writer, questions).await?;
                let mailbox = self.run.row.new.options.mailbox.as_ref();
                let is_set_aside =
                    mailbox.is_some_and(Mailbox::sets_aside) && open.iter().any(Interrupt::asks);
                // Whoever wakes the thread sets the activity aside, if this process dies before.
                let wakes_at = match is_set_aside {
                    true => Some(self.run.context.clock.now()),
                    false => wakes_at(&open, began),
                };
                return Ok(Some(ready(writer.stop(outcome, open, wakes_at).await?)));
            }
            RunOutcome::Cancelled { reason: Some(reason) } => {
                tracing::info!(run = %self.run.claim.at.run, reason, "a node asked the run to stop");
            }
            _ => {}
        }
        Ok(Some(ready(self.stopped_as(local, writer, outcome).await?)))
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
        if branches || self.run.row.new.options.at.is_none() {
            return Ok(asked.to_vec());
        }
        writer.let_go().await?;
        let at = StateQuery::thread(self.run.claim.at.thread.as_str()).whole();
        Ok(self.graph.state(local, &at, false).await?.interrupts)
    }

    /// Executes the supersteps; `None` if the run was cancelled. Events that watchers wait for are
    /// written to the log in the meantime.
    async fn run(
        &self,
        local: &Local,
        writer: &Arc<Writer>,
        (start, begins_at): (Start, Option<CheckpointId>),
        attempts: &AttemptHistory,
    ) -> Result<Option<Finished>, RuntimeError> {
        let options = &self.run.row.new.options;
        if self.is_expired() {
            return Err(RuntimeError::DeadlinePassed { limit_ms: 0 });
        }
        let mut run = self.graph.run(local, start).thread(self.run.claim.at.thread.as_str());
        run = run.durability(match options.durability {
            Durability::Async => Durability::Async,
            // The writer holds them until then.
            Durability::Sync | Durability::Exit => Durability::Sync,
        });
        run = self.run.with_options(run);
        if let Some((modes, form, items)) = &self.live {
            run = run.report_to(*modes, items.clone());
            if *form == StateForm::Whole {
                run = run.whole_state();
            }
        }
        if !attempts.begun {
            run = self.run.placed(run, begins_at);
        }
        if let Some(earlier) = attempts.progress(&self.run.row.new.input) {
            run = run.continued(earlier);
        }
        let mut cancelled = self.run.cancel.subscribe();
        let mut run = std::pin::pin!(run.finish());
        let mut log = std::pin::pin!(writer.keep_log());
        let _goes_on = writer.calls.goes_on();
        let outcome = tokio::select! {
            biased;
            // What is on its way to the store gets there, so that it is told only once.
            () = async {
                // Fails only without a sender, and we are one.
                cancelled.wait_for(|cancelled| *cancelled).await.map(drop).unwrap_or_default();
                writer.idle().await;
            } => return Ok(None),
            outcome = &mut run => outcome,
            error = &mut log => return Err(error.into()),
        };
        // The same for a run that ends by itself. A store that accepts no writes must not delay it.
        tokio::select! {
            biased;
            _ = tokio::time::timeout(LAST_COMMIT, writer.idle()) => {}
            // The commit of the end reports it again.
            _ = &mut log => {}
        }
        outcome.map(Some)
    }

    /// Ends a run that executed nodes before its graph has completed, as [`stopped`](Self::stopped)
    /// does. An activity records its error in the state first.
    async fn stopped_as(
        &self,
        local: &Local,
        writer: &Writer,
        outcome: RunOutcome,
    ) -> Result<RunOutcome, RuntimeError> {
        if let RunOutcome::Failed { fault } = &outcome {
            self.log_failure(fault);
        }
        if self.run.row.new.options.mailbox.is_some() {
            writer.let_go().await?;
            self.record_error(local, &outcome).await?;
        }
        self.stopped(local, writer, outcome).await
    }

    /// Logs the failure of a run. That of an activity is logged with its instance.
    fn log_failure(&self, fault: &Fault) {
        if self.run.row.new.options.mailbox.is_some() {
            return;
        }
        let at = &self.run.claim.at;
        let graph = &self.run.row.new.graph;
        let Fault { code, message: reason, .. } = fault;
        tracing::warn!(run = %at.run, thread = %at.thread, graph, code, reason, "run failed");
    }

    /// Ends a run before its graph has completed. Unanswered questions stay open.
    async fn stopped(
        &self,
        local: &Local,
        writer: &Writer,
        outcome: RunOutcome,
    ) -> Result<RunOutcome, RuntimeError> {
        writer.let_go().await?;
        let at = StateQuery::thread(self.run.claim.at.thread.as_str()).whole();
        let open = self.graph.state(local, &at, false).await?.interrupts;
        writer.finish(outcome, open).await
    }
}

/// Time at which the first of the questions takes its default. A question that had expired when the
/// run started and is still open waits for another to be answered before it.
fn wakes_at(open: &[Interrupt], began: Timestamp) -> Option<Timestamp> {
    open.iter().filter_map(Interrupt::lapses_at).filter(|at| *at > began).min()
}

fn answers(rows: Vec<InterruptRow>) -> BTreeMap<InterruptId, Answer> {
    rows.into_iter().filter_map(|row| Some((row.interrupt.id, row.answer?))).collect()
}
