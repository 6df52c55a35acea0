//! Execution of runs in this process, and the events of runs wherever they are executed.

use super::core::{Admitted, Goes, Here, Runtime};
use super::slots::{Slot, Ticket};
use crate::event_bus::EventBus;
use crate::follow::{Follow, FollowFrom, Follower, RunLog, ThreadEvents};
use crate::hosted::{ClaimEnd, ClaimedRun, LazyOutcome, Live, RunDriver, ready};
use futures_util::FutureExt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use tokio::sync::{OnceCell, oneshot, watch};
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_store::{Claim, RunRow, StoreError, invariants};
use weftwork_types::code::Fault;
use weftwork_types::event::{AiEvent, Position};
use weftwork_types::port::RunHandle;
use weftwork_types::run::{RunOutcome, RunRef};
use weftwork_types::{BoxFuture, OrgId, Principal, RunId, ThreadId};

impl Runtime {
    pub(super) async fn take(
        &self,
        who: &Principal,
        at: &RunRef,
        asked: bool,
    ) -> Result<RunHandle, RuntimeError> {
        let admitted = self.admit(who, at, asked).await?;
        let now = self.0.context.clock.now();
        let row = &admitted.row;
        if !asked && !row.cancel_requested && row.new.options.begins_later(now).is_some() {
            // Nobody executes it, and nobody should.
            return Err(invariants::busy(at).into());
        }
        match self.0.slots.take() {
            Some(slot) => self.start(admitted, slot).await,
            None if admitted.row.status.is_final() => {
                Err(invariants::missing("run", &at.run).into())
            }
            None => Ok(self.wait_for_slot(admitted)),
        }
    }

    /// Reads a run that is to be executed here.
    pub(super) async fn admit(
        &self,
        who: &Principal,
        at: &RunRef,
        asked: bool,
    ) -> Result<Admitted, RuntimeError> {
        let row = self.store().run(who, at).await?;
        let graph = self.graph(&row.new.graph)?;
        Ok(Admitted { who: who.clone(), row, graph, asked, live: None })
    }

    /// Adds a run to those that wait for a slot of this process, and follows it.
    pub(super) fn wait_for_slot(&self, admitted: Admitted) -> RunHandle {
        let Admitted { who, row, graph, asked, live } = admitted;
        let at = row.new.at;
        self.0.slots.wait(Ticket { who: who.clone(), at: at.clone(), asked, live });
        self.follow(who, at, graph)
    }

    /// Registers a run as one of this process. This comes before its claim: a request to cancel
    /// after it must find the run here.
    pub(super) fn register(
        &self,
        org: &OrgId,
        at: &RunRef,
        slot: Arc<Slot>,
    ) -> Result<Registered, RuntimeError> {
        let mut running = self.running();
        // Under this lock: a shutdown waits for all runs that are registered here.
        if self.0.context.shutdown.drains() {
            return Err(RuntimeError::Stopping);
        }
        let new = !running.contains_key(&at.run);
        let here = running.entry(at.run.clone()).or_insert_with(|| Here {
            org: org.clone(),
            thread: at.thread.clone(),
            cancel: watch::channel(false).0,
        });
        let cancel = here.cancel.clone();
        drop(running);
        let run = at.run.clone();
        Ok(Registered { runtime: self.clone(), run, new, cancel, _slot: slot })
    }

    /// Claims a run and executes it.
    pub(super) async fn start(
        &self,
        admitted: Admitted,
        slot: Arc<Slot>,
    ) -> Result<RunHandle, RuntimeError> {
        let Admitted { who, row, graph, asked, live } = admitted;
        let registered = self.register(&who.org, &row.new.at, slot)?;
        let this = self.clone();
        let claim = {
            let (who, at) = (who.clone(), row.new.at.clone());
            async move {
                let now = this.0.context.clock.now();
                let claimed = this.store().claim(&who, &at, this.worker(), now).await;
                claimed.map(|(claim, row)| (row, Some(claim)))
            }
        };
        let (at, followed) = (row.new.at, graph.clone());
        match registered.execute(Requested { who: who.clone(), graph, asked, live }, claim).await? {
            Begun::Here(handle) => Ok(handle),
            Begun::Unclaimed(..) => Ok(self.follow(who, at, followed)),
        }
    }

    /// Starts a run that was just stored, or follows it if another worker has claimed it.
    pub(super) async fn start_or_follow(&self, admitted: Admitted) -> Result<Goes, RuntimeError> {
        let Admitted { who, row, graph, .. } = &admitted;
        let (who, at, graph) = (who.clone(), row.new.at.clone(), graph.clone());
        let Some(slot) = self.0.slots.take() else {
            return Ok(Goes::Elsewhere(self.wait_for_slot(admitted)));
        };
        match self.start(admitted, slot).await {
            // Another worker found the run without a worker and took it over: it executes the run.
            Err(RuntimeError::Store(StoreError::Busy { .. } | StoreError::NotFound { .. })) => {
                Ok(Goes::Elsewhere(self.follow(who, at, graph)))
            }
            started => started.map(Goes::Here),
        }
    }

    /// Watches a run from a position: an active run of this process or of another one, or a run
    /// that has ended. Each event after the position is delivered exactly once, including text that
    /// is not final. A client that reconnects continues from the
    /// [`position`](weftwork_types::event::RunEvent::position) of the last event it received.
    ///
    /// Text of runs in this process is delivered at once, also if the run begins here later or is
    /// taken over. Text of other processes is delivered when it is stored, at most a quarter of a
    /// second after it was emitted; the store is read ten times a second, and twice a second as
    /// long as there is nothing new. A watcher that has not received 64 KiB of events of this
    /// process continues from the store until it has caught up; the run never waits for it. If a
    /// message is final, only its final text is delivered. At most one MiB of text since the last
    /// superstep is stored; text beyond it reaches only watchers in the process of the run.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` if the run does not exist,
    /// [`RuntimeError::UnknownGraph`].
    pub async fn watch(
        &self,
        who: &Principal,
        at: &RunRef,
        after: Position,
    ) -> Result<RunHandle, RuntimeError> {
        let row = self.store().run(who, at).await?;
        let graph = self.graph(&row.new.graph)?;
        let handle = Follow { log: self.log(who.clone(), at.clone()), graph }.handle(after);
        Ok(self.until_closed(handle))
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

    /// Follows all runs of a thread; see [`Thread::follow`](crate::Thread::follow). Their graphs
    /// need not be hosted here.
    #[must_use]
    pub fn follow_thread(
        &self,
        who: &Principal,
        thread: &ThreadId,
        from: FollowFrom,
    ) -> ThreadEvents {
        let context = Arc::clone(&self.0.context);
        ThreadEvents::new(context, who.clone(), thread.clone(), from)
    }

    /// Returns a handle for a run that another process executes, or that was accepted before.
    pub(super) fn follow(&self, who: Principal, at: RunRef, graph: CompiledGraph) -> RunHandle {
        let handle = Follow { log: self.log(who, at), graph }.handle(Position::START);
        self.until_closed(handle)
    }

    fn log(&self, who: Principal, at: RunRef) -> RunLog {
        RunLog { context: Arc::clone(&self.0.context), who, at }
    }
}

/// The registration of a run with this process, and its slot. Dropping it ends both.
pub(super) struct Registered {
    runtime: Runtime,
    run: RunId,
    /// `false` if this process executes the run already.
    new: bool,
    cancel: watch::Sender<bool>,
    _slot: Arc<Slot>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.new {
            self.runtime.running().remove(&self.run);
        }
    }
}

/// A run as it is requested of this process.
pub(super) struct Requested {
    pub(super) who: Principal,
    pub(super) graph: CompiledGraph,
    pub(super) asked: bool,
    pub(super) live: Option<Live>,
}

/// A registered run after its claim was tried.
pub(super) enum Begun {
    /// It is executed in a task of its own.
    Here(RunHandle),
    /// There was nothing to claim.
    Unclaimed(Box<RunRow>, Option<Live>),
}

impl Registered {
    /// Claims the run by a write to the store, and executes it, in a task of its own: a run that was
    /// claimed is executed even if the caller is cancelled.
    pub(super) async fn execute<C>(
        self,
        requested: Requested,
        claim: C,
    ) -> Result<Begun, RuntimeError>
    where
        C: Future<Output = Result<(RunRow, Option<Claim>), StoreError>> + Send + 'static,
    {
        let (tell, begun) = oneshot::channel();
        let task = tokio::spawn(async move {
            // The caller may be gone.
            let tell = |begun| drop(tell.send(begun));
            // Futures that are needed for a short time only, or rarely, are no part of the task, whose
            // memory is held as long as the run is executed.
            match Box::pin(claim).await {
                Ok((row, Some(claim))) => {
                    let (run, handle, outcome) = self.claimed(requested, claim, row);
                    tell(Ok(Begun::Here(handle)));
                    self.drive(run, outcome).await;
                }
                unclaimed => {
                    drop(self);
                    let unclaimed =
                        unclaimed.map(|(row, _)| Begun::Unclaimed(Box::new(row), requested.live));
                    tell(unclaimed.map_err(RuntimeError::from));
                }
            }
        });
        match begun.await {
            Ok(begun) => begun,
            // The task ended before the claim: the store panicked, or the process stops.
            Err(_) => match task.await {
                Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                _ => Err(RuntimeError::Stopping),
            },
        }
    }

    /// Connects a claimed run to those that follow it here.
    fn claimed(
        &self,
        requested: Requested,
        claim: Claim,
        row: RunRow,
    ) -> (Box<RunDriver>, RunHandle, oneshot::Sender<LazyOutcome>) {
        let Requested { who, graph, asked, live } = requested;
        if row.cancel_requested {
            self.cancel.send_replace(true);
        }
        let context = Arc::clone(&self.runtime.0.context);
        let at = claim.at.clone();
        let bus = Arc::new(EventBus::new(Arc::clone(&context.clock), claim.fence));
        let log = self.runtime.log(who.clone(), at.clone());
        let events = Follower::of_claim(log, Arc::clone(&bus), claim.fence);
        context.live.begin(&who.org, &at, &bus);
        let (ended, outcome) = oneshot::channel();
        let run = ClaimedRun { context, who, claim, row, bus, cancel: self.cancel.clone() };
        let (scope, retries) = (OnceCell::new(), AtomicU32::new(0));
        let run = Box::new(RunDriver { run, graph, asked, live, scope, retries });
        let handle = RunHandle { run: at, events: events.events(), outcome: final_of(outcome) };
        (run, handle, ended)
    }

    /// Executes a claimed run until this process is done with it.
    async fn drive(self, run: Box<RunDriver>, ended: oneshot::Sender<LazyOutcome>) {
        let claimed = &run.run;
        let id = claimed.claim.at.run.clone();
        let (who, at) = (claimed.who.clone(), claimed.claim.at.clone());
        let runtime = self.runtime.clone();
        let follow = Follow { log: runtime.log(who, at), graph: run.graph.clone() };
        let bus = Arc::clone(&claimed.bus);
        let became = run.drive().await;
        drop(self);
        runtime.0.context.live.end(&follow.log.who.org, &id, &bus);
        runtime.0.ends.send_modify(|ends| *ends += 1);
        // There may be no receiver any more.
        let tell = |outcome: LazyOutcome| drop(ended.send(outcome));
        match became {
            ClaimEnd::Recorded(outcome) => tell(outcome),
            ClaimEnd::Unrecorded(unrecorded) => {
                tell(ready(unrecorded.outcome.clone()));
                Box::pin(unrecorded.record()).await;
            }
            // Remaining watchers learn that the run continues elsewhere.
            ClaimEnd::Released => bus.end(),
            ClaimEnd::Lost => {
                let outcome = Box::pin(follow.end()).await;
                bus.give_up(AiEvent::Done { outcome: outcome.status() });
                tell(ready(outcome));
            }
        }
    }
}

/// Returns the outcome of a run; its output is converted to JSON only when the future is polled.
fn final_of(outcome: oneshot::Receiver<LazyOutcome>) -> BoxFuture<'static, RunOutcome> {
    Box::pin(outcome.map(|ended| ended.map_or_else(|_| stopped(), |outcome| outcome())))
}

/// Returns the outcome reported for a run that ends in another process.
pub(super) fn stopped() -> RunOutcome {
    RunOutcome::Failed {
        fault: Fault::new(
            weftwork_graph::NODE_FAILED,
            "the process stopped before the run ended; another worker goes on with it, or it goes on when the thread is resumed",
        )
        .retriable(true),
    }
}
