//! `weft store`: verifies, compacts, backs up, restores, exports and imports stores, and erases names.

use crate::args::Store;
use crate::usage::operator_of;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use weftwork::config::StorePlace;
use weftwork::sqlite::{Options, SqliteStore};
use weftwork::store::{BilledTo, StoreError, WriteCheckpoints, erase_names};
use weftwork::types::{Principal, ThreadId};
use weftwork::{Error, upkeep};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::input::confirm;
use weftwork_cli_base::terminal::count_items;

/// The file name that stands for standard output or input.
const STANDARD: &str = "-";

pub async fn store(command: &Store, context: &CommandContext) -> Result<Exit, CliError> {
    match command {
        Store::Verify { json } => verify_store(*json, context).await,
        Store::Compact => compact_store(context).await,
        Store::Backup { file } => back_up_store(file, context),
        Store::Restore { file } => restore_store(file, context).await,
        Store::Export { file, thread } => export_store(file, thread, context).await,
        Store::Import { file } => import_file(file, context).await,
        Store::Erase { payer, org, yes } => {
            erase(payer, &operator_of(org.as_ref()), *yes, context).await
        }
    }
}

async fn erase(
    payer: &BilledTo,
    who: &Principal,
    yes: bool,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let store = context.store_there()?;
    if !confirm(format!("erasing {payer} from the bill"), yes, &context.terminal)? {
        return Ok(Exit::Cancelled);
    }
    let attempts = erase_names(store.as_ref(), who, payer).await?;
    context.terminal.note(format_args!(
        "erased the names in {attempts} attempts of model calls; runs of threads that are not deleted keep theirs"
    ));
    Ok(Exit::Done)
}

/// Opens the store if it is a SQLite store.
fn open_sqlite(context: &CommandContext) -> Result<Option<SqliteStore>, CliError> {
    match &context.config.store.value {
        StorePlace::Sqlite(path) => {
            context.is_there()?;
            Ok(Some(SqliteStore::open(path, &Options::default())?))
        }
        _ => Ok(None),
    }
}

async fn verify_store(json: bool, context: &CommandContext) -> Result<Exit, CliError> {
    let terminal = &context.terminal;
    let mut found: Vec<(String, String)> = Vec::new();
    not_cut_to_nothing(context)?;
    if let Some(store) = open_sqlite(context)? {
        let damage = store.verify()?;
        found.extend(damage.into_iter().map(|damage| (damage.location, damage.what)));
    }
    let store = context.store_there()?;
    let who = Principal::local();
    let threads = match upkeep::all_threads(store.as_ref(), &who).await {
        Ok(threads) => threads,
        // The damage has been found above.
        Err(Error::Store(StoreError::Corrupt { .. })) if !found.is_empty() => Vec::new(),
        Err(other) => return Err(other.into()),
    };
    let counter = count_items("threads", Some(threads.len()));
    for thread in &threads {
        let problems = upkeep::verify_thread(store.as_ref(), &who, thread).await?;
        found.extend(problems.into_iter().map(place_and_what));
        counter.one_more();
    }
    drop(counter);
    let problems = upkeep::verify_items(store.as_ref(), &who).await?;
    found.extend(problems.into_iter().map(place_and_what));
    // Reading a thread finds damaged rows of tables again.
    let mut seen = BTreeSet::new();
    found.retain(|finding| seen.insert(finding.clone()));
    for (place, what) in &found {
        match json {
            true => terminal.line(serde_json::json!({"place": place, "what": what}))?,
            false => terminal.line(format_args!("{place}: {what}"))?,
        }
    }
    let place = &context.config.store.value;
    let count = threads.len();
    if found.is_empty() {
        terminal.note(format_args!("{place}: {count} threads, no damage found"));
        return Ok(Exit::Done);
    }
    terminal.note(format_args!("{place}: {} damaged places; weft explain W0210", found.len()));
    Ok(Exit::Store)
}

/// Fails if the file is empty. Opening an empty file would create a new store in it, but a store
/// that is verified should have contents.
fn not_cut_to_nothing(context: &CommandContext) -> Result<(), CliError> {
    let StorePlace::Sqlite(file) = &context.config.store.value else { return Ok(()) };
    match std::fs::metadata(file) {
        Ok(found) if found.len() == 0 => Err(CliError::from(StoreError::Corrupt {
            location: file.display().to_string(),
            what: "the file is empty: it was truncated, or never held a store".to_owned(),
        })),
        _ => Ok(()),
    }
}

fn place_and_what(problem: StoreError) -> (String, String) {
    match problem {
        StoreError::Corrupt { location, what } => (location, what),
        StoreError::Newer { location, found, known } => {
            (location, format!("format {found}; this program supports up to {known}"))
        }
        other => (String::new(), other.to_string()),
    }
}

async fn compact_store(context: &CommandContext) -> Result<Exit, CliError> {
    let terminal = &context.terminal;
    if let Some(store) = open_sqlite(context)? {
        let gained = store.compact()?;
        let before = gained.bytes_before;
        let after = gained.bytes_after;
        let blobs = gained.blobs;
        terminal.note(format_args!("{before} bytes before, {after} after; {blobs} blobs removed"));
        return Ok(Exit::Done);
    }
    let store = context.store()?;
    let blobs = WriteCheckpoints::collect_blobs(store.as_ref(), &Principal::local()).await?;
    terminal.note(format_args!("{blobs} blobs removed; the database frees space by itself"));
    Ok(Exit::Done)
}

fn back_up_store(file: &Path, context: &CommandContext) -> Result<Exit, CliError> {
    let Some(store) = open_sqlite(context)? else {
        let location = context.config.store.value.to_string();
        let reason =
            "only SQLite stores can be backed up; use pg_dump for Postgres, or weft store export";
        let reason = reason.to_owned();
        return Err(StoreError::Unavailable { location, reason, retriable: false }.into());
    };
    store.backup(file)?;
    context.terminal.note(format_args!("copied to {}", file.display()));
    Ok(Exit::Done)
}

async fn restore_store(file: &Path, context: &CommandContext) -> Result<Exit, CliError> {
    let StorePlace::Sqlite(path) = &context.config.store.value else {
        let location = context.config.store.value.to_string();
        let reason = "only SQLite stores are restored; use psql or pg_restore for Postgres, or weft store import";
        let reason = reason.to_owned();
        return Err(StoreError::Unavailable { location, reason, retriable: false }.into());
    };
    let terminal = &context.terminal;
    let restored = SqliteStore::restore(file, path).inspect_err(|error| {
        if matches!(error, StoreError::Corrupt { .. }) {
            terminal.note("nothing was restored, and the store is as it was; name another backup");
        }
    })?;
    let threads = upkeep::all_threads(context.store()?.as_ref(), &Principal::local()).await?.len();
    let location = &context.config.store.value;
    terminal
        .note(format_args!("restored {threads} threads into {location} from {}", file.display()));
    if let Some(replaced) = restored.replaced {
        terminal.note(format_args!("the store that was there is now {}", replaced.display()));
    }
    Ok(Exit::Done)
}

async fn export_store(
    file: &Path,
    named: &[String],
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let named: Vec<ThreadId> = named.iter().map(ThreadId::new).collect::<Result<_, _>>()?;
    let named = (!named.is_empty()).then_some(named.as_slice());
    let store = context.store_there()?;
    if file == Path::new(STANDARD) {
        let mut out = BufWriter::new(std::io::stdout().lock());
        let who = Principal::local();
        upkeep::export(store.as_ref(), &who, named, &mut out, |_| ()).await?;
        out.flush()?;
        return Ok(Exit::Done);
    }
    let mut out = BufWriter::new(make_new(file)?);
    let counter = count_items("threads", None);
    let count_thread = |_: &ThreadId| counter.one_more();
    let written =
        upkeep::export(store.as_ref(), &Principal::local(), named, &mut out, count_thread).await;
    drop(counter);
    let synced = written.and_then(|count| {
        let whole = out.flush().and_then(|()| out.get_ref().sync_all());
        whole.map(|()| count).map_err(|error| unusable_file(file, &error))
    });
    match synced {
        Ok(upkeep::Export { threads, items }) => {
            let what = format_counts(threads, items);
            context.terminal.note(format_args!("exported {what} to {}", file.display()));
            Ok(Exit::Done)
        }
        Err(error) => {
            // A partial export is of no use. The error that is returned gives the reason.
            drop(std::fs::remove_file(file));
            Err(error.into())
        }
    }
}

async fn import_file(file: &Path, context: &CommandContext) -> Result<Exit, CliError> {
    let opened: Box<dyn Read> = match file == Path::new(STANDARD) {
        true => Box::new(std::io::stdin()),
        false => Box::new(File::open(file).map_err(|error| unusable_file(file, &error))?),
    };
    let store = context.store()?;
    let counter = count_items("threads", None);
    let mut before = 0_u64;
    let count_thread = |_: &ThreadId| {
        counter.one_more();
        before += 1;
    };
    let mut input = BufReader::new(opened);
    let done = upkeep::import(store.as_ref(), &Principal::local(), &mut input, count_thread).await;
    drop(counter);
    if done.is_err() && before > 0 {
        context.terminal.note(format_args!(
            "{before} threads of the export are in the store; a repeated import skips them"
        ));
    }
    let upkeep::Import { put, there, items, items_there } = done?;
    let place = &context.config.store.value;
    let put = format_counts(put, items);
    let there = with_items(there, items_there);
    let gone = if items_there > 0 { " or expired" } else { "" };
    context
        .terminal
        .note(format_args!("imported {put} into {place}; skipped {there} (already present{gone})"));
    Ok(Exit::Done)
}

/// Formats the numbers of threads and items; items are omitted if there are none.
fn format_counts(threads: u64, items: u64) -> String {
    with_items(format_args!("{threads} threads"), items)
}

fn with_items(threads: impl std::fmt::Display, items: u64) -> String {
    match items {
        0 => threads.to_string(),
        1 => format!("{threads} and 1 item"),
        _ => format!("{threads} and {items} items"),
    }
}

/// Creates a file that only its owner can read, since an export contains all messages.
fn make_new(file: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file).map_err(|error| unusable_file(file, &error))
}

fn unusable_file(file: &Path, error: &std::io::Error) -> Error {
    Error::ExportFile { reason: format!("`{}`: {error}", file.display()) }
}
