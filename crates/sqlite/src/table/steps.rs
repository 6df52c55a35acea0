use crate::error::Done;
use crate::row::{self, At};
use crate::store::SqliteStore;
use crate::table::{keep, threads};
use rusqlite::{Connection, Row, params};
use std::collections::BTreeSet;
use weftwork_store::table::{ReadSteps, Result};
use weftwork_store::{Head, StepRow, TaskWrites, rule};
use weftwork_types::{BoxFuture, CheckpointId, OrgId, Principal, TaskId, ThreadId};

impl ReadSteps for SqliteStore {
    fn head<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Option<Head>>> {
        let (org, thread) = (who.org.clone(), thread.clone());
        self.read(move |conn| head(conn, &org, &thread))
    }

    fn lineage<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        at: CheckpointId,
    ) -> BoxFuture<'a, Result<Head>> {
        let (org, thread) = (who.org.clone(), thread.clone());
        self.read(move |conn| {
            threads::expect(conn, &org, &thread)?;
            if !exists(conn, &org, &thread, at)? {
                return Err(rule::no_checkpoint(at).into());
            }
            lineage(conn, &org, &thread, at)
        })
    }

    fn checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StepRow>>> {
        let (org, thread) = (who.org.clone(), thread.clone());
        self.read(move |conn| checkpoints(conn, &org, &thread, before, limit))
    }
}

fn checkpoints(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
    before: Option<CheckpointId>,
    limit: usize,
) -> Done<Vec<StepRow>> {
    threads::expect(conn, org, thread)?;
    let sql = "SELECT * FROM steps WHERE org = ?1 AND thread = ?2 AND ns = '' AND id < ?3
               ORDER BY id DESC LIMIT ?4";
    let before = before.map_or(u128::MAX, |id| id.0).to_be_bytes();
    let key = params![org.as_str(), thread.as_str(), before, row::int(limit)];
    row::all(conn, sql, key, |row| checked(org, thread, row))
}

fn head(conn: &Connection, org: &OrgId, thread: &ThreadId) -> Done<Option<Head>> {
    threads::expect(conn, org, thread)?;
    let name = format!("thread `{thread}`");
    let sql = "SELECT head FROM threads WHERE org = ?1 AND id = ?2";
    let found = row::one(conn, sql, params![org.as_str(), thread.as_str()], |row| {
        Ok(At::new("threads", &name).maybe_bits(row, "head")?)
    })?;
    let head = found.flatten().map(CheckpointId);
    match head {
        Some(head) if !exists(conn, org, thread, head)? && keep::has(conn, org, thread, head)? => {
            Ok(None)
        }
        head => head.map(|head| lineage(conn, org, thread, head)).transpose(),
    }
}

fn lineage(conn: &Connection, org: &OrgId, thread: &ThreadId, head: CheckpointId) -> Done<Head> {
    let mut seen = BTreeSet::new();
    let mut steps = Vec::new();
    let mut next = Some(head);
    while let Some(id) = next {
        let step = if seen.insert(id) { step(conn, org, thread, id)? } else { None };
        let step = step.ok_or_else(|| rule::lineage_broken(thread, id))?;
        next = step.parent;
        steps.push(step);
    }
    steps.reverse();
    Ok(Head { steps, pending: pending(conn, org, thread, head)? })
}

fn step(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
    id: CheckpointId,
) -> Done<Option<StepRow>> {
    let sql = "SELECT * FROM steps WHERE org = ?1 AND thread = ?2 AND id = ?3";
    let key = params![org.as_str(), thread.as_str(), id.0.to_be_bytes()];
    row::one(conn, sql, key, |row| checked(org, thread, row))
}

pub(crate) fn checked(org: &OrgId, thread: &ThreadId, row: &Row<'_>) -> Done<StepRow> {
    let name = format!("thread `{thread}`");
    let id = CheckpointId(At::new("steps", &name).bits(row, "id")?);
    let name = format!("thread `{thread}`, checkpoint `{id}`");
    let at = At::new("steps", &name);
    let step = read(&at, row, id)?;
    at.verify(row, step_checksum(org, thread, &step)?)?;
    Ok(step)
}

fn read(at: &At<'_>, row: &Row<'_>, id: CheckpointId) -> Done<StepRow> {
    Ok(StepRow {
        id,
        parent: at.maybe_bits(row, "parent")?.map(CheckpointId),
        ns: at.plain(row, "ns")?,
        step: at.plain(row, "step")?,
        source: at.word(row, "source")?,
        fingerprint: at.hash(row, "fingerprint")?,
        body: at.plain(row, "body")?,
    })
}

fn pending(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
    of: CheckpointId,
) -> Done<Vec<TaskWrites>> {
    let sql = "SELECT * FROM writes
               WHERE org = ?1 AND thread = ?2 AND of = ?3 ORDER BY task";
    let key = params![org.as_str(), thread.as_str(), of.0.to_be_bytes()];
    row::all(conn, sql, key, |row| left(org, thread, row))
}

/// What a task left behind.
pub(crate) fn left(org: &OrgId, thread: &ThreadId, row: &Row<'_>) -> Done<TaskWrites> {
    let name = format!("thread `{thread}`");
    let of = CheckpointId(At::new("writes", &name).bits(row, "of")?);
    let name = format!("thread `{thread}`, checkpoint `{of}`");
    let at = At::new("writes", &name);
    let task = TaskId(at.bits(row, "task")?);
    let write = TaskWrites { of, task, body: at.plain(row, "body")? };
    at.verify(row, write_checksum(org, thread, &write))?;
    Ok(write)
}

/// Adds a checkpoint and returns the thread's head after it.
pub(crate) fn add(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
    step: &StepRow,
    head: Option<CheckpointId>,
) -> Done<Option<CheckpointId>> {
    if let Some(parent) = step.parent
        && !exists(conn, org, thread, parent)?
    {
        let known = exists(conn, org, thread, step.id)?;
        return Err(if known {
            rule::checkpoint_exists(thread, step.id)
        } else {
            rule::parent_missing(thread, step.id, parent)
        }
        .into());
    }
    if insert(conn, org, thread, step)? == 0 {
        return Err(rule::checkpoint_exists(thread, step.id).into());
    }
    let left = if step.ns.is_empty() { head } else { None };
    let sql = "DELETE FROM writes WHERE org = ?1 AND thread = ?2 AND of IN (?3, ?4)";
    let bytes = |id: Option<CheckpointId>| id.map(|id| id.0.to_be_bytes());
    let values = params![org.as_str(), thread.as_str(), bytes(step.parent), bytes(left)];
    row::execute(conn, sql, values)?;
    Ok(if step.ns.is_empty() { Some(step.id) } else { head })
}

fn insert(conn: &Connection, org: &OrgId, thread: &ThreadId, step: &StepRow) -> Done<usize> {
    let sql = "INSERT INTO steps (org, thread, id, parent, ns, step, source, fingerprint, checksum,
                   body)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
               ON CONFLICT (org, thread, id) DO NOTHING";
    let values = params![
        org.as_str(),
        thread.as_str(),
        step.id.0.to_be_bytes(),
        step.parent.map(|id| id.0.to_be_bytes()),
        step.ns,
        step.step,
        row::word(&step.source)?,
        step.fingerprint.0,
        step_checksum(org, thread, step)?,
        step.body,
    ];
    row::execute(conn, sql, values)
}

fn exists(conn: &Connection, org: &OrgId, thread: &ThreadId, id: CheckpointId) -> Done<bool> {
    let sql = "SELECT 1 FROM steps WHERE org = ?1 AND thread = ?2 AND id = ?3";
    let key = params![org.as_str(), thread.as_str(), id.0.to_be_bytes()];
    Ok(row::one(conn, sql, key, |_| Ok(()))?.is_some())
}

/// Keeps what a task of an open superstep left behind.
pub(crate) fn leave(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
    write: &TaskWrites,
) -> Done<()> {
    let sql = "INSERT INTO writes (org, thread, of, task, checksum, body)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)
               ON CONFLICT (org, thread, of, task) DO UPDATE
                   SET checksum = excluded.checksum, body = excluded.body";
    let values = params![
        org.as_str(),
        thread.as_str(),
        write.of.0.to_be_bytes(),
        write.task.0.to_be_bytes(),
        write_checksum(org, thread, write),
        write.body,
    ];
    row::execute(conn, sql, values)?;
    Ok(())
}

fn step_checksum(org: &OrgId, thread: &ThreadId, step: &StepRow) -> Done<[u8; 16]> {
    let parent = step.parent.map(|id| id.0.to_be_bytes());
    Ok(row::checksum(&[
        org.as_str().as_bytes(),
        thread.as_str().as_bytes(),
        &step.id.0.to_be_bytes(),
        parent.as_ref().map_or(&[], |parent| parent.as_slice()),
        step.ns.as_bytes(),
        &step.step.to_be_bytes(),
        row::word(&step.source)?.as_bytes(),
        &step.fingerprint.0,
        &step.body,
    ]))
}

fn write_checksum(org: &OrgId, thread: &ThreadId, write: &TaskWrites) -> [u8; 16] {
    row::checksum(&[
        org.as_str().as_bytes(),
        thread.as_str().as_bytes(),
        &write.of.0.to_be_bytes(),
        &write.task.0.to_be_bytes(),
        &write.body,
    ])
}
