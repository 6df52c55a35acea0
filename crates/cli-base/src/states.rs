//! States of threads and runs in words.

use crate::CliError;
use std::collections::BTreeSet;
use weftwork::graph::SystemClock;
use weftwork::store::mailbox::is_terminated;
use weftwork::store::{RunRow, Store, ThreadRow};
use weftwork::types::port::Clock;
use weftwork::types::run::{RunOutcome, RunStatus};
use weftwork::types::{Principal, ThreadId};

/// The status of a run that was running when its process died.
pub const NOT_FINISHED: &str = "not finished";

/// Returns the threads of the local organisation that have a run without a live worker.
pub async fn with_orphans(store: &dyn Store) -> Result<BTreeSet<ThreadId>, CliError> {
    let orphans = store.orphans(SystemClock::new().now(), usize::MAX).await?;
    let ours = orphans.into_iter().filter(|(who, _)| who.org == Principal::local().org);
    Ok(ours.map(|(_, run)| run.new.at.thread).collect())
}

/// Returns the states of threads in words: the status of the last run, or that its process died.
pub async fn thread_states(
    store: &dyn Store,
    rows: &[ThreadRow],
) -> Result<Vec<&'static str>, CliError> {
    let is_running = |row: &ThreadRow| row.status == Some(RunStatus::Running);
    let left = match rows.iter().any(is_running) {
        true => with_orphans(store).await?,
        false => BTreeSet::new(),
    };
    let mut states = Vec::new();
    for row in rows {
        states.push(match row.status {
            Some(RunStatus::Running) if left.contains(&row.id) => NOT_FINISHED,
            Some(RunStatus::Interrupted) if !is_terminated(&row.metadata) => {
                let runs = store.runs(&Principal::local(), &row.id).await?;
                runs.last().map_or_else(|| last_run(row), state_of)
            }
            _ => last_run(row),
        });
    }
    Ok(states)
}

/// Returns the state of a run in words.
pub fn state_of(run: &RunRow) -> &'static str {
    match &run.outcome {
        Some(RunOutcome::Interrupted { interrupts, .. }) if interrupts.is_empty() => {
            "stopped at a node"
        }
        _ => status_word(run.status),
    }
}

/// Returns the status of the last run of a thread in words.
pub fn last_run(row: &ThreadRow) -> &'static str {
    match row.status {
        // A terminated instance takes no answers.
        Some(RunStatus::Interrupted) if is_terminated(&row.metadata) => "terminated",
        status => status.map_or("no run", status_word),
    }
}

/// Returns the status of a run in words.
pub fn status_word(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Queued => "queued",
        RunStatus::Pending => "not started",
        RunStatus::Running => "running",
        RunStatus::Completed => "completed",
        RunStatus::Interrupted => "waits for an answer",
        RunStatus::LimitReached => "limit reached",
        RunStatus::Cancelled => "cancelled",
        RunStatus::Failed => "failed",
    }
}
