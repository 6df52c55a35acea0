//! Writes of checkpoints. The common case is one statement.

use crate::error::Done;
use crate::row::{self, At};
use crate::table::block::{self, GraphKey, Guard, Other, Spot};
use crate::table::checkpoints::{self, newest_of};
use crate::table::log;
use rusqlite::{Connection, params};
use weftwork_store::{
    CheckpointBatch, CheckpointNamespace, NewCheckpoint, NewPending, Pending, invariants,
};
use weftwork_types::canonical::Hash;
use weftwork_types::{CheckpointId, OrgId, ThreadId};

/// Part number of external input.
pub(crate) const OUTSIDE: i64 = 0;
/// Part number of the checkpoint itself in references to blobs.
pub(crate) const CHECKPOINT: i64 = -1;

/// Stores a batch.
pub(crate) fn put_batch(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
    batch: &CheckpointBatch,
) -> Done<()> {
    for (hash, body) in &batch.blobs {
        let sql = "INSERT INTO blobs (org, hash, body) VALUES (?1, ?2, ?3)
                   ON CONFLICT (org, hash) DO NOTHING";
        row::execute(conn, sql, params![org.as_str(), hash.0, body])?;
    }
    for (hash, body) in &batch.layouts {
        let sql = "INSERT INTO layouts (org, hash, body) VALUES (?1, ?2, ?3)
                   ON CONFLICT (org, hash) DO NOTHING";
        row::execute(conn, sql, params![org.as_str(), hash.0, body])?;
    }
    for checkpoint in &batch.checkpoints {
        put(conn, org, thread, checkpoint)?;
    }
    for part in &batch.pending {
        match part.what {
            Pending::Outside => put_outside(conn, org, thread, part)?,
            Pending::Tasks => add_tasks(conn, org, thread, part)?,
        }
    }
    Ok(())
}

/// Returns the last checkpoint of the root graph in a batch.
pub(crate) fn head(batch: &CheckpointBatch) -> Option<CheckpointId> {
    batch.checkpoints.iter().rev().find(|new| new.ns.is_empty()).map(|new| new.id)
}

/// Stores a batch that consists of one checkpoint, in one statement. Returns `false` if this is not
/// possible.
pub(crate) fn keep_one(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
    batch: &CheckpointBatch,
) -> Done<bool> {
    let CheckpointBatch { checkpoints, pending, blobs, layouts } = batch;
    let one = pending.is_empty() && blobs.is_empty() && layouts.is_empty();
    match checkpoints.as_slice() {
        [new] if one && new.blobs.is_empty() && !begins_block(new) => {
            insert(conn, org, thread, new)
        }
        _ => Ok(false),
    }
}

/// Inserts a row into its block. Returns `false` if the block does not exist, or has a row with
/// this id.
fn insert(conn: &Connection, org: &OrgId, thread: &ThreadId, new: &NewCheckpoint) -> Done<bool> {
    let Spot { prefix, low } = Spot::of(new.id);
    let of = Other::new(new.id, new.of);
    // `OR FAIL` is equivalent to `ABORT` for a single row, and saves a copy of the pages: to be
    // able to undo a single statement, SQLite would copy them into 64 KiB of memory.
    let sql = "INSERT OR FAIL INTO checkpoint_rows (place, of, tasks, body)
               SELECT (number << 24) | ?5, ?6, ?7, ?8 FROM blocks
               WHERE org = ?1 AND thread = ?2 AND ns = ?3 AND prefix = ?4
               ON CONFLICT (place) DO NOTHING";
    let org = org.as_str();
    let thread = thread.as_str();
    let values = params![org, thread, new.ns, prefix, low, of, new.tasks, new.body];
    Ok(row::execute(conn, sql, values)? > 0)
}

/// Returns `true` if a row is probably the first of its block, because it follows no row of the
/// same block.
fn begins_block(new: &NewCheckpoint) -> bool {
    new.of.is_none_or(|of| Spot::of(of).prefix != Spot::of(new.id).prefix)
}

fn put(conn: &Connection, org: &OrgId, thread: &ThreadId, new: &NewCheckpoint) -> Done<()> {
    if begins_block(new) || !insert(conn, org, thread, new)? {
        let Spot { prefix, low } = Spot::of(new.id);
        block::make(conn, org, GraphKey { thread, ns: &new.ns }, prefix)?;
        if !insert(conn, org, thread, new)? {
            let sql = "UPDATE checkpoint_rows SET of = ?6, tasks = ?7, body = ?8
                       WHERE place = (
                           SELECT (number << 24) | ?5 FROM blocks
                           WHERE org = ?1 AND thread = ?2 AND ns = ?3 AND prefix = ?4)";
            let of = Other::new(new.id, new.of);
            let ns = &new.ns;
            let tasks = &new.tasks;
            let body = &new.body;
            let values = params![org.as_str(), thread.as_str(), ns, prefix, low, of, tasks, body];
            row::execute(conn, sql, values)?;
            delete_references(
                conn,
                org,
                thread,
                PartKey { ns: &new.ns, id: new.id, part: CHECKPOINT },
            )?;
        }
    }
    add_references(
        conn,
        org,
        thread,
        PartKey { ns: &new.ns, id: new.id, part: CHECKPOINT },
        &new.blobs,
    )
}

fn put_outside(conn: &Connection, org: &OrgId, thread: &ThreadId, new: &NewPending) -> Done<()> {
    let sql = "INSERT INTO pending (org, thread, ns, of, part, body)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)
               ON CONFLICT (org, thread, ns, of, part) DO UPDATE SET body = excluded.body";
    let of = new.of.0.to_be_bytes();
    let values = params![org.as_str(), thread.as_str(), new.ns, of, OUTSIDE, new.body];
    row::execute(conn, sql, values)?;
    delete_references(conn, org, thread, PartKey { ns: &new.ns, id: new.of, part: OUTSIDE })?;
    add_references(
        conn,
        org,
        thread,
        PartKey { ns: &new.ns, id: new.of, part: OUTSIDE },
        &new.blobs,
    )
}

fn add_tasks(conn: &Connection, org: &OrgId, thread: &ThreadId, new: &NewPending) -> Done<()> {
    // The next part number, from 1 because 0 is external input. `OR FAIL` as in `insert`.
    let sql = "INSERT OR FAIL INTO pending (org, thread, ns, of, part, body)
               SELECT ?1, ?2, ?3, ?4, coalesce(max(part), 0) + 1, ?5 FROM pending
               WHERE org = ?1 AND thread = ?2 AND ns = ?3 AND of = ?4
               RETURNING part";
    let of = new.of.0.to_be_bytes();
    let values = params![org.as_str(), thread.as_str(), new.ns, of, new.body];
    let part = row::all(conn, sql, values, |row| Ok(row.get::<_, i64>(0)?))?;
    for part in part {
        add_references(conn, org, thread, PartKey { ns: &new.ns, id: new.of, part }, &new.blobs)?;
    }
    Ok(())
}

/// A row that may refer to blobs: a checkpoint, or a part of an open superstep.
#[derive(Debug, Clone, Copy)]
struct PartKey<'a> {
    ns: &'a str,
    id: CheckpointId,
    part: i64,
}

/// Records the blobs that a row refers to.
fn add_references(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
    row: PartKey<'_>,
    blobs: &[Hash],
) -> Done<()> {
    for hash in blobs {
        let sql = "INSERT INTO blob_refs (org, thread, ns, id, part, hash)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                   ON CONFLICT (org, thread, ns, id, part, hash) DO NOTHING";
        let id = row.id.0.to_be_bytes();
        let values = params![org.as_str(), thread.as_str(), row.ns, id, row.part, hash.0];
        row::execute(conn, sql, values)?;
    }
    Ok(())
}

/// Deletes the blob references of a row.
fn delete_references(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
    row: PartKey<'_>,
) -> Done<()> {
    let sql = "DELETE FROM blob_refs
               WHERE org = ?1 AND thread = ?2 AND ns = ?3 AND id = ?4 AND part = ?5";
    let id = row.id.0.to_be_bytes();
    let key = params![org.as_str(), thread.as_str(), row.ns, id, row.part];
    row::execute(conn, sql, key)?;
    Ok(())
}

/// Replaces all checkpoints of a graph.
pub(crate) fn rewrite(
    conn: &Connection,
    org: &OrgId,
    at: &CheckpointNamespace,
    newest: CheckpointId,
    new: &CheckpointBatch,
) -> Done<()> {
    invariants::check_newest(at, newest, newest_id(conn, org, at)?)?;
    let stays = invariants::stays(at, newest, new).then(|| newest.0.to_be_bytes());
    block::clear(conn, org, &at.thread, Some(&at.ns))?;
    let sql = "DELETE FROM blob_refs WHERE org = ?1 AND thread = ?2 AND ns = ?3 AND part < 0";
    row::execute(conn, sql, params![org.as_str(), at.thread.as_str(), at.ns])?;
    for sql in [
        "DELETE FROM pending
         WHERE org = ?1 AND thread = ?2 AND ns = ?3 AND of IS NOT ?4",
        "DELETE FROM blob_refs
         WHERE org = ?1 AND thread = ?2 AND ns = ?3 AND id IS NOT ?4 AND part >= 0",
    ] {
        row::execute(conn, sql, params![org.as_str(), at.thread.as_str(), at.ns, stays])?;
    }
    put_batch(conn, org, &at.thread, new)?;
    move_head(conn, org, &at.thread)?;
    row::give_back(conn)
}

pub(crate) fn newest_id(
    conn: &Connection,
    org: &OrgId,
    at: &CheckpointNamespace,
) -> Done<Option<CheckpointId>> {
    let name = format!("thread `{}`", at.thread);
    let key = params![org.as_str(), at.thread.as_str(), at.ns];
    let sql = newest_of!("place");
    row::one(conn, sql, key, |row| {
        Guard::new(org, at).check(row)?;
        checkpoints::id(&At::new("checkpoints", &name), row)
    })
}

/// Copies all checkpoints of a thread, replacing those of another.
pub(crate) fn copy(conn: &Connection, org: &OrgId, from: &ThreadId, to: &ThreadId) -> Done<()> {
    if from == to {
        return Ok(());
    }
    delete(conn, org, to)?;
    block::copy(conn, org, from, to)?;
    for sql in [
        "INSERT INTO pending (org, thread, ns, of, part, body)
         SELECT org, ?3, ns, of, part, body FROM pending WHERE org = ?1 AND thread = ?2",
        "INSERT INTO blob_refs (org, thread, ns, id, part, hash)
         SELECT org, ?3, ns, id, part, hash FROM blob_refs WHERE org = ?1 AND thread = ?2",
    ] {
        row::execute(conn, sql, params![org.as_str(), from.as_str(), to.as_str()])?;
    }
    move_head(conn, org, to)
}

/// Sets the head of a thread to its newest checkpoint.
pub(crate) fn move_head(conn: &Connection, org: &OrgId, thread: &ThreadId) -> Done<()> {
    let newest =
        newest_id(conn, org, &CheckpointNamespace { thread: thread.clone(), ns: String::new() })?;
    let sql = "UPDATE threads SET head = ?3 WHERE org = ?1 AND id = ?2";
    let head = newest.map(|id| id.0.to_be_bytes());
    row::execute(conn, sql, params![org.as_str(), thread.as_str(), head])?;
    // The head in the log of an open run is outdated.
    let sql = "SELECT number FROM runs
               WHERE org = ?1 AND thread = ?2 AND status IN ('pending', 'running')";
    let open = row::one(conn, sql, params![org.as_str(), thread.as_str()], |row| Ok(row.get(0)?))?;
    open.map_or(Ok(()), |number| log::delete_heads(conn, number))
}

/// Deletes all checkpoints of a thread.
pub(crate) fn delete(conn: &Connection, org: &OrgId, thread: &ThreadId) -> Done<()> {
    block::clear(conn, org, thread, None)?;
    for sql in [
        "DELETE FROM pending WHERE org = ?1 AND thread = ?2",
        "DELETE FROM blob_refs WHERE org = ?1 AND thread = ?2",
    ] {
        row::execute(conn, sql, params![org.as_str(), thread.as_str()])?;
    }
    Ok(())
}

/// Deletes blobs without references and returns their number.
pub(crate) fn collect(conn: &Connection, org: &OrgId) -> Done<u64> {
    let sql = "DELETE FROM blobs WHERE org = ?1 AND NOT EXISTS (
                   SELECT 1 FROM blob_refs
                   WHERE blob_refs.org = blobs.org AND blob_refs.hash = blobs.hash)";
    Ok(row::execute(conn, sql, [org.as_str()])? as u64)
}
