use crate::conn::{Ask, ask};
use crate::error::Done;
use crate::row::{At, bytes, int, text};
use crate::store::PostgresStore;
use crate::table::checkpoint_write::Marked;
use crate::table::{checkpoint_write, threads};
use std::fmt::Display;
use tokio_postgres::Row;
use weftwork_store::Result;
use weftwork_store::{
    Body, CheckpointBatch, CheckpointNamespace, FoundCheckpoint, ReadCheckpoints, StoreError,
    WriteCheckpoints,
};
use weftwork_types::canonical::Hash;
use weftwork_types::{BoxFuture, CheckpointId, OrgId, Principal, ThreadId};

/// Builds a query for checkpoints of a graph, each with the parts of its open superstep and the
/// task results in the next checkpoint.
macro_rules! found {
    ($rest:literal) => {
        concat!(
            "SELECT c.id, c.body, c.seal = seal_of($1, $2, $3, c.id) AS sealed,
                 (SELECT p.body FROM pending p WHERE p.org = $1 AND p.thread = $2 AND p.ns = $3
                      AND p.of = c.id AND p.outside) AS outside,
                 ARRAY (SELECT p.body FROM pending p WHERE p.org = $1 AND p.thread = $2
                      AND p.ns = $3 AND p.of = c.id AND NOT p.outside
                      ORDER BY p.number) AS tasks,
                 (SELECT CASE WHEN n.of = c.id THEN n.tasks END FROM checkpoints n
                      WHERE n.org = $1 AND n.thread = $2 AND n.ns = $3 AND n.id > c.id
                      ORDER BY n.id LIMIT 1) AS last
             FROM checkpoints c WHERE c.org = $1 AND c.thread = $2 AND c.ns = $3 ",
            $rest
        )
    };
}

/// Query for the newest checkpoint of the root graph as recorded by commits, if it is missing and
/// no later one exists. Runs without a worker may have added later ones.
const LOST: &str = "SELECT t.head FROM threads t
     WHERE t.org = $1 AND t.id = $2 AND t.head IS NOT NULL AND NOT EXISTS (
         SELECT 1 FROM checkpoints c
         WHERE c.org = $1 AND c.thread = $2 AND c.ns = '' AND c.id >= t.head)";

fn lost(row: &Row, at: &CheckpointNamespace) -> StoreError {
    let key = Key { at, id: None };
    match At::new("threads", &key).bits(row, "head").map(CheckpointId) {
        Ok(head) => {
            let what = format!("its newest checkpoint `{head}` is missing");
            At::new("checkpoints", &key).corrupt(what)
        }
        Err(error) => error,
    }
}

impl ReadCheckpoints for PostgresStore {
    fn checkpoint<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<FoundCheckpoint>>> {
        self.run((who.org.clone(), at.clone(), id), |conn, (org, at, id), _| {
            Box::pin(async move {
                let org = text(org);
                let thread = text(&at.thread);
                let ns = at.ns.clone();
                let key = (org.clone(), thread.clone());
                let ask = match id {
                    Some(id) => ask!(found!("AND c.id = $4"), org, thread, ns, bytes(id.0)),
                    None => ask!(found!("ORDER BY c.id DESC LIMIT 1"), org, thread, ns),
                };
                let mut asks = vec![ask];
                if id.is_none() && at.ns.is_empty() {
                    asks.push(ask!(LOST, key.0, key.1));
                }
                let found = conn.read(asks).await?;
                if let Some(row) = found.get(1).and_then(|rows| rows.first()) {
                    return Err(lost(row, at).into());
                }
                found.first().and_then(|rows| rows.first()).map(|row| read(row, at)).transpose()
            })
        })
    }

    fn checkpoint_bytes<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        ids: Vec<CheckpointId>,
    ) -> BoxFuture<'a, Result<Vec<Body>>> {
        self.run((who.org.clone(), at.clone(), ids), |conn, (org, at, ids), _| {
            Box::pin(async move {
                let sql = "SELECT id, body FROM checkpoints
                           WHERE org = $1 AND thread = $2 AND ns = $3 AND id = ANY ($4)";
                let ids: Vec<Vec<u8>> = ids.iter().map(|id| bytes(id.0)).collect();
                let ask = ask!(sql, text(org), text(&at.thread), at.ns.clone(), ids);
                let rows = conn.rows(ask).await?;
                rows.iter().map(|row| body(row, at)).collect()
            })
        })
    }

    fn page<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<FoundCheckpoint>>> {
        self.run(
            (who.org.clone(), at.clone(), before, limit),
            |conn, (org, at, before, limit), _| {
                Box::pin(async move {
                    // Ids have 16 bytes, so 17 bytes of 0xff are greater than every id.
                    let end = before.map_or_else(|| vec![u8::MAX; 17], |id| bytes(id.0));
                    let org = text(org);
                    let thread = text(&at.thread);
                    let ns = at.ns.clone();
                    let sql = found!("AND c.id < $4 ORDER BY c.id DESC LIMIT $5");
                    let rows = conn.rows(ask!(sql, org, thread, ns, end, int(*limit))).await?;
                    rows.iter().map(|row| read(row, at)).collect()
                })
            },
        )
    }

    fn checkpoint_namespaces<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<CheckpointNamespace>>> {
        self.run((who.org.clone(), thread.clone()), |conn, (org, thread), _| {
            Box::pin(async move {
                // One index seek per namespace.
                let sql = "WITH RECURSIVE way (ns) AS (
                               (SELECT ns FROM checkpoints WHERE org = $1 AND thread = $2
                                ORDER BY ns LIMIT 1)
                               UNION ALL
                               SELECT (SELECT c.ns FROM checkpoints c
                                       WHERE c.org = $1 AND c.thread = $2 AND c.ns > way.ns
                                       ORDER BY c.ns LIMIT 1)
                               FROM way WHERE way.ns IS NOT NULL)
                           SELECT ns FROM way WHERE ns IS NOT NULL";
                let rows = conn.rows(ask!(sql, text(org), text(thread))).await?;
                let name = format!("thread `{thread}`");
                let at = At::new("checkpoints", &name);
                let shelf = |row| {
                    Ok(CheckpointNamespace { thread: thread.clone(), ns: at.plain(row, "ns")? })
                };
                rows.iter().map(shelf).collect()
            })
        })
    }

    fn newest_id<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>>> {
        self.run((who.org.clone(), thread.clone()), |conn, (org, thread), _| {
            Box::pin(async move {
                let rows = conn.read(vec![newest_of(org, thread), newest_within(org, thread)]);
                let mut newest = None;
                for rows in rows.await? {
                    newest = newest.max(newest_id(rows.first(), thread)?);
                }
                Ok(newest)
            })
        })
    }

    fn blob<'a>(
        &'a self,
        who: &'a Principal,
        hash: Hash,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        let sql = "SELECT body FROM blobs WHERE org = $1 AND hash = $2";
        self.by_hash(who, ("blobs", sql), hash)
    }

    fn layout<'a>(
        &'a self,
        who: &'a Principal,
        hash: Hash,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        let sql = "SELECT body FROM layouts WHERE org = $1 AND hash = $2";
        self.by_hash(who, ("layouts", sql), hash)
    }
}

impl PostgresStore {
    fn by_hash<'a>(
        &'a self,
        who: &'a Principal,
        from: (&'static str, &'static str),
        hash: Hash,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        self.run((who.org.clone(), from, hash), |conn, (org, (table, sql), hash), _| {
            Box::pin(async move {
                let rows = conn.rows(ask!(*sql, text(org), hash.0.to_vec())).await?;
                let at = At::new(table, hash);
                Ok(rows.first().map(|row| at.plain(row, "body")).transpose()?)
            })
        })
    }
}

impl WriteCheckpoints for PostgresStore {
    fn put_checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        batch: CheckpointBatch,
    ) -> BoxFuture<'a, Result<()>> {
        let args = (who.org.clone(), thread.clone(), batch, self.mark());
        self.run(args, |conn, (org, thread, batch, mark), before| {
            Box::pin(checkpoint_write::put_batch(conn, org, thread, Marked { batch, mark }, before))
        })
    }

    fn rewrite<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        newest: CheckpointId,
        batch: CheckpointBatch,
    ) -> BoxFuture<'a, Result<()>> {
        let args = (who.org.clone(), at.clone(), newest, batch, self.mark());
        self.run(args, |conn, (org, at, newest, batch, mark), _| {
            Box::pin(checkpoint_write::rewrite(conn, org, at, *newest, Marked { batch, mark }))
        })
    }

    fn copy_checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        from: &'a ThreadId,
        to: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>> {
        let args = (who.org.clone(), from.clone(), to.clone());
        self.run(args, |conn, (org, from, to), _| {
            Box::pin(checkpoint_write::copy(conn, org, from, to))
        })
    }

    fn delete_checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>> {
        self.run((who.org.clone(), thread.clone()), |conn, (org, thread), _| {
            Box::pin(async move {
                let mut asks =
                    vec![threads::lock(org, thread), checkpoint_write::lock_thread(org, thread)];
                asks.extend(checkpoint_write::deletes(org, thread));
                asks.push(checkpoint_write::move_head(org, thread));
                conn.write(asks).await?;
                Ok(())
            })
        })
    }

    fn collect_blobs<'a>(&'a self, who: &'a Principal) -> BoxFuture<'a, Result<u64>> {
        self.run(who.org.clone(), |conn, org: &OrgId, _| {
            Box::pin(checkpoint_write::collect(conn, org))
        })
    }
}

/// The name of a checkpoint row, formatted only for errors.
struct Key<'a> {
    at: &'a CheckpointNamespace,
    id: Option<CheckpointId>,
}

impl Display for Key<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let CheckpointNamespace { thread, ns } = self.at;
        write!(f, "thread `{thread}`")?;
        if !ns.is_empty() {
            write!(f, ", graph `{ns}`")?;
        }
        self.id.map_or(Ok(()), |id| write!(f, ", checkpoint `{id}`"))
    }
}

fn body(row: &Row, at: &CheckpointNamespace) -> Done<Body> {
    let id = CheckpointId(At::new("checkpoints", &Key { at, id: None }).bits(row, "id")?);
    let key = Key { at, id: Some(id) };
    Ok((id, At::new("checkpoints", &key).plain(row, "body")?))
}

fn read(row: &Row, at: &CheckpointNamespace) -> Done<FoundCheckpoint> {
    let (id, body) = body(row, at)?;
    let key = Key { at, id: Some(id) };
    let at = At::new("checkpoints", &key);
    if !at.plain::<bool>(row, "sealed")? {
        let what = "it does not fit its seal: it is that of another thread, graph or organisation";
        return Err(at.corrupt(what).into());
    }
    let mut tasks: Vec<Vec<u8>> = at.plain(row, "tasks")?;
    tasks.extend(at.plain::<Option<Vec<u8>>>(row, "last")?);
    Ok(FoundCheckpoint { id, body, outside: at.plain(row, "outside")?, tasks })
}

/// Queries the newest checkpoint of a thread's root graph; see [`newest_id`].
pub(crate) fn newest_of(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = "SELECT id FROM checkpoints WHERE org = $1 AND thread = $2 AND ns = ''
               ORDER BY id DESC LIMIT 1";
    ask!(sql, text(org), text(thread))
}

/// Finds the newest checkpoint of the graphs within a thread; see [`newest_id`].
fn newest_within(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = "SELECT id FROM checkpoints WHERE org = $1 AND thread = $2 AND ns <> ''
               ORDER BY id DESC LIMIT 1";
    ask!(sql, text(org), text(thread))
}

/// Reads the id of the newest checkpoint, if there is one.
pub(crate) fn newest_id(row: Option<&Row>, thread: &ThreadId) -> Result<Option<CheckpointId>> {
    let at = At::new("checkpoints", thread);
    row.map(|row| at.bits(row, "id").map(CheckpointId)).transpose()
}
