//! Writing an export.

use super::line::{
    Checkpoint, End, FORMAT, Hashed, Header, Kept, Line, Part, Run, Sum, VERSION, WITHOUT_ITEMS,
};
use super::with_names;
use crate::Error;
use serde::Serialize;
use std::io::Write;
use weftwork_graph::SystemClock;
use weftwork_store::items::StoredItem;
use weftwork_store::{Store, StoreError, WholeRun, WholeThread, rule};
use weftwork_types::port::Clock;
use weftwork_types::{Principal, ThreadId};

/// What is in an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Export {
    /// How many threads.
    pub threads: u64,
    /// How many items.
    pub items: u64,
}

/// Writes threads with everything that belongs to them as lines of JSON, each thread as it is at
/// one moment, and says how many. `tell` hears of each thread. When `threads` names none, all of
/// them are written but those that are deleted meanwhile, and all items that live, as they are at
/// one moment; all items are held at once.
///
/// # Errors
/// [`StoreError::Busy`] while a living process has a run of a thread: it would go on in two
/// places. [`StoreError::Corrupt`] for damage, [`Error::ExportFile`] when it cannot be written.
pub async fn export(
    store: &dyn Store,
    who: &Principal,
    threads: Option<&[ThreadId]>,
    out: &mut impl Write,
    mut tell: impl FnMut(&ThreadId),
) -> Result<Export, Error> {
    let all = match threads {
        Some(named) => named.to_vec(),
        None => super::all_threads(store, who).await?,
    };
    let version = if threads.is_some() { WITHOUT_ITEMS } else { VERSION };
    line(out, &Header { format: FORMAT.to_owned(), version }, None)?;
    let mut written = Export::default();
    for id in &all {
        let whole = match store.whole(who, id).await {
            Err(StoreError::NotFound { .. }) if threads.is_none() => continue,
            found => found?,
        };
        let whole = with_names(store, who, whole).await?;
        free(store, who, &whole).await?;
        thread(out, whole)?;
        written.threads += 1;
        tell(id);
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

/// Fails while a living process has a run of the thread.
async fn free(store: &dyn Store, who: &Principal, whole: &WholeThread) -> Result<(), Error> {
    let Some(open) = whole.runs.iter().find(|run| !run.row.status.is_final()) else {
        return Ok(());
    };
    let orphans = store.orphans(SystemClock::new().now(), usize::MAX).await?;
    let at = &open.row.new.at;
    let is_it = |(other, run): &(Principal, _)| -> bool {
        let run: &weftwork_store::RunRow = run;
        other.org == who.org && run.new.at == *at
    };
    if orphans.iter().any(is_it) { Ok(()) } else { Err(rule::busy(at).into()) }
}

fn thread(out: &mut impl Write, whole: WholeThread) -> Result<(), Error> {
    let WholeThread { thread, runs, interrupts, calls, kept, usage } = whole;
    let mut sum = Sum::new();
    let mut put = |of: &Line<'_>| line(out, of, Some(&mut sum));
    put(&Line::Thread(thread))?;
    for WholeRun { subject, row: run, events } in runs {
        put(&Line::Run(Box::new(Run { subject, run })))?;
        events.into_iter().try_for_each(|event| put(&Line::Event(Box::new(event))))?;
    }
    interrupts.into_iter().try_for_each(|row| put(&Line::Interrupt(Box::new(row))))?;
    calls.into_iter().try_for_each(|call| put(&Line::Call(Box::new(call))))?;
    kept.layouts.iter().try_for_each(|row| put(&Line::Names(Hashed::of(row))))?;
    kept.blobs.iter().try_for_each(|row| put(&Line::Blob(Hashed::of(row))))?;
    kept.checkpoints.iter().try_for_each(|new| put(&Line::Checkpoint(Checkpoint::of(new))))?;
    kept.pending.iter().try_for_each(|part| put(&Line::Pending(Part::of(part))))?;
    usage.into_iter().try_for_each(|row| put(&Line::Usage(Box::new(row))))?;
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
