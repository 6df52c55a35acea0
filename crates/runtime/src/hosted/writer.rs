//! Commits: all records of one moment of a run, in one transaction.

use super::claimed::ClaimedRun;
use super::decisions::Decisions;
use super::held::{Held, measure_batch};
use super::log::{CallLog, Waiting};
use super::open_steps::OpenSteps;
use crate::context::WorkerContext;
use crate::event_bus::{Carried, EventBus};
use crate::patience::Patience;
use crate::stored::{CheckpointReport, Claimed};
use futures_util::future::Either;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, watch};
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::EventSource;
use weftwork_store::{
    CheckpointBatch, Claim, Commit, StoreError, open_questions, speaking, wakes_as_before,
};
use weftwork_types::event::{AiEvent, AttemptReset};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::{Durability, RunInput, RunOutcome};
use weftwork_types::{BoxFuture, Principal, RunId, Timestamp};

/// Maximum size of the checkpoints that wait for the end of their run, in bytes.
const HELD_BYTES_MAX: usize = 16 << 20;

/// Writes for one run, one commit at a time.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) context: Arc<WorkerContext>,
    pub(super) claim: Claim,
    /// Records of calls; each commit includes the waiting ones.
    pub(super) calls: Arc<CallLog>,
    /// Decisions about calls, which are recorded with them.
    pub(super) decisions: Decisions,
    who: Principal,
    bus: Arc<EventBus>,
    cancel: watch::Sender<bool>,
    state: Arc<Mutex<State>>,
    /// The next commit, while it is reserved for a certain checkpoint.
    reserved: std::sync::Mutex<Option<OwnedMutexGuard<State>>>,
    /// `true` if checkpoints wait for the end of the run.
    pub(super) holds: bool,
    /// Supersteps that the log has reported.
    open_steps: std::sync::Mutex<OpenSteps>,
    /// Events that wait for the next checkpoint or record, which waits for the end of the run.
    resumed: std::sync::Mutex<Vec<AiEvent>>,
    /// Permit held until the run makes progress.
    turn: std::sync::Mutex<Option<OwnedSemaphorePermit>>,
    /// Time of the first commit.
    pub(super) started: std::sync::OnceLock<Timestamp>,
}

#[derive(Debug)]
struct State {
    /// The event of the run's beginning, until it is committed.
    begins: Option<AiEvent>,
    /// The last superstep, which is committed with the end of the run; all supersteps if the run
    /// holds them until then.
    held: Option<Held>,
    /// Approximate size of these, in bytes.
    held_bytes: usize,
}

impl State {
    /// Adds writes; returns `true` if there is enough for a commit.
    fn hold(&mut self, new: Held) -> bool {
        self.held_bytes += measure_batch(&new.batch);
        self.held = Some(self.held_with(new));
        self.held_bytes > HELD_BYTES_MAX
    }

    /// Returns the waiting writes with new ones behind them. Those that wait stay.
    fn held_with(&self, new: Held) -> Held {
        let Some(mut held) = self.held.clone() else { return new };
        held.append(new);
        held
    }
}

impl Writer {
    pub(super) fn new(run: &ClaimedRun) -> Arc<Self> {
        let graph = run.row.new.graph.clone();
        let begins = Some(AiEvent::RunStarted { graph, continues: None });
        let new = &run.row.new;
        let changes = matches!(new.input, RunInput::Update { .. });
        let calls = Arc::<CallLog>::default();
        let thread = run.claim.at.thread.clone();
        let subject = run.who.subject.clone();
        Arc::new(Self {
            decisions: Decisions::new(Arc::clone(&calls), thread, subject),
            holds: new.options.durability == Durability::Exit && !changes,
            context: Arc::clone(&run.context),
            claim: run.claim.clone(),
            calls,
            who: run.who.clone(),
            bus: Arc::clone(&run.bus),
            cancel: run.cancel.clone(),
            state: Arc::new(Mutex::new(State { begins, held: None, held_bytes: 0 })),
            reserved: std::sync::Mutex::default(),
            open_steps: std::sync::Mutex::default(),
            resumed: std::sync::Mutex::default(),
            turn: std::sync::Mutex::default(),
            started: std::sync::OnceLock::new(),
        })
    }

    /// Holds a turn in place of the previous one, which is released.
    pub(super) fn hold(&self, turn: Option<OwnedSemaphorePermit>) {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = turn;
    }

    /// Commits events and calls as they arrive, and text once it is due, unless another commit
    /// includes them before. Ends only with an error.
    pub(super) async fn keep_log(&self) -> StoreError {
        loop {
            tokio::select! {
                () = self.bus.durable_arrived() => {}
                () = self.calls.arrived() => {}
                () = self.bus.text_due() => {}
            }
            let Ok(mut state) = self.state.try_lock() else {
                // A commit in progress may include this; otherwise the next one does.
                drop(self.state.lock().await);
                continue;
            };
            if !self.waits() {
                continue;
            }
            if let Err(error) = self.commit(&mut state, Commit::default()).await {
                return error;
            }
        }
    }

    /// Returns `true` if calls, events or text wait for the next commit.
    fn waits(&self) -> bool {
        !self.calls.is_empty() || self.bus.waits()
    }

    /// Records usage facts that no commit of the run included, because the run was lost or
    /// released: calls that were paid for are billed. Later facts are written on their own.
    pub(super) async fn bill_the_rest(&self) {
        for row in self.calls.take_unbilled() {
            self.context.ledger.write(&self.who, Arc::unwrap_or_clone(row)).await;
        }
    }

    /// Records that an earlier claim reported the start of the run.
    pub(super) async fn has_begun(&self) {
        self.state.lock().await.begins = None;
    }

    /// Sets the run that this one continues, before its start is reported.
    pub(super) async fn continues(&self, run: Option<RunId>) {
        if let Some(AiEvent::RunStarted { continues, .. }) = &mut self.state.lock().await.begins {
            *continues = run;
        }
    }

    /// Records that this claim takes the run over. Text of attempts that the previous one left is
    /// void.
    pub(super) async fn take_over(&self) -> Result<(), StoreError> {
        let mut events = vec![AiEvent::TakenOver { claim: self.claim.fence }];
        // Watchers may have text of tasks whose worker died or released the run; these tasks run again,
        // so their text is void before they emit more.
        let dead = speaking(self.context.store.as_ref(), &self.who, &self.claim.at).await?;
        if dead.is_empty() {
            self.bus.nothing_left();
        }
        events.extend(reset_events(dead));
        let mut state = self.state.lock().await;
        self.commit(&mut state, Commit { events, ..Commit::default() }).await
    }

    /// Voids the text of attempts that were interrupted with the loop.
    pub(super) async fn reset(&self) -> Result<(), StoreError> {
        let events: Vec<_> = reset_events(self.bus.speaking()).collect();
        if events.is_empty() {
            return Ok(());
        }
        let mut state = self.state.lock().await;
        self.commit(&mut state, Commit { events, ..Commit::default() }).await
    }

    /// Waits until no commit is in progress, and reserves the next one for
    /// [`commit_batch`](Claimed::commit_batch).
    pub(super) async fn reserve(&self) {
        let state = Arc::clone(&self.state).lock_owned().await;
        // Nobody else commits meanwhile: `keep_log` finds the state locked.
        *self.lock_reserved() = Some(state);
    }

    pub(super) fn bus(&self) -> &Arc<EventBus> {
        &self.bus
    }

    /// Releases the reserved commit.
    pub(super) fn unreserve(&self) {
        drop(self.lock_reserved().take());
    }

    fn lock_reserved(&self) -> std::sync::MutexGuard<'_, Option<OwnedMutexGuard<State>>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the supersteps that the log has reported.
    pub(super) fn open_steps(&self) -> std::sync::MutexGuard<'_, OpenSteps> {
        self.open_steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports that a loop continues at a stored checkpoint: at once, or with the records that wait
    /// for the end of the run, because they include the writes from outside that it applied.
    pub(super) fn resumes(&self, started: AiEvent) {
        if !self.open_steps().reports(&started) {
            return;
        }
        if self.holds {
            self.resumed.lock().unwrap_or_else(PoisonError::into_inner).push(started);
        } else {
            self.bus.emit(&EventSource::of_run(), started);
        }
    }

    fn take_resumed(&self) -> Vec<AiEvent> {
        std::mem::take(&mut *self.resumed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until no commit is in progress.
    pub(super) async fn idle(&self) {
        drop(self.state.lock().await);
    }

    /// Ends the run between two supersteps.
    pub(super) async fn finish(
        &self,
        outcome: RunOutcome,
        interrupts: Vec<Interrupt>,
    ) -> Result<RunOutcome, RuntimeError> {
        self.end_run(outcome, Commit { interrupts, ..Commit::default() }).await
    }

    /// Ends a run that has not begun, with the questions that are open, which stay those of the runs
    /// that asked them.
    pub(super) async fn finish_unbegun(
        &self,
        outcome: RunOutcome,
        interrupts: Vec<Interrupt>,
    ) -> Result<RunOutcome, RuntimeError> {
        let last = Commit { interrupts, is_unbegun: true, ..Commit::default() };
        self.end_run(outcome, last).await
    }

    /// Ends a run that executed no node, with the questions that are open as before.
    pub(super) async fn leave(
        &self,
        outcome: RunOutcome,
        interrupts: Vec<Interrupt>,
        wakes_at: Option<Timestamp>,
    ) -> Result<RunOutcome, RuntimeError> {
        self.end_run(outcome, Commit { interrupts, wakes_at, ..Commit::default() }).await
    }

    /// Ends the run within a superstep, with the questions that are open on the thread and the time
    /// at which the thread resumes by itself.
    pub(super) async fn stop(
        &self,
        outcome: RunOutcome,
        interrupts: Vec<Interrupt>,
        wakes_at: Option<Timestamp>,
    ) -> Result<RunOutcome, RuntimeError> {
        let events = outcome.questions().iter().map(AiEvent::asked).collect();
        self.end_run(outcome, Commit { interrupts, events, wakes_at, ..Commit::default() }).await
    }

    async fn end_run(&self, outcome: RunOutcome, last: Commit) -> Result<RunOutcome, RuntimeError> {
        let mut state = self.state.lock().await;
        let Held { batch, mut events, records } = state.held.clone().unwrap_or_default();
        events.extend(self.take_resumed());
        events.extend(last.events);
        events.extend(self.stopped_texts(&outcome, &events));
        // The last event of the run: followers stop at it.
        events.push(AiEvent::Done { outcome: outcome.status() });
        let finish = Some(outcome.stored());
        let wakes_at = match outcome {
            RunOutcome::Failed { .. } | RunOutcome::Cancelled { .. } if batch.is_empty() => {
                self.still_wakes(&last.interrupts).await?
            }
            _ => last.wakes_at,
        };
        let sequence_writes = records;
        let commit = Commit { batch, events, sequence_writes, finish, wakes_at, ..last };
        self.commit(&mut state, commit).await?;
        // Only after the commit: a thread must not wake while the store has it as busy.
        wakes_at.into_iter().for_each(|at| self.context.timers.add(at));
        // Not before: a commit that failed leaves the held superstep to the next attempt.
        (state.held, state.held_bytes) = (None, 0);
        Ok(outcome)
    }

    /// Releases the run, with the records that wait for a commit. Does not wait for a store that
    /// accepts no writes.
    pub(super) async fn release(&self) -> Result<(), StoreError> {
        let mut state = self.state.lock().await;
        let held = state.held.clone().unwrap_or_default();
        if !held.batch.is_empty() || self.waits() {
            self.commit_once(&mut state, &mut held.into_commit()).await?;
        }
        // After the commit: a worker that takes the run over must find the held superstep.
        let now = self.context.clock.now();
        let seq = self.context.store.release(&self.who, &self.claim, now).await?;
        self.bus.logged(seq, now, AiEvent::Released { claim: self.claim.fence });
        Ok(())
    }

    /// Commits the records that are held until the end of the run, because they are about to be
    /// read.
    pub(super) async fn let_go(&self) -> Result<(), StoreError> {
        let mut state = self.state.lock().await;
        self.commit_held(&mut state).await
    }

    async fn commit_held(&self, state: &mut State) -> Result<(), StoreError> {
        let Some(held) = state.held.clone() else { return Ok(()) };
        self.commit(state, held.into_commit()).await?;
        (state.held, state.held_bytes) = (None, 0);
        Ok(())
    }

    /// Discards the last superstep, which is not committed with a run that fails after it.
    pub(super) async fn forget_held(&self) {
        let mut state = self.state.lock().await;
        (state.held, state.held_bytes) = (None, 0);
    }

    /// Ends a run that failed, or that was cancelled while its store accepted no writes. Does not
    /// wait for the store. Open questions stay open: the position of the thread does not change.
    pub(super) async fn failed(&self, outcome: RunOutcome) -> Result<(), StoreError> {
        let mut state = self.state.lock().await;
        // The end of a run closes all questions of its thread that are not passed on with it.
        let interrupts = match self.context.store.interrupts(&self.who, &self.claim.at.thread).await
        {
            Ok(rows) => open_questions(rows),
            // Without the questions the end would close them: it is recorded when they can be read.
            Err(error) if error.is_retriable() => return Err(error),
            Err(error) => {
                tracing::warn!(%error, run = %self.claim.at.run, "cannot read the open questions");
                Vec::new()
            }
        };
        let mut events = self.stopped_texts(&outcome, &[]);
        events.push(AiEvent::Done { outcome: outcome.status() });
        let finish = Some(outcome);
        let wakes_at = self.still_wakes(&interrupts).await?;
        let mut commit = Commit { interrupts, events, finish, wakes_at, ..Commit::default() };
        self.commit_once(&mut state, &mut commit).await?;
        wakes_at.into_iter().for_each(|at| self.context.timers.add(at));
        Ok(())
    }

    /// Returns the text that the run had emitted when it was stopped, and that no message has. Nobody
    /// could read it otherwise: a text that is not final is removed with the end of its run.
    fn stopped_texts(&self, outcome: &RunOutcome, others: &[AiEvent]) -> Vec<AiEvent> {
        match outcome {
            RunOutcome::Cancelled { .. } => self.bus.stopped(others),
            _ => Vec::new(),
        }
    }

    /// Time at which the thread wakes after a run that made no progress.
    async fn still_wakes(&self, open: &[Interrupt]) -> Result<Option<Timestamp>, StoreError> {
        let store = self.context.store.as_ref();
        let at = &self.claim.at;
        match wakes_as_before(store, &self.who, at, open).await {
            // Without the time the thread would never wake.
            Err(error) if !error.is_retriable() => {
                tracing::warn!(%error, run = %at.run, "cannot read when the thread was to wake");
                Ok(None)
            }
            found => found,
        }
    }

    /// Commits, and waits while the store is full or unreachable; the run pauses meanwhile. A run
    /// that is cancelled does not wait.
    async fn commit(&self, state: &mut State, mut commit: Commit) -> Result<(), StoreError> {
        let mut patience = Patience::new();
        let mut cancelled = self.cancel.subscribe();
        loop {
            let Err(error) = self.commit_once(state, &mut commit).await else { return Ok(()) };
            if *cancelled.borrow() {
                return Err(error);
            }
            let waited = {
                let wait = std::pin::pin!(patience.after(
                    error.clone(),
                    self.context.clock.as_ref(),
                    &self.claim.at,
                    Some(&self.bus)
                ));
                let cancelled = std::pin::pin!(cancelled.wait_for(|cancelled| *cancelled));
                match futures_util::future::select(wait, cancelled).await {
                    Either::Left((waited, _)) => waited,
                    Either::Right(_) => Err(error),
                }
            };
            waited?;
            self.bus.tries_again();
        }
    }

    /// Commits the waiting records of calls, the waiting events and then the commit's own events,
    /// which are emitted only once they are on disk. A failed commit can be retried.
    async fn commit_once(&self, state: &mut State, commit: &mut Commit) -> Result<(), StoreError> {
        let mut own = std::mem::take(&mut commit.events);
        let reports = own.iter().any(|event| matches!(event, AiEvent::Checkpoint(_)));
        let with_run = !commit.batch.is_empty() || commit.finish.is_some();
        // Progress as defined by the count of workers that the run ended.
        let further = commit.finish.is_some() || own.iter().any(AiEvent::is_step);
        // A run that ends so with nothing recorded was not begun; a failed one may begin later.
        let fails =
            matches!(commit.finish, Some(RunOutcome::Failed { .. } | RunOutcome::Cancelled { .. }));
        let begins = state.begins.take_if(|_| with_run && !(fails && commit.batch.is_empty()));
        let Waiting { calls, usage, mut sequence_writes, .. } = self.calls.waiting();
        let called = calls.len();
        let billed = usage.len();
        let written = sequence_writes.len();
        sequence_writes.extend(commit.sequence_writes.iter().cloned());
        if let Some(begins) = &begins {
            // The first event of the log; it is emitted at its place in the log.
            own.insert(0, begins.clone());
        }
        let Carried { mut events, void, pieces } = self.bus.begin(&own);
        events.extend(own.iter().cloned());
        let at = self.context.clock.now();
        let whole =
            Commit { calls, usage, sequence_writes, events, void, pieces, at, ..commit.clone() };
        let committed = match self.context.store.commit(&self.who, &self.claim, whole).await {
            Ok(committed) => committed,
            Err(error) => {
                // The next attempt reports the start again, at the first place of the log.
                if begins.is_some() {
                    own.remove(0);
                    state.begins = begins;
                }
                commit.events = own;
                self.bus.failed();
                return Err(error);
            }
        };
        self.started.get_or_init(|| at);
        if billed > 0 {
            self.context.ledger.stored();
        }
        if further {
            // The run got past the place at which its workers died: the next suspect may start.
            self.hold(None);
        }
        // Only what is on disk counts as reported: a failed commit is made again.
        if reports {
            let mut open_steps = self.open_steps();
            own.iter().for_each(|event| open_steps.read(event));
        }
        // By number: calls that arrived during the commit are behind these and wait for the next one.
        self.calls.committed(called, billed, written);
        self.bus.committed(committed.first_seq, at, own);
        if committed.cancel_requested {
            // Another process may have requested it.
            self.cancel.send_replace(true);
        }
        Ok(())
    }
}

impl Claimed for Writer {
    fn show<'a>(&'a self, ns: &'a str) -> Option<BoxFuture<'a, Result<(), StoreError>>> {
        if !self.holds {
            return None;
        }
        Some(Box::pin(async move {
            let mut state = self.state.lock().await;
            let hides = state.held.as_ref().is_some_and(|held| {
                let checkpoints = held.batch.checkpoints.iter().map(|new| &new.ns);
                checkpoints.chain(held.batch.pending.iter().map(|part| &part.ns)).any(|of| of == ns)
            });
            if hides { self.commit_held(&mut state).await } else { Ok(()) }
        }))
    }

    fn commit_batch(
        &self,
        batch: CheckpointBatch,
        report: CheckpointReport,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let reserved = self.lock_reserved().take();
            let mut state = match reserved {
                Some(state) => state,
                None => Arc::clone(&self.state).lock_owned().await,
            };
            let mut own = self.take_resumed();
            own.extend(report.events);
            let messages = report.messages.into_iter();
            own.extend(messages.map(|message| AiEvent::MessageFinal { message }.into_shown()));
            let new = Held::new(batch, own, report.records);
            if self.holds {
                let full = state.hold(new);
                // Calls of a branch are found only if its first checkpoint is stored.
                let commits = report.begins_branch || full && !report.is_last;
                return if commits { self.commit_held(&mut state).await } else { Ok(()) };
            }
            let held = state.held_with(new);
            // The last superstep waits for the end of the run: both are one commit, so that a crash
            // between them cannot leave a thread whose state has ended and whose run has not. A
            // checkpoint that is read back is committed at once.
            if report.is_last && !self.context.rebuilds {
                state.held = Some(held);
                return Ok(());
            }
            self.commit(&mut state, held.into_commit()).await?;
            (state.held, state.held_bytes) = (None, 0);
            Ok(())
        })
    }
}

/// Returns the events that reset tasks whose attempts were cancelled.
fn reset_events(tasks: BTreeSet<AttemptReset>) -> impl Iterator<Item = AiEvent> {
    tasks.into_iter().map(AiEvent::AttemptReset)
}
