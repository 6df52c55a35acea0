//! Execution of runs in this process, and the events of runs wherever they are executed.

use super::core::{LocalRun, Runtime};
use super::slots::Slot;
use super::started::StartedRun;
use crate::follow::{Follow, Follower, RunLog};
use crate::hosted::{AcceptedRun, ClaimEnd, ClaimedRun, LazyOutcome, Requester, ready_outcome};
use crate::patience::Patience;
use futures_util::FutureExt;
use std::panic::resume_unwind;
use std::sync::Arc;
use tokio::sync::{oneshot, watch};
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_store::{Claim, RunRow, StoreError, invariants};
use weftwork_types::code::Fault;
use weftwork_types::event::{AiEvent, Position, RunEvent};
use weftwork_types::port::RunHandle;
use weftwork_types::run::{RunOutcome, RunRef, RunStatus};
use weftwork_types::{BoxFuture, BoxStream, OrgId, Principal, RunId};

impl Runtime {
    /// Claims a run that no worker has and executes it, or lets it wait for a slot.
    pub(super) async fn take(
        &self,
        who: &Principal,
        at: &RunRef,
        requester: Requester,
    ) -> Result<RunHandle, RuntimeError> {
        let row = self.store().run(who, at).await?;
        let graph = self.graph(who, &row.new.graph)?;
        let now = self.0.context.clock.now();
        let begins_later = row.new.options.begins_later(now).is_some();
        if requester == Requester::Recovery && !row.cancel_requested && begins_later {
            // Nobody executes it, and nobody should.
            return Err(invariants::busy(at).into());
        }
        let is_final = row.status.is_final();
        let run = AcceptedRun {
            who: who.clone(),
            at: row.new.at,
            graph,
            requester,
            receiver: None,
            made: None,
        };
        match self.0.slots.take() {
            Some(slot) => self.start(run, slot).await,
            None if is_final => Err(invariants::missing("run", &at.run).into()),
            None => Ok(self.wait_for_slot(run)),
        }
    }

    /// Adds a run to those that wait for a slot of this process, and follows it.
    pub(super) fn wait_for_slot(&self, run: AcceptedRun) -> RunHandle {
        let handle = self.handle_of(run.who.clone(), run.at.clone(), run.graph.clone());
        self.0.slots.wait(run);
        handle
    }

    /// Registers a run as one of this process. This comes before its claim: a request to cancel
    /// after it must find the run here.
    pub(super) fn register(
        &self,
        org: &OrgId,
        at: &RunRef,
        slot: Arc<Slot>,
    ) -> Result<Registration, RuntimeError> {
        let mut running = self.running();
        // Under this lock: a shutdown waits for all runs that are registered here.
        if self.0.context.shutdown.drains() {
            return Err(RuntimeError::Stopping);
        }
        let is_new = !running.contains_key(&at.run);
        let local = running.entry(at.run.clone()).or_insert_with(|| LocalRun {
            org: org.clone(),
            thread: at.thread.clone(),
            cancel: watch::channel(false).0,
        });
        let cancel = local.cancel.clone();
        drop(running);
        let run = at.run.clone();
        Ok(Registration { runtime: self.clone(), run, is_new, cancel, _slot: slot })
    }

    /// Claims a run and executes it. One that was found without a worker stays for another process if
    /// its dependencies cannot be made here, as one whose graph is not hosted here.
    pub(super) async fn start(
        &self,
        mut run: AcceptedRun,
        slot: Arc<Slot>,
    ) -> Result<RunHandle, RuntimeError> {
        if run.requester == Requester::Recovery && !self.0.context.dependencies.is_empty() {
            let row = self.store().run(&run.who, &run.at).await?;
            if !row.cancel_requested && !row.status.is_final() {
                let made = self.0.context.make_dependencies(&run.who, &row.new).await?;
                run.made = Some(made);
            }
        }
        let registration = self.register(&run.who.org, &run.at, slot)?;
        let this = self.clone();
        let who = run.who.clone();
        let at = run.at.clone();
        let claim = async move {
            let now = this.0.context.clock.now();
            let (claim, row) = this.store().claim(&who, &at, this.worker(), now).await?;
            Ok((row, Some(claim)))
        };
        match registration.execute(run, claim).await? {
            ClaimAttempt::Claimed(handle) => Ok(handle),
            ClaimAttempt::Unclaimed(unclaimed) => {
                let AcceptedRun { who, at, graph, .. } = unclaimed.run;
                Ok(self.handle_of(who, at, graph))
            }
        }
    }

    /// Starts a run that was just stored, or follows it if another worker has claimed it.
    pub(super) async fn start_or_follow(
        &self,
        run: AcceptedRun,
    ) -> Result<RunHandle, RuntimeError> {
        let Some(slot) = self.0.slots.take() else { return Ok(self.wait_for_slot(run)) };
        match self.start(run.clone(), slot).await {
            // Another worker found the run without a worker and took it over: it executes the run.
            Err(RuntimeError::Store(StoreError::Busy { .. } | StoreError::NotFound { .. })) => {
                Ok(self.handle_of(run.who, run.at, run.graph))
            }
            started => started,
        }
    }

    /// Returns a run: its output, as [`follow`](Self::follow) delivers it, and its end. The run may be
    /// active, in this process or another one, or may have ended.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` if the run does not exist,
    /// [`RuntimeError::UnknownGraph`].
    pub async fn follow_run(
        &self,
        who: &Principal,
        at: &RunRef,
    ) -> Result<StartedRun, RuntimeError> {
        let row = self.store().run(who, at).await?;
        let graph = self.graph(who, &row.new.graph)?;
        let handle = self.handle_of(who.clone(), at.clone(), graph.clone());
        Ok(StartedRun::new(self.clone(), who.clone(), graph, handle))
    }

    /// Returns the events of a run after a position as its log has them. Each is delivered exactly
    /// once, including text that is not final.
    pub(super) async fn events_after(
        &self,
        who: &Principal,
        at: &RunRef,
        after: Position,
    ) -> Result<BoxStream<'static, RunEvent>, RuntimeError> {
        let row = self.store().run(who, at).await?;
        let graph = self.graph(who, &row.new.graph)?;
        Ok(self.handle_after(who.clone(), at.clone(), graph, after).events)
    }

    /// Waits for the end of a run, in whichever process it is executed, and returns its outcome as
    /// stored, without output. Its graph need not be hosted here.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` if the run does not exist.
    ///
    /// # Cancel safety
    /// The run is not affected.
    pub async fn ended(&self, who: &Principal, at: &RunRef) -> Result<RunOutcome, RuntimeError> {
        Ok(self.log(who.clone(), at.clone()).ended().await?.0)
    }

    /// Returns a handle for a run that another process executes, or that was accepted before.
    pub(super) fn handle_of(&self, who: Principal, at: RunRef, graph: CompiledGraph) -> RunHandle {
        self.handle_after(who, at, graph, Position::START)
    }

    /// Returns a handle to the events of a run after a position, and to its outcome.
    pub(crate) fn handle_after(
        &self,
        who: Principal,
        at: RunRef,
        graph: CompiledGraph,
        after: Position,
    ) -> RunHandle {
        let handle = Follow { log: self.log(who.clone(), at), graph }.handle(after);
        self.until_closed(&who, handle)
    }

    pub(super) fn log(&self, who: Principal, at: RunRef) -> RunLog {
        RunLog { context: Arc::clone(&self.0.context), who, at }
    }
}

/// The registration of a run with this process, and its slot. Dropping it ends both.
pub(super) struct Registration {
    runtime: Runtime,
    run: RunId,
    /// `false` if this process executes the run already.
    is_new: bool,
    cancel: watch::Sender<bool>,
    _slot: Arc<Slot>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.is_new {
            self.runtime.running().remove(&self.run);
        }
    }
}

/// Result of an attempt to claim a registered run.
pub(super) enum ClaimAttempt {
    /// The run is executed in a task of its own.
    Claimed(RunHandle),
    /// There was nothing to claim.
    Unclaimed(Box<UnclaimedRun>),
}

/// A run that waits, or that of an earlier request, which `row` then is.
pub(super) struct UnclaimedRun {
    pub(super) run: AcceptedRun,
    pub(super) row: RunRow,
}

/// A claim of this process that the store has, with its run.
type FoundClaim = Result<Option<(RunRow, Claim)>, StoreError>;

/// A claimed run with its ends: the driver's, and the one of those that follow it here.
struct ConnectedRun {
    run: Box<ClaimedRun>,
    handle: RunHandle,
    outcome: oneshot::Sender<LazyOutcome>,
}

impl Registration {
    /// Claims the run by a write to the store, and executes it, in a task of its own: a run that was
    /// claimed is executed even if the caller is cancelled.
    pub(super) async fn execute<C>(
        self,
        run: AcceptedRun,
        claim: C,
    ) -> Result<ClaimAttempt, RuntimeError>
    where
        C: Future<Output = Result<(RunRow, Option<Claim>), StoreError>> + Send + 'static,
    {
        let (sender, attempt) = oneshot::channel();
        let task = tokio::spawn(async move {
            // Fails only if the caller is gone.
            let report = |attempt| drop(sender.send(attempt));
            // Futures that are needed for a short time only, or rarely, are no part of the task, whose
            // memory is held as long as the run is executed.
            let (row, claim) = match Box::pin(claim).await {
                Ok((row, Some(claim))) => (row, claim),
                Ok((row, None)) => {
                    // Before the report: the run may begin here at once.
                    drop(self);
                    return report(Ok(ClaimAttempt::Unclaimed(Box::new(UnclaimedRun {
                        run,
                        row,
                    }))));
                }
                // The store may have stored the claim, and only its answer was lost. The heartbeat of
                // this process would keep such a claim for ever, and nobody would execute the run.
                Err(error @ StoreError::Unavailable { .. }) => {
                    match Box::pin(self.find_claim(&run)).await {
                        Ok(Some(found)) => found,
                        found => {
                            report(Err(RuntimeError::from(error)));
                            return Box::pin(self.release_claim(run, found)).await;
                        }
                    }
                }
                Err(error) => {
                    drop(self);
                    return report(Err(RuntimeError::from(error)));
                }
            };
            let ConnectedRun { run, handle, outcome } = self.connect_run(run, claim, row);
            let runtime = self.runtime.clone();
            let log = runtime.log(run.who.clone(), handle.run.clone());
            let follow = Follow { log, graph: run.graph.clone() };
            let bus = Arc::clone(&run.bus);
            report(Ok(ClaimAttempt::Claimed(handle)));
            let end = run.drive().await;
            // The slot is free before anyone learns of the end.
            drop(self);
            runtime.0.context.live.end(&follow.log.who.org, &follow.log.at.run, &bus);
            runtime.0.ends.send_modify(|ends| *ends += 1);
            // Fails only if nobody waits for the outcome.
            let report = |ended: LazyOutcome| drop(outcome.send(ended));
            let observe = || {
                if let Some(observer) = &runtime.0.context.observer {
                    observer.ended(&follow.log.who, &follow.log.at);
                }
            };
            match end {
                ClaimEnd::Recorded(outcome) => {
                    observe();
                    report(outcome);
                }
                ClaimEnd::Unrecorded(unrecorded) => {
                    report(ready_outcome(unrecorded.outcome.clone()));
                    Box::pin(unrecorded.record()).await;
                    observe();
                }
                // Remaining watchers learn that the run continues elsewhere.
                ClaimEnd::Released => bus.end(),
                ClaimEnd::Lost => {
                    let outcome = Box::pin(follow.end()).await;
                    bus.give_up(AiEvent::Done { outcome: outcome.status() });
                    report(ready_outcome(outcome));
                }
            }
        });
        match attempt.await {
            Ok(attempt) => attempt,
            // The task ended before the claim: the store panicked, or the process stops.
            Err(_) => match task.await {
                Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                _ => Err(RuntimeError::Stopping),
            },
        }
    }

    /// Reads from the store whether this process has claimed the run, without executing it.
    async fn find_claim(&self, run: &AcceptedRun) -> FoundClaim {
        if !self.is_new {
            // The claim is that of its execution here.
            return Ok(None);
        }
        let row = match self.runtime.store().run(&run.who, &run.at).await {
            Ok(row) => row,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let worker = self.runtime.worker().clone();
        let is_claimed = row.status == RunStatus::Running && row.worker.as_ref() == Some(&worker);
        let claim = Claim { at: row.new.at.clone(), worker, fence: row.fence };
        Ok(is_claimed.then_some((row, claim)))
    }

    /// Waits until the store can be read again, and releases the claim that it has for this process:
    /// the run is then one without a worker, which any worker takes over.
    async fn release_claim(self, run: AcceptedRun, mut found: FoundClaim) {
        let clock = Arc::clone(&self.runtime.0.context.clock);
        let mut patience = Patience::new();
        loop {
            let released = match found {
                Ok(None) => return,
                Ok(Some((_, claim))) => {
                    self.runtime.store().release(&run.who, &claim, clock.now()).await
                }
                Err(unread) => Err(unread),
            };
            let error = match released {
                Ok(_) => return,
                Err(error) => error,
            };
            if let Err(error) = patience.after(error, &*clock, &run.at, None).await {
                let message = "it is unknown whether this process holds a claim of the run";
                tracing::warn!(%error, run = %run.at.run, message);
                return;
            }
            found = self.find_claim(&run).await;
        }
    }

    /// Connects a claimed run to those that follow it here.
    fn connect_run(&self, run: AcceptedRun, claim: Claim, row: RunRow) -> ConnectedRun {
        if row.cancel_requested {
            self.cancel.send_replace(true);
        }
        let context = Arc::clone(&self.runtime.0.context);
        let run = ClaimedRun::new(run, context, claim, row, self.cancel.clone());
        let at = run.claim.at.clone();
        let log = self.runtime.log(run.who.clone(), at.clone());
        let events = Follower::of_claim(log, Arc::clone(&run.bus), run.claim.fence);
        run.context.live.begin(&run.who.org, &at, &run.bus);
        let (sender, outcome) = oneshot::channel();
        let handle =
            RunHandle { run: at, events: events.events(), outcome: receive_outcome(outcome) };
        ConnectedRun { run: Box::new(run), handle, outcome: sender }
    }
}

/// Returns the outcome of a run; its output is converted to JSON only when the future is polled.
fn receive_outcome(outcome: oneshot::Receiver<LazyOutcome>) -> BoxFuture<'static, RunOutcome> {
    Box::pin(
        outcome.map(|ended| ended.map_or_else(|_| stopped_outcome(), LazyOutcome::into_outcome)),
    )
}

/// Returns the outcome reported for a run that ends in another process.
pub(super) fn stopped_outcome() -> RunOutcome {
    RunOutcome::Failed {
        fault: Fault::new(
            weftwork_graph::NODE_FAILED,
            "the process stopped before the run ended; another worker goes on with it, or it goes on when the thread is resumed",
        )
        .retriable(true),
    }
}
