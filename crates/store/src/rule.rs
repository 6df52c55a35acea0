//! What every store decides alike, so that drivers only fetch and keep rows.

use crate::checkpoint::{Keep, Shelf};
use crate::error::StoreError;
use crate::items::Item;
use crate::record::{Base, Claim, InterruptRow, NewRun, RunRow};
use crate::table::Result;
use weftwork_types::port::{CallRecord, CallState};
use weftwork_types::run::{Multitask, RunInput, RunRef, RunStatus};
use weftwork_types::{CheckpointId, InterruptId, RunId, ThreadId, WorkerId};

/// Whether two requests for a run ask for the same.
#[must_use]
pub fn same_request(a: &NewRun, b: &NewRun) -> bool {
    a.at.thread == b.at.thread && a.graph == b.graph && a.input == b.input && a.options == b.options
}

/// Whether a run may wait for others of its thread to end; `Busy` is what it gets otherwise.
#[must_use]
pub fn may_wait(new: &NewRun) -> bool {
    let answers = matches!(new.input, RunInput::Resume { .. });
    new.options.multitask != Multitask::Reject && !answers
}

/// Where a run begins that takes others back, the oldest of which is given, and what the thread's
/// newest checkpoint is now. A first one that was not claimed yet begins there too.
#[must_use]
pub fn base_after(new: &NewRun, oldest: &RunRow, newest: Option<CheckpointId>) -> Option<Base> {
    let takes_back = new.options.multitask == Multitask::Rollback && new.options.at.is_none();
    let base = oldest.base.or((oldest.fence == 0).then(|| newest.into()));
    base.filter(|_| takes_back)
}

/// What is stored of a run as far as a claim is checked against it.
#[derive(Debug, Clone, Copy)]
pub struct Holder<'a> {
    /// Where the run stands.
    pub status: RunStatus,
    /// The worker that has it.
    pub worker: Option<&'a WorkerId>,
    /// The newest claim's fence.
    pub fence: u64,
}

/// Lets a write of a worker pass when its claim is the newest and the run goes on.
///
/// # Errors
/// [`StoreError::Fenced`].
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

/// Lets events be read after a place when the first of them follows it, as it does unless some were
/// dropped.
///
/// # Errors
/// [`StoreError::Dropped`].
pub fn check_kept(run: &RunId, after: u64, first: Option<u64>) -> Result<()> {
    match first {
        Some(oldest) if oldest > after.saturating_add(1) => {
            Err(StoreError::Dropped { run: run.to_string(), after, oldest })
        }
        _ => Ok(()),
    }
}

/// Lets a run be requeued that failed and is the last of its thread; another run that has not ended
/// is looked for before.
///
/// # Errors
/// [`StoreError::Busy`] when it has not ended itself, or [`StoreError::NotRequeued`].
pub fn check_requeue(at: &RunRef, status: RunStatus, is_last: bool) -> Result<()> {
    let why = match status {
        RunStatus::Queued | RunStatus::Pending | RunStatus::Running => return Err(busy(at)),
        RunStatus::Failed if is_last => return Ok(()),
        RunStatus::Failed => "has runs after it",
        RunStatus::Completed => "completed",
        RunStatus::Interrupted => "ended at open questions",
        RunStatus::LimitReached => "reached its step limit",
        RunStatus::Cancelled => "was cancelled",
    };
    Err(StoreError::NotRequeued { run: at.run.to_string(), thread: at.thread.to_string(), why })
}

/// Lets an answer pass when its question is open.
///
/// # Errors
/// [`StoreError::Answered`] or [`StoreError::NotFound`].
pub fn check_answerable(id: InterruptId, row: Option<&InterruptRow>) -> Result<()> {
    match row {
        Some(InterruptRow { answer: Some(first), .. }) => {
            Err(StoreError::Answered { interrupt: id.to_string(), first: Box::new(first.clone()) })
        }
        Some(InterruptRow { closed: false, .. }) => Ok(()),
        _ => Err(missing("interrupt", id)),
    }
}

/// Brings a call that is on record up to what is known of it now. A result that is on record stays,
/// and counts only go up: the same record a second time changes nothing.
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

/// The error for what is not there.
#[must_use]
pub fn missing(kind: &'static str, id: impl std::fmt::Display) -> StoreError {
    StoreError::NotFound { kind, id: id.to_string() }
}

/// The error for a thread or run that somebody else has.
#[must_use]
pub fn busy(at: &RunRef) -> StoreError {
    StoreError::Busy { thread: at.thread.to_string(), run: at.run.to_string() }
}

/// The error for an idempotency key that came with another request.
#[must_use]
pub fn key_reused(key: &str) -> StoreError {
    StoreError::KeyReused { key: key.to_owned() }
}

/// The error for a run id that came with another request.
#[must_use]
pub fn run_id_reused(at: &RunRef) -> StoreError {
    StoreError::Conflict {
        place: format!("run `{}` of thread `{}`", at.run, at.thread),
        expected: "a new run id".to_owned(),
        found: "a run of another request".to_owned(),
    }
}

/// The error for a thread that is put where one of its name is.
#[must_use]
pub fn thread_exists(thread: &ThreadId) -> StoreError {
    StoreError::Conflict {
        place: format!("thread `{thread}`"),
        expected: "no thread of this name, or the same".to_owned(),
        found: "another one, or one that has changed since".to_owned(),
    }
}

/// The error for an item that is put where another one of its name is.
#[must_use]
pub fn item_exists(item: &Item) -> StoreError {
    StoreError::Conflict {
        place: place_of_item(item),
        expected: "no item of this name, or the same".to_owned(),
        found: "another one".to_owned(),
    }
}

pub(crate) fn place_of_item(item: &Item) -> String {
    format!("item {:?} of namespace `{}`", item.key, item.namespace)
}

/// Lets checkpoints be rewritten when the newest one is still the one that was read.
///
/// # Errors
/// [`StoreError::Conflict`].
pub fn check_newest(at: &Shelf, expected: CheckpointId, found: Option<CheckpointId>) -> Result<()> {
    if found == Some(expected) {
        return Ok(());
    }
    Err(StoreError::Conflict {
        place: format!("checkpoints of thread `{}`, graph `{}`", at.thread, at.ns),
        expected: format!("`{expected}` as the newest one"),
        found: found.map_or("none".to_owned(), |id| format!("`{id}`")),
    })
}

/// Whether a checkpoint is among those that take the place of all others.
#[must_use]
pub fn stays(at: &Shelf, newest: CheckpointId, keep: &Keep) -> bool {
    keep.checkpoints.iter().any(|new| new.ns == at.ns && new.id == newest)
}
