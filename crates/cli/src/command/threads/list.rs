use crate::CliError;
use crate::context::CommandContext;
use crate::exit::Exit;
use crate::terminal::{Table, moment};
use std::collections::BTreeSet;
use weftwork::graph::SystemClock;
use weftwork::store::Store;
use weftwork::types::port::Clock;
use weftwork::types::run::RunStatus;
use weftwork::types::{Principal, ThreadId};

/// The status of a run that was running when its process died.
pub(super) const NOT_FINISHED: &str = "not finished";

pub(crate) async fn list(
    limit: usize,
    json: bool,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    if context.is_new() {
        return Ok(none(json, context));
    }
    let store = context.store_there()?;
    let rows = store.threads(&Principal::local(), 0, limit).await?;
    if json {
        for row in &rows {
            context.terminal.line(serde_json::json!(row))?;
        }
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        return Ok(none(json, context));
    }
    let running = rows.iter().any(|row| row.status == RunStatus::Running);
    let left = if running { with_orphans(store.as_ref()).await? } else { BTreeSet::new() };
    let mut table = Table::new(&["THREAD", "AGENT", "LAST RUN", "CHANGED (UTC)"]);
    for row in rows {
        let is_left = row.status == RunStatus::Running && left.contains(&row.id);
        let status = if is_left { NOT_FINISHED } else { word(row.status) }.to_owned();
        table.row([row.id.to_string(), row.graph, status, moment(row.updated_at)]);
    }
    table.write(&context.terminal)?;
    Ok(Exit::Done)
}

fn none(json: bool, context: &CommandContext) -> Exit {
    if !json {
        let place = &context.config.store.value;
        context.terminal.note(format_args!("no threads yet in {place}; start one with: weft chat"));
    }
    Exit::Done
}

/// Returns the threads of the local organisation that have a run without a live worker.
pub(super) async fn with_orphans(store: &dyn Store) -> Result<BTreeSet<ThreadId>, CliError> {
    let orphans = store.orphans(SystemClock::new().now(), usize::MAX).await?;
    let ours = orphans.into_iter().filter(|(who, _)| who.org == Principal::local().org);
    Ok(ours.map(|(_, run)| run.new.at.thread).collect())
}

/// Returns the status of a run in words.
pub(crate) fn word(status: RunStatus) -> &'static str {
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
