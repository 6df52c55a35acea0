//! Following all runs of a thread.

use super::Interval;
use super::follower::Follower;
use super::log::RunLog;
use super::reported::ReportedRuns;
use crate::context::WorkerContext;
use crate::live_runs::LiveThread;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_store::{RunRow, StoreError, ThreadRow, by_execution, invariants};
use weftwork_types::event::{Position, RunEvent};
use weftwork_types::run::RunRef;
use weftwork_types::{BoxStream, Principal, RunId, ThreadId, Timestamp};

/// Maximum number of events read at once to find the last one.
const LOG_PAGE: usize = 256;

/// A position in the output of a thread: a run, and a position in its output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadPosition {
    /// The run.
    pub run: RunId,
    /// Position in the output of the run.
    pub at: Position,
}

/// Start of the events of a thread for a client that follows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FollowFrom {
    /// The first run of the thread.
    Start,
    /// The first run that has not ended; if all have ended, the next run.
    #[default]
    Now,
    /// The events after a position, which the client has received.
    After(ThreadPosition),
}

/// An event of one of the runs of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadEvent {
    /// The run.
    pub run: RunRef,
    /// The event.
    pub event: RunEvent,
}

impl ThreadEvent {
    /// Returns the position of a client that has received this event and all events before it;
    /// `None` as for [`RunEvent::position`].
    #[must_use]
    pub fn position(&self) -> Option<ThreadPosition> {
        let at = self.event.position()?;
        Some(ThreadPosition { run: self.run.run.clone(), at })
    }
}

/// Events of all runs of a thread, in order of the runs.
pub struct ThreadEvents {
    thread: ThreadFollower,
}

impl std::fmt::Debug for ThreadEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadEvents").field("thread", &self.thread.runs.id).finish_non_exhaustive()
    }
}

impl ThreadEvents {
    pub(crate) fn new(
        context: Arc<WorkerContext>,
        who: Principal,
        id: ThreadId,
        from: FollowFrom,
    ) -> Self {
        let runs = ThreadRuns::new(context, who, id, from);
        Self { thread: ThreadFollower { runs, current: None, until_rest: false } }
    }

    /// Ends the stream when no run of the thread is unfinished. By default it goes on with runs
    /// that begin later, and ends only when it is dropped.
    #[must_use]
    pub fn until_rest(mut self) -> Self {
        self.thread.until_rest = true;
        self
    }

    /// Returns the events as a stream. Each event after the start is delivered exactly once, also
    /// those of runs that begin later or that other processes execute. An error ends the stream.
    #[must_use]
    pub fn stream(self) -> BoxStream<'static, Result<ThreadEvent, RuntimeError>> {
        let events = futures_util::stream::unfold(Some(self.thread), async |this| {
            let mut this = this?;
            match this.event().await {
                Ok(event) => Some((Ok(event?), Some(this))),
                Err(error) => Some((Err(error), None)),
            }
        });
        events.fuse().boxed()
    }
}

struct ThreadFollower {
    runs: ThreadRuns,
    /// Follower of the current run.
    current: Option<Follower>,
    until_rest: bool,
}

/// The runs of a thread in order, as they begin.
pub(crate) struct ThreadRuns {
    context: Arc<WorkerContext>,
    who: Principal,
    id: ThreadId,
    place: Place,
    reported: ReportedRuns,
    live: LiveThread,
    /// `true` if a run of the thread waits for its time.
    is_delayed: bool,
    /// The thread when its runs were read, if a later change is distinguishable from it.
    seen: Option<ThreadRow>,
    interval: Interval,
}

/// Place of a follower between runs.
enum Place {
    /// No run was followed yet.
    Begin(FollowFrom),
    /// All events of a run that were stored were received.
    After(ThreadPosition),
}

impl ThreadFollower {
    async fn event(&mut self) -> Result<Option<ThreadEvent>, RuntimeError> {
        loop {
            if let Some(follower) = &mut self.current {
                let run = follower.run().clone();
                if let Some(event) = follower.event().await? {
                    return Ok(Some(ThreadEvent { run, event }));
                }
                let at = follower.at();
                self.runs.leave(run, at);
                self.current = None;
            }
            let Some((run, after)) = self.runs.next_run().await? else {
                if self.until_rest && !self.runs.is_delayed {
                    return Ok(None);
                }
                self.runs.wait().await;
                continue;
            };
            let context = Arc::clone(&self.runs.context);
            let who = self.runs.who.clone();
            self.current = Some(Follower::of_run(RunLog { context, who, at: run }, after));
        }
    }
}

impl ThreadRuns {
    pub(crate) fn new(
        context: Arc<WorkerContext>,
        who: Principal,
        id: ThreadId,
        from: FollowFrom,
    ) -> Self {
        let live = context.live.thread(&who.org, &id);
        let place = Place::Begin(from);
        let interval = Interval::new();
        let reported = ReportedRuns::default();
        let is_delayed = false;
        Self { context, who, id, place, reported, live, is_delayed, seen: None, interval }
    }

    /// Records that the stored events of a run were received up to a position.
    pub(crate) fn leave(&mut self, run: RunRef, at: Position) {
        self.place = Place::After(ThreadPosition { run: run.run, at });
        self.interval = Interval::new();
    }

    /// Returns the position at which a follower begins, so that it receives all that happens from now
    /// on, however late it begins.
    pub(crate) async fn position(mut self) -> Result<FollowFrom, RuntimeError> {
        if let Some((run, at)) = self.next_run().await? {
            return Ok(FollowFrom::After(ThreadPosition { run: run.run, at }));
        }
        Ok(match self.place {
            Place::Begin(from) => from,
            Place::After(position) => FollowFrom::After(position),
        })
    }

    /// Waits until the runs of the thread may have changed.
    pub(crate) async fn wait(&mut self) {
        self.interval.wait(self.context.clock.as_ref(), self.live.changed()).await;
    }

    /// Finds the next run with events, and the position after which they are.
    pub(crate) async fn next_run(&mut self) -> Result<Option<(RunRef, Position)>, RuntimeError> {
        let store = &self.context.store;
        let now = self.context.clock.now();
        let thread = match store.thread(&self.who, &self.id).await {
            // Its first run creates it.
            Err(StoreError::NotFound { .. }) => {
                if matches!(self.place, Place::Begin(FollowFrom::Now)) {
                    self.place = Place::Begin(FollowFrom::Start);
                }
                return Ok(None);
            }
            thread => thread?,
        };
        if self.seen.as_ref() == Some(&thread) {
            return Ok(None);
        }
        // A change within the same millisecond may leave the row as it is.
        let settled = (thread.updated_at < now).then_some(thread);
        let all = by_execution(store.runs(&self.who, &self.id).await?);
        self.is_delayed = all.iter().any(|run| run.waits_for_time(now) && !run.waits_as_activity());
        let (runs, unplaced): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|run| has_place(run, now));
        if runs.is_empty() && matches!(self.place, Place::Begin(FollowFrom::Now)) {
            self.place = Place::Begin(FollowFrom::Start);
        }
        let next = match &self.place {
            Place::Begin(FollowFrom::Start) => runs.first().map(at_start),
            Place::Begin(FollowFrom::Now) => {
                let next = runs.iter().position(|run| !run.status.is_final());
                self.reported = ReportedRuns::before(next.unwrap_or(runs.len()), &ids(&runs));
                if let (None, Some(last)) = (next, runs.last()) {
                    let at = Position::after(self.last_seq(&last.new.at).await?);
                    self.place = Place::After(ThreadPosition { run: last.new.at.run.clone(), at });
                }
                next.map(|next| at_start(&runs[next]))
            }
            Place::Begin(FollowFrom::After(place))
                if unplaced.iter().any(|run| run.new.at.run == place.run) =>
            {
                self.reported = ReportedRuns::before(runs.len(), &ids(&runs));
                Some((found(&unplaced, place)?.1.new.at.clone(), place.at))
            }
            Place::Begin(FollowFrom::After(place)) => {
                let (index, run) = found(&runs, place)?;
                self.reported = ReportedRuns::before(index, &ids(&runs));
                Some((run.new.at.clone(), place.at))
            }
            Place::After(place) => {
                let run = found(&runs, place)?.1;
                // It may have been requeued.
                if self.continues(run, place.at).await? {
                    Some((run.new.at.clone(), place.at))
                } else {
                    let next = self.reported.next(&place.run, &ids(&runs));
                    next.map(|next| at_start(&runs[next]))
                }
            }
        };
        self.seen = settled.filter(|_| next.is_none());
        Ok(next)
    }

    /// Returns `true` if a run has events after a position, or will have some.
    async fn continues(&self, run: &RunRow, after: Position) -> Result<bool, RuntimeError> {
        if !run.status.is_final() {
            return Ok(true);
        }
        match self.context.store.events(&self.who, &run.new.at, after.seq, 1).await {
            Err(StoreError::Dropped { .. }) => Ok(false),
            more => Ok(!more?.is_empty()),
        }
    }

    /// Returns the number of the last stored event of a run.
    async fn last_seq(&self, run: &RunRef) -> Result<u64, RuntimeError> {
        let mut last = 0;
        loop {
            let page = match self.context.store.events(&self.who, run, last, LOG_PAGE).await {
                Err(StoreError::Dropped { oldest, .. }) => {
                    last = oldest.saturating_sub(1).max(last);
                    self.context.store.events(&self.who, run, last, LOG_PAGE).await?
                }
                page => page?,
            };
            let Some(event) = page.last() else { return Ok(last) };
            last = event.seq;
        }
    }
}

/// Returns `true` if the place of a run among those of its thread is known. Activities that were not
/// begun have none, and neither have runs that begin later: others may come before them.
fn has_place(run: &RunRow, now: Timestamp) -> bool {
    !run.waits_as_activity() && !run.waits_for_time(now)
}

fn ids(runs: &[RunRow]) -> Vec<&RunId> {
    runs.iter().map(|run| &run.new.at.run).collect()
}

fn at_start(run: &RunRow) -> (RunRef, Position) {
    (run.new.at.clone(), Position::START)
}

/// Finds the run of a position and its index.
fn found<'a>(
    runs: &'a [RunRow],
    place: &ThreadPosition,
) -> Result<(usize, &'a RunRow), RuntimeError> {
    let found = runs.iter().enumerate().find(|(_, run)| run.new.at.run == place.run);
    Ok(found.ok_or_else(|| invariants::missing("run", &place.run))?)
}
