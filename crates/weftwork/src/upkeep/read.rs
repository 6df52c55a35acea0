//! Import of an export.

use super::line::{FORMAT, Header, Kept, Line, Sum, VERSION};
use super::{lost_names, sound};
use crate::Error;
use std::io::BufRead;
use weftwork_graph::SystemClock;
use weftwork_runtime::check_names;
use weftwork_store::items::StoredItem;
use weftwork_store::{CheckpointBatch, RunExport, Store, StoreError, ThreadExport};
use weftwork_types::port::Clock;
use weftwork_types::{Principal, ThreadId};

/// The result of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Import {
    /// Number of threads written to the store.
    pub put: u64,
    /// Number of threads skipped because the store has them with the same content.
    pub there: u64,
    /// Number of items written to the store.
    pub items: u64,
    /// Number of items skipped because the store has them or they have expired.
    pub items_there: u64,
}

impl Import {
    fn has_all(self, threads: u64, items: u64) -> bool {
        (threads, items) == (self.put + self.there, self.items + self.items_there)
    }
}

/// Reads an [`export`](super::export) and writes its threads and items to a store of any kind.
///
/// Each thread is checked completely, then written in one transaction; items are written in
/// batches of up to 1,000 items or about 8 MiB. An interrupted import can be repeated: threads and
/// items that the store has with the same content are skipped. `tell` is called with each thread.
///
/// # Errors
/// [`Error::BadExport`] for a file that is not a complete export or has a newer format,
/// [`StoreError::Conflict`] for a thread or an item that the store has with different content,
/// [`StoreError::Corrupt`] for a damaged thread of the export or a damaged item of the store.
/// Threads and items before the error remain in the store.
pub async fn import(
    store: &dyn Store,
    who: &Principal,
    input: &mut impl BufRead,
    mut on_thread: impl FnMut(&ThreadId),
) -> Result<Import, Error> {
    let mut lines = Lines { input, text: String::new(), number: 0 };
    lines.header()?;
    let mut done = Import::default();
    loop {
        let whole = match lines.next()? {
            Line::Done { threads, items } if done.has_all(threads, items) => return Ok(done),
            Line::Thread(row) => lines.thread(row)?,
            Line::Item(first) => {
                let items = lines.items(*first)?;
                let all = items.len() as u64;
                let now = SystemClock::new().now();
                let put = store.put_stored_items(who, items, now).await? as u64;
                done.items += put;
                done.items_there += all - put;
                continue;
            }
            _ => {
                let expected = "expected a thread, an item, or the last line with their numbers";
                return Err(lines.bad(expected));
            }
        };
        let id = whole.thread.id.clone();
        match put(store, who, whole).await? {
            true => done.put += 1,
            false => done.there += 1,
        }
        on_thread(&id);
    }
}

/// Checks a thread and writes it; returns `false` if the store has it already.
async fn put(store: &dyn Store, who: &Principal, whole: ThreadExport) -> Result<bool, Error> {
    let mut whole = whole.checked()?;
    let id = whole.thread.id.clone();
    for hash in sound(&whole)? {
        let found = whole.kept.layouts.iter().find(|(other, _)| *other == hash);
        let (_, bytes) = found.ok_or_else(|| lost_names(&id, hash))?;
        check_names(hash, bytes)?;
    }
    match store.export_thread(who, &id).await {
        Ok(there) => {
            whole.kept.layouts.clear();
            match there == whole {
                true => Ok(false),
                false => Err(Error::Store(weftwork_store::invariants::thread_exists(&id))),
            }
        }
        Err(StoreError::NotFound { .. }) => {
            store.import_thread(who, whole).await?;
            Ok(true)
        }
        Err(other) => Err(other.into()),
    }
}

/// The lines of a file, with the number of the current one.
struct Lines<'a, R> {
    input: &'a mut R,
    text: String,
    number: u64,
}

impl<R: BufRead> Lines<'_, R> {
    fn bad(&self, what: impl Into<String>) -> Error {
        Error::BadExport { line: self.number, what: what.into() }
    }

    /// Reads a line. Fails at the end of the file: the reader stops at the last line of an export.
    fn read(&mut self) -> Result<&str, Error> {
        self.text.clear();
        self.number += 1;
        match self.input.read_line(&mut self.text) {
            Ok(0) => {
                Err(self.bad("the file is truncated: it ends before the last line of the export"))
            }
            Ok(_) => Ok(self.text.trim_end_matches('\n')),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                Err(self.bad(error.to_string()))
            }
            Err(error) => Err(Error::export_file(&error)),
        }
    }

    fn header(&mut self) -> Result<(), Error> {
        let header: Option<Header> = serde_json::from_str(self.read()?).ok();
        match header {
            Some(Header { format, version: 1..=VERSION }) if format == FORMAT => Ok(()),
            Some(Header { format, version }) if format == FORMAT => Err(self.bad(format!(
                "export format {version} is too new; this program reads up to format {VERSION}"
            ))),
            _ => Err(self.bad(format!("not an export: expected {{\"format\":\"{FORMAT}\",…}}"))),
        }
    }

    fn next(&mut self) -> Result<Line<'static>, Error> {
        let read = serde_json::from_str(self.read()?);
        read.map_err(|error| self.bad(error.to_string()))
    }

    /// Adds the current line to a checksum.
    fn count(&self, sum: &mut Sum) {
        sum.add(self.text.trim_end_matches('\n').as_bytes());
    }

    /// Reads a batch of items after its first item.
    fn items(&mut self, first: Kept) -> Result<Vec<StoredItem>, Error> {
        let mut sum = Sum::new();
        let mut items = vec![self.item(first)?];
        self.count(&mut sum);
        loop {
            match self.next()? {
                Line::End(end) if end.fits(&sum) => return Ok(items),
                Line::End(_) => {
                    return Err(self.bad("the items before this line do not match their checksum"));
                }
                Line::Item(item) if !sum.is_full() => {
                    items.push(self.item(*item)?);
                    self.count(&mut sum);
                }
                _ => return Err(self.bad("the items before this line have no end")),
            }
        }
    }

    /// Checks and returns the item of the current line.
    fn item(&self, kept: Kept) -> Result<StoredItem, Error> {
        let stored = kept.row();
        stored.checked().map_err(|error| self.bad(error.to_string()))?;
        Ok(stored)
    }

    /// Reads a thread after its first line.
    fn thread(&mut self, thread: weftwork_store::ThreadRow) -> Result<ThreadExport, Error> {
        let mut sum = Sum::new();
        self.count(&mut sum);
        let mut whole = ThreadExport {
            thread,
            runs: Vec::new(),
            interrupts: Vec::new(),
            calls: Vec::new(),
            kept: CheckpointBatch::default(),
            usage: Vec::new(),
            records: Vec::new(),
        };
        loop {
            let line = self.next()?;
            if let Line::End(end) = &line {
                return match end.fits(&sum) {
                    true => Ok(whole),
                    false => {
                        let id = &whole.thread.id;
                        Err(self.bad(format!("thread `{id}` does not match its checksum")))
                    }
                };
            }
            self.count(&mut sum);
            match line {
                Line::Run(made) => {
                    whole.runs.push(RunExport {
                        subject: made.subject,
                        row: made.run,
                        events: Vec::new(),
                    });
                }
                Line::Event(event) => match whole.runs.last_mut() {
                    Some(run) => run.events.push(*event),
                    None => return Err(self.bad("an event precedes the first run")),
                },
                Line::Interrupt(row) => whole.interrupts.push(*row),
                Line::Call(call) => whole.calls.push(*call),
                Line::Names(row) => whole.kept.layouts.push(row.row()),
                Line::Blob(row) => whole.kept.blobs.push(row.row()),
                Line::Checkpoint(new) => whole.kept.checkpoints.push(new.row()),
                Line::Pending(part) => whole.kept.pending.push(part.row()),
                Line::Usage(row) => whole.usage.push(*row),
                Line::Record(record) => whole.records.push(record.row()),
                Line::Thread(_) | Line::Item(_) | Line::End(_) | Line::Done { .. } => {
                    return Err(self.bad("the thread before this line has no end"));
                }
            }
        }
    }
}
