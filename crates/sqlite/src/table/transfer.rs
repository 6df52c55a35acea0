//! Export and import of complete threads.

use crate::error::Done;
use crate::row::{self, At};
use crate::store::SqliteStore;
use crate::table::block::Other;
use crate::table::compact::Call;
use crate::table::{
    accept, calls, checkpoint_write, interrupts, log, runs, sequences, threads, usage,
};
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use weftwork_store::Result;
use weftwork_store::{
    CheckpointBatch, ExportThreads, ImportThreads, InterruptRow, NewCheckpoint, NewPending,
    Pending, RunExport, ThreadExport, invariants,
};
use weftwork_types::canonical::Hash;
use weftwork_types::{BoxFuture, CheckpointId, OrgId, Principal, ThreadId};

impl ExportThreads for SqliteStore {
    fn export_thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ThreadExport>> {
        let org = who.org.clone();
        let id = id.clone();
        self.read(move |conn| read(conn, &org, &id))
    }
}

impl ImportThreads for SqliteStore {
    fn import_thread<'a>(
        &'a self,
        who: &'a Principal,
        whole: ThreadExport,
    ) -> BoxFuture<'a, Result<()>> {
        let who = who.clone();
        Box::pin(async move {
            let whole = whole.checked()?;
            self.write(move |conn| put(conn, &who.org, &whole)).await
        })
    }
}

fn read(conn: &Connection, org: &OrgId, id: &ThreadId) -> Done<ThreadExport> {
    let key = || params_of(org, id);
    let thread = threads::one(conn, org, id)?.ok_or_else(|| invariants::missing("thread", id))?;
    let sql = "SELECT * FROM runs WHERE org = ?1 AND thread = ?2 ORDER BY rowid";
    let rows = row::all(conn, sql, key(), |row| {
        let row = (At::new("runs", &"the maker of a row").plain(row, "subject")?, runs::read(row)?);
        Ok(row)
    })?;
    let runs = rows.into_iter().map(|(subject, row)| {
        let run = &row.new.at.run;
        let events = log::events_after(conn, run, log::end(conn, org, run)?, 0, usize::MAX)?;
        Ok(RunExport { subject, row, events })
    });
    let runs = runs.collect::<Done<Vec<_>>>()?;
    let sql = "SELECT * FROM interrupts WHERE org = ?1 AND thread = ?2 ORDER BY rowid";
    let interrupts = row::all(conn, sql, key(), |row| interrupts::read(row, id))?;
    let calls = calls::of_thread(conn, org, id)?;
    let usage = usage::of_thread(conn, org, id)?;
    let kept = kept(conn, org, id)?;
    let records = sequences::exported(conn, org, id)?;
    Ok(ThreadExport { thread, runs, interrupts, calls, kept, usage, records }.checked()?)
}

fn params_of<'a>(org: &'a OrgId, id: &'a ThreadId) -> [&'a str; 2] {
    [org.as_str(), id.as_str()]
}

/// Number of calls per row of an imported thread.
const CALLS_OF_A_ROW: usize = 100;

/// The key of a row that refers to blobs: graph, checkpoint and part.
type Speaker = (String, CheckpointId, i64);

fn kept(conn: &Connection, org: &OrgId, id: &ThreadId) -> Done<CheckpointBatch> {
    let name = format!("thread `{id}`");
    let at = |table| At::new(table, &name);
    let key = || params_of(org, id);
    let mut spoken: BTreeMap<Speaker, Vec<Hash>> = BTreeMap::new();
    let sql = "SELECT * FROM blob_refs WHERE org = ?1 AND thread = ?2";
    let rows = row::all(conn, sql, key(), |row| {
        let at = at("blob_refs");
        let checkpoint = CheckpointId(at.bits(row, "id")?);
        let speaker = (at.plain(row, "ns")?, checkpoint, at.plain(row, "part")?);
        Ok((speaker, at.hash(row, "hash")?))
    })?;
    for (speaker, hash) in rows {
        spoken.entry(speaker).or_default().push(hash);
    }
    let mut says =
        |ns: &str, id, part| spoken.remove(&(ns.to_owned(), id, part)).unwrap_or_default();
    let sql = "SELECT * FROM checkpoints WHERE org = ?1 AND thread = ?2 ORDER BY ns, id";
    let checkpoints = row::all(conn, sql, key(), |row| {
        let at = at("checkpoints");
        let ns = at.plain::<String>(row, "ns")?;
        let id = CheckpointId(at.bits(row, "id")?);
        let of = at.plain::<Other>(row, "of")?.to(id);
        let tasks = at.plain(row, "tasks")?;
        let body = at.plain(row, "body")?;
        let blobs = says(&ns, id, checkpoint_write::CHECKPOINT);
        Ok(NewCheckpoint { ns, id, of, tasks, body, blobs })
    })?;
    let sql = "SELECT * FROM pending WHERE org = ?1 AND thread = ?2 ORDER BY ns, of, part";
    let pending = row::all(conn, sql, key(), |row| {
        let at = at("pending");
        let ns = at.plain::<String>(row, "ns")?;
        let of = CheckpointId(at.bits(row, "of")?);
        let part: i64 = at.plain(row, "part")?;
        let what =
            if part == checkpoint_write::OUTSIDE { Pending::Outside } else { Pending::Tasks };
        let blobs = says(&ns, of, part);
        Ok(NewPending { ns, of, what, body: at.plain(row, "body")?, blobs })
    })?;
    let sql = "SELECT hash, body FROM blobs WHERE org = ?1 AND hash IN (
                   SELECT hash FROM blob_refs WHERE org = ?1 AND thread = ?2)";
    let blobs = row::all(conn, sql, key(), |row| {
        let at = at("blobs");
        Ok((at.hash(row, "hash")?, at.plain(row, "body")?))
    })?;
    Ok(CheckpointBatch { checkpoints, pending, blobs, layouts: Vec::new() })
}

fn put(conn: &Connection, org: &OrgId, whole: &ThreadExport) -> Done<()> {
    let id = &whole.thread.id;
    let sql = "SELECT 1 FROM threads WHERE org = ?1 AND id = ?2
               UNION ALL SELECT 1 FROM blocks WHERE org = ?1 AND thread = ?2
               UNION ALL SELECT 1 FROM pending WHERE org = ?1 AND thread = ?2 LIMIT 1";
    if row::one(conn, sql, params_of(org, id), |_| Ok(()))?.is_some() {
        return Err(invariants::thread_exists(id).into());
    }
    threads::insert(conn, org, &whole.thread)?;
    for run in &whole.runs {
        put_run(conn, org, run)?;
    }
    for row in &whole.interrupts {
        put_interrupt(conn, org, id, row)?;
    }
    put_calls(conn, org, whole)?;
    checkpoint_write::put_batch(conn, org, id, &whole.kept)?;
    sequences::import(conn, org, &whole.records)?;
    whole.usage.iter().try_for_each(|row| usage::record(conn, org, row))
}

fn put_run(conn: &Connection, org: &OrgId, run: &RunExport) -> Done<()> {
    let RunExport { subject, row, events } = run;
    let new = &row.new;
    accept::check_new(conn, org, new)?;
    let events_from = events.first().map_or(1, |event| event.seq);
    accept::insert(conn, org, subject, row, events_from)?;
    // Events of one commit have the same time, and were in one row.
    for batch in events.chunk_by(|a, b| a.at == b.at) {
        let events: Vec<_> = batch.iter().map(|stored| stored.event.clone()).collect();
        let Some(first) = batch.first() else { continue };
        let end = log::end(conn, org, &new.at.run)?;
        let end = log::End { seq: first.seq - 1, ..end };
        let entry = log::Entry { at: first.at, events: &events, ..log::Entry::default() };
        log::add(conn, end, entry)?;
    }
    Ok(())
}

/// Imports calls. Their runs are not known, so they are added to the last run.
fn put_calls(conn: &Connection, org: &OrgId, whole: &ThreadExport) -> Done<()> {
    let Some(last) = whole.runs.last() else { return Ok(()) };
    for calls in whole.calls.chunks(CALLS_OF_A_ROW) {
        let end = log::end(conn, org, &last.row.new.at.run)?;
        let at = whole.thread.updated_at;
        let calls = calls.iter().map(Call::from).collect();
        log::add(conn, end, log::Entry { at, calls, ..log::Entry::default() })?;
    }
    Ok(())
}

fn put_interrupt(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
    asked: &InterruptRow,
) -> Done<()> {
    let sql = "INSERT INTO interrupts (org, thread, id, run, interrupt, answer, closed)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let id = asked.interrupt.id.0.to_be_bytes();
    let record = row::json(&asked.interrupt)?;
    let answer = asked.answer.as_ref().map(row::json).transpose()?;
    let run = asked.run.as_str();
    let closed = asked.closed;
    let values = params![org.as_str(), thread.as_str(), id, run, record, answer, closed];
    row::execute(conn, sql, values)?;
    Ok(())
}
