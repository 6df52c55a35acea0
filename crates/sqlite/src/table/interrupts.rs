use crate::error::Done;
use crate::row;
use crate::store::SqliteStore;
use crate::table::threads;
use rusqlite::{Connection, Row, params};
use std::collections::BTreeMap;
use weftwork_store::columns;
use weftwork_store::{Commit, InterruptRow, invariants};
use weftwork_store::{ReadInterrupts, Result};
use weftwork_types::interrupt::{Answer, Interrupt};
use weftwork_types::run::RunRef;
use weftwork_types::{BoxFuture, InterruptId, OrgId, Principal, RunId, ThreadId};

impl ReadInterrupts for SqliteStore {
    fn interrupts<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<InterruptRow>>> {
        let org = who.org.clone();
        let thread = thread.clone();
        self.look(move |conn| {
            threads::expect(conn, &org, &thread)?;
            let sql = "SELECT * FROM interrupts WHERE org = ?1 AND thread = ?2 ORDER BY rowid";
            row::all(conn, sql, params![org.as_str(), thread.as_str()], |row| read(row, &thread))
        })
    }
}

pub(crate) fn read(row: &Row<'_>, thread: &ThreadId) -> Done<InterruptRow> {
    Ok(columns::read_interrupt(row, thread)?)
}

/// Stores answers to open questions, and returns the run that asked them. Fails at the first
/// question that is not open.
pub(crate) fn answer(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
    answers: &BTreeMap<InterruptId, Answer>,
) -> Done<Option<RunId>> {
    let mut asked_by = None;
    for (id, answer) in answers {
        let sql = "SELECT * FROM interrupts WHERE org = ?1 AND thread = ?2 AND id = ?3";
        let key = params![org.as_str(), thread.as_str(), id.0.to_be_bytes()];
        let asked = row::one(conn, sql, key, |row| read(row, thread))?;
        invariants::check_answerable(*id, asked.as_ref())?;
        let sql = "UPDATE interrupts SET answer = ?4 WHERE org = ?1 AND thread = ?2 AND id = ?3";
        let answer = row::json(answer)?;
        let values = params![org.as_str(), thread.as_str(), id.0.to_be_bytes(), answer];
        row::execute(conn, sql, values)?;
        asked_by = asked_by.or(asked.map(|row| row.run));
    }
    Ok(asked_by)
}

/// Closes all open questions of a thread.
pub(crate) fn close(conn: &Connection, org: &OrgId, thread: &ThreadId) -> Done<()> {
    let sql = "UPDATE interrupts SET closed = 1
               WHERE org = ?1 AND thread = ?2 AND answer IS NULL AND closed = 0";
    row::execute(conn, sql, params![org.as_str(), thread.as_str()])?;
    Ok(())
}

/// Opens the questions of a commit that were not answered before.
pub(crate) fn ask(conn: &Connection, org: &OrgId, at: &RunRef, commit: &Commit) -> Done<()> {
    commit.interrupts.iter().try_for_each(|interrupt| {
        let keeps_run = commit.keeps_asking_run();
        ask_one(conn, org, at, interrupt, keeps_run)
    })
}

fn ask_one(
    conn: &Connection,
    org: &OrgId,
    at: &RunRef,
    interrupt: &Interrupt,
    keeps_run: bool,
) -> Done<()> {
    let sql = "INSERT INTO interrupts (org, thread, id, run, interrupt, closed)
               VALUES (?1, ?2, ?3, ?4, ?5, 0)
               ON CONFLICT (org, thread, id) DO UPDATE
                   SET run = CASE WHEN ?6 THEN run ELSE excluded.run END,
                       interrupt = excluded.interrupt, closed = 0
                   WHERE answer IS NULL";
    let id = interrupt.id.0.to_be_bytes();
    let record = row::json(interrupt)?;
    let thread = at.thread.as_str();
    let run = at.run.as_str();
    row::execute(conn, sql, params![org.as_str(), thread, id, run, record, keeps_run])?;
    Ok(())
}
