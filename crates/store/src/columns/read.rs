//! Readers of records, by the names of their columns.

use super::{At, Columns};
use crate::items::{Item, ItemRef, Namespace, StoredItem, seal};
use crate::record::{Base, InterruptRow, NewRun, RunRow, UsageRow};
use crate::sequence::{Content, Sequence, SequenceRow};
use crate::{StoreError, ThreadRow};
use std::time::Duration;
use weftwork_types::event::Piece;
use weftwork_types::run::RunRef;
use weftwork_types::{CheckpointId, InterruptId, OrgId, Principal, RunId, ThreadId, Timestamp};

type Result<T> = std::result::Result<T, StoreError>;

fn maybe_time<D>(at: &At<'_, D>, row: &impl Columns<D>, column: &str) -> Result<Option<Timestamp>> {
    Ok(at.plain::<Option<i64>>(row, column)?.map(Timestamp))
}

fn time<D>(at: &At<'_, D>, row: &impl Columns<D>, column: &str) -> Result<Timestamp> {
    at.plain(row, column).map(Timestamp)
}

/// Names a row of `runs` for errors.
fn name_run<D>(row: &impl Columns<D>) -> Result<String> {
    Ok(format!("run `{}`", At::new("runs", &"a row").text(row, "id")?))
}

/// Reads a run.
///
/// # Errors
/// [`StoreError::Corrupt`], as of all readers.
pub fn read_run<D>(row: &impl Columns<D>) -> Result<RunRow> {
    let name = name_run(row)?;
    let at = At::new("runs", &name);
    Ok(RunRow {
        new: NewRun {
            at: RunRef { thread: at.id(row, "thread")?, run: at.id(row, "id")? },
            graph: at.plain(row, "graph")?,
            caller: at.json(row, "caller")?,
            input: at.json(row, "input")?,
            options: at.json(row, "options")?,
            created_at: time(&at, row, "created_at")?,
        },
        status: at.word(row, "status")?,
        worker: at.maybe_id(row, "worker")?,
        fence: at.count(row, "fence")?,
        outcome: at.maybe_json(row, "outcome")?,
        ended_at: maybe_time(&at, row, "ended_at")?,
        cancel_requested: at.plain(row, "cancel_requested")?,
        base: read_base(&at, row)?,
        last_checkpoint: at.maybe_bits(row, "last_checkpoint")?.map(CheckpointId),
        answers: at.maybe_id(row, "answers")?,
        rolled_back_by: at.maybe_id(row, "rolled_back_by")?,
    })
}

fn read_base<D>(at: &At<'_, D>, row: &impl Columns<D>) -> Result<Option<Base>> {
    let Some(bytes) = at.plain::<Option<Vec<u8>>>(row, "base")? else { return Ok(None) };
    let base = Base::from_bytes(&bytes);
    Ok(Some(base.ok_or_else(|| at.corrupt("column `base`: it is not a checkpoint id"))?))
}

/// Reads the principal that created a run.
///
/// # Errors
/// [`StoreError::Corrupt`].
pub fn read_creator<D>(row: &impl Columns<D>) -> Result<Principal> {
    let name = name_run(row)?;
    let at = At::new("runs", &name);
    Ok(Principal::new(at.id(row, "org")?, at.plain::<String>(row, "subject")?))
}

/// The columns of a thread that can be read.
#[derive(Debug)]
pub struct ReadableThread {
    /// The thread, with a default for each column that cannot be read.
    pub row: ThreadRow,
    /// Error of the first column that cannot be read.
    pub damage: Option<StoreError>,
}

/// Reads a thread.
///
/// # Errors
/// [`StoreError::Corrupt`].
pub fn read_thread<D>(row: &impl Columns<D>) -> Result<ThreadRow> {
    let ReadableThread { row, damage } = read_readable_thread(row)?;
    damage.map_or(Ok(row), Err)
}

/// Reads all columns of a thread that can be read.
///
/// # Errors
/// [`StoreError::Corrupt`] for a thread without a valid id.
pub fn read_readable_thread<D>(row: &impl Columns<D>) -> Result<ReadableThread> {
    let name = format!("thread `{}`", At::new("threads", &"a row").text(row, "id")?);
    let at = At::new("threads", &name);
    let mut damage = None;
    let graph: String = or_default(at.plain(row, "graph"), &mut damage);
    let word: String = or_default(at.plain(row, "status"), &mut damage);
    // Empty for a thread before its first run.
    let status = (!word.is_empty()).then(|| at.word(row, "status")).transpose();
    let thread = ThreadRow {
        id: at.id(row, "id")?,
        graph: Some(graph).filter(|graph| !graph.is_empty()),
        status: or_default(status, &mut damage),
        head: or_default(at.maybe_bits(row, "head"), &mut damage).map(CheckpointId),
        created_at: or_default(time(&at, row, "created_at"), &mut damage),
        updated_at: or_default(time(&at, row, "updated_at"), &mut damage),
        wakes_at: or_default(maybe_time(&at, row, "wakes_at"), &mut damage),
        metadata: or_default(at.maybe_json(row, "metadata"), &mut damage).unwrap_or_default(),
    };
    Ok(ReadableThread { row: thread, damage })
}

/// Returns a column, or its default and the error, unless an earlier column had one.
fn or_default<T: Default>(column: Result<T>, damage: &mut Option<StoreError>) -> T {
    column.unwrap_or_else(|error| {
        damage.get_or_insert(error);
        T::default()
    })
}

/// Reads a question of a thread.
///
/// # Errors
/// [`StoreError::Corrupt`].
pub fn read_interrupt<D>(row: &impl Columns<D>, thread: &ThreadId) -> Result<InterruptRow> {
    let name = format!("thread `{thread}`");
    let id = At::new("interrupts", &name).bits(row, "id").map(InterruptId)?;
    let name = format!("thread `{thread}`, interrupt `{id}`");
    let at = At::new("interrupts", &name);
    Ok(InterruptRow {
        interrupt: at.json(row, "interrupt")?,
        run: at.id(row, "run")?,
        answer: at.maybe_json(row, "answer")?,
        closed: at.plain(row, "closed")?,
    })
}

/// Reads the usage of a model call.
///
/// # Errors
/// [`StoreError::Corrupt`].
pub fn read_usage<D>(row: &impl Columns<D>) -> Result<UsageRow> {
    let key = At::new("usage", &"a row").text(row, "invocation")?;
    let name = format!("invocation `{key}`");
    let at = At::new("usage", &name);
    Ok(UsageRow { caller: at.json(row, "caller")?, fact: at.json(row, "fact")? })
}

/// Reads a record of a sequence.
///
/// # Errors
/// [`StoreError::Corrupt`].
pub fn read_sequence_row<D>(row: &impl Columns<D>) -> Result<SequenceRow> {
    let at = At::new("effects", &"a row");
    let sequence = Sequence { kind: at.plain(row, "kind")?, key: at.plain(row, "key")? };
    let name = format!("{:?} of kind `{}`", sequence.key, sequence.kind);
    let at = At::new("effects", &name);
    Ok(SequenceRow {
        sequence,
        version: at.count(row, "version")?,
        at: time(&at, row, "at")?,
        content: Content { format: at.count(row, "format")?, bytes: at.plain(row, "content")? },
    })
}

/// Reads the partial text of one commit of a run.
///
/// # Errors
/// [`StoreError::Corrupt`].
pub fn read_piece_batch<D>(row: &impl Columns<D>, run: &RunId) -> Result<Vec<Piece>> {
    let name = format!("run `{run}`");
    let at = At::new("pieces", &name);
    let pieces: Vec<Piece> = at.json(row, "pieces")?;
    let seq: u64 = at.count(row, "seq")?;
    let bytes: u64 = at.count(row, "bytes")?;
    let last = pieces.last().map(|piece| piece.at.end);
    // The key of the row is the position from which the next read continues.
    if last.is_none_or(|end| end.seq != seq || end.bytes != bytes) {
        let what = format!("the last piece ends at {last:?}, expected {seq}.{bytes}");
        return Err(at.corrupt(what));
    }
    Ok(pieces)
}

/// Reads the namespace of an item.
///
/// # Errors
/// [`StoreError::Corrupt`].
pub fn read_namespace<D>(at: &At<'_, D>, row: &impl Columns<D>) -> Result<Namespace> {
    let path = at.text(row, "path")?;
    let read = Namespace::of_path(&path);
    read.map_err(|error| at.corrupt(format!("column `path` is {path:?}: {error}")))
}

/// Reads an item of any organisation.
///
/// # Errors
/// [`StoreError::Corrupt`], also for an item that does not fit its seal.
pub fn read_item<D>(row: &impl Columns<D>) -> Result<StoredItem> {
    let number: i64 = At::new("items", &"a row").plain(row, "number")?;
    let name = format!("number {number}");
    let at = At::new("items", &name);
    let namespace = read_namespace(&at, row)?;
    let key: String = at.plain(row, "key")?;
    let org: OrgId = at.id(row, "org")?;
    let name = format!("organisation {org}, namespace `{namespace}`, key {key:?}");
    let at = At::new("items", &name);
    let item = ItemRef::new(namespace.clone(), key.as_str())
        .map_err(|error| at.corrupt(format!("column `key`: {error}")))?;
    let value = at.text(row, "value")?;
    let indexing = at.text(row, "indexing")?;
    // Before the value is used: a row under another name must not be read as this item.
    if at.fixed::<8>(row, "seal")? != seal(&org, &item, &value, &indexing) {
        return Err(at.corrupt("its seal does not fit: it is not what was put there"));
    }
    let ttl = at.plain::<Option<i64>>(row, "ttl_ms")?;
    let expires_at = maybe_time(&at, row, "expires_at")?;
    if ttl.is_some() != expires_at.is_some() {
        let what = "columns `ttl_ms` and `expires_at`: expected both or none";
        return Err(at.corrupt(what));
    }
    Ok(StoredItem {
        item: Item {
            namespace,
            key,
            value: at.json(row, "value")?,
            created_at: time(&at, row, "created_at")?,
            updated_at: time(&at, row, "updated_at")?,
            expires_at,
            score: None,
        },
        indexing: at.json(row, "indexing")?,
        ttl: ttl.map(|_| at.count(row, "ttl_ms")).transpose()?.map(Duration::from_millis),
    })
}
