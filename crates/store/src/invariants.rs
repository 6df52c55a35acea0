//! Rules shared by all stores, so that drivers only read and write rows.

use crate::StoreError;
use crate::checkpoint::{CheckpointBatch, CheckpointNamespace};
use crate::items::Item;
use crate::mailbox;
use crate::record::{Base, Claim, InterruptRow, NewRun, RunRow};
use crate::table::Result;
use crate::thread::Metadata;
use weftwork_types::port::{CallRecord, CallState};
use weftwork_types::run::{Multitask, RunOptions, RunRef, RunStatus};
use weftwork_types::{CheckpointId, InterruptId, RunId, ThreadId, WorkerId};

/// Returns `true` if two requests for a run are equal. Its times do not count: they are computed from
/// the time of the request.
#[must_use]
pub fn same_request(a: &NewRun, b: &NewRun) -> bool {
    let RunOptions { deadline, not_before, ref stream_modes, .. } = b.options;
    let stream_modes = stream_modes.clone();
    let options = RunOptions { deadline, not_before, stream_modes, ..a.options.clone() };
    a.at.thread == b.at.thread && a.graph == b.graph && a.input == b.input && options == b.options
}

/// Returns `true` if a run may wait for earlier runs of its thread. Otherwise it is refused with
/// `Busy`.
#[must_use]
pub fn may_wait(new: &NewRun) -> bool {
    let answers = new.input.is_answer();
    let waits = new.options.multitask != Multitask::Reject || new.is_sent();
    waits && !answers
}

/// Returns the base of a run that rolls back earlier ones, given the oldest of these and the newest
/// checkpoint of the thread. If the oldest one was not claimed yet, its base is the newest
/// checkpoint. The runs from the oldest one on are rolled back if there is a base.
#[must_use]
pub fn base_after(new: &NewRun, oldest: &RunRow, newest: Option<CheckpointId>) -> Option<Base> {
    let takes_back = new.options.multitask == Multitask::Rollback && new.options.at.is_none();
    let base = oldest.base.or((oldest.fence == 0).then(|| newest.into()));
    base.filter(|_| takes_back)
}

/// Accepts the oldest of the runs that a new run rolls back: the one that its options name, or the
/// oldest unfinished one. A run that waits behind others has no state to return to.
///
/// # Errors
/// Returns [`StoreError::NotFound`] if the named run is not on the thread, [`StoreError::Busy`] if
/// it waits behind `open`.
pub fn oldest_rolled_back<'a>(
    new: &NewRun,
    named: Option<&'a RunRow>,
    open: Option<&'a RunRow>,
) -> Result<Option<&'a RunRow>> {
    let Some(run) = &new.options.roll_back else { return Ok(open) };
    let named = named.ok_or_else(|| missing("run", run))?;
    match open {
        Some(open) if named.status == RunStatus::Queued && open.new.at != named.new.at => {
            Err(busy(&open.new.at))
        }
        _ => Ok(Some(named)),
    }
}

/// The stored fields of a run against which a claim is checked.
#[derive(Debug, Clone, Copy)]
pub struct Holder<'a> {
    /// Status of the run.
    pub status: RunStatus,
    /// Worker that holds the run.
    pub worker: Option<&'a WorkerId>,
    /// Fence of the newest claim.
    pub fence: u64,
}

/// Accepts a write of a worker if its claim is the newest and the run is running.
///
/// # Errors
/// Returns [`StoreError::Fenced`] otherwise.
pub fn check_claim(claim: &Claim, holder: Holder<'_>) -> Result<()> {
    let newest = holder.fence == claim.fence && holder.worker == Some(&claim.worker);
    if newest && holder.status == RunStatus::Running {
        return Ok(());
    }
    Err(StoreError::Fenced {
        run: claim.at.run.to_string(),
        newest: holder.fence,
        ours: claim.fence,
    })
}

/// Accepts events read after a number if the first of them directly follows it. A gap means that
/// events were dropped.
///
/// # Errors
/// Returns [`StoreError::Dropped`] otherwise.
pub fn check_kept(run: &RunId, after: u64, first: Option<u64>) -> Result<()> {
    match first {
        Some(oldest) if oldest > after.saturating_add(1) => {
            Err(StoreError::Dropped { run: run.to_string(), after, oldest })
        }
        _ => Ok(()),
    }
}

/// Accepts the requeue of a run that failed and is the last of its thread, given the metadata of the
/// thread. The caller has checked that no other run is unfinished.
///
/// # Errors
/// Returns [`StoreError::Busy`] if the run has not ended, [`StoreError::MailboxClosed`] if the thread
/// is that of a terminated instance, [`StoreError::NotRequeued`] in all other cases.
pub fn check_requeue(
    at: &RunRef,
    status: RunStatus,
    is_last: bool,
    thread: &Metadata,
) -> Result<()> {
    let why = match status {
        RunStatus::Queued | RunStatus::Pending | RunStatus::Running => return Err(busy(at)),
        RunStatus::Failed if mailbox::is_terminated(thread) => {
            return Err(mailbox::closed(&at.thread));
        }
        RunStatus::Failed if is_last => return Ok(()),
        RunStatus::Failed => "has runs after it",
        RunStatus::Completed => "completed",
        RunStatus::Interrupted => "ended at open questions",
        RunStatus::LimitReached => "reached its step limit",
        RunStatus::Cancelled => "was cancelled",
    };
    Err(StoreError::NotRequeued { run: at.run.to_string(), thread: at.thread.to_string(), why })
}

/// Accepts an answer if its question is open.
///
/// # Errors
/// Returns [`StoreError::Answered`] or [`StoreError::NotFound`] otherwise.
pub fn check_answerable(id: InterruptId, row: Option<&InterruptRow>) -> Result<()> {
    match row {
        Some(InterruptRow { answer: Some(first), .. }) => {
            Err(StoreError::Answered { interrupt: id.to_string(), first: Box::new(first.clone()) })
        }
        Some(InterruptRow { closed: false, .. }) => Ok(()),
        _ => Err(missing("interrupt", id)),
    }
}

/// Merges a new record of a call into the recorded one. A recorded result is not replaced, and
/// counters only increase, so that merging the same record again has no effect.
pub fn record_call(known: &mut CallRecord, now: CallRecord) {
    if known.state == CallState::Intent {
        known.state = now.state;
        known.result = now.result;
        known.settled_at = now.settled_at;
    }
    known.made = known.made.max(now.made);
    known.possibly_paid = known.possibly_paid.max(now.possibly_paid);
    known.reused = known.reused.max(now.reused);
}

/// Creates the error for a missing entity.
#[must_use]
pub fn missing(kind: &'static str, id: impl std::fmt::Display) -> StoreError {
    StoreError::NotFound { kind, id: id.to_string() }
}

/// Creates the error for a thread or run that is in use.
#[must_use]
pub fn busy(at: &RunRef) -> StoreError {
    StoreError::Busy { thread: at.thread.to_string(), run: at.run.to_string() }
}

/// Creates the error for an idempotency key that was used with a different request.
#[must_use]
pub fn key_reused(key: &str) -> StoreError {
    StoreError::KeyReused { key: key.to_owned() }
}

/// Creates the error for a run id that was used with a different request.
#[must_use]
pub fn run_id_reused(at: &RunRef) -> StoreError {
    StoreError::Conflict {
        location: format!("run `{}` of thread `{}`", at.run, at.thread),
        expected: "a new run id".to_owned(),
        found: "a run of another request".to_owned(),
    }
}

/// Creates the error for an import of a thread whose id exists.
#[must_use]
pub fn thread_exists(thread: &ThreadId) -> StoreError {
    StoreError::Conflict {
        location: format!("thread `{thread}`"),
        expected: "no thread of this name, or the same".to_owned(),
        found: "another one, or one that has changed since".to_owned(),
    }
}

/// Creates the error for a new thread whose id exists.
#[must_use]
pub fn thread_id_taken(thread: &ThreadId) -> StoreError {
    StoreError::Conflict {
        location: format!("thread `{thread}`"),
        expected: "no thread of this id".to_owned(),
        found: "one".to_owned(),
    }
}

/// Creates the error for an import of an item whose name exists.
#[must_use]
pub fn item_exists(item: &Item) -> StoreError {
    StoreError::Conflict {
        location: place_of_item(item),
        expected: "no item of this name, or the same".to_owned(),
        found: "another one".to_owned(),
    }
}

pub(crate) fn place_of_item(item: &Item) -> String {
    format!("item {:?} of namespace `{}`", item.key, item.namespace)
}

/// Accepts the rewrite of checkpoints if the newest one is still the expected one.
///
/// # Errors
/// Returns [`StoreError::Conflict`] otherwise.
pub fn check_newest(
    at: &CheckpointNamespace,
    expected: CheckpointId,
    found: Option<CheckpointId>,
) -> Result<()> {
    if found == Some(expected) {
        return Ok(());
    }
    Err(StoreError::Conflict {
        location: format!("checkpoints of thread `{}`, graph `{}`", at.thread, at.ns),
        expected: format!("`{expected}` as the newest one"),
        found: found.map_or("none".to_owned(), |id| format!("`{id}`")),
    })
}

/// Returns `true` if the newest checkpoint is included in the checkpoints that replace all others.
#[must_use]
pub fn stays(at: &CheckpointNamespace, newest: CheckpointId, batch: &CheckpointBatch) -> bool {
    batch.checkpoints.iter().any(|new| new.ns == at.ns && new.id == newest)
}
