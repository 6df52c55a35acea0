//! Queries and changes of runs that do not need their graphs.

use crate::StoreError;
use crate::invariants;
use crate::mailbox::RESERVED;
use crate::record::{Commit, InterruptRow, NewRun, RunRow};
use crate::table::{ReadEvents, Result, Store};
use std::collections::{BTreeMap, BTreeSet};
use weftwork_types::event::{AiEvent, AttemptReset, Position};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::{Multitask, RunInput, RunOptions, RunOutcome, RunRef, RunStatus};
use weftwork_types::{OrgId, Principal, RunId, Timestamp, WorkerId};

/// Maximum number of rows of partial text read at once.
const PIECES_AT_ONCE: usize = 100;
/// Maximum number of events read at once.
const EVENTS_AT_ONCE: usize = 100;

/// A page of the runs that no living worker holds, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanPage {
    /// Graphs of the runs; `None` for runs of all graphs.
    pub graphs: Option<Vec<String>>,
    /// Last run of the page before; `None` for the first page. If that run was deleted, runs of its
    /// millisecond may be returned again.
    pub after: Option<OrphanCursor>,
    /// Maximum number of runs.
    pub limit: usize,
}

/// Place of a run among the runs without a living worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanCursor {
    /// Organisation of the run.
    pub org: OrgId,
    /// Id of the run.
    pub run: RunId,
    /// Creation time of the run.
    pub created_at: Timestamp,
}

impl OrphanPage {
    /// Returns `true` for the runs of a graph that the page includes.
    #[must_use]
    pub fn has_graph(&self, graph: &str) -> bool {
        self.graphs.as_ref().is_none_or(|graphs| graphs.iter().any(|known| known == graph))
    }

    /// Returns the place after which the next page begins, given the runs of this one; `None` if
    /// this page is the last one.
    #[must_use]
    pub fn next(&self, found: &[(Principal, RunRow)]) -> Option<OrphanCursor> {
        let (who, last) = found.last().filter(|_| found.len() >= self.limit)?;
        let run = last.new.at.run.clone();
        let created_at = last.new.created_at;
        Some(OrphanCursor { org: who.org.clone(), run, created_at })
    }
}

/// Ends an orphan as cancelled, without its graph: for threads whose agent no longer exists, or
/// that are to be deleted. Committed work of the run is retained, and unanswered questions stay
/// open. The given worker need not be registered; if it is not, it counts as dead, and another
/// worker may claim the run in between.
///
/// # Errors
/// Returns [`StoreError::Busy`] if a living worker holds the run, if an earlier run has not ended,
/// or if another worker claims the run concurrently, in which case its cancellation may have been
/// requested. Returns [`StoreError::NotFound`] if the run does not exist or has ended.
///
/// # Cancel safety
/// If dropped, the run is unchanged, or its cancellation is requested, or it has ended, or it is
/// claimed by a worker that counts as dead.
pub async fn cancel_orphan(
    store: &dyn Store,
    who: &Principal,
    at: &RunRef,
    worker: &WorkerId,
    now: Timestamp,
) -> Result<()> {
    let row = store.run(who, at).await?;
    if row.fence == 0 && row.takes_back() {
        // A claim would roll back the content of the thread.
        let runs = store.runs(who, &at.thread).await?;
        let first = runs.into_iter().find(|run| !run.status.is_final());
        match first {
            Some(first) if first.new.at == *at => store.request_cancel(who, at).await?,
            Some(first) => return Err(invariants::busy(&first.new.at)),
            None => return Err(invariants::missing("run", &at.run)),
        }
    }
    let (claim, _) = store.claim(who, at, worker, now).await?;
    let resets = speaking(store, who, at).await?.into_iter();
    let resets = resets.map(AiEvent::AttemptReset);
    let done = AiEvent::Done { outcome: RunStatus::Cancelled };
    let interrupts = open_questions(store.interrupts(who, &at.thread).await?);
    let commit = Commit {
        wakes_at: wakes_as_before(store, who, at, &interrupts).await?,
        interrupts,
        events: resets.chain([done]).collect(),
        void: Some(Position::END),
        finish: Some(RunOutcome::cancelled()),
        at: now,
        ..Commit::default()
    };
    match store.commit(who, &claim, commit).await {
        Err(StoreError::Fenced { .. }) => Err(invariants::busy(at)),
        committed => committed.map(drop),
    }
}

/// Ends the activity that waits for an answer or for a time at a terminated instance, without its
/// graph: it is cancelled, counts once, and its questions are closed. `at` is the new run that records
/// its end. Returns the run that began the activity; `None` if no question is open.
///
/// # Errors
/// Returns [`StoreError::MailboxClosed`] and the other errors of
/// [`create_run`](crate::WriteRuns::create_run); [`StoreError::Busy`] while a run of the instance is
/// executed.
///
/// # Cancel safety
/// If dropped, the activity waits or has ended, or the run is left to a worker that counts as dead:
/// end that with [`cancel_orphan`] before the call is repeated.
pub async fn end_asking(
    store: &dyn Store,
    who: &Principal,
    at: &RunRef,
    worker: &WorkerId,
    now: Timestamp,
) -> Result<Option<RunRef>> {
    let rows = store.interrupts(who, &at.thread).await?;
    let Some(question) = rows.into_iter().find(InterruptRow::is_open) else { return Ok(None) };
    let asked = RunRef { thread: at.thread.clone(), run: question.run };
    let row = store.run(who, &asked).await?;
    let activity = row.activity();
    let options = RunOptions {
        idempotency_key: Some(format!("{RESERVED}end:{}", at.run)),
        multitask: Multitask::Reject,
        mailbox: row.new.options.mailbox.clone(),
        activity: activity.clone(),
        ..RunOptions::default()
    };
    let NewRun { graph, caller, .. } = row.new;
    let input = RunInput::Continue;
    let new = NewRun { at: at.clone(), graph, caller, input, options, created_at: now };
    let (_, claim) = store.create_claimed(who, new, BTreeMap::new(), worker).await?;
    let claim = claim.ok_or_else(|| invariants::busy(at))?;
    let commit = Commit {
        events: vec![AiEvent::Done { outcome: RunStatus::Cancelled }],
        finish: Some(RunOutcome::cancelled()),
        at: now,
        ..Commit::default()
    };
    match store.commit(who, &claim, commit).await {
        Err(StoreError::Fenced { .. }) => Err(invariants::busy(at)),
        committed => committed.map(|_| activity),
    }
}

/// Returns the resets of the tasks that have partial text in the store.
///
/// # Errors
/// Same as [`pieces`](ReadEvents::pieces).
pub async fn speaking(
    store: &(impl ReadEvents + ?Sized),
    who: &Principal,
    at: &RunRef,
) -> Result<BTreeSet<AttemptReset>> {
    let mut tasks = BTreeSet::new();
    let mut after = Position::START;
    loop {
        let some = store.pieces(who, at, after, PIECES_AT_ONCE).await?;
        let Some(last) = some.last() else { return Ok(tasks) };
        after = last.at.end;
        tasks.extend(some.iter().map(|piece| AttemptReset::of_task(&piece.at)));
    }
}

/// Returns `true` if a run has reached a checkpoint. From then on its input is part of its thread.
///
/// # Errors
/// Same as [`events`](ReadEvents::events). The first events of runs that ended long ago may be
/// dropped; those of a failed run are retained while it can be requeued.
pub async fn has_begun(
    store: &(impl ReadEvents + ?Sized),
    who: &Principal,
    at: &RunRef,
) -> Result<bool> {
    let mut after = 0;
    loop {
        let some = store.events(who, at, after, EVENTS_AT_ONCE).await?;
        let Some(last) = some.last() else { return Ok(false) };
        after = last.seq;
        if some.iter().any(|told| matches!(told.event, AiEvent::RunStarted { .. })) {
            return Ok(true);
        }
    }
}

/// Returns the time at which a thread resumes by itself after a run that failed or was cancelled.
/// If the run had new input and reached no checkpoint, the thread is still at the open questions of
/// an earlier run, and their times apply.
///
/// # Errors
/// Same as [`runs`](crate::ReadRuns::runs) and [`has_begun`].
pub async fn wakes_as_before(
    store: &dyn Store,
    who: &Principal,
    at: &RunRef,
    open: &[Interrupt],
) -> Result<Option<Timestamp>> {
    if open.iter().all(|question| question.lapses_at().is_none()) {
        return Ok(None);
    }
    let runs = store.runs(who, &at.thread).await?;
    let until = runs.iter().position(|run| run.new.at == *at).map_or(0, |own| own + 1);
    for run in runs[..until].iter().rev() {
        if run.status == RunStatus::Interrupted {
            // A question that had expired before that run has another reason to wait.
            let times = open.iter().filter_map(Interrupt::lapses_at);
            return Ok(times.filter(|time| *time > run.new.created_at).min());
        }
        let left = matches!(run.status, RunStatus::Failed | RunStatus::Cancelled);
        let skipped = run.brings() && (left || run.new.at == *at);
        if !skipped || has_begun(store, who, &run.new.at).await? {
            break;
        }
    }
    Ok(None)
}

/// Filters the questions that wait for an answer.
#[must_use]
pub fn open_questions(rows: Vec<InterruptRow>) -> Vec<Interrupt> {
    rows.into_iter().filter(InterruptRow::is_open).map(|row| row.interrupt).collect()
}
