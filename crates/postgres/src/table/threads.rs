use crate::conn::{Ask, Conn, ask};
use crate::error::Done;
use crate::pool::Before;
use crate::row::{At, int, text};
use crate::store::PostgresStore;
use crate::table::{checkpoint_write, runs};
use tokio_postgres::Row;
use weftwork_store::table::{ReadThreads, Result, WriteThreads};
use weftwork_store::{StoreError, ThreadRow, invariants};
use weftwork_types::{BoxFuture, CheckpointId, OrgId, Principal, ThreadId, Timestamp};

impl ReadThreads for PostgresStore {
    fn thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ThreadRow>> {
        self.run((who.org.clone(), id.clone()), |conn, (org, id), _| {
            Box::pin(async move {
                let rows = conn.read(vec![one(org, id)]).await?;
                let row = rows.first().and_then(|rows| rows.first());
                Ok(read(row.ok_or_else(|| invariants::missing("thread", id))?)?)
            })
        })
    }

    fn threads<'a>(
        &'a self,
        who: &'a Principal,
        offset: usize,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ThreadRow>>> {
        self.run((who.org.clone(), int(offset), int(limit)), |conn, (org, offset, limit), _| {
            Box::pin(async move {
                let sql = "SELECT id, graph, status, head, created_at, updated_at, wakes_at
                           FROM threads
                           WHERE org = $1 ORDER BY updated_at DESC, id DESC LIMIT $2 OFFSET $3";
                let rows = conn.rows(ask!(sql, text(org), *limit, *offset)).await?;
                rows.iter().map(|row| Ok(read(row)?)).collect()
            })
        })
    }
}

impl WriteThreads for PostgresStore {
    fn delete_thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>> {
        self.run((who.org.clone(), id.clone()), |conn, (org, id), before| {
            Box::pin(delete(conn, org, id, before))
        })
    }
}

/// Deletes everything a thread owns except checkpoints. Events and partial text precede the runs by
/// which they are found.
const DELETES: &[&str] = &[
    "DELETE FROM pieces WHERE org = $1
         AND run IN (SELECT id FROM runs WHERE org = $1 AND thread = $2)",
    "DELETE FROM events WHERE org = $1
         AND run IN (SELECT id FROM runs WHERE org = $1 AND thread = $2)",
    "DELETE FROM runs WHERE org = $1 AND thread = $2",
    "DELETE FROM interrupts WHERE org = $1 AND thread = $2",
    "DELETE FROM calls WHERE org = $1 AND thread = $2",
    "DELETE FROM threads WHERE org = $1 AND id = $2",
];

async fn delete(conn: &mut Conn, org: &OrgId, id: &ThreadId, before: Before) -> Done<()> {
    let found = conn.begin(vec![lock(org, id), runs::open_run(org, id)]).await?;
    let [thread, open] = found.as_slice() else { return Ok(()) };
    if thread.is_empty() {
        return match before {
            Before::Nothing => Err(invariants::missing("thread", id).into()),
            Before::Doubt => Ok(()),
        };
    }
    if let Some(open) = open.first() {
        return Err(invariants::busy(&runs::named(open, id)?).into());
    }
    conn.commit(removes(org, id)).await?;
    Ok(())
}

/// Deletes a locked thread with everything it owns.
pub(crate) fn removes(org: &OrgId, id: &ThreadId) -> Vec<Ask> {
    let mut asks = vec![checkpoint_write::lock_thread(org, id)];
    asks.extend(checkpoint_write::deletes(org, id));
    asks.extend(DELETES.iter().map(|sql| ask!(sql, text(org), text(id))));
    asks
}

/// Locks the row of a thread against all other writes for the thread.
pub(crate) fn lock(org: &OrgId, id: &ThreadId) -> Ask {
    let sql = "SELECT seq, mark FROM threads WHERE org = $1 AND id = $2 FOR UPDATE";
    ask!(sql, text(org), text(id))
}

/// Sets the time at which a thread resumes by itself.
pub(crate) fn wakes_at(org: &OrgId, id: &ThreadId, wakes_at: Timestamp) -> Ask {
    let sql = "UPDATE threads SET wakes_at = $3 WHERE org = $1 AND id = $2";
    ask!(sql, text(org), text(id), wakes_at.0)
}

/// Queries a thread; see [`read`].
pub(crate) fn one(org: &OrgId, id: &ThreadId) -> Ask {
    let sql = "SELECT id, graph, status, head, created_at, updated_at, wakes_at FROM threads
               WHERE org = $1 AND id = $2";
    ask!(sql, text(org), text(id))
}

/// Queries a row that exists if the thread exists; see [`expect`].
pub(crate) fn there(org: &OrgId, id: &ThreadId) -> Ask {
    ask!("SELECT 1 FROM threads WHERE org = $1 AND id = $2", text(org), text(id))
}

/// Reads rows that belong to a thread with a statement. Fails if the thread does not exist.
pub(crate) async fn read_of(
    conn: &mut Conn,
    org: &OrgId,
    id: &ThreadId,
    ask: Ask,
) -> Done<Vec<Row>> {
    let found = conn.read(vec![there(org, id), ask]).await?;
    let mut found = found.into_iter();
    if found.next().is_none_or(|thread| thread.is_empty()) {
        return Err(invariants::missing("thread", id).into());
    }
    Ok(found.next().unwrap_or_default())
}

pub(crate) fn read(row: &Row) -> std::result::Result<ThreadRow, StoreError> {
    let key: &str = At::new("threads", &"a row").plain(row, "id")?;
    let name = format!("thread `{key}`");
    let at = At::new("threads", &name);
    Ok(ThreadRow {
        id: at.id(row, "id")?,
        graph: at.plain(row, "graph")?,
        status: at.word(row, "status")?,
        head: at.maybe_bits(row, "head")?.map(CheckpointId),
        created_at: Timestamp(at.plain(row, "created_at")?),
        updated_at: Timestamp(at.plain(row, "updated_at")?),
        wakes_at: at.plain::<Option<i64>>(row, "wakes_at")?.map(Timestamp),
    })
}
