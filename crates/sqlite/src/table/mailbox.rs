//! The order of the unfinished runs of a thread.

use crate::error::Done;
use crate::row;
use crate::table::runs::{expect_status, made_by, read};
use rusqlite::{Connection, params};
use weftwork_store::{ActivityCounts, NewRun, RunRow, mailbox};
use weftwork_types::{OrgId, Principal, ThreadId, Timestamp};

/// Selects the number of the run whose turn it is ([`mailbox::turn`]), of a thread `t`, at the time
/// `?1`. The index is named explicitly; otherwise SQLite reads finished runs, too.
macro_rules! turn {
    () => {
        "SELECT r.number FROM runs r INDEXED BY runs_unfinished
         WHERE r.org = t.org AND r.thread = t.thread
             AND r.status IN ('queued', 'pending', 'running')
             AND (r.status <> 'queued' OR r.cancel_requested
                 OR json_extract(r.options, '$.mailbox') IS NULL
                 OR NOT EXISTS (SELECT 1 FROM threads i WHERE i.org = r.org AND i.id = r.thread
                     AND json_extract(i.metadata, '$.\"weft:terminated\"')))
         ORDER BY r.status = 'queued',
             json_extract(r.options, '$.mailbox') IS NOT NULL
                 AND coalesce(json_extract(r.options, '$.not_before'), ?1) > ?1,
             -coalesce(json_extract(r.options, '$.mailbox.priority'), 0), r.number
         LIMIT 1"
    };
}

pub(crate) use turn;

/// Returns the run whose turn it is, with the principal that created it.
pub(crate) fn next_run(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
    now: Timestamp,
) -> Done<Option<(Principal, RunRow)>> {
    let sql = concat!(
        "SELECT runs.* FROM (SELECT ?2 AS org, ?3 AS thread) t JOIN runs ON runs.number = (",
        turn!(),
        ")"
    );
    let values = params![now.0, org.as_str(), thread.as_str()];
    row::one(conn, sql, values, |row| Ok((made_by(row)?, read(row)?)))
}

/// Counts the activities of an instance.
pub(crate) fn count(conn: &Connection, org: &OrgId, thread: &ThreadId) -> Done<ActivityCounts> {
    let sql = "SELECT status, count(*) AS runs, min(id) AS id FROM runs
               WHERE org = ?1 AND thread = ?2 AND json_extract(options, '$.mailbox') IS NOT NULL
               GROUP BY status";
    let mut counts = ActivityCounts::default();
    let rows = row::all(conn, sql, params![org.as_str(), thread.as_str()], expect_status)?;
    rows.into_iter().for_each(|(status, number)| counts.add(status, number));
    Ok(counts)
}

/// Checks the instance of a new run; see [`mailbox::check_mailbox`].
pub(crate) fn check(conn: &Connection, org: &OrgId, new: &NewRun) -> Done<()> {
    let thread = crate::table::threads::one(conn, org, &new.at.thread)?;
    let metadata = thread.as_ref().map(|thread| &thread.metadata);
    if !new.is_sent() {
        return Ok(mailbox::check_mailbox(new, metadata, 0)?);
    }
    let sql = "SELECT count(*) FROM runs INDEXED BY runs_unfinished
               WHERE org = ?1 AND thread = ?2 AND status IN ('queued', 'pending', 'running')";
    let key = params![org.as_str(), new.at.thread.as_str()];
    let unfinished = row::one(conn, sql, key, |row| Ok(row.get::<_, usize>(0)?))?;
    Ok(mailbox::check_mailbox(new, metadata, unfinished.unwrap_or_default())?)
}
