//! Mailboxes of instances: rules that all stores share.
//!
//! An instance is a thread whose metadata has the member [`INSTANCE`], and its mailbox is the queue of
//! the unfinished runs of that thread.

use crate::StoreError;
use crate::invariants;
use crate::record::{NewRun, RunRow};
use crate::table::Result;
use crate::thread::Metadata;
use serde_json::Value;
use std::cmp::Reverse;
use weftwork_types::run::{Mailbox, RunInput, RunRef, RunStatus};
use weftwork_types::store_error::RefusedByInstance;
use weftwork_types::{RunId, ThreadId, Timestamp};

/// Begin of the names of members of metadata that only a runtime sets.
pub const RESERVED: &str = "weft:";
/// Member of the metadata of a thread that marks it as an instance, with the value `true`.
pub const INSTANCE: &str = "weft:instance";
/// Member of the metadata of an instance that marks it as terminated, with the value `true`.
pub const TERMINATED: &str = "weft:terminated";
/// Member of the metadata of a terminated instance with the time of its termination, in milliseconds
/// since 1970.
pub const TERMINATED_AT: &str = "weft:terminated_at";

/// Member of the metadata of a thread in which an activity continues that asked a question, with the
/// id of its instance.
pub const SET_ASIDE_FROM: &str = "weft:set_aside_from";

/// Returns metadata without the members that only a runtime sets: that of a copy, or of a request.
#[must_use]
pub fn without_reserved(mut metadata: Metadata) -> Metadata {
    metadata.retain(|name, _| !name.starts_with(RESERVED));
    metadata
}

/// Numbers of the activities of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ActivityCounts {
    /// Activities that wait in the mailbox.
    pub waiting: u64,
    /// Activities that a worker has, at most one.
    pub running: u64,
    /// Activities that wait for an answer or for a time, at most one.
    pub asking: u64,
    /// Activities that completed.
    pub succeeded: u64,
    /// Activities that failed or reached their step limit.
    pub failed: u64,
    /// Activities that were cancelled.
    pub cancelled: u64,
}

impl ActivityCounts {
    /// Adds a number of activities whose last runs have a status. An activity that ended at a question
    /// is counted as asking.
    pub fn add(&mut self, status: RunStatus, number: u64) {
        let of_status = match status {
            RunStatus::Queued | RunStatus::Pending => &mut self.waiting,
            RunStatus::Running => &mut self.running,
            RunStatus::Completed => &mut self.succeeded,
            RunStatus::Interrupted => return,
            RunStatus::Failed | RunStatus::LimitReached => &mut self.failed,
            RunStatus::Cancelled => &mut self.cancelled,
        };
        *of_status += number;
    }
}

/// Returns `true` if the metadata is that of an instance.
#[must_use]
pub fn is_instance(metadata: &Metadata) -> bool {
    metadata.get(INSTANCE) == Some(&Value::Bool(true))
}

/// Returns `true` if the metadata is that of an instance that is not terminated.
#[must_use]
pub fn is_living_instance(metadata: &Metadata) -> bool {
    is_instance(metadata) && !is_terminated(metadata)
}

/// Returns `true` if the metadata is that of a terminated instance.
#[must_use]
pub fn is_terminated(metadata: &Metadata) -> bool {
    metadata.get(TERMINATED) == Some(&Value::Bool(true))
}

/// Accepts a run, given the metadata of its thread and the number of the unfinished runs of the thread.
/// Every store calls this in the transaction that creates the run.
///
/// A terminated instance takes no runs, except the one by which [`end_asking`](crate::end_asking) ends
/// its activity. The mailbox is the only way to the others: of the runs that are no activities, they
/// take answers and continuations of what stopped.
///
/// # Errors
/// Returns [`StoreError::MailboxClosed`] if the thread is that of a terminated instance,
/// [`StoreError::BelongsToInstance`] for new input that is no activity and for a change of the state,
/// also in a thread in which an activity continues that was set aside; for a run at a checkpoint and
/// for one that cancels others. For an activity and a run that continues one,
/// [`StoreError::NotFound`] if the thread does not exist or belongs to no instance; for an activity,
/// [`StoreError::MailboxFull`] if the mailbox has as many runs as it may have.
pub fn check_mailbox(new: &NewRun, thread: Option<&Metadata>, unfinished: usize) -> Result<()> {
    let id = &new.at.thread;
    let instance = thread.filter(|metadata| is_instance(metadata));
    if instance.is_some_and(is_terminated) && !ends_activity(new) {
        return Err(closed(id));
    }
    if instance.is_some() {
        check_door(new)?;
    } else if thread.is_some_and(|metadata| metadata.contains_key(SET_ASIDE_FROM)) && brings(new) {
        return Err(belongs_to_instance(id, RefusedByInstance::Input));
    }
    let Some(mailbox) = &new.options.mailbox else { return Ok(()) };
    if instance.is_none() {
        return Err(invariants::missing("instance", id));
    }
    if new.is_sent() && unfinished >= usize::try_from(mailbox.capacity).unwrap_or(usize::MAX) {
        let capacity = mailbox.capacity;
        return Err(StoreError::MailboxFull { thread: id.to_string(), capacity });
    }
    Ok(())
}

/// Refuses runs that bring input past the mailbox, or that cancel what is in it.
fn check_door(new: &NewRun) -> Result<()> {
    if brings(new) && !is_of_runtime(new) {
        return Err(belongs_to_instance(&new.at.thread, RefusedByInstance::Input));
    }
    let sets_aside = new.options.mailbox.as_ref().is_some_and(Mailbox::sets_aside);
    if sets_aside && new.input.is_answer() {
        return Err(belongs_to_instance(&new.at.thread, RefusedByInstance::Answer));
    }
    // An activity that continues begins where it stopped.
    if new.options.at.is_some() && new.options.mailbox.is_none() {
        return Err(belongs_to_instance(&new.at.thread, RefusedByInstance::Checkpoint));
    }
    if new.options.multitask.cancels() {
        return Err(belongs_to_instance(&new.at.thread, RefusedByInstance::Cancellation));
    }
    Ok(())
}

/// Returns `true` for a run with new input that is no activity, or that changes the state.
fn brings(new: &NewRun) -> bool {
    match &new.input {
        RunInput::Start { .. } => !new.is_sent(),
        RunInput::Command(command) => !command.only_answers(),
        RunInput::Update { .. } => true,
        RunInput::Continue => false,
    }
}

/// Returns `true` for a run that a runtime requests by itself: its key is one that no client may use.
fn is_of_runtime(new: &NewRun) -> bool {
    new.options.idempotency_key.as_ref().is_some_and(|key| key.starts_with(RESERVED))
}

/// Returns `true` for the run by which a runtime ends the activity that waits at a terminated
/// instance. That of an activity that is set aside changes the state instead.
fn ends_activity(new: &NewRun) -> bool {
    is_of_runtime(new) && new.input == RunInput::Continue
}

/// Accepts the deletion of a thread, given its metadata. Every store calls this before it deletes a
/// thread by its id; a deletion of old threads skips living instances.
///
/// # Errors
/// Returns [`StoreError::BelongsToInstance`] if it is that of an instance that is not terminated.
pub fn check_deletion(thread: &ThreadId, metadata: &Metadata) -> Result<()> {
    if is_living_instance(metadata) {
        return Err(belongs_to_instance(thread, RefusedByInstance::Deletion));
    }
    Ok(())
}

fn belongs_to_instance(thread: &ThreadId, refused: RefusedByInstance) -> StoreError {
    StoreError::BelongsToInstance { thread: thread.to_string(), refused }
}

/// Creates the error for a claim of an activity whose mailbox does not let any begin, given the run
/// that asked the open question of the instance.
#[must_use]
pub fn not_its_turn(thread: &ThreadId, asking: Option<&RunId>) -> StoreError {
    match asking {
        Some(run) => invariants::busy(&RunRef { thread: thread.clone(), run: run.clone() }),
        None => closed(thread),
    }
}

/// Creates the error for a claim of an activity that waits at a terminated instance.
#[must_use]
pub fn closed(thread: &ThreadId) -> StoreError {
    StoreError::MailboxClosed { thread: thread.to_string() }
}

/// Returns the status of a new run: queued if the thread has an unfinished run that delays it, if the
/// run is an activity, or if it begins later. Answers are recorded at once, and are never queued.
#[must_use]
pub fn first_status(new: &NewRun, is_delayed: bool) -> RunStatus {
    let later = new.begins_later() && !new.input.is_answer();
    if is_delayed || later || new.is_sent() { RunStatus::Queued } else { RunStatus::Pending }
}

/// Returns `true` if an unfinished run delays a new one of its thread. Queued runs have not begun, and
/// delay no run that [continues](NewRun::continues) the thread, whether it answers a question or comes
/// at its time. Activities that wait delay activities only.
#[must_use]
pub fn delays(unfinished: &RunRow, new: &NewRun) -> bool {
    let passes = new.continues() || unfinished.new.options.mailbox.is_some();
    new.is_sent() || unfinished.status != RunStatus::Queued || !passes
}

/// The treatment of the activities that wait in a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// The next one may begin.
    Open,
    /// None begins, because the last activity waits for an answer or for a time. One whose time is
    /// over ends.
    Asks,
    /// None begins or ends, because the instance is terminated.
    Closed,
}

/// Returns the gate of a mailbox, given the metadata of its thread and if the thread has an open
/// question. A question and its answer are one activity, so that no other one comes between them.
#[must_use]
pub fn gate(metadata: &Metadata, asks: bool) -> Gate {
    match (is_terminated(metadata), asks) {
        (true, _) => Gate::Closed,
        (false, true) => Gate::Asks,
        (false, false) => Gate::Open,
    }
}

/// Place of an unfinished run among those of its thread; the smallest one has its turn. `None` for an
/// activity that does not begin now, because the gate of its mailbox is not open. One whose
/// cancellation is requested passes it, and at a question also one whose deadline has passed.
///
/// A run that was claimed, or that was accepted as pending, is always the first one.
#[must_use]
pub fn turn(run: &RunRow, now: Timestamp, gate: Gate) -> Option<(bool, bool, Reverse<i32>)> {
    let queued = run.status == RunStatus::Queued;
    let is_activity = run.new.options.mailbox.is_some();
    let has_ended = run.new.options.deadline.is_some_and(|deadline| deadline <= now);
    let passes = run.cancel_requested
        || match gate {
            Gate::Open => true,
            Gate::Asks => has_ended,
            Gate::Closed => false,
        };
    if queued && is_activity && !passes {
        return None;
    }
    let position = position(run, now);
    Some((queued, position.0, position.1))
}

/// Position of an activity among those of its mailbox; the smallest one is the first. Of several with
/// the same position, the oldest one is.
#[must_use]
pub fn position(run: &RunRow, now: Timestamp) -> (bool, Reverse<i32>) {
    let mailbox = run.new.options.mailbox.as_ref();
    let later = mailbox.is_some() && run.new.options.begins_later(now).is_some();
    (later, Reverse(mailbox.map_or(0, |mailbox| mailbox.priority)))
}
