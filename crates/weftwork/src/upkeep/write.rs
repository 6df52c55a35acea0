//! Export of a store.

use super::line::{
    Checkpoint, End, FORMAT, Hashed, Header, Kept, Line, Part, Record, Run, Sum, VERSION,
    WITHOUT_ITEMS, WITHOUT_RECORDS,
};
use super::with_names;
use crate::Error;
use serde::Serialize;
use std::io::Write;
use weftwork_graph::SystemClock;
use weftwork_store::items::StoredItem;
use weftwork_store::sequence::{EXPORTED_KINDS, SequenceQuery, of_thread};
use weftwork_store::{RunExport, Store, StoreError, ThreadExport, invariants};
use weftwork_types::port::Clock;
use weftwork_types::{Principal, ThreadId};

/// The contents of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Export {
    /// Number of threads.
    pub threads: u64,
    /// Number of items.
    pub items: u64,
}

/// Writes threads with all their rows as lines of JSON, and returns the number written. `tell` is
/// called with each thread.
///
/// With `threads`, exactly these are written, without items. Otherwise all threads are written,
/// except those deleted meanwhile, and all items that have not expired. Each thread is a
/// consistent snapshot, and so are the items, which are held in memory at once.
///
/// # Errors
/// [`StoreError::Busy`] if a live process executes a run of a thread, since the run would also
/// continue in the copy; [`StoreError::Corrupt`] for damage; [`Error::ExportFile`] if `out` cannot
/// be written.
pub async fn export(
    store: &dyn Store,
    who: &Principal,
    threads: Option<&[ThreadId]>,
    out: &mut impl Write,
    mut on_thread: impl FnMut(&ThreadId),
) -> Result<Export, Error> {
    let all = match threads {
        Some(named) => named.to_vec(),
        None => super::all_threads(store, who).await?,
    };
    let version = match threads {
        _ if has_records(store, who, threads).await? => VERSION,
        Some(_) => WITHOUT_ITEMS,
        None => WITHOUT_RECORDS,
    };
    line(out, &Header { format: FORMAT.to_owned(), version }, None)?;
    let mut written = Export::default();
    for id in &all {
        let whole = match store.export_thread(who, id).await {
            Err(StoreError::NotFound { .. }) if threads.is_none() => continue,
            found => found?,
        };
        let whole = with_names(store, who, whole).await?;
        free(store, who, &whole).await?;
        thread(out, whole)?;
        written.threads += 1;
        on_thread(id);
    }
    if threads.is_none() {
        let all = store.stored_items(who, SystemClock::new().now()).await?;
        written.items = all.len() as u64;
        items(out, all)?;
    }
    let Export { threads, items } = written;
    line(out, &Line::Done { threads, items }, None)?;
    out.flush().map_err(|error| Error::export_file(&error))?;
    Ok(written)
}

/// Returns `true` if the exported threads have records, which older programs do not read.
async fn has_records(
    store: &dyn Store,
    who: &Principal,
    threads: Option<&[ThreadId]>,
) -> Result<bool, Error> {
    for kind in EXPORTED_KINDS {
        let all = SequenceQuery { limit: 1, ..SequenceQuery::all(kind) };
        let queries = match threads {
            Some(named) => named
                .iter()
                .map(|thread| {
                    let (first, last) = of_thread(thread);
                    SequenceQuery { first, last: Some(last), ..all.clone() }
                })
                .collect(),
            None => vec![all],
        };
        for query in queries {
            if !store.sequence_rows(who, query).await?.is_empty() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Fails if a live process executes a run of the thread.
async fn free(store: &dyn Store, who: &Principal, whole: &ThreadExport) -> Result<(), Error> {
    let Some(open) = whole.runs.iter().find(|run| !run.row.status.is_final()) else {
        return Ok(());
    };
    let orphans = store.orphans(SystemClock::new().now(), usize::MAX).await?;
    let at = &open.row.new.at;
    let is_orphan = orphans.iter().any(|(other, run)| other.org == who.org && run.new.at == *at);
    if is_orphan { Ok(()) } else { Err(invariants::busy(at).into()) }
}

fn thread(out: &mut impl Write, whole: ThreadExport) -> Result<(), Error> {
    let ThreadExport { thread, runs, interrupts, calls, kept, usage, records } = whole;
    let mut sum = Sum::new();
    let mut put = |of: &Line<'_>| line(out, of, Some(&mut sum));
    put(&Line::Thread(thread))?;
    for RunExport { subject, row: run, events } in runs {
        put(&Line::Run(Box::new(Run { subject, run })))?;
        events.into_iter().try_for_each(|event| put(&Line::Event(Box::new(event))))?;
    }
    interrupts.into_iter().try_for_each(|row| put(&Line::Interrupt(Box::new(row))))?;
    calls.into_iter().try_for_each(|call| put(&Line::Call(Box::new(call))))?;
    for (hash, body) in &kept.layouts {
        put(&Line::Names(Hashed::of(*hash, body)))?;
    }
    for (hash, body) in &kept.blobs {
        put(&Line::Blob(Hashed::of(*hash, body)))?;
    }
    kept.checkpoints.iter().try_for_each(|new| put(&Line::Checkpoint(Checkpoint::of(new))))?;
    kept.pending.iter().try_for_each(|part| put(&Line::Pending(Part::of(part))))?;
    usage.into_iter().try_for_each(|row| put(&Line::Usage(Box::new(row))))?;
    records.iter().try_for_each(|row| put(&Line::Record(Record::of(row))))?;
    line(out, &Line::End(End::of(&sum)), None)
}

fn items(out: &mut impl Write, all: Vec<StoredItem>) -> Result<(), Error> {
    let mut all = all.into_iter().peekable();
    while all.peek().is_some() {
        let mut sum = Sum::new();
        while let Some(stored) = all.next_if(|_| !sum.is_full()) {
            line(out, &Line::Item(Box::new(Kept::of(stored))), Some(&mut sum))?;
        }
        line(out, &Line::End(End::of(&sum)), None)?;
    }
    Ok(())
}

fn line(out: &mut impl Write, value: &impl Serialize, sum: Option<&mut Sum>) -> Result<(), Error> {
    let text = serde_json::to_string(value);
    let mut text = text.map_err(|error| Error::export_file(&error.into()))?;
    if let Some(sum) = sum {
        sum.add(text.as_bytes());
    }
    text.push('\n');
    out.write_all(text.as_bytes()).map_err(|error| Error::export_file(&error))
}
