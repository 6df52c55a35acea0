//! Following a run that somebody else drives, by what the store has of it.

use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use crate::exec::At;
use crate::hosted::Host;
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use weftwork_store::StoreError;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::port::RunHandle;
use weftwork_types::run::{RunFinal, RunRef, RunStatus};
use weftwork_types::{BoxStream, Principal};

/// How long to wait before looking again.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The most events read at once.
const EVENTS_MAX: usize = 256;

/// Looks into the store for a run's events and end. Pieces of text are not in the store.
#[derive(Debug, Clone)]
pub(crate) struct Follow {
    pub(crate) host: Arc<Host>,
    pub(crate) graph: CompiledGraph,
    pub(crate) who: Principal,
    pub(crate) at: RunRef,
}

impl Follow {
    pub(crate) fn handle(self) -> RunHandle {
        let run = self.at.clone();
        let events = self.clone().events();
        let outcome = Box::pin(async move { self.end().await });
        RunHandle { run, events, outcome }
    }

    /// Waits for the run's end.
    pub(crate) async fn end(&self) -> RunFinal {
        let ended = self.outcome().await;
        ended.unwrap_or_else(|error| RunFinal::Failed { fault: error.fault() })
    }

    fn events(self) -> BoxStream<'static, RunEvent> {
        let batches = futures_util::stream::unfold(Some(0), move |after| {
            let this = self.clone();
            async move {
                let batch = this.batch(after?).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, run = %this.at.run, "cannot read the events of the run");
                    let event = AiEvent::Done { outcome: RunStatus::Failed };
                    vec![RunEvent::placeless(event)]
                });
                let last = batch.last();
                let done = last.is_some_and(|e| matches!(e.event, AiEvent::Done { .. }));
                let last = last.and_then(|e| e.seq);
                let over = done && !this.goes_on(last).await;
                Some((futures_util::stream::iter(batch), last.filter(|_| !over)))
            }
        });
        Box::pin(batches.flatten())
    }

    /// Whether something comes after the `done` at this place, since the run was requeued.
    async fn goes_on(&self, last: Option<u64>) -> bool {
        let Some(last) = last else { return false };
        let more = self.host.store.events(&self.who, &self.at, last, 1).await;
        more.is_ok_and(|more| !more.is_empty())
    }

    /// The next events; waits until there are some.
    async fn batch(&self, after: u64) -> Result<Vec<RunEvent>, RuntimeError> {
        loop {
            let events = match self.host.store.events(&self.who, &self.at, after, EVENTS_MAX).await
            {
                // Those that are kept.
                Err(StoreError::Dropped { oldest, .. }) => {
                    let kept = oldest.saturating_sub(1);
                    self.host.store.events(&self.who, &self.at, kept, EVENTS_MAX).await?
                }
                read => read?,
            };
            if !events.is_empty() {
                let events = events.into_iter();
                return Ok(events.map(|e| RunEvent::durable(e.seq, e.event)).collect());
            }
            self.host.clock.sleep(LOOK_EVERY).await;
        }
    }

    async fn outcome(&self) -> Result<RunFinal, RuntimeError> {
        loop {
            let row = self.host.store.run(&self.who, &self.at).await?;
            match row.outcome {
                Some(RunFinal::Completed { .. }) => {
                    return Ok(RunFinal::Completed { output: self.output().await? });
                }
                Some(outcome) => return Ok(outcome),
                None => self.host.clock.sleep(LOOK_EVERY).await,
            }
        }
    }

    /// The state, which is not stored a second time with the outcome. Once a later run went on
    /// with the thread, what it was at the end of this one is not known here.
    async fn output(&self) -> Result<serde_json::Value, RuntimeError> {
        let (store, thread) = (&self.host.store, &self.at.thread);
        let runs = store.runs(&self.who, thread).await?;
        if runs.last().is_none_or(|last| last.new.at != self.at) {
            return Ok(serde_json::Value::Null);
        }
        let (host, at) = (self.host.looking(&self.who), At::thread(thread.as_str()));
        Ok(self.graph.state(&host, &at, false).await?.values)
    }
}
