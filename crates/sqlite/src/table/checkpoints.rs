use crate::error::Done;
use crate::row::{self, At};
use crate::store::SqliteStore;
use crate::table::block::{Guard, Other, Spot};
use crate::table::checkpoint_write;
use rusqlite::{Connection, Row, params};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use weftwork_store::Result;
use weftwork_store::{
    Body, CheckpointBatch, CheckpointNamespace, FoundCheckpoint, ReadCheckpoints, WriteCheckpoints,
};
use weftwork_types::canonical::Hash;
use weftwork_types::{BoxFuture, CheckpointId, OrgId, Principal, ThreadId};

impl ReadCheckpoints for SqliteStore {
    fn checkpoint<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<FoundCheckpoint>>> {
        let org = who.org.clone();
        let at = at.clone();
        self.look(move |conn| match id {
            Some(id) => known(conn, &org, &at, id),
            None => newest(conn, &org, &at),
        })
    }

    fn checkpoint_bytes<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        ids: Vec<CheckpointId>,
    ) -> BoxFuture<'a, Result<Vec<Body>>> {
        let org = who.org.clone();
        let at = at.clone();
        self.look(move |conn| bodies(conn, &ids, &mut Guard::new(&org, &at)))
    }

    fn page<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<FoundCheckpoint>>> {
        let org = who.org.clone();
        let at = at.clone();
        self.read(move |conn| page(conn, &org, &at, before, limit))
    }

    fn checkpoint_namespaces<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<CheckpointNamespace>>> {
        let org = who.org.clone();
        let thread = thread.clone();
        self.read(move |conn| checkpoint_namespaces(conn, &org, &thread))
    }

    fn newest_id<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>>> {
        let org = who.org.clone();
        let thread = thread.clone();
        self.look(move |conn| newest_id(conn, &org, &thread))
    }

    fn blob<'a>(
        &'a self,
        who: &'a Principal,
        hash: Hash,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        let org = who.org.clone();
        self.look(move |conn| {
            let sql = "SELECT body FROM blobs WHERE org = ?1 AND hash = ?2";
            by_hash(conn, At::new("blobs", &hash), sql, &org, hash)
        })
    }

    fn layout<'a>(
        &'a self,
        who: &'a Principal,
        hash: Hash,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        let org = who.org.clone();
        self.look(move |conn| {
            let sql = "SELECT body FROM layouts WHERE org = ?1 AND hash = ?2";
            by_hash(conn, At::new("layouts", &hash), sql, &org, hash)
        })
    }
}

impl WriteCheckpoints for SqliteStore {
    fn put_checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        batch: CheckpointBatch,
    ) -> BoxFuture<'a, Result<()>> {
        let org = who.org.clone();
        let thread = thread.clone();
        let batch = Arc::new(batch);
        let single = (org.clone(), thread.clone(), Arc::clone(&batch));
        self.write_single(
            move |conn| {
                let (org, thread, batch) = &single;
                Ok(checkpoint_write::keep_one(conn, org, thread, batch)?.then_some(()))
            },
            move |conn| checkpoint_write::put_batch(conn, &org, &thread, &batch),
        )
    }

    fn rewrite<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        newest: CheckpointId,
        batch: CheckpointBatch,
    ) -> BoxFuture<'a, Result<()>> {
        let org = who.org.clone();
        let at = at.clone();
        self.write(move |conn| checkpoint_write::rewrite(conn, &org, &at, newest, &batch))
    }

    fn copy_checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        from: &'a ThreadId,
        to: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>> {
        let org = who.org.clone();
        let from = from.clone();
        let to = to.clone();
        self.write(move |conn| checkpoint_write::copy(conn, &org, &from, &to))
    }

    fn delete_checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>> {
        let org = who.org.clone();
        let thread = thread.clone();
        self.write(move |conn| {
            checkpoint_write::delete(conn, &org, &thread)?;
            checkpoint_write::move_head(conn, &org, &thread)?;
            row::give_back(conn)
        })
    }

    fn collect_blobs<'a>(&'a self, who: &'a Principal) -> BoxFuture<'a, Result<u64>> {
        let org = who.org.clone();
        self.write(move |conn| {
            let collected = checkpoint_write::collect(conn, &org)?;
            row::give_back(conn)?;
            Ok(collected)
        })
    }
}

/// The name of a checkpoint row, formatted only for errors.
pub(crate) struct Key<'a> {
    pub(crate) at: &'a CheckpointNamespace,
    pub(crate) id: Option<CheckpointId>,
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

/// Builds a query for the rows of a graph through its blocks, which a [`Guard`] checks.
macro_rules! of_graph {
    ($columns:literal, $rest:literal) => {
        concat!(
            "SELECT prefix, number, seal, ",
            $columns,
            " FROM blocks CROSS JOIN checkpoint_rows ON ",
            $rest
        )
    };
}

/// Builds a query for the newest row of a graph.
macro_rules! newest_of {
    ($columns:literal) => {
        $crate::table::checkpoints::of_graph!(
            $columns,
            "place BETWEEN number << 24 AND (number << 24) + 0xffffff
             WHERE org = ?1 AND thread = ?2 AND ns = ?3
             ORDER BY prefix DESC, place DESC LIMIT 1"
        )
    };
}
pub(crate) use {newest_of, of_graph};

/// Returns the id of a row, composed of the prefix of its block and its place.
pub(crate) fn id(at: &At<'_>, row: &Row<'_>) -> Done<CheckpointId> {
    Ok(Spot::id(at.plain(row, "prefix")?, at.plain(row, "place")?))
}

/// A row of the table.
struct Kept {
    id: CheckpointId,
    of: Option<CheckpointId>,
    tasks: Vec<u8>,
    body: Vec<u8>,
}

fn read(at: &CheckpointNamespace, row: &Row<'_>) -> Done<Kept> {
    let id = id(&At::new("checkpoints", &Key { at, id: None }), row)?;
    let key = Key { at, id: Some(id) };
    let at = At::new("checkpoints", &key);
    let of = at.plain::<Other>(row, "of")?.to(id);
    Ok(Kept { id, of, tasks: at.plain(row, "tasks")?, body: at.plain(row, "body")? })
}

/// Validates a row of any graph.
pub(crate) fn check(row: &Row<'_>) -> Done<()> {
    let place = format!("row {}", row.get::<_, i64>("place")?);
    let at = At::new("checkpoints", &place);
    let Some(thread) = at.plain::<Option<String>>(row, "thread")? else {
        return Err(at.corrupt("it belongs to no graph").into());
    };
    drop(at.id::<OrgId>(row, "org")?);
    let name = format!("thread `{thread}`");
    let at = At::new("checkpoints", &name);
    let shelf = CheckpointNamespace { thread: at.id(row, "thread")?, ns: at.plain(row, "ns")? };
    read(&shelf, row).map(drop)
}

/// Returns the newest checkpoint, which no other follows.
fn newest(
    conn: &Connection,
    org: &OrgId,
    at: &CheckpointNamespace,
) -> Done<Option<FoundCheckpoint>> {
    let sql = newest_of!("place, body");
    let found = row::one(conn, sql, params![org.as_str(), at.thread.as_str(), at.ns], |row| {
        Guard::new(org, at).check(row)?;
        let id = id(&At::new("checkpoints", &Key { at, id: None }), row)?;
        Ok((id, At::new("checkpoints", &Key { at, id: Some(id) }).plain(row, "body")?))
    })?;
    let newest = found.as_ref().map(|(id, _)| *id);
    if let Some(head) = head(conn, org, at)?.filter(|head| Some(*head) > newest) {
        let what = format!("its newest checkpoint `{head}` is missing");
        return Err(At::new("checkpoints", &Key { at, id: None }).corrupt(what).into());
    }
    let Some((id, body)) = found else { return Ok(None) };
    let Parts { outside, tasks } = pending(conn, org, at, id..=id)?.remove(&id).unwrap_or_default();
    Ok(Some(FoundCheckpoint { id, body, outside, tasks }))
}

/// Returns the newest checkpoint of the root graph as recorded by commits. Runs without a worker
/// may have added later ones.
fn head(conn: &Connection, org: &OrgId, at: &CheckpointNamespace) -> Done<Option<CheckpointId>> {
    if !at.ns.is_empty() {
        return Ok(None);
    }
    let sql = "SELECT head FROM threads_now WHERE org = ?1 AND id = ?2";
    let name = Key { at, id: None };
    let found = row::one(conn, sql, params![org.as_str(), at.thread.as_str()], |row| {
        Ok(At::new("threads", &name).maybe_bits(row, "head")?.map(CheckpointId))
    })?;
    Ok(found.flatten())
}

fn known(
    conn: &Connection,
    org: &OrgId,
    at: &CheckpointNamespace,
    id: CheckpointId,
) -> Done<Option<FoundCheckpoint>> {
    let mut guard = Guard::new(org, at);
    let Some((_, body)) = bodies(conn, &[id], &mut guard)?.pop() else { return Ok(None) };
    let Parts { outside, mut tasks } =
        pending(conn, org, at, id..=id)?.remove(&id).unwrap_or_default();
    let next = next(conn, org, at, id, &mut guard)?;
    tasks.extend(next.filter(|(of, _)| *of == Some(id)).map(|(_, left)| left));
    Ok(Some(FoundCheckpoint { id, body, outside, tasks }))
}

/// Returns the bodies of the existing rows of a graph.
fn bodies(conn: &Connection, ids: &[CheckpointId], guard: &mut Guard<'_>) -> Done<Vec<Body>> {
    let Guard { org, at, .. } = *guard;
    let sql = of_graph!(
        "body",
        "place = (number << 24) | ?5
         WHERE org = ?1 AND thread = ?2 AND ns = ?3 AND prefix = ?4"
    );
    let mut statement = conn.prepare_cached(sql)?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let Spot { prefix, low } = Spot::of(*id);
        let mut rows =
            statement.query(params![org.as_str(), at.thread.as_str(), at.ns, prefix, low])?;
        if let Some(row) = rows.next()? {
            guard.check(row)?;
            let key = Key { at, id: Some(*id) };
            found.push((*id, At::new("checkpoints", &key).plain(row, "body")?));
        }
    }
    Ok(found)
}

/// Returns the next checkpoint's reference to an earlier checkpoint, and its task results.
fn next(
    conn: &Connection,
    org: &OrgId,
    at: &CheckpointNamespace,
    before: CheckpointId,
    guard: &mut Guard<'_>,
) -> Done<Option<(Option<CheckpointId>, Vec<u8>)>> {
    let sql = of_graph!(
        "place, of, tasks",
        "place > (number << 24) + CASE prefix WHEN ?4 THEN ?5 ELSE -1 END
             AND place <= (number << 24) + 0xffffff
         WHERE org = ?1 AND thread = ?2 AND ns = ?3 AND prefix >= ?4
         ORDER BY prefix, place LIMIT 1"
    );
    let Spot { prefix, low } = Spot::of(before);
    let key = params![org.as_str(), at.thread.as_str(), at.ns, prefix, low];
    let name = Key { at, id: Some(before) };
    row::one(conn, sql, key, |row| {
        guard.check(row)?;
        let at = At::new("checkpoints, after", &name);
        let id = id(&at, row)?;
        Ok((at.plain::<Other>(row, "of")?.to(id), at.plain(row, "tasks")?))
    })
}

/// The stored parts of an open superstep.
#[derive(Default)]
struct Parts {
    outside: Option<Vec<u8>>,
    tasks: Vec<Vec<u8>>,
}

fn pending(
    conn: &Connection,
    org: &OrgId,
    at: &CheckpointNamespace,
    ids: std::ops::RangeInclusive<CheckpointId>,
) -> Done<BTreeMap<CheckpointId, Parts>> {
    let sql = "SELECT of, part, body FROM pending
               WHERE org = ?1 AND thread = ?2 AND ns = ?3 AND of BETWEEN ?4 AND ?5
               ORDER BY of, part";
    let first = ids.start().0.to_be_bytes();
    let last = ids.end().0.to_be_bytes();
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows =
        statement.query(params![org.as_str(), at.thread.as_str(), at.ns, first, last])?;
    let mut found: BTreeMap<CheckpointId, Parts> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let of = CheckpointId(At::new("pending", &Key { at, id: None }).bits(row, "of")?);
        let key = Key { at, id: Some(of) };
        let at = At::new("pending", &key);
        let parts = found.entry(of).or_default();
        match at.plain::<i64>(row, "part")? {
            checkpoint_write::OUTSIDE => parts.outside = Some(at.plain(row, "body")?),
            _ => parts.tasks.push(at.plain(row, "body")?),
        }
    }
    Ok(found)
}

fn page(
    conn: &Connection,
    org: &OrgId,
    at: &CheckpointNamespace,
    before: Option<CheckpointId>,
    limit: usize,
) -> Done<Vec<FoundCheckpoint>> {
    let sql = of_graph!(
        "place, of, tasks, body",
        "place >= number << 24
             AND place <= (number << 24) + CASE prefix WHEN ?4 THEN ?5 ELSE 0xffffff END
         WHERE org = ?1 AND thread = ?2 AND ns = ?3 AND prefix <= ?4
         ORDER BY prefix DESC, place DESC LIMIT ?6"
    );
    // Highest id that can be included.
    let last = match before {
        None => CheckpointId(u128::MAX),
        Some(CheckpointId(0)) => return Ok(Vec::new()),
        Some(id) => CheckpointId(id.0 - 1),
    };
    let Spot { prefix, low } = Spot::of(last);
    let key = params![org.as_str(), at.thread.as_str(), at.ns, prefix, low, row::int(limit)];
    let mut guard = Guard::new(org, at);
    let rows = row::all(conn, sql, key, |row| {
        guard.check(row)?;
        read(at, row)
    })?;
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(Vec::new()) };
    let mut parts = pending(conn, org, at, last.id..=first.id)?;
    let mut after = next(conn, org, at, first.id, &mut guard)?;
    let mut found = Vec::with_capacity(rows.len());
    for Kept { id, of, tasks: left, body } in rows {
        let Parts { outside, mut tasks } = parts.remove(&id).unwrap_or_default();
        tasks.extend(after.filter(|(of, _)| *of == Some(id)).map(|(_, left)| left));
        after = Some((of, left));
        found.push(FoundCheckpoint { id, body, outside, tasks });
    }
    Ok(found)
}

/// Returns the namespaces of a thread, with one index seek per namespace.
fn checkpoint_namespaces(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
) -> Done<Vec<CheckpointNamespace>> {
    let first = "SELECT ns FROM blocks WHERE org = ?1 AND thread = ?2
                 ORDER BY ns LIMIT 1";
    let after = "SELECT ns FROM blocks WHERE org = ?1 AND thread = ?2 AND ns > ?3
                 ORDER BY ns LIMIT 1";
    let name = format!("thread `{thread}`");
    let read = |row: &Row<'_>| Ok(At::new("blocks", &name).plain::<String>(row, "ns")?);
    let mut found: Vec<CheckpointNamespace> = Vec::new();
    loop {
        let next = match found.last() {
            None => row::one(conn, first, params![org.as_str(), thread.as_str()], read)?,
            Some(CheckpointNamespace { ns, .. }) => {
                row::one(conn, after, params![org.as_str(), thread.as_str(), ns], read)?
            }
        };
        let Some(ns) = next else { return Ok(found) };
        found.push(CheckpointNamespace { thread: thread.clone(), ns });
    }
}

/// Two seeks, however many graphs there are: an index has the blocks of those within by prefix.
fn newest_id(conn: &Connection, org: &OrgId, thread: &ThreadId) -> Done<Option<CheckpointId>> {
    let outermost = newest_of!("place, ns");
    let within = "SELECT prefix, number, seal, ns,
                      (SELECT max(place) FROM checkpoint_rows
                       WHERE place BETWEEN number << 24 AND (number << 24) + 0xffffff) AS place
                  FROM blocks INDEXED BY blocks_within
                  WHERE org = ?1 AND thread = ?2 AND ns > '' AND prefix = (
                      SELECT max(prefix) FROM blocks
                      WHERE org = ?1 AND thread = ?2 AND ns > '')
                  ORDER BY place & 0xffffff DESC LIMIT 1";
    let name = format!("thread `{thread}`");
    let read = |row: &Row<'_>| {
        let at = At::new("checkpoints", &name);
        let shelf = CheckpointNamespace { thread: thread.clone(), ns: at.plain(row, "ns")? };
        Guard::new(org, &shelf).check(row)?;
        id(&at, row)
    };
    let org = org.as_str();
    let thread = thread.as_str();
    let outermost = row::one(conn, outermost, params![org, thread, ""], read)?;
    Ok(outermost.max(row::one(conn, within, params![org, thread], read)?))
}

fn by_hash(
    conn: &Connection,
    at: At<'_>,
    sql: &str,
    org: &OrgId,
    hash: Hash,
) -> Done<Option<Vec<u8>>> {
    row::one(conn, sql, params![org.as_str(), hash.0], |row| Ok(at.plain(row, "body")?))
}
