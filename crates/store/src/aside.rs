//! What is asked of runs, and done to them, without their graphs.

use crate::error::StoreError;
use crate::record::{Commit, InterruptRow};
use crate::rule;
use crate::table::{ReadEvents, Result, Store};
use std::collections::BTreeSet;
use weftwork_types::event::{AiEvent, Position};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::{RunFinal, RunRef, RunStatus};
use weftwork_types::{Principal, Timestamp, WorkerId};

/// How many pieces are read at once.
const PIECES_AT_ONCE: usize = 100;
/// How many events are read at once.
const EVENTS_AT_ONCE: usize = 100;

/// Ends an orphan as cancelled, without its graph: for threads that go on no more, because their
/// agent is gone or because they are to be deleted. What the run has committed stays, and questions
/// that nobody answered stay open. The worker that ends it need not be registered; when it is not,
/// it counts as dead, and another one may take the run before.
///
/// # Errors
/// [`StoreError::Busy`] while a living worker has the run, or a run before it has not ended, or when
/// another worker took it in this moment, who may be asked to stop then; [`StoreError::NotFound`]
/// when it does not exist or has ended.
///
/// # Cancel safety
/// When dropped, the run is as it was, or is to stop, or has ended, or is one whose worker is dead.
pub async fn cancel_orphan(
    store: &dyn Store,
    who: &Principal,
    at: &RunRef,
    (worker, now): (&WorkerId, Timestamp),
) -> Result<()> {
    let row = store.run(who, at).await?;
    if row.fence == 0 && row.clears() {
        // With its first claim it would take back what the thread has.
        let runs = store.runs(who, &at.thread).await?;
        let first = runs.into_iter().find(|run| !run.status.is_final());
        match first {
            Some(first) if first.new.at == *at => store.request_cancel(who, at).await?,
            Some(first) => return Err(rule::busy(&first.new.at)),
            None => return Err(rule::missing("run", &at.run)),
        }
    }
    let (claim, _) = store.claim(who, at, worker, now).await?;
    let resets = speaking(store, who, at).await?.into_iter();
    let resets = resets.map(|node| AiEvent::AttemptReset { node });
    let done = AiEvent::Done { outcome: RunStatus::Cancelled };
    let interrupts = open_questions(store.interrupts(who, &at.thread).await?);
    let commit = Commit {
        wakes_at: wakes_as_before(store, who, at, &interrupts).await?,
        interrupts,
        events: resets.chain([done]).collect(),
        void: Some(Position::END),
        finish: Some(RunFinal::Cancelled),
        at: now,
        ..Commit::default()
    };
    match store.commit(who, &claim, commit).await {
        Err(StoreError::Fenced { .. }) => Err(rule::busy(at)),
        committed => committed.map(drop),
    }
}

/// The nodes of which text is in the store that is not final.
///
/// # Errors
/// As [`pieces`](ReadEvents::pieces).
pub async fn speaking(
    store: &(impl ReadEvents + ?Sized),
    who: &Principal,
    at: &RunRef,
) -> Result<BTreeSet<String>> {
    let (mut nodes, mut after) = (BTreeSet::new(), Position::START);
    loop {
        let some = store.pieces(who, at, after, PIECES_AT_ONCE).await?;
        let Some(last) = some.last() else { return Ok(nodes) };
        after = last.at.end;
        nodes.extend(some.into_iter().map(|piece| piece.at.node));
    }
}

/// Whether a run has got as far as a checkpoint: what it brought is on its thread from then on.
///
/// # Errors
/// As [`events`](ReadEvents::events). Of runs that ended long ago the first events may be dropped;
/// those of a failed run stay while it can be requeued.
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

/// When a thread goes on by itself after a run that failed or was cancelled: as before, if it brought
/// something and got nowhere, so that the thread stands where a run ended at its open questions.
///
/// # Errors
/// As [`runs`](crate::ReadRuns::runs) and [`has_begun`].
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
            // What had lapsed before that run waits for something else.
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

/// The questions among them that wait for an answer.
#[must_use]
pub fn open_questions(rows: Vec<InterruptRow>) -> Vec<Interrupt> {
    rows.into_iter().filter(InterruptRow::is_open).map(|row| row.interrupt).collect()
}
