use crate::conn::{Ask, ask};
use crate::error::Done;
use crate::row::{bytes, json, text};
use crate::store::PostgresStore;
use crate::table::threads;
use std::collections::BTreeMap;
use tokio_postgres::Row;
use weftwork_store::columns;
use weftwork_store::{InterruptRow, invariants};
use weftwork_store::{ReadInterrupts, Result};
use weftwork_types::interrupt::{Answer, Interrupt};
use weftwork_types::run::RunRef;
use weftwork_types::{BoxFuture, InterruptId, OrgId, Principal, RunId, ThreadId};

impl ReadInterrupts for PostgresStore {
    fn interrupts<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<InterruptRow>>> {
        self.run((who.org.clone(), thread.clone()), |conn, (org, thread), _| {
            Box::pin(async move {
                let rows = threads::read_of(conn, org, thread, of_thread(org, thread)).await?;
                rows.iter().map(|row| read(row, thread)).collect()
            })
        })
    }
}

/// Queries the questions of a thread, in the order in which they were asked; see [`read`].
pub(crate) fn of_thread(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = "SELECT id, run, interrupt, answer, closed FROM interrupts
               WHERE org = $1 AND thread = $2 ORDER BY number";
    ask!(sql, text(org), text(thread))
}

pub(crate) fn read(row: &Row, thread: &ThreadId) -> Done<InterruptRow> {
    Ok(columns::read_interrupt(row, thread)?)
}

/// Queries questions by id; see [`check`].
pub(crate) fn asked<'i>(
    org: &OrgId,
    thread: &ThreadId,
    ids: impl Iterator<Item = &'i InterruptId>,
) -> Ask {
    let sql = "SELECT id, run, interrupt, answer, closed FROM interrupts
               WHERE org = $1 AND thread = $2 AND id = ANY ($3)";
    let ids: Vec<Vec<u8>> = ids.map(|id| bytes(id.0)).collect();
    ask!(sql, text(org), text(thread), ids)
}

/// Returns the run that asked the questions. Fails at the first answer whose question is not open.
pub(crate) fn check(
    thread: &ThreadId,
    answers: &BTreeMap<InterruptId, Answer>,
    asked: &[Row],
) -> Done<Option<RunId>> {
    let asked: Done<Vec<InterruptRow>> = asked.iter().map(|row| read(row, thread)).collect();
    let asked = asked?;
    for id in answers.keys() {
        invariants::check_answerable(*id, asked.iter().find(|row| row.interrupt.id == *id))?;
    }
    let first = asked.into_iter().min_by_key(|row| row.interrupt.id);
    Ok(first.map(|row| row.run))
}

/// Stores answers to questions that were checked.
pub(crate) fn answer(
    org: &OrgId,
    thread: &ThreadId,
    answers: &BTreeMap<InterruptId, Answer>,
) -> Result<Vec<Ask>> {
    let sql = "UPDATE interrupts SET answer = $4 WHERE org = $1 AND thread = $2 AND id = $3";
    let ask = |(id, answer): (&InterruptId, &Answer)| {
        Ok(ask!(sql, text(org), text(thread), bytes(id.0), json(answer)?))
    };
    answers.iter().map(ask).collect()
}

/// Opens a question, unless it was answered before. One that was open before becomes that of the run
/// `at`, unless it keeps its run.
pub(crate) fn open(
    org: &OrgId,
    at: &RunRef,
    interrupt: &Interrupt,
    keeps_run: bool,
) -> Result<Ask> {
    let sql = "INSERT INTO interrupts AS i (org, thread, id, run, interrupt, closed)
               VALUES ($1, $2, $3, $4, $5, false)
               ON CONFLICT (org, thread, id) DO UPDATE
                   SET run = CASE WHEN $6 THEN i.run ELSE excluded.run END,
                       interrupt = excluded.interrupt, closed = false
                   WHERE i.answer IS NULL";
    let thread = text(&at.thread);
    let run = text(&at.run);
    let id = bytes(interrupt.id.0);
    Ok(ask!(sql, text(org), thread, id, run, json(interrupt)?, keeps_run))
}
