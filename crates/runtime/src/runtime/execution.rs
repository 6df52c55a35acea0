//! Execution of runs in this process, and the events of runs wherever they are executed.

use super::core::{Admitted, Goes, Here, Runtime};
use super::slots::{Slot, Ticket};
use crate::event_bus::EventBus;
use crate::follow::{Follow, FollowFrom, Follower, RunLog, ThreadEvents};
use crate::hosted::{ClaimEnd, ClaimedRun, LazyOutcome, RunDriver, ready};
use futures_util::FutureExt;
use std::sync::Arc;
use tokio::sync::{OnceCell, oneshot, watch};
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_store::{StoreError, invariants};
use weftwork_types::code::Fault;
use weftwork_types::event::{AiEvent, Position};
use weftwork_types::port::RunHandle;
use weftwork_types::run::{RunOutcome, RunRef};
use weftwork_types::{BoxFuture, Principal, ThreadId};

impl Runtime {
    pub(super) async fn take(
        &self,
        who: &Principal,
        at: &RunRef,
        asked: bool,
    ) -> Result<RunHandle, RuntimeError> {
        let admitted = self.admit(who, at, asked).await?;
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
        let graph = self.graph(&row.new.graph)?.clone();
        Ok(Admitted { who: who.clone(), row, graph, asked, live: None })
    }

    /// Adds a run to those that wait for a slot of this process, and follows it.
    pub(super) fn wait_for_slot(&self, admitted: Admitted) -> RunHandle {
        let Admitted { who, row, graph, asked, live } = admitted;
        let at = row.new.at;
        self.0.slots.wait(Ticket { who: who.clone(), at: at.clone(), asked, live });
        self.follow(who, at, graph)
    }

    /// Claims a run and executes it.
    pub(super) async fn start(
        &self,
        admitted: Admitted,
        slot: Arc<Slot>,
    ) -> Result<RunHandle, RuntimeError> {
        let Admitted { who, row, graph, asked, live } = admitted;
        let context = Arc::clone(&self.0.context);
        let worker = self.0.heartbeat.id();
        let at = row.new.at;
        // Before the claim: a request to cancel after it must find the run here.
        let (cancel, new) = {
            let mut running = self.running();
            // Under this lock: a shutdown waits for all runs that are registered here.
            if context.shutdown.drains() {
                return Err(RuntimeError::Stopping);
            }
            let new = !running.contains_key(&at.run);
            let here = running.entry(at.run.clone()).or_insert_with(|| Here {
                org: who.org.clone(),
                thread: at.thread.clone(),
                cancel: watch::channel(false).0,
            });
            (here.cancel.clone(), new)
        };
        let claimed = context.store.claim(&who, &at, worker, context.clock.now()).await;
        let (claim, row) = claimed.inspect_err(|_| {
            if new {
                self.running().remove(&at.run);
            }
        })?;
        if row.cancel_requested {
            cancel.send_replace(true);
        }
        let bus = Arc::new(EventBus::new(Arc::clone(&context.clock), claim.fence));
        let log = self.log(who.clone(), at.clone());
        let events = Follower::of_claim(log, Arc::clone(&bus), claim.fence);
        context.live.begin(&who.org, &at, &bus);
        let (ended, outcome) = oneshot::channel();
        let run = ClaimedRun { context, who, claim, row, bus, cancel };
        let run = RunDriver { run, graph, asked, live, scope: OnceCell::new() };
        let this = self.clone();
        tokio::spawn(async move {
            let claimed = &run.run;
            let id = claimed.claim.at.run.clone();
            let (who, at) = (claimed.who.clone(), claimed.claim.at.clone());
            let follow = Follow { log: this.log(who, at), graph: run.graph.clone() };
            let bus = Arc::clone(&claimed.bus);
            let became = run.drive().await;
            this.running().remove(&id);
            drop(slot);
            this.0.context.live.end(&follow.log.who.org, &id, &bus);
            this.0.ends.send_modify(|ends| *ends += 1);
            // There may be no receiver any more.
            let tell = |outcome: LazyOutcome| drop(ended.send(outcome));
            match became {
                ClaimEnd::Recorded(outcome) => tell(outcome),
                ClaimEnd::Unrecorded(unrecorded) => {
                    tell(ready(unrecorded.outcome.clone()));
                    unrecorded.record().await;
                }
                // Remaining watchers learn that the run continues elsewhere.
                ClaimEnd::Released => bus.end(),
                ClaimEnd::Lost => {
                    let outcome = follow.end().await;
                    bus.give_up(AiEvent::Done { outcome: outcome.status() });
                    tell(ready(outcome));
                }
            }
        });
        Ok(RunHandle { run: at, events: events.events(), outcome: final_of(outcome) })
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
        let graph = self.graph(&row.new.graph)?.clone();
        let handle = Follow { log: self.log(who.clone(), at.clone()), graph }.handle(after);
        Ok(self.until_closed(handle))
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
