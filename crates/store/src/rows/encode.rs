//! The formats of rows, and the conversion between rows and tables.
//!
//! A key begins with a letter for its kind, as listed in [`kind`]; most kinds are followed by the
//! organisation, and those of a thread by the thread. A content begins with [`FORMAT`], followed by
//! JSON, or by [fields](frame) if it has bytes of others.

use super::{Key, Value};
use crate::StoreError;
use crate::bill::BilledTo;
use crate::checkpoint::{NewCheckpoint, NewPending, Pending};
use crate::columns::to_json;
use crate::items::ItemRow;
use crate::limit::{StartPlace, StartRow, StartSpan};
use crate::memory::bill::{Bill, Place, Unmoved};
use crate::memory::{Run, Tables, Thread};
use crate::record::{RunRow, ThreadRow};
use crate::sequence::{Content, Sequence};
use crate::table::Result;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weftwork_types::canonical::Hash;
use weftwork_types::event::{Piece, Position};
use weftwork_types::run::RunRef;
use weftwork_types::{CheckpointId, OrgId, RunId, ThreadId, Timestamp};

/// Version of the formats of all rows.
const FORMAT: u8 = 1;

/// Letters of the kinds of rows.
pub(super) mod kind {
    /// A thread: its row, guard, questions and runs.
    pub(in super::super) const THREAD: u8 = b't';
    /// An event of a run.
    pub(in super::super) const EVENT: u8 = b'e';
    /// Partial text of a run.
    pub(in super::super) const PIECES: u8 = b'p';
    /// A call.
    pub(in super::super) const CALL: u8 = b'c';
    /// A checkpoint.
    pub(in super::super) const CHECKPOINT: u8 = b'k';
    /// A part of an open superstep.
    pub(in super::super) const OPEN: u8 = b'o';
    /// A thread with an unfinished run or a time to resume.
    pub(in super::super) const ACTIVE: u8 = b'a';
    /// The thread of a run id.
    pub(in super::super) const RUN_ID: u8 = b'x';
    /// The run of an idempotency key.
    pub(in super::super) const REQUEST_KEY: u8 = b'y';
    /// A usage fact.
    pub(in super::super) const USAGE: u8 = b'u';
    /// A usage fact of a run.
    pub(in super::super) const USAGE_OF_RUN: u8 = b'v';
    /// A usage fact that is not yet moved to the bill.
    pub(in super::super) const UNMOVED: u8 = b'f';
    /// An attempt in the bill.
    pub(in super::super) const MODEL_CALL: u8 = b'd';
    /// A receipt.
    pub(in super::super) const RECEIPT: u8 = b'r';
    /// The starts at a place.
    pub(in super::super) const START: u8 = b'g';
    /// A worker.
    pub(in super::super) const WORKER: u8 = b'w';
    /// A blob.
    pub(in super::super) const BLOB: u8 = b'b';
    /// The stamp of a blob, which each batch changes that refers to the blob.
    pub(in super::super) const STAMP: u8 = b'm';
    /// The number of collections of blobs.
    pub(in super::super) const COLLECTION: u8 = b'n';
    /// A layout.
    pub(in super::super) const LAYOUT: u8 = b'l';
    /// The version of a sequence.
    pub(in super::super) const SEQUENCE: u8 = b'h';
    /// A record of a sequence.
    pub(in super::super) const RECORD: u8 = b's';
    /// An item.
    pub(in super::super) const ITEM: u8 = b'i';
    /// The guard of the items of an organisation.
    pub(in super::super) const ITEMS: u8 = b'j';
}

/// Letters of the rows of a thread, in their order.
const ROW: u8 = b'a';
const GUARD: u8 = b'g';
const QUESTION: u8 = b'q';
const RUN: u8 = b'r';

/// Letters of the precisions of starts.
const MOMENT: u8 = b'm';
const QUARTER: u8 = b'q';

/// Returns the beginning of the keys of a kind within an organisation.
pub(super) fn of_org(kind: u8, org: &OrgId) -> Key {
    Key::kind(kind).text(org)
}

/// Returns the beginning of the keys of a kind within a thread.
pub(super) fn of_thread(kind: u8, org: &OrgId, thread: &ThreadId) -> Key {
    of_org(kind, org).text(thread)
}

/// Returns the key of the guard of a thread: a row that each change of the thread changes, so that an
/// operation depends on all rows of the thread by depending on this one.
pub(super) fn guard(org: &OrgId, thread: &ThreadId) -> Key {
    of_thread(kind::THREAD, org, thread).byte(GUARD)
}

/// Returns the guard of the rows to which a key belongs, if they have one.
pub(super) fn guard_of(key: &Key) -> Option<Key> {
    use kind::{CALL, CHECKPOINT, EVENT, ITEM, ITEMS, OPEN, PIECES, THREAD};
    let (kind, mut parts) = key.parts();
    match kind {
        THREAD | EVENT | PIECES | CALL | CHECKPOINT | OPEN => {
            let org = parts.text()?;
            Some(Key::kind(THREAD).text(org).text(parts.text()?).byte(GUARD))
        }
        ITEM | ITEMS => Some(Key::kind(ITEMS).text(parts.text()?)),
        _ => None,
    }
}

pub(super) fn of_run(kind: u8, org: &OrgId, at: &RunRef) -> Key {
    of_thread(kind, org, &at.thread).text(&at.run)
}

pub(super) fn of_graph(kind: u8, org: &OrgId, thread: &ThreadId, ns: &str) -> Key {
    of_thread(kind, org, thread).text(ns)
}

pub(super) fn of_sequence(kind: u8, org: &OrgId, sequence: &Sequence) -> Key {
    of_org(kind, org).text(&sequence.kind).text(&sequence.key)
}

pub(super) fn of_hash(kind: u8, org: &OrgId, hash: &Hash) -> Key {
    of_org(kind, org).bytes(&hash.0)
}

#[derive(Serialize, Deserialize)]
struct StoredThread<T> {
    row: T,
    calls: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredRun<T, S> {
    subject: S,
    row: T,
}

#[derive(Serialize, Deserialize)]
struct StoredCall<T> {
    number: u64,
    call: T,
}

/// Returns the rows of all tables, except blobs.
pub(super) fn encode(tables: &Tables) -> Result<BTreeMap<Key, Value>> {
    let mut rows = BTreeMap::new();
    for ((org, id), thread) in &tables.threads {
        encode_thread(&mut rows, org, id, thread)?;
    }
    encode_checkpoints(&mut rows, tables);
    for ((org, invocation), row) in &tables.usage {
        rows.insert(of_org(kind::USAGE, org).text(invocation), json(row)?);
        if let Some(run) = row.run() {
            let index = of_org(kind::USAGE_OF_RUN, org).text(run).text(invocation);
            rows.insert(index, frame(&[]));
        }
    }
    encode_bill(&mut rows, &tables.bill)?;
    for (place, starts) in &tables.starts {
        let starts = starts.iter().map(|(at, counts)| StartRow { at: *at, counts: *counts });
        rows.insert(of_start(place), json(&starts.collect::<Vec<_>>())?);
    }
    for (id, row) in &tables.workers {
        rows.insert(Key::kind(kind::WORKER).text(id), json(row)?);
    }
    for ((org, sequence), records) in &tables.sequences.0 {
        if records.version > 0 {
            let version = records.version.to_be_bytes();
            rows.insert(of_sequence(kind::SEQUENCE, org, sequence), frame(&[&version]));
        }
        for (version, (at, content)) in &records.rows {
            let key = of_sequence(kind::RECORD, org, sequence).number(*version);
            let format = content.format.to_be_bytes();
            rows.insert(key, frame(&[&at.0.to_be_bytes(), &format, &content.bytes]));
        }
    }
    for (org, row) in tables.items.rows() {
        let key = of_org(kind::ITEM, org).text(row.namespace.path()).text(&row.key);
        rows.insert(key, json(&row)?);
    }
    Ok(rows)
}

/// Returns the beginning of the keys of a kind of rows in the bill of a subject.
pub(super) fn of_subject(kind: u8, org: &OrgId, subject: &str) -> Key {
    of_org(kind, org).text(subject)
}

pub(super) fn of_place(kind: u8, at: &Place) -> Key {
    of_subject(kind, &at.org, &at.subject).text(&at.invocation)
}

pub(super) fn of_start(at: &StartPlace) -> Key {
    let span = match at.span {
        StartSpan::Moment => MOMENT,
        StartSpan::Quarter => QUARTER,
    };
    Key::kind(kind::START).text(at.subject.kind()).text(at.subject.id()).byte(span)
}

/// Reads the key of the starts at a place.
fn read_start(key: &Key) -> Result<StartPlace> {
    let bad = || corrupt(key, "its key has another form");
    let (_, mut parts) = key.parts();
    let subject = match parts.text().as_deref() {
        Some("account") => BilledTo::Account(parts.id().ok_or_else(bad)?),
        Some("key") => BilledTo::Key(parts.id().ok_or_else(bad)?),
        _ => return Err(bad()),
    };
    let span = match parts.fixed() {
        Some([MOMENT]) => StartSpan::Moment,
        Some([QUARTER]) => StartSpan::Quarter,
        _ => return Err(bad()),
    };
    Ok(StartPlace { subject, span })
}

fn encode_bill(rows: &mut BTreeMap<Key, Value>, bill: &Bill) -> Result<()> {
    for Unmoved { started_at, org, invocation } in &bill.unmoved {
        // The bit of the sign is inverted, so that keys have the order of times.
        let time = started_at.0.cast_unsigned() ^ 1 << 63;
        let key = Key::kind(kind::UNMOVED).number(time).text(org).text(invocation);
        rows.insert(key, frame(&[]));
    }
    for (at, row) in &bill.model_calls {
        rows.insert(of_place(kind::MODEL_CALL, at), json(row)?);
    }
    for (at, receipt) in &bill.receipts {
        rows.insert(of_place(kind::RECEIPT, at), json(receipt)?);
    }
    Ok(())
}

/// Reads the key of a fact that is not yet moved.
pub(super) fn read_unmoved(key: &Key) -> Result<Unmoved> {
    let bad = || corrupt(key, "its key has another form");
    let (_, mut parts) = key.parts();
    let time = parts.number().ok_or_else(bad)?;
    let org = parts.id().ok_or_else(bad)?;
    let invocation = parts.id().ok_or_else(bad)?;
    Ok(Unmoved { started_at: Timestamp((time ^ 1 << 63).cast_signed()), org, invocation })
}

fn encode_thread(
    rows: &mut BTreeMap<Key, Value>,
    org: &OrgId,
    id: &ThreadId,
    thread: &Thread,
) -> Result<()> {
    let start = of_thread(kind::THREAD, org, id);
    let row = StoredThread { row: &thread.row, calls: thread.call_count };
    rows.insert(start.clone().byte(ROW), json(&row)?);
    for (number, row) in (0..).zip(&thread.interrupts) {
        rows.insert(start.clone().byte(QUESTION).number(number), json(row)?);
    }
    for (number, run) in (0..).zip(&thread.runs) {
        let Run { row, subject, events, pieces, .. } = run;
        let at = &row.new.at;
        rows.insert(start.clone().byte(RUN).number(number), json(&StoredRun { subject, row })?);
        rows.insert(of_org(kind::RUN_ID, org).text(&at.run), json(id)?);
        if let Some(key) = &row.new.options.idempotency_key {
            rows.insert(of_org(kind::REQUEST_KEY, org).text(key), json(at)?);
        }
        for event in events {
            rows.insert(of_run(kind::EVENT, org, at).number(event.seq), json(event)?);
        }
        for (end, pieces) in pieces {
            let key = of_run(kind::PIECES, org, at);
            let key = key.number(end.seq).number(end.bytes).number(end.part);
            rows.insert(key, json(pieces)?);
        }
    }
    for (number, call) in &thread.calls {
        let key = of_thread(kind::CALL, org, id).bytes(&call.key.0.0);
        rows.insert(key, json(&StoredCall { number: *number, call })?);
    }
    let is_active = thread.row.wakes_at.is_some() || !thread.is_at_rest();
    if is_active {
        rows.insert(of_thread(kind::ACTIVE, org, id), frame(&[]));
    }
    Ok(())
}

fn encode_checkpoints(rows: &mut BTreeMap<Key, Value>, tables: &Tables) {
    for ((org, thread), graphs) in &tables.checkpoints.threads {
        for (ns, graph) in graphs {
            for (id, new) in &graph.checkpoints {
                let key = of_graph(kind::CHECKPOINT, org, thread, ns).wide(id.0);
                let of = new.of.map(|of| of.0.to_be_bytes());
                let of = of.as_ref().map_or(&[][..], |of| &of[..]);
                rows.insert(key, frame(&[&hashes(&new.blobs), of, &new.tasks, &new.body]));
            }
            for (of, open) in &graph.open {
                let start = of_graph(kind::OPEN, org, thread, ns).wide(of.0);
                let tasks = open.tasks.iter().map(|(number, part)| (number + 1, part));
                for (number, part) in open.outside.iter().map(|part| (0, part)).chain(tasks) {
                    let content = frame(&[&hashes(&part.blobs), &part.body]);
                    rows.insert(start.clone().number(number), content);
                }
            }
        }
    }
    for ((org, hash), body) in &tables.checkpoints.layouts {
        rows.insert(of_hash(kind::LAYOUT, org, hash), frame(&[body]));
    }
}

/// Adds a row to the tables. Rows of indexes and guards have no part in them.
///
/// # Errors
/// Returns [`StoreError::Corrupt`] for a row of another form, [`StoreError::Newer`] for one of a newer
/// format.
pub(super) fn decode(tables: &mut Tables, key: &Key, value: &[u8]) -> Result<()> {
    let (kind, mut parts) = key.parts();
    let bad = || corrupt(key, "its key has another form");
    match kind {
        kind::WORKER => {
            tables.workers.insert(parts.id().ok_or_else(bad)?, read_json(key, value)?);
            return Ok(());
        }
        kind::START => {
            let rows: Vec<StartRow> = read_json(key, value)?;
            let starts = rows.into_iter().map(|row| (row.at, row.counts)).collect();
            tables.starts.insert(read_start(key)?, starts);
            return Ok(());
        }
        kind::UNMOVED => {
            tables.bill.unmoved.insert(read_unmoved(key)?);
            return Ok(());
        }
        kind::THREAD | kind::EVENT | kind::PIECES | kind::CALL | kind::CHECKPOINT | kind::OPEN => {
            let org = parts.id().ok_or_else(bad)?;
            let thread = parts.id().ok_or_else(bad)?;
            return decode_part(tables, key, value, org, thread);
        }
        _ => {}
    }
    let org: OrgId = parts.id().ok_or_else(bad)?;
    match kind {
        kind::USAGE => {
            tables.usage.insert((org, parts.id().ok_or_else(bad)?), read_json(key, value)?);
        }
        kind::MODEL_CALL | kind::RECEIPT => {
            let subject = parts.text().ok_or_else(bad)?;
            let at = Place { org, subject, invocation: parts.id().ok_or_else(bad)? };
            if kind == kind::RECEIPT {
                tables.bill.receipts.insert(at, read_json(key, value)?);
            } else {
                tables.bill.model_calls.insert(at, read_json(key, value)?);
            }
        }
        kind::BLOB => {
            let hash = Hash(parts.fixed().ok_or_else(bad)?);
            let [body] = fields(key, value)?;
            tables.checkpoints.blobs.insert((org, hash), body.to_vec());
        }
        kind::LAYOUT => {
            let hash = Hash(parts.fixed().ok_or_else(bad)?);
            let [body] = fields(key, value)?;
            tables.checkpoints.layouts.insert((org, hash), body.to_vec());
        }
        kind::SEQUENCE | kind::RECORD => {
            let name = parts.text().zip(parts.text()).ok_or_else(bad)?;
            let sequence = Sequence::new(name.0, name.1);
            let records = tables.sequences.0.entry((org, sequence)).or_default();
            if kind == kind::SEQUENCE {
                let [version] = fields(key, value)?;
                records.version = u64::from_be_bytes(fixed(key, version)?);
            } else {
                let [at, format, bytes] = fields(key, value)?;
                let format = u32::from_be_bytes(fixed(key, format)?);
                let at = Timestamp(i64::from_be_bytes(fixed(key, at)?));
                let content = Content { format, bytes: bytes.to_vec() };
                records.rows.insert(parts.number().ok_or_else(bad)?, (at, content));
            }
        }
        kind::ITEM => tables.items.restore(&org, read_json::<ItemRow>(key, value)?),
        _ => {}
    }
    Ok(())
}

/// Adds a row of a thread.
fn decode_part(
    tables: &mut Tables,
    key: &Key,
    value: &[u8],
    org: OrgId,
    thread: ThreadId,
) -> Result<()> {
    let place = (org, thread);
    let bad = || corrupt(key, "its key has another form");
    let (kind, mut parts) = key.parts();
    parts.text().zip(parts.text()).ok_or_else(bad)?;
    match kind {
        kind::CHECKPOINT | kind::OPEN => {
            let ns = parts.text().ok_or_else(bad)?;
            let id = CheckpointId(parts.wide().ok_or_else(bad)?);
            let graph = tables.checkpoints.threads.entry(place).or_default();
            let graph = graph.entry(ns.clone()).or_default();
            if kind == kind::CHECKPOINT {
                graph.checkpoints.insert(id, read_checkpoint(key, ns, id, value)?);
                return Ok(());
            }
            let open = graph.open.entry(id).or_default();
            let number = parts.number().ok_or_else(bad)?;
            let what = if number == 0 { Pending::Outside } else { Pending::Tasks };
            let [blobs, body] = fields(key, value)?;
            let blobs = read_hashes(key, blobs)?;
            let part = NewPending { ns, of: id, what, body: body.to_vec(), blobs };
            match number.checked_sub(1) {
                None => open.outside = Some(part),
                Some(number) => drop(open.tasks.insert(number, part)),
            }
            return Ok(());
        }
        kind::THREAD => {
            return match parts.byte().ok_or_else(bad)? {
                ROW => {
                    let StoredThread { row, calls } =
                        read_json::<StoredThread<ThreadRow>>(key, value)?;
                    let thread = Thread { call_count: calls, ..Thread::new(row) };
                    tables.threads.insert(place, thread);
                    Ok(())
                }
                GUARD => Ok(()),
                letter @ (QUESTION | RUN) => {
                    let thread = tables.threads.get_mut(&place);
                    let thread = thread.ok_or_else(|| corrupt(key, "its thread is missing"))?;
                    if letter == QUESTION {
                        thread.interrupts.push(read_json(key, value)?);
                        return Ok(());
                    }
                    let StoredRun { subject, row } =
                        read_json::<StoredRun<RunRow, String>>(key, value)?;
                    let at = row.new.at.clone();
                    if let Some(key) = row.new.options.idempotency_key.clone() {
                        tables.keys.insert((place.0.clone(), key), at.clone());
                    }
                    tables.runs.insert((place.0, at.run), at.thread);
                    let events = Vec::new();
                    let pieces = BTreeMap::new();
                    thread.runs.push(Run { row, subject, number: 0, events, pieces });
                    Ok(())
                }
                _ => Err(bad()),
            };
        }
        _ => {}
    }
    // Rows of a thread that was deleted meanwhile; the operation is repeated.
    let Some(thread) = tables.threads.get_mut(&place) else { return Ok(()) };
    if kind == kind::CALL {
        let StoredCall { number, call } = read_json(key, value)?;
        thread.calls.push((number, call));
        return Ok(());
    }
    let id: RunId = parts.id().ok_or_else(bad)?;
    let Some(run) = thread.runs.iter_mut().find(|run| run.row.new.at.run == id) else {
        return Ok(());
    };
    if kind == kind::EVENT {
        run.events.push(read_json(key, value)?);
        return Ok(());
    }
    let mut number = || parts.number().ok_or_else(bad);
    let end = Position { seq: number()?, bytes: number()?, part: number()? };
    run.pieces.insert(end, read_json::<Vec<Piece>>(key, value)?);
    Ok(())
}

fn read_checkpoint(key: &Key, ns: String, id: CheckpointId, value: &[u8]) -> Result<NewCheckpoint> {
    let [blobs, of, tasks, body] = fields(key, value)?;
    let of = match of {
        [] => None,
        of => Some(CheckpointId(u128::from_be_bytes(fixed(key, of)?))),
    };
    let blobs = read_hashes(key, blobs)?;
    Ok(NewCheckpoint { ns, id, of, tasks: tasks.to_vec(), body: body.to_vec(), blobs })
}

/// Returns the blobs to which a checkpoint or a part of an open superstep refers.
pub(super) fn references(key: &Key, value: &[u8]) -> Result<Vec<Hash>> {
    let first = all_fields(key, value)?.into_iter().next();
    read_hashes(key, first.ok_or_else(|| corrupt(key, "it has no fields"))?)
}

fn hashes(hashes: &[Hash]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| hash.0).collect()
}

fn read_hashes(key: &Key, bytes: &[u8]) -> Result<Vec<Hash>> {
    let (hashes, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err(corrupt(key, "its references to blobs are cut off"));
    }
    Ok(hashes.iter().map(|hash| Hash(*hash)).collect())
}

pub(super) fn json<T: Serialize>(value: &T) -> Result<Value> {
    let mut bytes = vec![FORMAT];
    bytes.extend(to_json(value)?.into_bytes());
    Ok(bytes)
}

pub(super) fn read_json<T: DeserializeOwned>(key: &Key, value: &[u8]) -> Result<T> {
    serde_json::from_slice(content(key, value)?).map_err(|error| corrupt(key, &error.to_string()))
}

/// Returns a content of fields, each with its length.
pub(super) fn frame(fields: &[&[u8]]) -> Value {
    let mut bytes = vec![FORMAT];
    for field in fields {
        bytes.extend((field.len() as u64).to_be_bytes());
        bytes.extend(*field);
    }
    bytes
}

fn fields<'v, const N: usize>(key: &Key, value: &'v [u8]) -> Result<[&'v [u8]; N]> {
    let found = all_fields(key, value)?;
    let count = found.len();
    found.try_into().map_err(|_| corrupt(key, &format!("it has {count} fields instead of {N}")))
}

fn all_fields<'v>(key: &Key, value: &'v [u8]) -> Result<Vec<&'v [u8]>> {
    let mut rest = content(key, value)?;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let field = rest.split_first_chunk().and_then(|(length, rest)| {
            let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
            rest.split_at_checked(length)
        });
        let (field, after) = field.ok_or_else(|| corrupt(key, "it is cut off"))?;
        fields.push(field);
        rest = after;
    }
    Ok(fields)
}

fn fixed<const N: usize>(key: &Key, bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| corrupt(key, &format!("a field has {} bytes", bytes.len())))
}

/// Returns a content without its format.
fn content<'v>(key: &Key, value: &'v [u8]) -> Result<&'v [u8]> {
    match value.split_first() {
        Some((&FORMAT, content)) => Ok(content),
        Some((&found, _)) if found > FORMAT => Err(StoreError::Newer {
            location: location(key),
            found: u32::from(found),
            known: u32::from(FORMAT),
        }),
        _ => Err(corrupt(key, "it has no format")),
    }
}

pub(super) fn corrupt(key: &Key, what: &str) -> StoreError {
    StoreError::Corrupt { location: location(key), what: what.to_owned() }
}

fn location(key: &Key) -> String {
    format!("row `{key}`")
}
