use crate::args::List;
use weftwork::store::thread::{Direction, ThreadKey};
use weftwork::store::{
    FoundThread, SearchFrom, Store, ThreadCursor, ThreadOrder, ThreadQuery, ThreadRow,
};
use weftwork::types::Principal;
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::states::thread_states;
use weftwork_cli_base::terminal::{Table, format_moment};

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
