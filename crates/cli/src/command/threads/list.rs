use crate::CliError;
use crate::args::List;
use crate::context::CommandContext;
use crate::exit::Exit;
use crate::terminal::{Table, format_moment};
use std::collections::BTreeSet;
use weftwork::graph::SystemClock;
use weftwork::store::mailbox::is_terminated;
use weftwork::store::thread::{Direction, ThreadKey};
use weftwork::store::{
    FoundThread, RunRow, SearchFrom, Store, ThreadCursor, ThreadOrder, ThreadQuery, ThreadRow,
};
use weftwork::types::port::Clock;
use weftwork::types::run::{RunOutcome, RunStatus};
use weftwork::types::{Principal, ThreadId};

/// The status of a run that was running when its process died.
pub(crate) const NOT_FINISHED: &str = "not finished";

pub(crate) async fn list(args: List, context: &CommandContext) -> Result<Exit, CliError> {
    let json = args.json;
    if context.is_new() {
        return Ok(note_empty(json, context));
    }
    let store = context.store_there()?;
    let (found, next) = find_threads(store.as_ref(), args).await?;
    if json {
        for FoundThread { row, damage, .. } in &found {
            let mut line = serde_json::json!(row);
            if let Some(damage) = damage {
                line["damage"] = serde_json::json!(damage);
            }
            context.terminal.line(line)?;
        }
        return Ok(Exit::Done);
    }
    let damaged: Vec<bool> = found.iter().map(|found| found.damage.is_some()).collect();
    let rows: Vec<ThreadRow> = found.into_iter().map(|found| found.row).collect();
    if rows.is_empty() {
        return Ok(note_empty(json, context));
    }
    let states = thread_states(store.as_ref(), &rows).await?;
    let mut table = Table::new(&["THREAD", "AGENT", "LAST RUN", "CHANGED (UTC)"]);
    for ((row, state), is_damaged) in rows.into_iter().zip(states).zip(damaged) {
        let state = if is_damaged { "damaged" } else { state };
        table.row([
            row.id.to_string(),
            row.graph.unwrap_or_default(),
            state.to_owned(),
            format_moment(row.updated_at),
        ]);
    }
    table.write(&context.terminal)?;
    if let Some(next) = next {
        let weft = &context.terminal.weft;
        context.terminal.note(format_args!("older threads: {weft} threads list --after {next}"));
    }
    Ok(Exit::Done)
}

/// Returns the threads that fulfil the conditions, and the position after them.
async fn find_threads(
    store: &dyn Store,
    args: List,
) -> Result<(Vec<FoundThread>, Option<ThreadCursor>), CliError> {
    let by_change = ThreadOrder { by: ThreadKey::UpdatedAt, direction: Direction::Descending };
    let from = args.after.map_or(SearchFrom::Start(by_change), SearchFrom::After);
    let metadata = args.metadata.into_iter().flatten().collect();
    let mut query = ThreadQuery { ids: None, metadata, status: args.status, from, limit: 0 };
    let mut rows = Vec::new();
    loop {
        query.limit = args.limit.get() - rows.len();
        let page = store.search_threads(&Principal::local(), query.clone()).await?;
        rows.extend(page.threads);
        match page.next {
            Some(next) if rows.len() < args.limit.get() => query.from = SearchFrom::After(next),
            next => return Ok((rows, next)),
        }
    }
}

fn note_empty(json: bool, context: &CommandContext) -> Exit {
    if !json {
        let place = &context.config.store.value;
        let weft = &context.terminal.weft;
        context
            .terminal
            .note(format_args!("no threads yet in {place}; start one with: {weft} chat"));
    }
    Exit::Done
}

/// Returns the threads of the local organisation that have a run without a live worker.
pub(crate) async fn with_orphans(store: &dyn Store) -> Result<BTreeSet<ThreadId>, CliError> {
    let orphans = store.orphans(SystemClock::new().now(), usize::MAX).await?;
    let ours = orphans.into_iter().filter(|(who, _)| who.org == Principal::local().org);
    Ok(ours.map(|(_, run)| run.new.at.thread).collect())
}

/// Returns the states of threads in words: the status of the last run, or that its process died.
pub(crate) async fn thread_states(
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
pub(crate) fn state_of(run: &RunRow) -> &'static str {
    match &run.outcome {
        Some(RunOutcome::Interrupted { interrupts, .. }) if interrupts.is_empty() => {
            "stopped at a node"
        }
        _ => status_word(run.status),
    }
}

/// Returns the status of the last run of a thread in words.
pub(crate) fn last_run(row: &ThreadRow) -> &'static str {
    match row.status {
        // A terminated instance takes no answers.
        Some(RunStatus::Interrupted) if is_terminated(&row.metadata) => "terminated",
        status => status.map_or("no run", status_word),
    }
}

/// Returns the status of a run in words.
pub(crate) fn status_word(status: RunStatus) -> &'static str {
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
