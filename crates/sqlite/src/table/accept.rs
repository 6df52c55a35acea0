//! Acceptance of runs.

use crate::error::Done;
use crate::row;
use crate::table::runs::{expect, newest, read};
use crate::table::{interrupts, mailbox};
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use weftwork_store::mailbox::first_status;
use weftwork_store::{Base, NewRun, RunRow, invariants};
use weftwork_types::interrupt::Answer;
use weftwork_types::run::{RunRef, RunStatus};
use weftwork_types::{InterruptId, OrgId, Principal};

/// Returns the run of an earlier request with the same idempotency key or run id.
pub(crate) fn earlier(conn: &Connection, org: &OrgId, new: &NewRun) -> Done<Option<RunRow>> {
    if let Some(key) = &new.options.idempotency_key {
        let sql = "SELECT * FROM runs WHERE org = ?1 AND idempotency_key = ?2";
        if let Some(row) = row::one(conn, sql, params![org.as_str(), key], read)? {
            let same = invariants::same_request(&row.new, new);
            return if same { Ok(Some(row)) } else { Err(invariants::key_reused(key).into()) };
        }
    }
    let sql = "SELECT * FROM runs WHERE org = ?1 AND id = ?2";
    let found = row::one(conn, sql, params![org.as_str(), new.at.run.as_str()], read)?;
    match found {
        Some(row) if !invariants::same_request(&row.new, new) => {
            Err(invariants::run_id_reused(&new.at).into())
        }
        found => Ok(found),
    }
}

/// Checks that the id and the idempotency key of a run are new.
pub(crate) fn check_new(conn: &Connection, org: &OrgId, new: &NewRun) -> Done<()> {
    let sql = "SELECT 1 FROM runs WHERE org = ?1 AND id = ?2";
    if row::one(conn, sql, params![org.as_str(), new.at.run.as_str()], |_| Ok(()))?.is_some() {
        return Err(invariants::run_id_reused(&new.at).into());
    }
    let Some(key) = &new.options.idempotency_key else { return Ok(()) };
    let sql = "SELECT 1 FROM runs WHERE org = ?1 AND idempotency_key = ?2";
    match row::one(conn, sql, params![org.as_str(), key], |_| Ok(()))? {
        Some(()) => Err(invariants::key_reused(key).into()),
        None => Ok(()),
    }
}

/// Creates a run, and its thread if it does not exist.
pub(crate) fn create(
    conn: &Connection,
    who: &Principal,
    new: &NewRun,
    answers: &BTreeMap<InterruptId, Answer>,
) -> Done<RunRow> {
    mailbox::check(conn, &who.org, new)?;
    let open = mailbox::delaying(conn, &who.org, new)?;
    if let Some(open) = &open
        && !invariants::may_wait(new)
    {
        return Err(invariants::busy(open).into());
    }
    let asked_by = interrupts::answer(conn, &who.org, &new.at.thread, answers)?;
    let base = stop_others(conn, &who.org, new, open.as_ref())?;
    let status = first_status(new, open.is_some());
    if status == RunStatus::Pending {
        touch(conn, who, new, status)?;
    } else {
        create_thread(conn, who, new)?;
    }
    let row = RunRow { base, answers: asked_by, ..RunRow::accepted(new.clone(), status) };
    insert(conn, &who.org, &who.subject, &row, 1)?;
    Ok(row)
}

/// Requests cancellation of earlier runs if the new run's strategy requires it. Marks the runs that
/// it rolls back, and returns its base.
fn stop_others(
    conn: &Connection,
    org: &OrgId,
    new: &NewRun,
    open: Option<&RunRef>,
) -> Done<Option<Base>> {
    let options = &new.options;
    if !options.multitask.cancels() || open.is_none() && options.roll_back.is_none() {
        return Ok(None);
    }
    let thread = &new.at.thread;
    let row = |run: &RunRef| expect(conn, org, run);
    let named = options.roll_back.clone().map(|run| RunRef { thread: thread.clone(), run });
    let named = named.as_ref().map(row).transpose()?;
    let open = open.map(row).transpose()?;
    let oldest = invariants::oldest_rolled_back(new, named.as_ref(), open.as_ref())?;
    let sql = "UPDATE runs INDEXED BY runs_unfinished SET cancel_requested = 1
               WHERE org = ?1 AND thread = ?2 AND status IN ('queued', 'pending', 'running')";
    row::execute(conn, sql, params![org.as_str(), thread.as_str()])?;
    let newest = newest(conn, org, thread)?;
    let base = oldest.and_then(|oldest| invariants::base_after(new, oldest, newest));
    if let (Some(_), Some(oldest)) = (base, oldest) {
        let sql = "UPDATE runs SET rolled_back_by = ?4
                   WHERE org = ?1 AND thread = ?2 AND rolled_back_by IS NULL
                       AND number >= (SELECT number FROM runs WHERE org = ?1 AND id = ?3)";
        let first = oldest.new.at.run.as_str();
        let by = new.at.run.as_str();
        row::execute(conn, sql, params![org.as_str(), thread.as_str(), first, by])?;
    }
    Ok(base)
}

/// Updates the thread for a new run, or creates it.
fn touch(conn: &Connection, who: &Principal, new: &NewRun, status: RunStatus) -> Done<()> {
    let sql = "INSERT INTO threads (org, id, graph, status, created_at, updated_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?5)
               ON CONFLICT (org, id) DO UPDATE SET graph = excluded.graph,
                   status = excluded.status, updated_at = excluded.updated_at, wakes_at = NULL";
    let org = who.org.as_str();
    let thread = new.at.thread.as_str();
    let status = row::word(&status)?;
    row::execute(conn, sql, params![org, thread, new.graph, status, new.created_at.0])?;
    Ok(())
}

/// Creates the thread of a queued run if it does not exist. One that exists is not changed.
fn create_thread(conn: &Connection, who: &Principal, new: &NewRun) -> Done<()> {
    let sql = "INSERT INTO threads (org, id, graph, status, created_at, updated_at)
               VALUES (?1, ?2, ?3, '', ?4, ?4) ON CONFLICT (org, id) DO NOTHING";
    let org = who.org.as_str();
    let thread = new.at.thread.as_str();
    row::execute(conn, sql, params![org, thread, new.graph, new.created_at.0])?;
    Ok(())
}

/// Writes the row of a run, with the number of the oldest event that its log will have.
pub(crate) fn insert(
    conn: &Connection,
    org: &OrgId,
    subject: &str,
    run: &RunRow,
    events_from: u64,
) -> Done<()> {
    let sql = "INSERT INTO runs (org, id, thread, subject, graph, caller, input, options,
                   idempotency_key, created_at, status, worker, fence, outcome, ended_at,
                   cancel_requested, events_from, base, last_checkpoint, answers, rolled_back_by)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
                   ?17, ?18, ?19, ?20, ?21)";
    let new = &run.new;
    let values = params![
        org.as_str(),
        new.at.run.as_str(),
        new.at.thread.as_str(),
        subject,
        new.graph,
        row::json(&new.caller)?,
        row::json(&new.input)?,
        row::json(&new.options)?,
        new.options.idempotency_key,
        new.created_at.0,
        row::word(&run.status)?,
        run.worker.as_ref().map(|worker| worker.as_str()),
        row::int(run.fence),
        run.outcome.as_ref().map(row::json).transpose()?,
        run.ended_at.map(|at| at.0),
        run.cancel_requested,
        row::int(events_from),
        run.base.map(Base::to_bytes),
        run.last_checkpoint.map(|id| id.0.to_be_bytes()),
        run.answers.as_ref().map(|run| run.as_str()),
        run.rolled_back_by.as_ref().map(|run| run.as_str()),
    ];
    row::execute(conn, sql, values)?;
    Ok(())
}
