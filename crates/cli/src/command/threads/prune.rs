//! `weft threads prune`: what is old goes.

use super::super::runs::end_all;
use super::list::{left_behind, word};
use crate::CliError;
use crate::args::Prune;
use crate::exit::Exit;
use crate::house::{Found, House};
use crate::input::one_line;
use crate::screen::{Table, moment};
use std::sync::Arc;
use weftwork::graph::{Host, RuntimeError, StoreSaver, SystemClock};
use weftwork::store::{
    Store, StoreError, ThreadRow, Untouched, Waiting, drop_all_events, forget_all,
};
use weftwork::types::port::Clock;
use weftwork::types::{Principal, ThreadId, Timestamp};

pub(crate) async fn prune(args: &Prune, house: &House) -> Result<Exit, CliError> {
    let age_ms = i64::try_from(args.older_than.as_millis()).unwrap_or(i64::MAX);
    let before = Timestamp(SystemClock::new().now().0.saturating_sub(age_ms));
    let store = house.store_there()?;
    if args.events {
        return drop_events(store.as_ref(), before, args, house).await;
    }
    let included = args.waiting || args.keep.is_some();
    let waiting = if included { Waiting::Included } else { Waiting::Spared };
    let which = Untouched { before, waiting, limit: usize::MAX };
    let old = store.untouched(&Principal::local(), which).await?;
    let left = unfinished(store.as_ref(), before, house).await?;
    let cut: &[Found] = if args.unfinished { &left } else { &[] };
    if args.dry_run || old.is_empty() && cut.is_empty() {
        list(old.iter().chain(cut.iter().map(|found| &found.row)), house)?;
        let count = old.len() + cut.len();
        house.screen.note(format_args!("{count} threads; nothing was changed"));
    } else {
        let exit = match args.keep {
            Some(keep) => thin(&store, &old, keep.get(), house).await?,
            None => forget(store.as_ref(), which, (old.len(), cut), args, house).await?,
        };
        if exit != Exit::Done {
            return Ok(exit);
        }
    }
    if !args.unfinished && !left.is_empty() {
        let count = left.len();
        house.screen.note(format_args!(
            "{count} more have a run that was not finished; --unfinished deletes them too"
        ));
    }
    Ok(Exit::Done)
}

/// Threads that nothing has changed for long and of which a run was not finished and nobody has it.
async fn unfinished(
    store: &dyn Store,
    before: Timestamp,
    house: &House,
) -> Result<Vec<Found>, CliError> {
    let mut found = Vec::new();
    for id in left_behind(store).await? {
        match house.thread(store, &id).await {
            Ok(thread) if thread.row.updated_at < before => found.push(thread),
            // It went on, or was deleted meanwhile.
            Ok(_) | Err(CliError::App(weftwork::Error::Store(StoreError::NotFound { .. }))) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn list<'a>(threads: impl Iterator<Item = &'a ThreadRow>, house: &House) -> Result<(), CliError> {
    let mut threads = threads.peekable();
    if threads.peek().is_none() {
        return Ok(());
    }
    let mut table = Table::new(&["THREAD", "AGENT", "LAST RUN", "CHANGED (UTC)"]);
    for row in threads {
        let status = word(row.status).to_owned();
        table.row([row.id.to_string(), row.graph.clone(), status, moment(row.updated_at)]);
    }
    table.write(&house.screen)
}

/// Whether somebody confirms what cannot be undone.
fn confirmed(what: String, args: &Prune, house: &House) -> Result<bool, CliError> {
    let screen = &house.screen;
    if args.yes {
        return Ok(true);
    }
    if !screen.typed {
        return Err(CliError::NotConfirmed { what });
    }
    screen.piece(format_args!("{what} cannot be undone. Go on? [y/n] "))?;
    let yes = matches!(one_line()?.trim().to_lowercase().as_str(), "y" | "yes");
    if !yes {
        screen.note("nothing was changed");
    }
    Ok(yes)
}

async fn forget(
    store: &dyn Store,
    which: Untouched,
    (old, cut): (usize, &[Found]),
    args: &Prune,
    house: &House,
) -> Result<Exit, CliError> {
    let count = old + cut.len();
    let what = format!("deleting {count} threads with their runs, journal and questions");
    if !confirmed(what, args, house)? {
        return Ok(Exit::Cancelled);
    }
    let who = Principal::local();
    let mut forgotten = if old == 0 { 0 } else { forget_all(store, &who, which).await?.len() };
    for found in cut {
        match end_all(store, &found.runs).await {
            Ok(()) => store.delete_thread(&who, &found.row.id).await?,
            // Somebody went on with it meanwhile.
            Err(CliError::App(weftwork::Error::Store(StoreError::Busy { .. }))) => continue,
            Err(error) => return Err(error),
        }
        forgotten += 1;
    }
    store.collect_blobs(&who).await?;
    house.screen.note(format_args!("deleted {forgotten} threads"));
    Ok(Exit::Done)
}

/// Lets threads keep their newest checkpoints only. Nothing that a thread goes on from is lost.
async fn thin(
    store: &Arc<dyn Store>,
    old: &[ThreadRow],
    keep: usize,
    house: &House,
) -> Result<Exit, CliError> {
    let who = Principal::local();
    let saver = StoreSaver::new(Arc::clone(store) as _, who.clone());
    let host = Host::new().with_saver(saver);
    let (mut thinned, mut left) = (0, Vec::<&ThreadId>::new());
    for row in old {
        let Ok(graph) = house.graph_of(&row.graph) else {
            left.push(&row.id);
            continue;
        };
        match graph.prune(&host, row.id.as_str(), keep).await {
            Ok(()) => thinned += 1,
            // It went on meanwhile.
            Err(RuntimeError::Store(StoreError::Conflict { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    store.collect_blobs(&who).await?;
    house.screen.note(format_args!("{thinned} threads keep their newest {keep} checkpoints"));
    for id in left {
        house.screen.note(format_args!("thread {id} is left: its agent is not here"));
    }
    Ok(Exit::Done)
}

async fn drop_events(
    store: &dyn Store,
    before: Timestamp,
    args: &Prune,
    house: &House,
) -> Result<Exit, CliError> {
    let what = "dropping the events of runs that ended, but for the last of each,".to_owned();
    if !confirmed(what, args, house)? {
        return Ok(Exit::Cancelled);
    }
    let runs = drop_all_events(store, &Principal::local(), before).await?;
    house.screen.note(format_args!("dropped the events of {runs} runs"));
    Ok(Exit::Done)
}
