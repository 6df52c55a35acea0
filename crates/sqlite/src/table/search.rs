//! Search for threads.

use crate::error::Done;
use crate::row::{self, At};
use crate::table::threads;
use rusqlite::types::Value as Column;
use rusqlite::{Connection, params_from_iter};
use serde_json::Value;
use weftwork_store::columns::ReadableThread;
use weftwork_store::thread::{Direction, ThreadKey};
use weftwork_store::{FoundThread, Metadata, ThreadPage, ThreadQuery};
use weftwork_types::{OrgId, ThreadId};

/// The status of a thread, as in [`ThreadStatus::of`](weftwork_store::ThreadStatus::of).
const STATUS: &str = "CASE
    WHEN EXISTS (SELECT 1 FROM runs r INDEXED BY runs_unfinished
                 WHERE r.org = t.org AND r.thread = t.id
                     AND r.status IN ('queued', 'pending', 'running')
                     AND (r.status <> 'queued'
                         OR NOT EXISTS (SELECT 1 FROM interrupts i INDEXED BY interrupts_open
                             WHERE i.org = t.org AND i.thread = t.id
                                 AND i.answer IS NULL AND i.closed = 0)
                         OR json_extract(r.options, '$.mailbox') IS NULL
                             AND json_extract(r.options, '$.not_before') IS NULL
                             AND NOT EXISTS (SELECT 1 FROM runs e INDEXED BY runs_unfinished
                                 WHERE e.org = t.org AND e.thread = t.id AND e.number < r.number
                                     AND e.status IN ('queued', 'pending', 'running'))))
        THEN 'busy'
    WHEN t.status = 'failed' THEN 'error'
    WHEN t.status = 'interrupted'
        OR EXISTS (SELECT 1 FROM interrupts i INDEXED BY interrupts_open
                   WHERE i.org = t.org AND i.thread = t.id
                       AND i.answer IS NULL AND i.closed = 0) THEN 'interrupted'
    ELSE 'idle' END AS thread_status";

/// All threads, in parts that are read in the order of their last change: threads with a run that
/// was started are few, and are found by their status.
const BY_CHANGE: &str = "(
    SELECT org, id, graph, status, head, created_at, updated_at, wakes_at, metadata
    FROM threads WHERE org = ?1 AND status NOT IN ('pending', 'running')
    UNION ALL
    SELECT n.org, n.id, n.graph, n.status, n.head, n.created_at, n.updated_at, n.wakes_at,
        n.metadata
    FROM threads b INDEXED BY threads_running
    CROSS JOIN threads_now n ON n.org = b.org AND n.id = b.id
    WHERE b.org = ?1 AND b.status IN ('pending', 'running'))";

/// Finds the threads of a search. Metadata is compared here; the table of its members only reduces
/// the number of threads that are read.
pub(crate) fn search(conn: &Connection, org: &OrgId, query: &ThreadQuery) -> Done<ThreadPage> {
    let order = query.order();
    let (comparison, direction) = match order.direction {
        Direction::Ascending => (">", "ASC"),
        Direction::Descending => ("<", "DESC"),
    };
    let (from, [key, bound], sorted) = match order.by {
        ThreadKey::CreatedAt => ("threads_now", ["(created_at, id)", "(?2, ?3)"], "created_at"),
        ThreadKey::UpdatedAt => (BY_CHANGE, ["(updated_at, id)", "(?2, ?3)"], "updated_at"),
        ThreadKey::Id => ("threads_now", ["id", "?3"], "org"),
    };
    let (time, id) = query.bound();
    let mut values: Vec<Column> =
        vec![org.as_str().to_owned().into(), time.0.into(), id.to_owned().into()];
    let mut conditions = String::new();
    let mut condition = |text: &str, value: Column| {
        values.push(value);
        conditions.push_str(&text.replace("??", &format!("?{}", values.len())));
    };
    if let Some(ids) = &query.ids {
        condition(" AND id IN (SELECT value FROM json_each(??))", row::json(ids)?.into());
    }
    if let Some(status) = query.status {
        condition(" AND thread_status = ??", status.word().to_owned().into());
    }
    for (name, value) in members(&query.metadata)? {
        condition(
            " AND id IN (SELECT thread FROM thread_metadata WHERE org = ?1 AND name = ??",
            name.into(),
        );
        condition(" AND value = ??)", value.into());
    }
    let sql = format!(
        "SELECT * FROM (SELECT t.*, {STATUS} FROM {from} t WHERE org = ?1 AND {key} {comparison} {bound})
         WHERE true{conditions} ORDER BY {sorted} {direction}, id {direction}"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut found = Vec::new();
    while found.len() < query.reads() {
        let Some(row) = rows.next()? else { break };
        let ReadableThread { row: thread, damage } = threads::read_readable(row)?;
        if query.fits(&thread) {
            let status = At::new("threads", &thread.id).word(row, "thread_status")?;
            let damage = damage.map(|error| error.fault());
            found.push(FoundThread { row: thread, status, damage });
        }
    }
    Ok(query.page(found))
}

/// Returns the members of metadata by which threads are found, with their values as JSON. Numbers
/// are compared by value, and objects and arrays by parts, so these are left out.
fn members(metadata: &Metadata) -> Done<Vec<(String, String)>> {
    let plain = metadata
        .iter()
        .filter(|(_, value)| matches!(value, Value::Null | Value::Bool(_) | Value::String(_)));
    plain.map(|(name, value)| Ok((name.clone(), row::json(value)?))).collect()
}

/// Returns the column value of metadata.
pub(crate) fn column(metadata: &Metadata) -> Done<Option<String>> {
    Ok((!metadata.is_empty()).then(|| row::json(metadata)).transpose()?)
}

/// Writes the members of a thread's metadata by which it is found.
pub(crate) fn index(
    conn: &Connection,
    org: &OrgId,
    id: &ThreadId,
    metadata: &Metadata,
) -> Done<()> {
    let sql = "DELETE FROM thread_metadata WHERE org = ?1 AND thread = ?2";
    row::execute(conn, sql, [org.as_str(), id.as_str()])?;
    let sql = "INSERT INTO thread_metadata (org, name, value, thread) VALUES (?1, ?2, ?3, ?4)";
    for (name, value) in members(metadata)? {
        row::execute(conn, sql, [org.as_str(), name.as_str(), value.as_str(), id.as_str()])?;
    }
    Ok(())
}
