use crate::conn::{Ask, Conn, ask};
use crate::error::Done;
use crate::pool::Before;
use crate::row::{At, bytes, int, json, text, word};
use crate::store::PostgresStore;
use crate::table::{checkpoint_write, runs, search, sequences};
use tokio_postgres::Row;
use weftwork_store::columns;
use weftwork_store::thread::merge_metadata;
use weftwork_store::{
    IfExists, Metadata, NewThread, ThreadPage, ThreadQuery, ThreadRow, invariants, mailbox,
};
use weftwork_store::{ReadThreads, Result, WriteThreads};
use weftwork_types::{BoxFuture, OrgId, Principal, ThreadId, Timestamp};

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
                let sql = "SELECT id, graph, status, head, created_at, updated_at, wakes_at,
                               metadata
                           FROM threads
                           WHERE org = $1 ORDER BY updated_at DESC, id DESC LIMIT $2 OFFSET $3";
                let rows = conn.rows(ask!(sql, text(org), *limit, *offset)).await?;
                rows.iter().map(|row| Ok(read(row)?)).collect()
            })
        })
    }

    fn search_threads<'a>(
        &'a self,
        who: &'a Principal,
        query: ThreadQuery,
    ) -> BoxFuture<'a, Result<ThreadPage>> {
        self.run((who.org.clone(), query), |conn, (org, query), _| {
            Box::pin(search::search(conn, org, query))
        })
    }
}

impl WriteThreads for PostgresStore {
    fn create_thread<'a>(
        &'a self,
        who: &'a Principal,
        new: NewThread,
    ) -> BoxFuture<'a, Result<ThreadRow>> {
        let args = (who.org.clone(), new, self.mark());
        self.run(args, |conn, (org, new, mark), before| {
            Box::pin(create(conn, org, new, mark, before))
        })
    }

    fn update_metadata<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
        metadata: Metadata,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<ThreadRow>> {
        self.run((who.org.clone(), id.clone(), metadata, now), |conn, args, _| {
            let (org, id, metadata, now) = args;
            Box::pin(update(conn, org, id, metadata, *now))
        })
    }

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

async fn create(
    conn: &mut Conn,
    org: &OrgId,
    new: &NewThread,
    mark: &[u8],
    before: Before,
) -> Done<ThreadRow> {
    let row = new.row()?;
    let found = conn.begin(vec![lock(org, &new.id), one(org, &new.id)]).await?;
    let [locked, known] = found.as_slice() else { return Ok(row) };
    let (Some(locked), Some(known)) = (locked.first(), known.first()) else {
        // A concurrent creation fails one of the two, which is then repeated.
        conn.commit(vec![insert(org, &row, 0, mark)?]).await?;
        return Ok(row);
    };
    let ours = At::new("threads", &new.id).plain::<Option<&[u8]>>(locked, "mark")? == Some(mark);
    if new.if_exists == IfExists::Return || before == Before::Doubt && ours {
        return Ok(read(known)?);
    }
    Err(invariants::thread_id_taken(&new.id).into())
}

async fn update(
    conn: &mut Conn,
    org: &OrgId,
    id: &ThreadId,
    metadata: &Metadata,
    now: Timestamp,
) -> Done<ThreadRow> {
    let found = conn.begin(vec![lock(org, id), one(org, id)]).await?;
    let row = found.last().and_then(|rows| rows.first());
    let mut row = read(row.ok_or_else(|| invariants::missing("thread", id))?)?;
    merge_metadata(id, &mut row.metadata, metadata)?;
    row.updated_at = row.updated_at.max(now);
    let sql = "UPDATE threads SET metadata = $3, updated_at = $4 WHERE org = $1 AND id = $2";
    let column = column(&row.metadata)?;
    conn.commit(vec![ask!(sql, text(org), text(id), column, row.updated_at.0)]).await?;
    Ok(row)
}

/// Returns the column value of metadata.
fn column(metadata: &Metadata) -> Result<Option<String>> {
    (!metadata.is_empty()).then(|| json(metadata)).transpose()
}

/// Writes the row of a new thread, with the number of its last event and the mark of this write.
pub(crate) fn insert(org: &OrgId, row: &ThreadRow, seq: u64, mark: &[u8]) -> Result<Ask> {
    let sql = "INSERT INTO threads (org, id, graph, status, head, seq, mark, created_at,
                   updated_at, wakes_at, metadata)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    Ok(ask!(
        sql,
        text(org),
        text(&row.id),
        row.graph.clone().unwrap_or_default(),
        row.status.as_ref().map(word).transpose()?.unwrap_or_default(),
        row.head.map(|id| bytes(id.0)),
        int(seq),
        mark.to_vec(),
        row.created_at.0,
        row.updated_at.0,
        row.wakes_at.map(|at| at.0),
        column(&row.metadata)?,
    ))
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
    let asked = vec![lock(org, id), runs::open_run(org, id), one(org, id)];
    let found = conn.begin(asked).await?;
    let [thread, open, row] = found.as_slice() else { return Ok(()) };
    if thread.is_empty() {
        return match before {
            Before::Nothing => Err(invariants::missing("thread", id).into()),
            Before::Doubt => Ok(()),
        };
    }
    if let Some(row) = row.first() {
        // A damaged thread can be deleted.
        mailbox::check_deletion(id, &columns::read_readable_thread(row)?.row.metadata)?;
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
    asks.extend(sequences::deletes_of(org, id));
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
    let sql = "SELECT id, graph, status, head, created_at, updated_at, wakes_at, metadata
               FROM threads WHERE org = $1 AND id = $2";
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

pub(crate) fn read(row: &Row) -> Result<ThreadRow> {
    columns::read_thread(row)
}
