use crate::args::Delete;
use crate::runs::end_orphan;
use serde_json::json;
use weftwork::config::StorePlace;
use weftwork::graph::SystemClock;
use weftwork::sqlite::SqliteStore;
use weftwork::store::mailbox::{SET_ASIDE_FROM, check_deletion, is_instance, is_terminated};
use weftwork::store::{Metadata, Store, StoreError, ThreadQuery};
use weftwork::types::port::Clock;
use weftwork::types::{Principal, ThreadId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::{CommandContext, Found};
use weftwork_cli_base::editor::history_file;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::input::confirm;
use weftwork_cli_base::shell;

/// Maximum number of threads of activities that were set aside which are named.
const ASIDE_MAX: usize = 1_000;

pub(crate) async fn delete(args: &Delete, context: &CommandContext) -> Result<Exit, CliError> {
    let id = &ThreadId::new(&args.id)?;
    let store = context.store_of(id)?;
    let terminal = &context.terminal;
    let found = match context.thread(store.as_ref(), id).await {
        // The thread was deleted without the history of what was typed in it.
        Err(error) if args.history && args.yes && error.is_not_found() => {
            delete_history(true, context)?;
            return Err(error);
        }
        found => found?,
    };
    check_deletion(id, &found.row.metadata)?;
    let what = format!("deleting thread `{id}` with its runs, journal and questions");
    if !confirm(what, args.yes, terminal)? {
        return Ok(Exit::Cancelled);
    }
    // Read again: the thread may have changed while the user was asked.
    let found = context.thread(store.as_ref(), id).await?;
    end_and_delete(store.as_ref(), &found).await?;
    // Long texts are stored as blobs that several threads can share.
    store.collect_blobs(&Principal::local()).await?;
    terminal.note(format_args!("deleted thread {id}"));
    delete_history(args.history, context)?;
    tell_replaced(context);
    if is_instance(&found.row.metadata) {
        tell_aside(store.as_ref(), id, context).await?;
    }
    context.delete_remote_threads(store.as_ref()).await?;
    Ok(Exit::Done)
}

/// Deletes the history of typed messages, which is outside the store, or says that it stays.
fn delete_history(wanted: bool, context: &CommandContext) -> Result<(), CliError> {
    let Some(file) = history_file(&context.config).filter(|file| file.exists()) else {
        return Ok(());
    };
    let terminal = &context.terminal;
    let shown = file.display();
    if wanted {
        std::fs::remove_file(&file).map_err(CliError::Output)?;
        terminal.note(format_args!("deleted {shown}"));
    } else {
        terminal.note(format_args!(
            "messages that were typed in chats are also in {shown}; --history deletes it"
        ));
    }
    Ok(())
}

/// Names the stores that restorations replaced, which may have the thread too.
fn tell_replaced(context: &CommandContext) {
    let StorePlace::Sqlite(store) = &context.config.store.value else { return };
    for file in SqliteStore::replaced(store) {
        context.terminal.note(format_args!(
            "the store {}, which a restoration replaced, may have the thread too; delete the file when you do not need it",
            file.display()
        ));
    }
}

/// Names the threads of the activities of an instance that were set aside.
async fn tell_aside(
    store: &dyn Store,
    id: &ThreadId,
    context: &CommandContext,
) -> Result<(), CliError> {
    let metadata = Metadata::from_iter([(SET_ASIDE_FROM.to_owned(), json!(id))]);
    let query = ThreadQuery { metadata, limit: ASIDE_MAX, ..ThreadQuery::default() };
    for aside in store.search_threads(&Principal::local(), query).await?.threads {
        let weft = &context.terminal.weft;
        let aside = shell::quote_thread(&aside.row.id);
        context.terminal.note(format_args!(
            "an activity of it was set aside in a thread of its own, which stays: {weft} threads delete {aside}"
        ));
    }
    Ok(())
}

/// Deletes a thread, after ending runs whose process is dead. Fails if a live process executes one.
pub(super) async fn end_and_delete(store: &dyn Store, found: &Found) -> Result<(), CliError> {
    if is_terminated(&found.row.metadata) {
        end_kept(store, found).await?;
    }
    for run in found.runs.iter().filter(|run| !run.status.is_final()) {
        match end_orphan(store, &run.new.at).await {
            // The run has ended meanwhile.
            Err(CliError::App(weftwork::Error::Store(StoreError::NotFound { .. }))) => {}
            ended => ended?,
        }
    }
    Ok(store.delete_thread(&Principal::local(), &found.row.id).await?)
}

/// Ends the activities that a terminated instance keeps: they pass its mailbox only if their
/// cancellation is requested, and in their order.
async fn end_kept(store: &dyn Store, found: &Found) -> Result<(), CliError> {
    let who = Principal::local();
    for run in found.runs.iter().filter(|run| run.waits_as_activity()) {
        match store.request_cancel(&who, &run.new.at).await {
            // It has ended meanwhile.
            Err(StoreError::NotFound { .. }) => {}
            requested => requested?,
        }
    }
    let now = SystemClock::new().now();
    while let Some((_, next)) = store.next_run(&who, &found.row.id, now).await? {
        end_orphan(store, &next.new.at).await?;
    }
    Ok(())
}
