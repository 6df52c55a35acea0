//! Queued runs, which wait for the earlier runs of their thread.
//!
//! The process that accepted such a run waits for it in a task, so that the run starts as soon as
//! the one before it has ended in this process, and soon after it has ended in another. If the
//! process dies, the run is found by recovery once it is due.

use super::core::{Inner, Runtime};
use super::execution::stopped_outcome;
use super::slots::{Load, Slot};
use crate::hosted::{AcceptedRun, Requester};
use futures_util::{FutureExt, StreamExt, stream};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::oneshot;
use weftwork_graph::RuntimeError;
use weftwork_store::{StoreError, invariants};
use weftwork_types::event::RunEvent;
use weftwork_types::port::RunHandle;
use weftwork_types::run::{RunOutcome, RunRef, RunStatus};
use weftwork_types::{BoxFuture, BoxStream, Principal, RunId, Timestamp};

/// Interval of checks for changes by other processes: the end of a run that others wait for, and
/// requests to cancel runs of this process. In machine time.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Cancels runs on the request of other processes, as long as the runtime exists. A run also sees
/// such a request with each of its commits; this is for runs that wait for a model or a tool.
pub(super) async fn cancel_requested_runs(runtime: Weak<Inner>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(inner) = runtime.upgrade() else { return };
        let runtime = Runtime(inner);
        if !runtime.running().is_empty()
            && let Err(error) = runtime.cancel_on_request().await
        {
            tracing::warn!(%error, "cannot look for runs that are to stop");
        }
    }
}

/// Begins the runs that wait for a slot, as long as the runtime exists.
pub(super) async fn begin_waiting_runs(runtime: Weak<Inner>) {
    while let Some(inner) = runtime.upgrade() {
        let slots = Arc::clone(&inner.slots);
        if inner.context.shutdown.drains() {
            return;
        }
        let runtime = Runtime(inner);
        while let Some((slot, run)) = slots.next() {
            let runtime = runtime.clone();
            tokio::spawn(async move { runtime.begin_waiting_run(run, slot).await });
        }
        drop(runtime);
        slots.changed().await;
    }
}

impl Runtime {
    /// Begins a run that waited for a slot. A store that cannot be read now is asked again.
    async fn begin_waiting_run(&self, run: AcceptedRun, slot: Arc<Slot>) {
        let id = run.at.run.clone();
        loop {
            match self.start(run.clone(), Arc::clone(&slot)).await {
                // Dropping the handle does not end the run.
                Ok(_) => return,
                // Another worker has it, or it has ended.
                Err(RuntimeError::Store(StoreError::Busy { .. } | StoreError::NotFound { .. })) => {
                    return;
                }
                Err(RuntimeError::Store(error)) if error.is_retriable() => {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                Err(RuntimeError::Stopping) => return,
                Err(error) => {
                    let error = error.log_text();
                    tracing::warn!(error, run = %id, "a waiting run cannot begin here");
                    return;
                }
            }
        }
    }

    /// Cancels the runs of a thread in this process. The store has recorded the request for all
    /// runs.
    pub(super) fn cancel_others(&self, who: &Principal, at: &RunRef) {
        for (id, local) in self.running().iter() {
            if local.org == who.org && local.thread == at.thread && *id != at.run {
                local.cancel.send_replace(true);
            }
        }
    }

    /// Begins a run at its time, as long as this process lives, and follows it. Recovery finds a run
    /// whose time has come without one.
    pub(super) fn wait_for_time(
        &self,
        run: AcceptedRun,
        status: RunStatus,
        begins: Timestamp,
    ) -> RunHandle {
        let handle = self.handle_of(run.who.clone(), run.at.clone(), run.graph.clone());
        let clock = Arc::clone(&self.0.context.clock);
        let inner = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            let wait = begins.0.saturating_sub(clock.now().0);
            clock.sleep(Duration::from_millis(u64::try_from(wait).unwrap_or(0))).await;
            let Some(inner) = inner.upgrade() else { return };
            let runtime = Runtime(inner);
            if status == RunStatus::Queued {
                // Dropping the handle does not end the run.
                drop(runtime.wait_for_turn(run));
                return;
            }
            match runtime.0.slots.take() {
                Some(slot) => runtime.begin_waiting_run(run, slot).await,
                None => runtime.0.slots.wait(run),
            }
        });
        handle
    }

    /// Returns the number of runs that this process executes, and of those that wait.
    #[must_use]
    pub fn load(&self) -> Load {
        self.0.slots.load()
    }

    /// Returns a handle for a queued run, which waits even if the handle is dropped.
    pub(super) fn wait_for_turn(&self, run: AcceptedRun) -> RunHandle {
        let at = run.at.clone();
        let (events_sender, events) = oneshot::channel::<BoxStream<'static, RunEvent>>();
        let (outcome_sender, outcome) = oneshot::channel::<BoxFuture<'static, RunOutcome>>();
        let this = self.clone();
        tokio::spawn(async move {
            if let Some(begun) = this.begin_in_turn(run).await {
                // The handle may have been dropped.
                drop(events_sender.send(begun.events));
                drop(outcome_sender.send(begun.outcome));
            }
        });
        let events = events.map(|begun| begun.unwrap_or_else(|_| stream::empty().boxed()));
        let outcome = async {
            match outcome.await {
                Ok(begun) => begun.await,
                Err(_) => stopped_outcome(),
            }
        };
        RunHandle { run: at, events: events.flatten_stream().boxed(), outcome: Box::pin(outcome) }
    }

    /// Starts a run once those before it have ended, or follows it when another worker does;
    /// `None` when this process stops, or cannot find out.
    async fn begin_in_turn(&self, run: AcceptedRun) -> Option<RunHandle> {
        let who = run.who.clone();
        let at = run.at.clone();
        let mut ends = self.0.ends.subscribe();
        loop {
            let started = match self.0.slots.take() {
                Some(slot) => self.start(run.clone(), slot).await,
                None => match self.first_unfinished(&who, &at).await {
                    Ok(first) if first == at => return Some(self.wait_for_slot(run)),
                    Ok(first) => Err(invariants::busy(&first).into()),
                    Err(error) => Err(error.into()),
                },
            };
            let before = match started {
                Ok(handle) => return Some(handle),
                Err(RuntimeError::Store(StoreError::Busy { run: other, .. }))
                    if other != at.run.as_str() =>
                {
                    Some(other)
                }
                // Another worker has it, or had it.
                Err(RuntimeError::Store(StoreError::Busy { .. } | StoreError::NotFound { .. })) => {
                    return Some(self.handle_of(who, at, run.graph));
                }
                Err(RuntimeError::Store(error)) if error.is_retriable() => None,
                Err(RuntimeError::Stopping) => return None,
                Err(error) => {
                    let error = error.log_text();
                    tracing::warn!(error, run = %at.run, "a queued run cannot begin here");
                    return None;
                }
            };
            let mut look = std::pin::pin!(tokio::time::sleep(LOOK_EVERY));
            loop {
                tokio::select! {
                    () = &mut look => {
                        self.take_before(&who, &at, before).await;
                        break;
                    }
                    // Fails only without a sender, and this runtime has one.
                    _ = ends.changed() => {
                        if !before.as_ref().is_some_and(|run| self.executes_run(run)) {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Returns the run of a thread that the others wait for, given one of them.
    async fn first_unfinished(&self, who: &Principal, at: &RunRef) -> Result<RunRef, StoreError> {
        let runs = self.store().runs(who, &at.thread).await?;
        let first = runs.into_iter().find(|run| !run.status.is_final());
        first.map(|run| run.new.at).ok_or_else(|| invariants::missing("run", &at.run))
    }

    /// Takes over a run whose worker is dead, because others wait for it.
    async fn take_before(&self, who: &Principal, at: &RunRef, before: Option<String>) {
        let Some(Ok(run)) = before.map(RunId::new) else { return };
        if self.executes_run(run.as_str()) {
            return;
        }
        let before = RunRef { thread: at.thread.clone(), run };
        match self.take(who, &before, Requester::Recovery).await {
            Ok(_) => tracing::info!(run = %before.run, "goes on with a run that others wait for"),
            // The run is executed elsewhere, or has ended meanwhile.
            Err(error) => tracing::debug!(%error, run = %before.run, "is waited for"),
        }
    }

    /// Cancels the runs of this process that other processes requested to cancel.
    async fn cancel_on_request(&self) -> Result<(), RuntimeError> {
        for (org, at) in self.store().to_stop(self.worker()).await? {
            let running = self.running();
            if let Some(local) = running.get(&at.run).filter(|local| local.org == org) {
                local.cancel.send_replace(true);
            }
        }
        Ok(())
    }

    fn executes_run(&self, run: &str) -> bool {
        self.running().keys().any(|id| id.as_str() == run)
    }
}
