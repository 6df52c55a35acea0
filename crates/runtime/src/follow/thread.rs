//! The runs of a thread, as a follower finds them.

use super::Interval;
use super::reported::ReportedRuns;
use crate::context::WorkerContext;
use crate::live_runs::LiveThread;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_store::{RunRow, Store, StoreError, ThreadRow, by_execution, invariants};
use weftwork_types::event::{Position, StreamPosition};
use weftwork_types::run::RunRef;
use weftwork_types::{Principal, RunId, ThreadId, Timestamp};

/// Maximum number of events read at once to find the last one.
const LOG_PAGE: usize = 256;

/// Place from which the output of a run or a thread is followed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FollowFrom {
    /// The start of the run, or of the first run of the thread.
    Start,
    /// The first run that has not ended, from its start; if all have ended, the next run, or for a
    /// run what follows if it is requeued.
    #[default]
    Now,
    /// The output after a position, which the client has received.
    After(StreamPosition),
}

impl FollowFrom {
    /// The output of a run after a position, for a client that has no unfinished text.
    #[must_use]
    pub fn in_run(run: RunId, at: Position) -> Self {
        Self::After(StreamPosition::in_run(run, at))
    }
}

impl From<StreamPosition> for FollowFrom {
    fn from(after: StreamPosition) -> Self {
        Self::After(after)
    }
}

/// The position is one of the run that is followed.
impl From<Position> for FollowFrom {
    fn from(at: Position) -> Self {
        Self::After(at.into())
    }
}

/// Start of a follower among the runs of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ThreadStart {
    Start,
    Now,
    After { run: RunId, at: Position },
}

impl ThreadStart {
    pub(crate) fn of(from: &FollowFrom) -> Result<Self, RuntimeError> {
        match from {
            FollowFrom::Start => Ok(Self::Start),
            FollowFrom::Now => Ok(Self::Now),
            FollowFrom::After(StreamPosition { run: Some(run), at, .. }) => {
                Ok(Self::After { run: run.clone(), at: *at })
            }
            FollowFrom::After(StreamPosition { at, .. }) if *at == Position::START => {
                Ok(Self::Start)
            }
            FollowFrom::After(position) => {
                Err(invariants::missing("run of position", position).into())
            }
        }
    }

    fn into_from(self) -> FollowFrom {
        match self {
            Self::Start => FollowFrom::Start,
            Self::Now => FollowFrom::Now,
            Self::After { run, at } => FollowFrom::in_run(run, at),
        }
    }
}

/// The runs of a thread in order, as they begin.
pub(crate) struct ThreadRuns {
    context: Arc<WorkerContext>,
    who: Principal,
    id: ThreadId,
    position: RunPosition,
    reported: ReportedRuns,
    live: LiveThread,
    /// `true` if a run of the thread waits for its time.
    is_delayed: bool,
    /// The thread when its runs were read, if a later change is distinguishable from it.
    seen: Option<ThreadRow>,
    interval: Interval,
}

/// Position of a follower among the runs of a thread.
enum RunPosition {
    /// No run was followed yet.
    Begin(ThreadStart),
    /// All events of a run that were stored were received.
    After { run: RunId, at: Position },
}

impl ThreadRuns {
    pub(crate) fn new(
        context: Arc<WorkerContext>,
        who: Principal,
        id: ThreadId,
        from: ThreadStart,
    ) -> Self {
        let live = context.live.thread(&who.org, &id);
        let position = RunPosition::Begin(from);
        let interval = Interval::new();
        let reported = ReportedRuns::default();
        let is_delayed = false;
        Self { context, who, id, position, reported, live, is_delayed, seen: None, interval }
    }

    /// Records that the stored events of a run were received up to a position.
    pub(crate) fn leave(&mut self, run: RunRef, at: Position) {
        self.position = RunPosition::After { run: run.run, at };
        self.interval = Interval::new();
    }

    /// Returns the position at which a follower begins, so that it receives all that happens from now
    /// on, however late it begins.
    pub(crate) async fn position(mut self) -> Result<FollowFrom, RuntimeError> {
        if let Some((run, at)) = self.next_run().await? {
            return Ok(FollowFrom::in_run(run.run, at));
        }
        Ok(match self.position {
            RunPosition::Begin(from) => from.into_from(),
            RunPosition::After { run, at } => FollowFrom::in_run(run, at),
        })
    }

    /// Returns `true` if a run of the thread waits for its time.
    pub(crate) fn is_delayed(&self) -> bool {
        self.is_delayed
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
                if matches!(self.position, RunPosition::Begin(ThreadStart::Now)) {
                    self.position = RunPosition::Begin(ThreadStart::Start);
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
        if runs.is_empty() && matches!(self.position, RunPosition::Begin(ThreadStart::Now)) {
            self.position = RunPosition::Begin(ThreadStart::Start);
        }
        let next = match &self.position {
            RunPosition::Begin(ThreadStart::Start) => runs.first().map(at_start),
            RunPosition::Begin(ThreadStart::Now) => {
                let next = runs.iter().position(|run| !run.status.is_final());
                self.reported = ReportedRuns::before(next.unwrap_or(runs.len()), &run_ids(&runs));
                if let (None, Some(last)) = (next, runs.last()) {
                    let seq = last_seq(store.as_ref(), &self.who, &last.new.at).await?;
                    let at = Position::after(seq).after_frames();
                    self.position = RunPosition::After { run: last.new.at.run.clone(), at };
                }
                next.map(|next| at_start(&runs[next]))
            }
            RunPosition::Begin(ThreadStart::After { run, at })
                if unplaced.iter().any(|row| row.new.at.run == *run) =>
            {
                self.reported = ReportedRuns::before(runs.len(), &run_ids(&runs));
                Some((find_run(&unplaced, run)?.1.new.at.clone(), *at))
            }
            RunPosition::Begin(ThreadStart::After { run, at }) => {
                let (index, row) = find_run(&runs, run)?;
                self.reported = ReportedRuns::before(index, &run_ids(&runs));
                Some((row.new.at.clone(), *at))
            }
            RunPosition::After { run, at } => {
                let row = find_run(&runs, run)?.1;
                // It may have been requeued.
                if self.has_events_after(row, *at).await? {
                    Some((row.new.at.clone(), *at))
                } else {
                    let next = self.reported.next(run, &run_ids(&runs));
                    next.map(|next| at_start(&runs[next]))
                }
            }
        };
        self.seen = settled.filter(|_| next.is_none());
        Ok(next)
    }

    /// Returns `true` if a run has events after a position, or will have some.
    async fn has_events_after(&self, run: &RunRow, after: Position) -> Result<bool, RuntimeError> {
        if !run.status.is_final() {
            return Ok(true);
        }
        match self.context.store.events(&self.who, &run.new.at, after.seq, 1).await {
            Err(StoreError::Dropped { .. }) => Ok(false),
            more => Ok(!more?.is_empty()),
        }
    }
}

/// Returns the number of the last stored event of a run.
pub(crate) async fn last_seq(
    store: &dyn Store,
    who: &Principal,
    run: &RunRef,
) -> Result<u64, RuntimeError> {
    let mut last = 0;
    loop {
        let page = match store.events(who, run, last, LOG_PAGE).await {
            Err(StoreError::Dropped { oldest, .. }) => {
                last = oldest.saturating_sub(1).max(last);
                store.events(who, run, last, LOG_PAGE).await?
            }
            page => page?,
        };
        let Some(event) = page.last() else { return Ok(last) };
        last = event.seq;
    }
}

/// Returns `true` if the place of a run among those of its thread is known. Activities that were not
/// begun have none, and neither have runs that begin later: others may come before them.
fn has_place(run: &RunRow, now: Timestamp) -> bool {
    !run.waits_as_activity() && !run.waits_for_time(now)
}

fn run_ids(runs: &[RunRow]) -> Vec<&RunId> {
    runs.iter().map(|run| &run.new.at.run).collect()
}

fn at_start(run: &RunRow) -> (RunRef, Position) {
    (run.new.at.clone(), Position::START)
}

/// Finds a run and its index.
fn find_run<'a>(runs: &'a [RunRow], run: &RunId) -> Result<(usize, &'a RunRow), RuntimeError> {
    let found = runs.iter().enumerate().find(|(_, row)| row.new.at.run == *run);
    Ok(found.ok_or_else(|| invariants::missing("run", run))?)
}
