//! Requeuing of runs.

use crate::error::Done;
use crate::row;
use crate::table::{events, log, runs, threads};
use rusqlite::{Connection, params};
use weftwork_store::{RunRow, invariants};
use weftwork_types::event::AiEvent;
use weftwork_types::run::{RunRef, RunStatus};
use weftwork_types::{OrgId, Principal, Timestamp};

/// Sets a run to pending and returns the number of the event that reports it.
pub(crate) fn put(
    conn: &Connection,
    org: &OrgId,
    at: &RunRef,
    told: AiEvent,
    now: Timestamp,
) -> Done<u64> {
    let seq = events::append(conn, org, &at.run, told, now)?;
    let status = row::word(&RunStatus::Pending)?;
    let sql = "UPDATE runs SET status = ?3, worker = NULL WHERE org = ?1 AND id = ?2";
    row::execute(conn, sql, params![org.as_str(), at.run.as_str(), status])?;
    let sql = "UPDATE threads SET status = ?3, updated_at = ?4, wakes_at = NULL
               WHERE org = ?1 AND id = ?2";
    row::execute(conn, sql, params![org.as_str(), at.thread.as_str(), status, now.0])?;
    Ok(seq)
}

/// Requeues the last run of a thread after it failed.
pub(crate) fn requeue(
    conn: &Connection,
    who: &Principal,
    at: &RunRef,
    now: Timestamp,
) -> Done<RunRow> {
    let org = &who.org;
    let run = at.run.as_str();
    let row = runs::expect(conn, org, at)?;
    if let Some(open) = runs::open_run(conn, org, &at.thread)? {
        return Err(invariants::busy(&open).into());
    }
    let sql = "SELECT number, id = ?3 FROM runs WHERE org = ?1 AND thread = ?2
               ORDER BY number DESC LIMIT 1";
    let key = params![org.as_str(), at.thread.as_str(), run];
    let last = row::one(conn, sql, key, |row| Ok((row.get(0)?, row.get::<_, bool>(1)?)))?;
    let is_last = last.is_some_and(|(_, is_it)| is_it);
    let thread = threads::one(conn, org, &at.thread)?;
    let metadata = thread.map(|thread| thread.metadata).unwrap_or_default();
    invariants::check_requeue(at, row.status, is_last, &metadata)?;
    // The head of the thread may have changed since the end of the run.
    last.map_or(Ok(()), |(number, _)| log::delete_heads(conn, number))?;
    let sql = "UPDATE runs SET outcome = NULL, ended_at = NULL, cancel_requested = 0,
                   last_checkpoint = NULL
               WHERE org = ?1 AND id = ?2";
    row::execute(conn, sql, params![org.as_str(), run])?;
    put(conn, org, at, AiEvent::Requeued { by: who.subject.clone() }, now)?;
    runs::expect(conn, org, at)
}
