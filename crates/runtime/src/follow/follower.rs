//! A follower of a run.

use super::Interval;
use super::log::{PageSize, RunLog, merge_pieces};
use crate::event_bus::{Attached, EventBus, Live, LiveReceiver, LostText};
use crate::live_runs::LiveRun;
use futures_util::StreamExt;
use std::collections::VecDeque;
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_types::BoxStream;
use weftwork_types::event::{AiEvent, PieceAt, Position, RunEvent};
use weftwork_types::run::RunStatus;

/// A follower of a run and its position. It holds at most 64 KiB of events: one that does not
/// receive them in time is detached from the run and continues from the store.
#[derive(Debug)]
pub(crate) struct Follower {
    log: RunLog,
    /// Position of the last event it received.
    at: Position,
    /// Events that wait for it.
    next: VecDeque<RunEvent>,
    source: Source,
    extent: Extent,
    page: PageSize,
    interval: Interval,
    /// `true` if the last event may have been received before the first read of the store.
    may_be_over: bool,
    /// Texts of which it lacks a part that is not stored: what follows of them would be text with a
    /// gap.
    hidden: Vec<LostText>,
}

/// Events that a follower receives.
#[derive(Debug)]
enum Extent {
    /// All events up to the end of the run, in whichever process.
    Run(LiveRun),
    /// The events of one claim, which this process has.
    Claim { bus: Arc<EventBus>, fence: u64 },
}

/// Source of further events.
#[derive(Debug)]
enum Source {
    /// The store, up to the events of this process.
    Before(Attached),
    /// The run, which this process executes.
    Here(LiveReceiver),
    /// The store, until the run has ended or begins here.
    Store,
    /// The store, which has an event that is not received yet.
    Stored,
    /// No further events.
    Over,
}

impl Follower {
    /// Follows a run to its end.
    pub(crate) fn of_run(log: RunLog, after: Position) -> Self {
        let live = log.live();
        Self::new(log, after, Source::Store, Extent::Run(live))
    }

    /// Follows the claim of this process on a run, from its first event.
    pub(crate) fn of_claim(log: RunLog, bus: Arc<EventBus>, fence: u64) -> Self {
        let live = bus.watch();
        Self::new(log, Position::START, Source::Here(live), Extent::Claim { bus, fence })
    }

    fn new(log: RunLog, at: Position, source: Source, extent: Extent) -> Self {
        let page = PageSize::new();
        let interval = Interval::new();
        let next = VecDeque::new();
        let may_be_over = true;
        let hidden = Vec::new();
        Self { log, at, next, source, extent, page, interval, may_be_over, hidden }
    }

    /// Returns the events as a stream; an error ends it as a failed run.
    pub(crate) fn events(self) -> BoxStream<'static, RunEvent> {
        let events = futures_util::stream::unfold(self, async |mut this| {
            let event = this.event().await.unwrap_or_else(|error| {
                let run = &this.log.at.run;
                tracing::warn!(%error, %run, "cannot read the events of the run");
                this.source = Source::Over;
                Some(RunEvent::placeless(AiEvent::Done { outcome: RunStatus::Failed }))
            })?;
            Some((event, this))
        });
        events.fuse().boxed()
    }

    /// Returns the events as a stream; an error is its last element.
    pub(crate) fn events_or_error(self) -> BoxStream<'static, Result<RunEvent, RuntimeError>> {
        let events = futures_util::stream::unfold(Some(self), async |this| {
            let mut this = this?;
            match this.event().await {
                Ok(event) => Some((Ok(event?), Some(this))),
                Err(error) => Some((Err(error), None)),
            }
        });
        events.boxed()
    }

    /// Waits for the next event and returns it; `None` after the last one. Not cancel safe.
    pub(super) async fn event(&mut self) -> Result<Option<RunEvent>, RuntimeError> {
        loop {
            if let Some(event) = self.next.pop_front() {
                self.at = event.position().unwrap_or(self.at);
                return Ok(Some(event));
            }
            self.next = match std::mem::replace(&mut self.source, Source::Over) {
                Source::Over => return Ok(None),
                Source::Before(attached) => self.read_before(attached).await?,
                Source::Here(live) => self.receive_here(live).await,
                Source::Store => self.read_store(true).await?,
                Source::Stored => self.read_store(false).await?,
            };
        }
    }

    /// Reads the stored events that were emitted before this follower attached.
    async fn read_before(
        &mut self,
        attached: Attached,
    ) -> Result<VecDeque<RunEvent>, RuntimeError> {
        let mut seen = self.log.page(self.at, &mut self.page).await?;
        seen.retain(|event| event.position().is_some_and(|at| at <= attached.from));
        if !seen.is_empty() {
            self.source = Source::Before(attached);
            return Ok(seen);
        }
        // A later event may have voided text before it was read: what follows is no text without
        // its beginning.
        if attached.has_stored_text && self.log.continues(self.at.seq).await? {
            self.source = Source::Stored;
            return Ok(VecDeque::new());
        }
        let Attached { unsaved, at, lost, live, .. } = attached;
        self.hidden = if self.at < at { lost } else { Vec::new() };
        self.source = Source::Here(live);
        Ok(merge_pieces(self.at, std::iter::empty(), unsaved.into_iter()))
    }

    /// Waits for an event of this process.
    async fn receive_here(&mut self, mut live: LiveReceiver) -> VecDeque<RunEvent> {
        self.may_be_over = true;
        let event = match live.recv().await {
            Live::Event(event) => Arc::unwrap_or_clone(event),
            Live::Lagged => {
                if let Extent::Claim { bus, .. } = &self.extent {
                    self.at = self.at.max(bus.start());
                }
                self.source = Source::Store;
                return VecDeque::new();
            }
            Live::Ended => {
                // Another worker may continue the run.
                let ends = matches!(self.extent, Extent::Claim { .. });
                self.source = if ends { Source::Over } else { Source::Store };
                return VecDeque::new();
            }
        };
        let follows_claim = matches!(self.extent, Extent::Claim { .. });
        let done = matches!(event.event, AiEvent::Done { .. });
        match event.position() {
            Some(at) => {
                self.source = if done { Source::Over } else { Source::Here(live) };
                let is_shown = at > self.at && !self.hides(&event);
                Some(event).filter(|_| is_shown).into_iter().collect()
            }
            None if follows_claim => {
                self.source = Source::Here(live);
                [event].into()
            }
            None => {
                // The log was unreachable, or belongs to another worker: its content is
                // authoritative.
                self.source = Source::Store;
                VecDeque::new()
            }
        }
    }

    /// Returns `true` for a text of which the follower lacks a part.
    fn hides(&mut self, event: &RunEvent) -> bool {
        self.hidden.retain(|lost| !lost.is_void_with(&event.event));
        let is_of = |at: &PieceAt| self.hidden.iter().any(|lost| lost.at.has_origin_of(at));
        event.piece.as_ref().is_some_and(is_of)
    }

    /// Reads the store until there are further events, or until the run can be followed here. That
    /// is tried before the first page only if `attaches` is set.
    async fn read_store(&mut self, mut attaches: bool) -> Result<VecDeque<RunEvent>, RuntimeError> {
        loop {
            // Before the page is read: all events of a claim that is over are in the store.
            let is_over = matches!(&self.extent, Extent::Claim { bus, .. } if bus.is_over());
            if std::mem::replace(&mut attaches, true)
                && let Some(attached) = self.attach()
            {
                self.source = Source::Before(attached);
                return Ok(VecDeque::new());
            }
            let mut seen = match self.log.page(self.at, &mut self.page).await {
                Err(RuntimeError::Store(error))
                    if error.is_retriable() && self.waits_for_store() =>
                {
                    VecDeque::new()
                }
                read => read?,
            };
            let ends = match &self.extent {
                Extent::Run(_) => self.is_last(&seen).await,
                Extent::Claim { bus, fence } => ends_claim(&mut seen, bus, *fence, is_over),
            };
            if ends {
                return Ok(seen);
            }
            if !seen.is_empty() {
                self.interval = Interval::new();
                self.source = Source::Store;
                return Ok(seen);
            }
            let clock = self.log.context.clock.as_ref();
            match &mut self.extent {
                Extent::Run(live) => self.interval.wait(clock, live.changed()).await,
                Extent::Claim { .. } => self.interval.wait(clock, std::future::pending()).await,
            }
        }
    }

    fn attach(&mut self) -> Option<Attached> {
        match &mut self.extent {
            Extent::Run(live) => live.attach(),
            Extent::Claim { bus, .. } => bus.attach(),
        }
    }

    /// Returns `true` if the follower waits for a store that is out of reach.
    fn waits_for_store(&self) -> bool {
        matches!(&self.extent, Extent::Claim { bus, .. } if !bus.is_over())
    }

    /// Returns `true` if no events follow a page of the store, because the run has ended.
    async fn is_last(&mut self, page: &VecDeque<RunEvent>) -> bool {
        match page.back() {
            Some(RunEvent { seq: Some(last), event: AiEvent::Done { .. }, .. }) => {
                !self.log.continues(*last).await.is_ok_and(|continues| continues)
            }
            Some(_) => false,
            // The follower may begin after the last event.
            None if std::mem::take(&mut self.may_be_over) => {
                let RunLog { context, who, at } = &self.log;
                let row = context.store.run(who, at).await;
                let has_ended = row.is_ok_and(|row| row.outcome.is_some());
                has_ended && !self.log.continues(self.at.seq).await.is_ok_and(|continues| continues)
            }
            None => false,
        }
    }
}

/// Drops the events after those of a claim from a page of the store, and appends the last event of
/// the claim if it is not stored. Returns `true` if no events of the claim follow.
fn ends_claim(page: &mut VecDeque<RunEvent>, bus: &EventBus, fence: u64, is_over: bool) -> bool {
    let later =
        |event: &RunEvent| matches!(event.event, AiEvent::TakenOver { claim } if claim > fence);
    if let Some(end) = page.iter().position(later) {
        page.truncate(end);
    }
    let ends = |event: &RunEvent| match event.event {
        AiEvent::Done { .. } => true,
        AiEvent::Released { claim } => claim == fence,
        _ => false,
    };
    if let Some(end) = page.iter().position(ends) {
        page.truncate(end + 1);
        return true;
    }
    if is_over && page.is_empty() {
        page.extend(bus.last());
        return true;
    }
    false
}
