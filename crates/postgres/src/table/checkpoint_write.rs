//! Writes of checkpoints.
//!
//! Adding checkpoints to a thread takes the shared lock of the thread's checkpoints; replacing or
//! removing them takes the exclusive lock. In the same way, writing rows that refer to blobs takes
//! the shared lock of the organisation's blobs, and collecting blobs the exclusive lock.

use crate::conn::{Ask, Conn, Value, ask};
use crate::error::Done;
use crate::pool::Before;
use crate::row::{At, bytes, text};
use crate::table::threads;
use tokio_postgres::Row;
use weftwork_store::{
    CheckpointBatch, CheckpointNamespace, NewCheckpoint, NewPending, Pending, StoreError,
    invariants,
};
use weftwork_types::canonical::Hash;
use weftwork_types::{CheckpointId, OrgId, ThreadId};

const SHARED: &str = "SELECT pg_advisory_xact_lock_shared(lock_of($1, $2))";
const ALONE: &str = "SELECT pg_advisory_xact_lock(lock_of($1, $2))";

fn share_thread(org: &OrgId, thread: &ThreadId) -> Ask {
    ask!(SHARED, text(org), Some(text(thread)))
}

/// Takes the exclusive lock of a thread's checkpoints.
pub(crate) fn lock_thread(org: &OrgId, thread: &ThreadId) -> Ask {
    ask!(ALONE, text(org), Some(text(thread)))
}

fn share_blobs(org: &OrgId) -> Ask {
    ask!(SHARED, text(org), None::<String>)
}

fn lock_blobs(org: &OrgId) -> Ask {
    ask!(ALONE, text(org), None::<String>)
}

/// Returns the checkpoint of a batch that consists of one checkpoint without blobs.
pub(crate) fn alone(batch: &CheckpointBatch) -> Option<&NewCheckpoint> {
    let [new] = batch.checkpoints.as_slice() else { return None };
    let beside = batch.pending.len() + batch.blobs.len() + batch.layouts.len() + new.blobs.len();
    (beside == 0).then_some(new)
}

/// Returns the last parameters of `put`, after organisation and thread.
pub(crate) fn values(new: &NewCheckpoint) -> Vec<Value> {
    vec![
        Box::new(new.ns.clone()),
        Box::new(bytes(new.id.0)),
        Box::new(new.of.map(|of| bytes(of.0))),
        Box::new(new.tasks.clone()),
        Box::new(new.body.clone()),
    ]
}

/// Returns the statements that store a batch; none for an empty one.
pub(crate) fn asks(
    org: &OrgId,
    thread: &ThreadId,
    batch: &CheckpointBatch,
    mark: &[u8],
) -> Vec<Ask> {
    if let Some(new) = alone(batch) {
        let mut all: Vec<Value> = vec![Box::new(text(org)), Box::new(text(thread))];
        all.extend(values(new));
        return vec![Ask::new("SELECT put($1, $2, $3, $4, $5, $6, $7)", all)];
    }
    let mut asks = Vec::new();
    let speaks = batch.checkpoints.iter().any(|new| !new.blobs.is_empty())
        || batch.pending.iter().any(|part| !part.blobs.is_empty());
    if !batch.is_empty() {
        asks.push(share_thread(org, thread));
    }
    if speaks || !batch.blobs.is_empty() {
        asks.push(share_blobs(org));
    }
    for (hash, body) in &batch.blobs {
        let sql = "INSERT INTO blobs (org, hash, body) VALUES ($1, $2, $3)
                   ON CONFLICT (org, hash) DO NOTHING";
        asks.push(ask!(sql, text(org), hash.0.to_vec(), body.clone()));
    }
    for (hash, body) in &batch.layouts {
        let sql = "INSERT INTO layouts (org, hash, body) VALUES ($1, $2, $3)
                   ON CONFLICT (org, hash) DO NOTHING";
        asks.push(ask!(sql, text(org), hash.0.to_vec(), body.clone()));
    }
    asks.extend(batch.checkpoints.iter().map(|new| put(org, thread, new)));
    asks.extend(batch.pending.iter().map(|part| add(org, thread, part, mark)));
    asks
}

/// Returns the last checkpoint of the root graph in a batch.
pub(crate) fn head(batch: &CheckpointBatch) -> Option<CheckpointId> {
    batch.checkpoints.iter().rev().find(|new| new.ns.is_empty()).map(|new| new.id)
}

fn put(org: &OrgId, thread: &ThreadId, new: &NewCheckpoint) -> Ask {
    let sql = "INSERT INTO checkpoints (org, thread, ns, id, of, tasks, body, blobs, seal)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, seal_of($1, $2, $3, $4))
               ON CONFLICT (org, thread, ns, id) DO UPDATE SET of = excluded.of,
                   tasks = excluded.tasks, body = excluded.body, blobs = excluded.blobs,
                   seal = excluded.seal";
    let id = bytes(new.id.0);
    let of = new.of.map(|of| bytes(of.0));
    let tasks = new.tasks.clone();
    let body = new.body.clone();
    let blobs = hashes(&new.blobs);
    ask!(sql, text(org), text(thread), new.ns.clone(), id, of, tasks, body, blobs)
}

fn add(org: &OrgId, thread: &ThreadId, new: &NewPending, mark: &[u8]) -> Ask {
    let outside = "INSERT INTO pending (org, thread, ns, of, outside, body, blobs, mark)
                   VALUES ($1, $2, $3, $4, true, $5, $6, $7)
                   ON CONFLICT (org, thread, ns, of) WHERE outside DO UPDATE
                       SET body = excluded.body, blobs = excluded.blobs, mark = excluded.mark";
    let tasks = "INSERT INTO pending (org, thread, ns, of, outside, body, blobs, mark)
                 VALUES ($1, $2, $3, $4, false, $5, $6, $7)";
    let sql = match new.what {
        Pending::Outside => outside,
        Pending::Tasks => tasks,
    };
    let of = bytes(new.of.0);
    let body = new.body.clone();
    let blobs = hashes(&new.blobs);
    ask!(sql, text(org), text(thread), new.ns.clone(), of, body, blobs, mark.to_vec())
}

fn hashes(blobs: &[Hash]) -> Vec<Vec<u8>> {
    blobs.iter().map(|hash| hash.0.to_vec()).collect()
}

/// A batch, and the mark of its write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marked<'a> {
    pub(crate) batch: &'a CheckpointBatch,
    pub(crate) mark: &'a [u8],
}

/// Stores a batch.
pub(crate) async fn put_batch(
    conn: &mut Conn,
    org: &OrgId,
    thread: &ThreadId,
    batch: Marked<'_>,
    before: Before,
) -> Done<()> {
    let Marked { batch, mark } = batch;
    let asks = asks(org, thread, batch, mark);
    if asks.is_empty() {
        return Ok(());
    }
    if before == Before::Nothing {
        conn.write(asks).await?;
        return Ok(());
    }
    // The exclusive lock waits for the end of an earlier attempt that is still in progress.
    let found = conn.begin(vec![lock_thread(org, thread), written(org, thread, mark)]).await?;
    if found.last().is_none_or(Vec::is_empty) {
        conn.commit(asks).await?;
    }
    Ok(())
}

/// Queries a row that exists if a write with this mark took effect. A write without parts of open
/// supersteps leaves no mark, and may be repeated.
fn written(org: &OrgId, thread: &ThreadId, mark: &[u8]) -> Ask {
    let sql = "SELECT 1 FROM pending WHERE org = $1 AND thread = $2 AND mark = $3 LIMIT 1";
    ask!(sql, text(org), text(thread), mark.to_vec())
}

/// Replaces all checkpoints of a graph.
pub(crate) async fn rewrite(
    conn: &mut Conn,
    org: &OrgId,
    at: &CheckpointNamespace,
    newest: CheckpointId,
    batch: Marked<'_>,
) -> Done<()> {
    let Marked { batch: new, mark } = batch;
    let sql = "SELECT id FROM checkpoints WHERE org = $1 AND thread = $2 AND ns = $3
               ORDER BY id DESC LIMIT 1";
    let key = || (text(org), text(&at.thread), at.ns.clone());
    let (of_org, thread, ns) = key();
    let asks = vec![
        threads::lock(org, &at.thread),
        lock_thread(org, &at.thread),
        written(org, &at.thread, mark),
        ask!(sql, of_org, thread, ns),
    ];
    let found = conn.begin(asks).await?;
    let [_, _, written, newest_row] = found.as_slice() else { return Ok(()) };
    if !written.is_empty() {
        return Ok(());
    }
    invariants::check_newest(at, newest, newest_row.first().map(|row| id(row, at)).transpose()?)?;
    let stays = invariants::stays(at, newest, new).then(|| bytes(newest.0));
    let gone = "DELETE FROM checkpoints WHERE org = $1 AND thread = $2 AND ns = $3";
    let alone = "DELETE FROM pending WHERE org = $1 AND thread = $2 AND ns = $3
                     AND of IS DISTINCT FROM $4::bytea";
    let (of_org, thread, ns) = key();
    let mut all = vec![ask!(gone, of_org.clone(), thread.clone(), ns.clone())];
    all.push(ask!(alone, of_org, thread, ns, stays));
    all.extend(self::asks(org, &at.thread, new, mark));
    all.push(move_head(org, &at.thread));
    conn.commit(all).await?;
    Ok(())
}

fn id(row: &Row, at: &CheckpointNamespace) -> Result<CheckpointId, StoreError> {
    let name = format!("thread `{}`", at.thread);
    At::new("checkpoints", &name).bits(row, "id").map(CheckpointId)
}

/// Copies all checkpoints of a thread, replacing those of another.
pub(crate) async fn copy(conn: &mut Conn, org: &OrgId, from: &ThreadId, to: &ThreadId) -> Done<()> {
    if from == to {
        return Ok(());
    }
    let mut asks = vec![threads::lock(org, to), lock_thread(org, to)];
    asks.extend([share_thread(org, from), share_blobs(org)]);
    asks.extend(deletes(org, to));
    for sql in [
        // A row with an invalid seal does not get a valid one.
        "INSERT INTO checkpoints (org, thread, ns, id, of, tasks, body, blobs, seal)
         SELECT org, $3, ns, id, of, tasks, body, blobs,
             CASE WHEN seal = seal_of($1, $2, ns, id) THEN seal_of($1, $3, ns, id) ELSE '' END
         FROM checkpoints WHERE org = $1 AND thread = $2",
        "INSERT INTO pending (org, thread, ns, of, outside, body, blobs)
         SELECT org, $3, ns, of, outside, body, blobs FROM pending
         WHERE org = $1 AND thread = $2 ORDER BY number",
    ] {
        asks.push(ask!(sql, text(org), text(from), text(to)));
    }
    asks.push(move_head(org, to));
    conn.write(asks).await?;
    Ok(())
}

/// Sets the head of a thread to its newest checkpoint. The row of the thread, if it exists, was
/// locked before the checkpoints, in the same order as in commits.
pub(crate) fn move_head(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = "UPDATE threads SET head = (
                   SELECT id FROM checkpoints WHERE org = $1 AND thread = $2 AND ns = ''
                   ORDER BY id DESC LIMIT 1)
               WHERE org = $1 AND id = $2";
    ask!(sql, text(org), text(thread))
}

/// Deletes all checkpoints of a thread.
pub(crate) fn deletes(org: &OrgId, thread: &ThreadId) -> [Ask; 2] {
    [
        "DELETE FROM checkpoints WHERE org = $1 AND thread = $2",
        "DELETE FROM pending WHERE org = $1 AND thread = $2",
    ]
    .map(|sql| ask!(sql, text(org), text(thread)))
}

/// Deletes blobs without references and returns their number.
pub(crate) async fn collect(conn: &mut Conn, org: &OrgId) -> Done<u64> {
    let sql = "WITH spoken AS MATERIALIZED (
                   SELECT unnest(blobs) AS hash FROM checkpoints
                   WHERE org = $1 AND blobs <> '{}'
                   UNION
                   SELECT unnest(blobs) FROM pending WHERE org = $1 AND blobs <> '{}'
               ), gone AS (
                   DELETE FROM blobs b WHERE b.org = $1
                       AND NOT EXISTS (SELECT 1 FROM spoken s WHERE s.hash = b.hash)
                   RETURNING 1
               )
               SELECT count(*) AS gone FROM gone";
    let found = conn.write(vec![lock_blobs(org), ask!(sql, text(org))]).await?;
    let row = found.last().and_then(|rows| rows.first());
    let at = At::new("blobs", &org);
    Ok(row.map(|row| at.count(row, "gone")).transpose()?.unwrap_or(0))
}
