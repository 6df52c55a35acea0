use crate::error::Done;
use crate::row;
use crate::store::SqliteStore;
use crate::table::{log, pieces};
use rusqlite::{Connection, params};
use weftwork_store::{ReadEvents, Result};
use weftwork_store::{StoredEvent, invariants};
use weftwork_types::event::{AiEvent, Piece, Position};
use weftwork_types::run::RunRef;
use weftwork_types::{BoxFuture, OrgId, Principal, RunId, Timestamp};

impl ReadEvents for SqliteStore {
    fn events<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>>> {
        let org = who.org.clone();
        let at = at.clone();
        self.read(move |conn| events(conn, &org, &at, after, limit))
    }

    fn pieces<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        after: Position,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Piece>>> {
        let org = who.org.clone();
        let at = at.clone();
        self.read(move |conn| pieces::read(conn, &org, &at, after, limit))
    }
}

fn events(
    conn: &Connection,
    org: &OrgId,
    at: &RunRef,
    after: u64,
    limit: usize,
) -> Done<Vec<StoredEvent>> {
    let sql = "SELECT 1 FROM runs WHERE org = ?1 AND id = ?2 AND thread = ?3";
    let key = params![org.as_str(), at.run.as_str(), at.thread.as_str()];
    row::one(conn, sql, key, |_| Ok(()))?.ok_or_else(|| invariants::missing("run", &at.run))?;
    let end = log::end(conn, org, &at.run)?;
    let found = log::events_after(conn, &at.run, end, after, limit)?;
    invariants::check_kept(&at.run, after, found.first().map(|event| event.seq))?;
    Ok(found)
}

/// Adds an event to a run's log and returns its number.
pub(crate) fn append(
    conn: &Connection,
    org: &OrgId,
    run: &RunId,
    event: AiEvent,
    at: Timestamp,
) -> Done<u64> {
    let end = log::end(conn, org, run)?;
    log::add(conn, end, log::Entry { at, events: &[event], ..log::Entry::default() })
}
