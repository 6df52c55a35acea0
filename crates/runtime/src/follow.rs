//! Following a run: its stored events, and live ones while this process executes it.

use crate::context::WorkerContext;
use crate::event_bus::{Attached, EventBus};
use futures_util::StreamExt;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use weftwork_graph::run_loop::StateQuery;
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_store::StoreError;
use weftwork_types::event::{AiEvent, Piece, Position, RunEvent};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::port::RunHandle;
use weftwork_types::run::{RunOutcome, RunRef, RunStatus};
use weftwork_types::{BoxStream, CheckpointId, InterruptId, Principal};

/// Interval between two reads of the store.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Maximum number of events per read.
const EVENTS_MAX: usize = 256;
/// Maximum number of text pieces per read; a piece is seldom larger than the text of one commit.
const PIECES_MAX: usize = 64;

/// Reads a run's events and outcome from the store.
#[derive(Debug, Clone)]
pub(crate) struct Follow {
    pub(crate) context: Arc<WorkerContext>,
    pub(crate) graph: CompiledGraph,
    pub(crate) who: Principal,
    pub(crate) at: RunRef,
}

/// A follower of a run and its position.
#[derive(Debug)]
struct Follower {
    run: Follow,
    /// Position of the last event it received.
    at: Position,
    /// Events that wait for it.
    next: VecDeque<RunEvent>,
    source: Source,
}

/// Source of further events.
#[derive(Debug)]
enum Source {
    /// The store, up to the events of this process.
    Before(Attached),
    /// The run, which this process executes.
    Here(mpsc::UnboundedReceiver<RunEvent>),
    /// The store, until the run has ended.
    Store,
    /// No further events.
    Over,
}

impl Follow {
    /// Returns a handle to the events after a position. For a run in this process (`bus`), text
    /// arrives at once.
    pub(crate) fn handle(self, after: Position, bus: Option<&EventBus>) -> RunHandle {
        let run = self.at.clone();
        let source = bus.and_then(EventBus::attach).map_or(Source::Store, Source::Before);
        let follower = Follower { run: self.clone(), at: after, next: VecDeque::new(), source };
        let events = follower.events();
        let outcome = Box::pin(async move { self.end().await });
        RunHandle { run, events, outcome }
    }

    /// Waits for the run's end.
    pub(crate) async fn end(&self) -> RunOutcome {
        let ended = self.outcome().await;
        ended.unwrap_or_else(|error| RunOutcome::Failed { fault: error.fault() })
    }

    /// Returns `true` if events follow the `done` at this place, because the run was requeued.
    async fn goes_on(&self, last: u64) -> bool {
        let more = self.context.store.events(&self.who, &self.at, last, 1).await;
        more.is_ok_and(|more| !more.is_empty())
    }

    /// Reads a page of the stored events after a position.
    async fn look(&self, after: Position) -> Result<VecDeque<RunEvent>, RuntimeError> {
        let Self { context, who, at, .. } = self;
        let events = match context.store.events(who, at, after.seq, EVENTS_MAX).await {
            // Continues with the oldest stored event.
            Err(StoreError::Dropped { oldest, .. }) => {
                context.store.events(who, at, oldest.saturating_sub(1), EVENTS_MAX).await?
            }
            read => read?,
        };
        let mut last = events.last().map_or(after.seq, |event| event.seq);
        // Events are read first: text before an event was stored no later than the event, and
        // text that is no longer stored is void.
        let pieces = context.store.pieces(who, at, after, PIECES_MAX).await?;
        if let Some(piece) = pieces.last().filter(|_| pieces.len() == PIECES_MAX) {
            last = last.min(piece.at.end.seq);
        }
        let events = events.into_iter().filter(|event| event.seq <= last);
        let events = events.map(|event| RunEvent::durable(event.seq, event.at, event.event));
        let pieces = pieces.into_iter().filter(|piece| piece.at.end.seq <= last);
        Ok(merged(after, events, pieces))
    }

    async fn outcome(&self) -> Result<RunOutcome, RuntimeError> {
        loop {
            let row = self.context.store.run(&self.who, &self.at).await?;
            match row.outcome {
                Some(RunOutcome::Completed { .. }) => {
                    return Ok(RunOutcome::Completed {
                        output: self.output(row.last_checkpoint).await?,
                    });
                }
                Some(RunOutcome::Interrupted { interrupts, .. }) if !interrupts.is_empty() => {
                    let questions = self.questions(&interrupts).await?;
                    return Ok(RunOutcome::Interrupted { interrupts, questions });
                }
                Some(outcome) => return Ok(outcome),
                None => self.context.clock.sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Reads the questions at which the run ended, in their order.
    async fn questions(&self, ids: &[InterruptId]) -> Result<Vec<Interrupt>, RuntimeError> {
        let rows = self.context.store.interrupts(&self.who, &self.at.thread).await?;
        let mut asked: BTreeMap<_, _> =
            rows.into_iter().map(|row| (row.interrupt.id, row.interrupt)).collect();
        Ok(ids.iter().filter_map(|id| asked.remove(id)).collect())
    }

    /// Returns the state of the thread at the end of the run, which is not stored a second time with
    /// the outcome. Returns null if this checkpoint no longer exists, or if it is not known, because
    /// the run ended in an older format, and a later run exists.
    async fn output(
        &self,
        checkpoint: Option<CheckpointId>,
    ) -> Result<serde_json::Value, RuntimeError> {
        let (store, thread) = (&self.context.store, &self.at.thread);
        let runs = store.runs(&self.who, thread).await?;
        let is_last = runs.last().is_some_and(|last| last.new.at == self.at);
        if checkpoint.is_none() && !is_last {
            return Ok(serde_json::Value::Null);
        }
        let checkpoint = checkpoint.filter(|_| !is_last);
        let at = StateQuery { checkpoint, ..StateQuery::thread(thread.as_str()) };
        match self.graph.state(&self.context.looking(&self.who), &at, false).await {
            Ok(state) => Ok(state.values),
            Err(RuntimeError::UnknownCheckpoint { .. }) => Ok(serde_json::Value::Null),
            Err(error) => Err(error),
        }
    }
}

impl Follower {
    fn events(self) -> BoxStream<'static, RunEvent> {
        let events = futures_util::stream::unfold(self, async |mut this| {
            let event = this.event().await?;
            Some((event, this))
        });
        events.boxed()
    }

    /// Waits for the next event and returns it.
    async fn event(&mut self) -> Option<RunEvent> {
        loop {
            if let Some(event) = self.next.pop_front() {
                self.at = event.position().unwrap_or(self.at);
                return Some(event);
            }
            let more = match std::mem::replace(&mut self.source, Source::Over) {
                Source::Over => return None,
                Source::Before(attached) => self.before(attached).await,
                Source::Here(live) => self.here(live).await,
                Source::Store => self.store().await,
            };
            self.next = more.unwrap_or_else(|error| {
                tracing::warn!(%error, run = %self.run.at.run, "cannot read the events of the run");
                self.source = Source::Over;
                let event = AiEvent::Done { outcome: RunStatus::Failed };
                VecDeque::from([RunEvent::placeless(event)])
            });
        }
    }

    /// Reads the stored events that were emitted before this follower attached.
    async fn before(&mut self, attached: Attached) -> Result<VecDeque<RunEvent>, RuntimeError> {
        let mut seen = self.run.look(self.at).await?;
        seen.retain(|event| event.position().is_some_and(|at| at <= attached.from));
        if seen.is_empty() {
            let Attached { unsaved, live, .. } = attached;
            self.source = Source::Here(live);
            return Ok(merged(self.at, std::iter::empty(), unsaved.into_iter()));
        }
        self.source = Source::Before(attached);
        Ok(seen)
    }

    async fn here(
        &mut self,
        mut live: mpsc::UnboundedReceiver<RunEvent>,
    ) -> Result<VecDeque<RunEvent>, RuntimeError> {
        let Some(event) = live.recv().await else {
            // Another worker may continue the run.
            self.source = Source::Store;
            return Ok(VecDeque::new());
        };
        let Some(at) = event.position() else {
            // The log was unreachable, or belongs to another worker: its content is authoritative.
            self.source = Source::Store;
            return Ok(VecDeque::new());
        };
        let done = matches!(event.event, AiEvent::Done { .. });
        self.source = if done { Source::Over } else { Source::Here(live) };
        Ok(Some(event).filter(|_| at > self.at).into_iter().collect())
    }

    /// Polls the store until there are further events.
    async fn store(&mut self) -> Result<VecDeque<RunEvent>, RuntimeError> {
        loop {
            let seen = self.run.look(self.at).await?;
            let done = seen.back().filter(|event| matches!(event.event, AiEvent::Done { .. }));
            let over = match done.and_then(|done| done.seq) {
                Some(last) => !self.run.goes_on(last).await,
                None => false,
            };
            self.source = if over { Source::Over } else { Source::Store };
            if !seen.is_empty() {
                return Ok(seen);
            }
            self.run.context.clock.sleep(LOOK_EVERY).await;
        }
    }
}

/// Merges events with the text after a position, in order.
fn merged(
    after: Position,
    events: impl Iterator<Item = RunEvent>,
    pieces: impl Iterator<Item = Piece>,
) -> VecDeque<RunEvent> {
    let mut all = VecDeque::new();
    let (mut events, mut at) = (events.peekable(), after);
    for piece in pieces {
        while let Some(event) = events.next_if(|event| event.seq <= Some(piece.at.end.seq)) {
            at = event.position().unwrap_or(at);
            all.push_back(event);
        }
        if let Some(rest) = piece.rest(at) {
            at = rest.at.end;
            all.push_back(rest.into());
        }
    }
    all.extend(events);
    all
}
