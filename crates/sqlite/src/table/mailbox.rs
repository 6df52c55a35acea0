//! The order of the unfinished runs of a thread.

use crate::error::Done;
use crate::row::{self, At};
use crate::table::runs::{expect_status, read, read_creator};
use rusqlite::{Connection, params};
use weftwork_store::{ActivityCounts, NewRun, RunRow, StoreError, mailbox};
use weftwork_types::run::RunRef;
use weftwork_types::{OrgId, Principal, RunId, ThreadId, Timestamp};

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
                     AND json_extract(i.metadata, '$.\"weft:terminated\"'))
                 AND (json_extract(r.options, '$.deadline') <= ?1 OR NOT EXISTS (SELECT 1 FROM interrupts q INDEXED BY interrupts_open
                     WHERE q.org = r.org AND q.thread = r.thread
                         AND q.answer IS NULL AND q.closed = 0)))
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
    row::one(conn, sql, values, |row| Ok((read_creator(row)?, read(row)?)))
}

/// Counts the activities of an instance.
pub(crate) fn count(conn: &Connection, org: &OrgId, thread: &ThreadId) -> Done<ActivityCounts> {
    // Of the runs of one activity, the last one has its status.
    let sql = "SELECT status, count(*) AS runs, min(id) AS id FROM
                   (SELECT status, id, max(number) FROM runs WHERE org = ?1 AND thread = ?2
                        AND json_extract(options, '$.mailbox') IS NOT NULL
                    GROUP BY coalesce(json_extract(options, '$.activity.run'), id))
               GROUP BY status";
    let mut counts = ActivityCounts::default();
    let rows = row::all(conn, sql, params![org.as_str(), thread.as_str()], expect_status)?;
    rows.into_iter().for_each(|(status, number)| counts.add(status, number));
    counts.asking = u64::from(asking(conn, org, thread)?.is_some());
    Ok(counts)
}

/// Returns the run that asked an open question of a thread.
fn asking(conn: &Connection, org: &OrgId, thread: &ThreadId) -> Done<Option<RunId>> {
    let sql = "SELECT run FROM interrupts INDEXED BY interrupts_open
               WHERE org = ?1 AND thread = ?2 AND answer IS NULL AND closed = 0 LIMIT 1";
    row::one(conn, sql, params![org.as_str(), thread.as_str()], |row| {
        Ok(At::new("interrupts", thread).id(row, "run")?)
    })
}

/// Returns the error for a claim of an activity while its mailbox lets none begin.
pub(crate) fn not_its_turn(conn: &Connection, org: &OrgId, thread: &ThreadId) -> Done<StoreError> {
    Ok(mailbox::not_its_turn(thread, asking(conn, org, thread)?.as_ref()))
}

/// Returns the oldest unfinished run that delays a new one; see [`mailbox::delays`].
pub(crate) fn delaying(conn: &Connection, org: &OrgId, new: &NewRun) -> Done<Option<RunRef>> {
    let thread = &new.at.thread;
    let sql = "SELECT id FROM runs INDEXED BY runs_unfinished
               WHERE org = ?1 AND thread = ?2 AND status IN ('queued', 'pending', 'running')
                   AND (?3 OR status <> 'queued'
                       OR NOT ?4 AND json_extract(options, '$.mailbox') IS NULL)
               ORDER BY number LIMIT 1";
    let values = params![org.as_str(), thread.as_str(), new.is_sent(), new.continues()];
    row::one(conn, sql, values, |row| {
        let run = At::new("runs", thread).id(row, "id")?;
        Ok(RunRef { thread: thread.clone(), run })
    })
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
