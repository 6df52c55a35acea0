use crate::conn::{Ask, Conn, ask};
use crate::error::Done;
use crate::row::{At, bytes, checksum, int, text, word};
use crate::store::PostgresStore;
use crate::table::threads;
use std::collections::BTreeMap;
use tokio_postgres::Row;
use weftwork_store::table::{ReadSteps, Result};
use weftwork_store::{Head, StepRow, TaskWrites, rule};
use weftwork_types::{BoxFuture, CheckpointId, OrgId, Principal, TaskId, ThreadId};

/// What [`add`] says of a checkpoint that is there already.
const EXISTS: &str = "WF002";
/// What [`add`] says of a checkpoint whose parent is not there.
const NO_PARENT: &str = "WF003";

impl ReadSteps for PostgresStore {
    fn head<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Option<Head>>> {
        self.run((who.org.clone(), thread.clone()), |conn, (org, thread), _| {
            Box::pin(async move {
                let sql = "SELECT t.head, EXISTS (SELECT 1 FROM checkpoints c
                               WHERE c.org = $1 AND c.thread = $2 AND c.ns = ''
                                   AND c.id = t.head) AS kept
                           FROM threads t WHERE t.org = $1 AND t.id = $2";
                let head = ask!(sql, text(org), text(thread));
                let (found, lines) = lines(conn, org, thread, (head, None)).await?;
                let row = found.first().ok_or_else(|| rule::missing("thread", thread))?;
                let name = format!("thread `{thread}`");
                let at = At::new("threads", &name);
                // A head that is no step may be a checkpoint that was kept.
                if lines.steps.is_empty() && at.plain(row, "kept")? {
                    return Ok(None);
                }
                let head = at.maybe_bits(row, "head")?.map(CheckpointId);
                head.map(|head| lines.to(org, thread, head)).transpose()
            })
        })
    }

    fn lineage<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        at: CheckpointId,
    ) -> BoxFuture<'a, Result<Head>> {
        self.run((who.org.clone(), thread.clone(), at), |conn, (org, thread, at), _| {
            Box::pin(async move {
                let there = threads::there(org, thread);
                let (found, lines) = lines(conn, org, thread, (there, Some(*at))).await?;
                if found.is_empty() {
                    return Err(rule::missing("thread", thread).into());
                }
                if lines.steps.is_empty() {
                    return Err(rule::no_checkpoint(*at).into());
                }
                lines.to(org, thread, *at)
            })
        })
    }

    fn checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StepRow>>> {
        let args = (who.org.clone(), thread.clone(), before, limit);
        self.run(args, |conn, (org, thread, before, limit), _| {
            Box::pin(async move {
                let sql = "SELECT id, parent, ns, step, source, fingerprint, checksum, body
                           FROM steps
                           WHERE org = $1 AND thread = $2 AND ns = '' AND id < $3
                           ORDER BY id DESC LIMIT $4";
                let before = bytes(before.map_or(u128::MAX, |id| id.0));
                let ask = ask!(sql, text(org), text(thread), before, int(*limit));
                let rows = threads::read_of(conn, org, thread, ask).await?;
                rows.iter().map(|row| Ok(read(org, thread, row)?)).collect()
            })
        })
    }
}

/// The rows on the way to a checkpoint.
struct Lines {
    steps: Vec<Row>,
    pending: Vec<Row>,
}

/// Reads all that leads to a checkpoint, or to the thread's head, together with another statement.
async fn lines(
    conn: &mut Conn,
    org: &OrgId,
    thread: &ThreadId,
    (first, at): (Ask, Option<CheckpointId>),
) -> Done<(Vec<Row>, Lines)> {
    // UNION drops what was found before, so a circle ends.
    let steps = "WITH RECURSIVE line (id, parent) AS (
                     SELECT id, parent FROM steps WHERE org = $1 AND thread = $2
                         AND id = coalesce($3,
                             (SELECT head FROM threads WHERE org = $1 AND id = $2))
                     UNION
                     SELECT s.id, s.parent FROM steps s JOIN line ON s.id = line.parent
                         WHERE s.org = $1 AND s.thread = $2)
                 SELECT s.id, s.parent, s.ns, s.step, s.source, s.fingerprint, s.checksum, s.body
                 FROM line JOIN steps s ON s.org = $1 AND s.thread = $2 AND s.id = line.id";
    let pending = "SELECT task, checksum, body FROM writes WHERE org = $1 AND thread = $2
                       AND step = coalesce($3,
                           (SELECT head FROM threads WHERE org = $1 AND id = $2))
                   ORDER BY task";
    let at = at.map(|id| bytes(id.0));
    let asks = vec![
        first,
        ask!(steps, text(org), text(thread), at.clone()),
        ask!(pending, text(org), text(thread), at),
    ];
    let mut found = conn.read(asks).await?.into_iter();
    let mut next = || found.next().unwrap_or_default();
    let (first, steps, pending) = (next(), next(), next());
    Ok((first, Lines { steps, pending }))
}

impl Lines {
    fn to(&self, org: &OrgId, thread: &ThreadId, head: CheckpointId) -> Done<Head> {
        let mut known = BTreeMap::new();
        for row in &self.steps {
            let step = read(org, thread, row)?;
            known.insert(step.id, step);
        }
        let mut steps = Vec::new();
        let mut next = Some(head);
        while let Some(id) = next {
            // Each is used once, so a circle is found.
            let step = known.remove(&id).ok_or_else(|| rule::lineage_broken(thread, id))?;
            next = step.parent;
            steps.push(step);
        }
        steps.reverse();
        let pending = self.pending.iter().map(|row| pending(org, thread, head, row));
        Ok(Head { steps, pending: pending.collect::<Result<_>>()? })
    }
}

fn read(org: &OrgId, thread: &ThreadId, row: &Row) -> Result<StepRow> {
    let name = format!("thread `{thread}`");
    let id = CheckpointId(At::new("steps", &name).bits(row, "id")?);
    let name = format!("thread `{thread}`, checkpoint `{id}`");
    let at = At::new("steps", &name);
    let step = StepRow {
        id,
        parent: at.maybe_bits(row, "parent")?.map(CheckpointId),
        ns: at.plain(row, "ns")?,
        step: at.plain(row, "step")?,
        source: at.word(row, "source")?,
        fingerprint: at.hash(row, "fingerprint")?,
        body: at.plain(row, "body")?,
    };
    at.verify(row, &step_checksum(org, thread, &step)?)?;
    Ok(step)
}

fn pending(org: &OrgId, thread: &ThreadId, of: CheckpointId, row: &Row) -> Result<TaskWrites> {
    let name = format!("thread `{thread}`, checkpoint `{of}`");
    let at = At::new("writes", &name);
    let task = TaskId(at.bits(row, "task")?);
    let write = TaskWrites { of, task, body: at.plain(row, "body")? };
    at.verify(row, &write_checksum(org, thread, &write))?;
    Ok(write)
}

/// Adds a checkpoint, after the new head `head` when the commit has made one before.
pub(crate) fn add(
    org: &OrgId,
    thread: &ThreadId,
    step: &StepRow,
    head: Option<CheckpointId>,
) -> Result<[Ask; 2]> {
    let insert = "INSERT INTO steps (org, thread, id, parent, ns, step, source, fingerprint,
                      checksum, body)
                  SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10 WHERE CASE
                      WHEN EXISTS (SELECT 1 FROM steps
                          WHERE org = $1 AND thread = $2 AND id = $3)
                          THEN refuse('WF002', encode($3, 'hex'))
                      WHEN $4::bytea IS NULL THEN true
                      WHEN EXISTS (SELECT 1 FROM steps
                          WHERE org = $1 AND thread = $2 AND id = $4) THEN true
                      ELSE refuse('WF003', encode($3, 'hex')) END";
    // A step of the root graph leaves the head behind, whatever its parent is.
    let delete = "DELETE FROM writes WHERE org = $1 AND thread = $2 AND (step = $3
                      OR $4 AND step = coalesce($5,
                          (SELECT head FROM threads WHERE org = $1 AND id = $2)))";
    let root = step.ns.is_empty();
    let (id, parent) = (bytes(step.id.0), step.parent.map(|id| bytes(id.0)));
    Ok([
        ask!(
            insert,
            text(org),
            text(thread),
            id,
            parent.clone(),
            step.ns.clone(),
            step.step,
            word(&step.source)?,
            step.fingerprint.0.to_vec(),
            step_checksum(org, thread, step)?,
            step.body.clone(),
        ),
        ask!(delete, text(org), text(thread), parent, root, head.map(|id| bytes(id.0))),
    ])
}

/// The result of statements with [`add`]; says which checkpoint was refused.
pub(crate) fn checked<T>(thread: &ThreadId, steps: &[StepRow], done: Done<T>) -> Done<T> {
    let fail = match done {
        Ok(done) => return Ok(done),
        Err(fail) => fail,
    };
    let refused = |code| fail.refused(code).and_then(|id| u128::from_str_radix(id, 16).ok());
    if let Some(id) = refused(EXISTS) {
        return Err(rule::checkpoint_exists(thread, CheckpointId(id)).into());
    }
    let orphan = refused(NO_PARENT).and_then(|id| steps.iter().find(|step| step.id.0 == id));
    match orphan.and_then(|step| Some((step.id, step.parent?))) {
        Some((id, parent)) => Err(rule::parent_missing(thread, id, parent).into()),
        None => Err(fail),
    }
}

/// Keeps what a task of an open superstep left behind.
pub(crate) fn leave(org: &OrgId, thread: &ThreadId, write: &TaskWrites) -> Ask {
    let sql = "INSERT INTO writes (org, thread, step, task, checksum, body)
               VALUES ($1, $2, $3, $4, $5, $6)
               ON CONFLICT (org, thread, step, task) DO UPDATE
                   SET checksum = excluded.checksum, body = excluded.body";
    let (of, task) = (bytes(write.of.0), bytes(write.task.0));
    let sum = write_checksum(org, thread, write);
    ask!(sql, text(org), text(thread), of, task, sum, write.body.clone())
}

fn step_checksum(org: &OrgId, thread: &ThreadId, step: &StepRow) -> Result<Vec<u8>> {
    let parent = step.parent.map(|id| id.0.to_be_bytes());
    Ok(checksum(&[
        org.as_str().as_bytes(),
        thread.as_str().as_bytes(),
        &step.id.0.to_be_bytes(),
        parent.as_ref().map_or(&[], |parent| parent.as_slice()),
        step.ns.as_bytes(),
        &step.step.to_be_bytes(),
        word(&step.source)?.as_bytes(),
        &step.fingerprint.0,
        &step.body,
    ]))
}

fn write_checksum(org: &OrgId, thread: &ThreadId, write: &TaskWrites) -> Vec<u8> {
    checksum(&[
        org.as_str().as_bytes(),
        thread.as_str().as_bytes(),
        &write.of.0.to_be_bytes(),
        &write.task.0.to_be_bytes(),
        &write.body,
    ])
}
