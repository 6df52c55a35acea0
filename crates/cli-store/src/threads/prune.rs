//! `weft threads prune`: deletes old threads, checkpoints or events.

use super::delete::end_and_delete;
use crate::args::Prune;
use std::sync::Arc;
use weftwork::graph::Host;
use weftwork::graph::{RuntimeError, SystemClock};
use weftwork::runtime::StoreCheckpointer;
use weftwork::store::{
    Store, StoreError, ThreadRow, Untouched, Waiting, delete_all_untouched, drop_all_events,
};
use weftwork::types::port::Clock;
use weftwork::types::{Principal, ThreadId, Timestamp};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::{CommandContext, Found};
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::input::confirm;
use weftwork_cli_base::question;
use weftwork_cli_base::states::{NOT_FINISHED, last_run, with_orphans};
use weftwork_cli_base::terminal::{Table, format_moment};

pub(crate) async fn prune(args: &Prune, context: &CommandContext) -> Result<Exit, CliError> {
    let age_ms = i64::try_from(args.older_than.as_millis()).unwrap_or(i64::MAX);
    let before = Timestamp(SystemClock::new().now().0.saturating_sub(age_ms));
    let store = context.store_there()?;
    if args.events {
        return drop_events(store.as_ref(), before, args, context).await;
    }
    let included = args.waiting || args.newest.is_some();
    let waiting = if included { Waiting::Included } else { Waiting::Spared };
    let which = Untouched { before, waiting, limit: usize::MAX };
    let old = store.untouched(&Principal::local(), which).await?;
    let left = match args.newest {
        Some(_) => Vec::new(),
        None => find_unfinished(store.as_ref(), which, context).await?,
    };
    let (taken, spared) = if args.unfinished { (left, Vec::new()) } else { (Vec::new(), left) };
    if args.dry_run || old.is_empty() && taken.is_empty() {
        let old_lines = old.iter().map(|row| (row, last_run(row)));
        list_threads(old_lines.chain(taken.iter().map(|row| (row, NOT_FINISHED))), context)?;
        let count = old.len() + taken.len();
        context.terminal.note(format_args!("{count} threads; nothing was changed"));
    } else {
        let exit = match args.newest {
            Some(keep) => thin_threads(&store, &old, keep.get(), context).await?,
            None => {
                let selected = Selected { which, old: old.len(), unfinished: &taken };
                delete_selected(store.as_ref(), selected, args, context).await?
            }
        };
        if exit != Exit::Done {
            return Ok(exit);
        }
    }
    if !spared.is_empty() {
        let count = spared.len();
        context.terminal.note(format_args!(
            "{count} more threads have an unfinished run; delete them too with --unfinished"
        ));
    }
    Ok(Exit::Done)
}

/// Returns old threads that have an unfinished run whose process is dead.
async fn find_unfinished(
    store: &dyn Store,
    which: Untouched,
    context: &CommandContext,
) -> Result<Vec<ThreadRow>, CliError> {
    let mut rows = Vec::new();
    for id in with_orphans(store).await? {
        rows.extend(still_old(store, &id, which, context).await?.map(|found| found.row));
    }
    Ok(rows)
}

/// Reads a thread. Returns `None` if it is deleted, has changed since, or is waiting and waiting
/// threads are spared.
async fn still_old(
    store: &dyn Store,
    id: &ThreadId,
    which: Untouched,
    context: &CommandContext,
) -> Result<Option<Found>, CliError> {
    match context.thread(store, id).await {
        Ok(found) if found.row.updated_at < which.before => {
            let spared = which.waiting == Waiting::Spared
                && !question::open_questions_of(store, id).await?.is_empty();
            Ok(Some(found).filter(|_| !spared))
        }
        Ok(_) => Ok(None),
        Err(CliError::App(weftwork::Error::Store(StoreError::NotFound { .. }))) => Ok(None),
        Err(error) => Err(error),
    }
}

fn list_threads<'a>(
    threads: impl Iterator<Item = (&'a ThreadRow, &'static str)>,
    context: &CommandContext,
) -> Result<(), CliError> {
    let mut threads = threads.peekable();
    if threads.peek().is_none() {
        return Ok(());
    }
    let mut table = Table::new(&["THREAD", "AGENT", "LAST RUN", "CHANGED (UTC)"]);
    for (row, status) in threads {
        let status = status.to_owned();
        table.row([
            row.id.to_string(),
            row.graph.clone().unwrap_or_default(),
            status,
            format_moment(row.updated_at),
        ]);
    }
    table.write(&context.terminal)
}

/// The threads to delete.
struct Selected<'a> {
    which: Untouched,
    /// Number of the threads whose runs have ended.
    old: usize,
    /// Threads with an unfinished run.
    unfinished: &'a [ThreadRow],
}

async fn delete_selected(
    store: &dyn Store,
    selected: Selected<'_>,
    args: &Prune,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let Selected { which, old, unfinished } = selected;
    let count = old + unfinished.len();
    let what = format!("deleting {count} threads with their runs, journal and questions");
    if !confirm(what, args.yes, &context.terminal)? {
        return Ok(Exit::Cancelled);
    }
    let who = Principal::local();
    let mut forgotten =
        if old == 0 { 0 } else { delete_all_untouched(store, &who, which).await?.len() };
    for row in unfinished {
        let Some(found) = still_old(store, &row.id, which, context).await? else { continue };
        match end_and_delete(store, &found).await {
            Ok(()) => forgotten += 1,
            // Another process resumed or deleted the thread meanwhile.
            Err(CliError::App(weftwork::Error::Store(
                StoreError::Busy { .. } | StoreError::NotFound { .. },
            ))) => {}
            Err(error) => return Err(error),
        }
    }
    store.collect_blobs(&who).await?;
    context.terminal.note(format_args!("deleted {forgotten} threads"));
    context.delete_remote_threads(store).await?;
    Ok(Exit::Done)
}

/// Deletes all but the newest `keep` checkpoints of threads. Threads can still be resumed.
async fn thin_threads(
    store: &Arc<dyn Store>,
    old: &[ThreadRow],
    keep: usize,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let who = Principal::local();
    let checkpointer = StoreCheckpointer::new(Arc::clone(store) as _, who.clone());
    let host = Host::new().with_checkpointer(checkpointer);
    let mut thinned = 0;
    let mut left = Vec::<&ThreadId>::new();
    for row in old {
        let Ok(graph) = context.graph_of(row.graph.as_deref().unwrap_or_default()) else {
            left.push(&row.id);
            continue;
        };
        match graph.prune(&host, row.id.as_str(), keep).await {
            Ok(()) => thinned += 1,
            // The thread has changed meanwhile.
            Err(RuntimeError::Store(StoreError::Conflict { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    store.collect_blobs(&who).await?;
    context
        .terminal
        .note(format_args!("pruned {thinned} threads to their newest {keep} checkpoints"));
    for id in left {
        context.terminal.note(format_args!("skipped thread {id}: this build has no such agent"));
    }
    Ok(Exit::Done)
}

async fn drop_events(
    store: &dyn Store,
    before: Timestamp,
    args: &Prune,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let what = "deleting all but the last event of ended runs".to_owned();
    if !confirm(what, args.yes, &context.terminal)? {
        return Ok(Exit::Cancelled);
    }
    let runs = drop_all_events(store, &Principal::local(), before).await?;
    context.terminal.note(format_args!("deleted events of {runs} runs"));
    Ok(Exit::Done)
}
