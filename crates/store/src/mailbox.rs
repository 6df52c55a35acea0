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
use weftwork_types::run::RunStatus;
use weftwork_types::{ThreadId, Timestamp};

/// Begin of the names of members of metadata that only a runtime sets.
pub const RESERVED: &str = "weft:";
/// Member of the metadata of a thread that marks it as an instance, with the value `true`.
pub const INSTANCE: &str = "weft:instance";
/// Member of the metadata of an instance that marks it as terminated, with the value `true`.
pub const TERMINATED: &str = "weft:terminated";

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
    /// Activities that completed or ended at open questions.
    pub succeeded: u64,
    /// Activities that failed or reached their step limit.
    pub failed: u64,
    /// Activities that were cancelled.
    pub cancelled: u64,
}

impl ActivityCounts {
    /// Adds a number of activities with a status.
    pub fn add(&mut self, status: RunStatus, number: u64) {
        let of_status = match status {
            RunStatus::Queued | RunStatus::Pending => &mut self.waiting,
            RunStatus::Running => &mut self.running,
            RunStatus::Completed | RunStatus::Interrupted => &mut self.succeeded,
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

/// Returns `true` if the metadata is that of a terminated instance.
#[must_use]
pub fn is_terminated(metadata: &Metadata) -> bool {
    metadata.get(TERMINATED) == Some(&Value::Bool(true))
}

/// Accepts a run, given the metadata of its thread and the number of the unfinished runs of the thread.
/// Every store calls this in the transaction that creates the run.
///
/// A terminated instance takes no runs at all. Runs that are no activities of an instance, such as an
/// update of its state from outside, are accepted as those of other threads.
///
/// # Errors
/// Returns [`StoreError::MailboxClosed`] if the thread is that of a terminated instance. For an
/// activity and a run that continues one, [`StoreError::NotFound`] if the thread does not exist or
/// belongs to no instance; for an activity, [`StoreError::MailboxFull`] if the mailbox has as many
/// runs as it may have.
pub fn check_mailbox(new: &NewRun, thread: Option<&Metadata>, unfinished: usize) -> Result<()> {
    let id = &new.at.thread;
    let instance = thread.filter(|metadata| is_instance(metadata));
    if instance.is_some_and(is_terminated) {
        return Err(closed(id));
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

/// Creates the error for a claim of an activity that waits at a terminated instance.
#[must_use]
pub fn closed(thread: &ThreadId) -> StoreError {
    StoreError::MailboxClosed { thread: thread.to_string() }
}

/// Returns the status of a new run: queued if the thread has an unfinished run, or if the run is an
/// activity.
#[must_use]
pub fn first_status(new: &NewRun, is_busy: bool) -> RunStatus {
    if is_busy || new.is_sent() { RunStatus::Queued } else { RunStatus::Pending }
}

/// Place of an unfinished run among those of its thread; the smallest one has its turn. `None` for a
/// run that does not begin, because its instance is terminated.
///
/// A run that was claimed, or that was accepted as pending, is always the first one.
#[must_use]
pub fn turn(
    run: &RunRow,
    now: Timestamp,
    is_terminated: bool,
) -> Option<(bool, bool, Reverse<i32>)> {
    let queued = run.status == RunStatus::Queued;
    let mailbox = run.new.options.mailbox.as_ref();
    if is_terminated && queued && mailbox.is_some() && !run.cancel_requested {
        return None;
    }
    let later = mailbox.is_some() && run.new.options.begins_later(now).is_some();
    Some((queued, later, Reverse(mailbox.map_or(0, |mailbox| mailbox.priority))))
}
