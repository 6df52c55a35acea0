use crate::error::Done;
use crate::row::{self, At};
use crate::store::SqliteStore;
use crate::table::{checkpoint_write, runs, usage};
use rusqlite::{Connection, Row, params};
use weftwork_store::table::{ReadThreads, Result, WriteThreads};
use weftwork_store::{ThreadRow, invariants};
use weftwork_types::{BoxFuture, CheckpointId, OrgId, Principal, ThreadId, Timestamp};

impl ReadThreads for SqliteStore {
    fn thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ThreadRow>> {
        let (org, id) = (who.org.clone(), id.clone());
        self.look(move |conn| {
            let found = one(conn, &org, &id)?;
            Ok(found.ok_or_else(|| invariants::missing("thread", &id))?)
        })
    }

    fn threads<'a>(
        &'a self,
        who: &'a Principal,
        offset: usize,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ThreadRow>>> {
        let org = who.org.clone();
        self.read(move |conn| {
            // Threads without an active run are read only up to the end of the page.
            let sql = "SELECT * FROM (
                           SELECT id, graph, status, head, created_at, updated_at, wakes_at
                           FROM threads
                           WHERE org = ?1 AND status NOT IN ('pending', 'running')
                           ORDER BY updated_at DESC, id DESC LIMIT ?2)
                       UNION ALL
                       SELECT now.id, now.graph, now.status, now.head, now.created_at,
                           now.updated_at, now.wakes_at
                       FROM threads t INDEXED BY threads_running
                       CROSS JOIN threads_now now ON now.org = t.org AND now.id = t.id
                       WHERE t.org = ?1 AND t.status IN ('pending', 'running')
                       ORDER BY updated_at DESC, id DESC LIMIT ?3 OFFSET ?4";
            let (reach, limit) = (row::int(offset.saturating_add(limit)), row::int(limit));
            row::all(conn, sql, params![org.as_str(), reach, limit, row::int(offset)], read)
        })
    }
}

impl WriteThreads for SqliteStore {
    fn delete_thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>> {
        let (org, id) = (who.org.clone(), id.clone());
        self.write(move |conn| delete(conn, &org, &id))
    }
}

fn delete(conn: &Connection, org: &OrgId, id: &ThreadId) -> Done<()> {
    expect(conn, org, id)?;
    if let Some(open) = runs::open_run(conn, org, id)? {
        return Err(invariants::busy(&open).into());
    }
    remove(conn, org, id)?;
    row::give_back(conn)
}

/// Deletes a thread with everything it owns.
pub(crate) fn remove(conn: &Connection, org: &OrgId, id: &ThreadId) -> Done<()> {
    usage::outlive(conn, org, id)?;
    let key = || [org.as_str(), id.as_str()];
    let sql = "DELETE FROM log WHERE place IN (SELECT place FROM runs CROSS JOIN log
                   ON place BETWEEN number << 32 AND (number << 32) + 0xffffffff
                   WHERE org = ?1 AND thread = ?2)";
    row::execute(conn, sql, key())?;
    // Foreign keys cascade to everything else except checkpoints.
    row::execute(conn, "DELETE FROM threads WHERE org = ?1 AND id = ?2", key())?;
    checkpoint_write::delete(conn, org, id)
}

/// Returns the current state of a thread.
pub(crate) fn one(conn: &Connection, org: &OrgId, id: &ThreadId) -> Done<Option<ThreadRow>> {
    let sql = "SELECT * FROM threads_now WHERE org = ?1 AND id = ?2";
    row::one(conn, sql, [org.as_str(), id.as_str()], read)
}

/// Fails if the thread does not exist.
pub(crate) fn expect(conn: &Connection, org: &OrgId, id: &ThreadId) -> Done<()> {
    let sql = "SELECT 1 FROM threads WHERE org = ?1 AND id = ?2";
    let found = row::one(conn, sql, params![org.as_str(), id.as_str()], |_| Ok(()))?;
    Ok(found.ok_or_else(|| invariants::missing("thread", id))?)
}

pub(crate) fn read(row: &Row<'_>) -> Done<ThreadRow> {
    let key: String = row.get("id")?;
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
