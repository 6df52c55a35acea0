use crate::error::Done;
use crate::row;
use crate::store::SqliteStore;
use crate::table::{checkpoint_write, runs, search, sequences, usage};
use rusqlite::{Connection, Row, params};
use weftwork_store::columns::{self, ReadableThread};
use weftwork_store::thread::merge_metadata;
use weftwork_store::{
    IfExists, Metadata, NewThread, ThreadPage, ThreadQuery, ThreadRow, invariants, mailbox,
};
use weftwork_store::{ReadThreads, Result, WriteThreads};
use weftwork_types::{BoxFuture, OrgId, Principal, ThreadId, Timestamp};

impl ReadThreads for SqliteStore {
    fn thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ThreadRow>> {
        let org = who.org.clone();
        let id = id.clone();
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
                           SELECT id, graph, status, head, created_at, updated_at, wakes_at,
                               metadata
                           FROM threads
                           WHERE org = ?1 AND status NOT IN ('pending', 'running')
                           ORDER BY updated_at DESC, id DESC LIMIT ?2)
                       UNION ALL
                       SELECT now.id, now.graph, now.status, now.head, now.created_at,
                           now.updated_at, now.wakes_at, now.metadata
                       FROM threads t INDEXED BY threads_running
                       CROSS JOIN threads_now now ON now.org = t.org AND now.id = t.id
                       WHERE t.org = ?1 AND t.status IN ('pending', 'running')
                       ORDER BY updated_at DESC, id DESC LIMIT ?3 OFFSET ?4";
            let reach = row::int(offset.saturating_add(limit));
            let limit = row::int(limit);
            row::all(conn, sql, params![org.as_str(), reach, limit, row::int(offset)], read)
        })
    }

    fn search_threads<'a>(
        &'a self,
        who: &'a Principal,
        query: ThreadQuery,
    ) -> BoxFuture<'a, Result<ThreadPage>> {
        let org = who.org.clone();
        self.read(move |conn| search::search(conn, &org, &query))
    }
}

impl WriteThreads for SqliteStore {
    fn create_thread<'a>(
        &'a self,
        who: &'a Principal,
        new: NewThread,
    ) -> BoxFuture<'a, Result<ThreadRow>> {
        let org = who.org.clone();
        self.write(move |conn| {
            let row = new.row()?;
            match (one(conn, &org, &new.id)?, new.if_exists) {
                (Some(known), IfExists::Return) => Ok(known),
                (Some(_), IfExists::Refuse) => Err(invariants::thread_id_taken(&new.id).into()),
                (None, _) => insert(conn, &org, &row).map(|()| row),
            }
        })
    }

    fn update_metadata<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
        metadata: Metadata,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<ThreadRow>> {
        let org = who.org.clone();
        let id = id.clone();
        self.write(move |conn| {
            let found = one(conn, &org, &id)?;
            let mut row = found.ok_or_else(|| invariants::missing("thread", &id))?;
            merge_metadata(&id, &mut row.metadata, &metadata)?;
            row.updated_at = row.updated_at.max(now);
            let sql = "UPDATE threads SET metadata = ?3, updated_at = ?4
                       WHERE org = ?1 AND id = ?2";
            let column = search::column(&row.metadata)?;
            let values = params![org.as_str(), id.as_str(), column, row.updated_at.0];
            row::execute(conn, sql, values)?;
            search::index(conn, &org, &id, &row.metadata)?;
            Ok(row)
        })
    }

    fn delete_thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>> {
        let org = who.org.clone();
        let id = id.clone();
        self.write(move |conn| delete(conn, &org, &id))
    }
}

/// Writes the row of a new thread.
pub(crate) fn insert(conn: &Connection, org: &OrgId, thread: &ThreadRow) -> Done<()> {
    let sql = "INSERT INTO threads (org, id, graph, status, head, created_at, updated_at,
                   wakes_at, metadata)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let status = thread.status.as_ref().map(row::word).transpose()?;
    let values = params![
        org.as_str(),
        thread.id.as_str(),
        thread.graph.as_deref().unwrap_or_default(),
        status.unwrap_or_default(),
        thread.head.map(|id| id.0.to_be_bytes()),
        thread.created_at.0,
        thread.updated_at.0,
        thread.wakes_at.map(|at| at.0),
        search::column(&thread.metadata)?,
    ];
    row::execute(conn, sql, values)?;
    search::index(conn, org, &thread.id, &thread.metadata)
}

fn delete(conn: &Connection, org: &OrgId, id: &ThreadId) -> Done<()> {
    let sql = "SELECT * FROM threads_now WHERE org = ?1 AND id = ?2";
    let found = row::one(conn, sql, [org.as_str(), id.as_str()], read_readable)?;
    // A damaged thread can be deleted.
    let ReadableThread { row: thread, .. } =
        found.ok_or_else(|| invariants::missing("thread", id))?;
    mailbox::check_deletion(id, &thread.metadata)?;
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
    sequences::delete_of(conn, org, id)?;
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
    Ok(columns::read_thread(row)?)
}

pub(crate) fn read_readable(row: &Row<'_>) -> Done<ReadableThread> {
    Ok(columns::read_readable_thread(row)?)
}
