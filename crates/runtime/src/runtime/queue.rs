//! Runs that wait for their turn on a thread.
//!
//! Whoever accepted such a run here waits for it with a task, so that it begins as soon as the one
//! before it has ended in this process, and soon after it has in another. When the process is gone
//! meanwhile, those that look for runs nobody has find it once it is due.

use super::{Admitted, Inner, Runtime, stopped};
use futures_util::{FutureExt, StreamExt, stream};
use std::sync::Weak;
use std::time::Duration;
use tokio::sync::oneshot;
use weftwork_graph::RuntimeError;
use weftwork_store::StoreError;
use weftwork_types::event::RunEvent;
use weftwork_types::port::RunHandle;
use weftwork_types::run::{RunOutcome, RunRef};
use weftwork_types::{BoxFuture, BoxStream, Principal, RunId};

/// Interval at which to look for changes by other processes: if a run that is waited for has ended,
/// and if a run in this process is to stop. In machine time.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Stops what other processes asked to stop, as long as the runtime is there. A run learns of it
/// with each of its commits besides; this is for one that waits for a model or a tool.
pub(super) async fn heed(runtime: Weak<Inner>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(inner) = runtime.upgrade() else { return };
        let runtime = Runtime(inner);
        if !runtime.running().is_empty()
            && let Err(error) = runtime.stop_what_should().await
        {
            tracing::warn!(%error, "cannot look for runs that are to stop");
        }
    }
}

impl Runtime {
    /// Asks the runs of a thread that go here to stop; the store has asked them all before.
    pub(super) fn cancel_others(&self, who: &Principal, at: &RunRef) {
        for (id, here) in self.running().iter() {
            if here.org == who.org && here.thread == at.thread && *id != at.run {
                here.cancel.send_replace(true);
            }
        }
    }

    /// A handle for a run that waits for its turn. It waits although nobody holds the handle.
    pub(super) fn wait_for_turn(&self, admitted: Admitted) -> RunHandle {
        let run = admitted.row.new.at.clone();
        let (tell_events, events) = oneshot::channel::<BoxStream<'static, RunEvent>>();
        let (tell_outcome, outcome) = oneshot::channel::<BoxFuture<'static, RunOutcome>>();
        let this = self.clone();
        tokio::spawn(async move {
            if let Some(begun) = this.turn(admitted).await {
                // Nobody may want to hear it.
                drop(tell_events.send(begun.events));
                drop(tell_outcome.send(begun.outcome));
            }
        });
        let events = events.map(|begun| begun.unwrap_or_else(|_| stream::empty().boxed()));
        let outcome = async {
            match outcome.await {
                Ok(begun) => begun.await,
                Err(_) => stopped(),
            }
        };
        RunHandle { run, events: events.flatten_stream().boxed(), outcome: Box::pin(outcome) }
    }

    /// Starts a run once those before it have ended, or follows it when another worker does;
    /// `None` when this process stops, or cannot find out.
    async fn turn(&self, admitted: Admitted) -> Option<RunHandle> {
        let (who, at) = (admitted.who.clone(), admitted.row.new.at.clone());
        let mut ends = self.0.ends.subscribe();
        loop {
            let before = match self.start(admitted.clone()).await {
                Ok(handle) => return Some(handle),
                Err(RuntimeError::Store(StoreError::Busy { run, .. }))
                    if run != at.run.as_str() =>
                {
                    Some(run)
                }
                // Another worker has it, or had it.
                Err(RuntimeError::Store(StoreError::Busy { .. } | StoreError::NotFound { .. })) => {
                    return Some(self.follow(who, at, admitted.graph));
                }
                Err(RuntimeError::Store(error)) if error.is_retriable() => None,
                Err(RuntimeError::Stopping) => return None,
                Err(error) => {
                    tracing::warn!(%error, run = %at.run, "a queued run cannot begin here");
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
                    // Fails only without a sender, and we are one.
                    _ = ends.changed() => {
                        if !before.as_ref().is_some_and(|run| self.goes_here(run)) {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Goes on with a run whose worker is gone: nobody else may, and others wait for it.
    async fn take_before(&self, who: &Principal, at: &RunRef, before: Option<String>) {
        let Some(Ok(run)) = before.map(RunId::new) else { return };
        if self.goes_here(run.as_str()) {
            return;
        }
        let before = RunRef { thread: at.thread.clone(), run };
        match self.take(who, &before, false).await {
            Ok(_) => tracing::info!(run = %before.run, "goes on with a run that others wait for"),
            // It goes elsewhere, or has ended meanwhile.
            Err(error) => tracing::debug!(%error, run = %before.run, "is waited for"),
        }
    }

    /// Stops what goes here and was asked to stop by others.
    async fn stop_what_should(&self) -> Result<(), RuntimeError> {
        for (org, at) in self.store().to_stop(self.worker()).await? {
            let running = self.running();
            if let Some(here) = running.get(&at.run).filter(|here| here.org == org) {
                here.cancel.send_replace(true);
            }
        }
        Ok(())
    }

    fn goes_here(&self, run: &str) -> bool {
        self.running().keys().any(|id| id.as_str() == run)
    }
}
