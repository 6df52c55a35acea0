use crate::error::Done;
use crate::row::{self, At};
use crate::store::SqliteStore;
use crate::table::pieces;
use rusqlite::{Connection, Row, params};
use weftwork_store::table::{ReadEvents, Result};
use weftwork_store::{StoredEvent, rule};
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
        let (org, at) = (who.org.clone(), at.clone());
        self.read(move |conn| events(conn, &org, &at, after, limit))
    }

    fn pieces<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        after: Position,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Piece>>> {
        let (org, at) = (who.org.clone(), at.clone());
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
    row::one(conn, sql, key, |_| Ok(()))?.ok_or_else(|| rule::missing("run", &at.run))?;
    let sql = "SELECT * FROM events WHERE org = ?1 AND run = ?2 AND last_seq > ?3
               ORDER BY last_seq";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![org.as_str(), at.run.as_str(), row::int(after)])?;
    let mut found = Vec::new();
    while found.len() < limit {
        let Some(row) = rows.next()? else { break };
        let batch = batch(row, &at.run)?.into_iter().filter(|event| event.seq > after);
        found.extend(batch.take(limit - found.len()));
    }
    rule::check_kept(&at.run, after, found.first().map(|event| event.seq))?;
    Ok(found)
}

/// The events of one commit.
pub(crate) fn batch(row: &Row<'_>, run: &RunId) -> Done<Vec<StoredEvent>> {
    let last: u64 = row.get("last_seq")?;
    let name = format!("run `{run}`, last_seq {last}");
    let place = At::new("events", &name);
    let first: u64 = place.plain(row, "first_seq")?;
    let at = Timestamp(place.plain(row, "at")?);
    let events: Vec<AiEvent> = place.json(row, "events")?;
    if first + events.len() as u64 != last + 1 {
        let what = format!("it holds {} events, expected {first} to {last}", events.len());
        return Err(place.corrupt(what).into());
    }
    let numbered = (first..).zip(events);
    Ok(numbered.map(|(seq, event)| StoredEvent { seq, at, event }).collect())
}

/// Adds events to a run's log and returns the number of the first.
pub(crate) fn append(
    conn: &Connection,
    org: &OrgId,
    run: &RunId,
    events: &[AiEvent],
    at: Timestamp,
) -> Done<u64> {
    let sql = "SELECT last_seq FROM events WHERE org = ?1 AND run = ?2
               ORDER BY last_seq DESC LIMIT 1";
    let key = params![org.as_str(), run.as_str()];
    let last: Option<u64> = row::one(conn, sql, key, |row| Ok(row.get(0)?))?;
    let first = last.unwrap_or(0) + 1;
    put(conn, org, run, (first, events), at)?;
    Ok(first)
}

/// Adds the events of one commit, the first of which has this number.
pub(crate) fn put(
    conn: &Connection,
    org: &OrgId,
    run: &RunId,
    (first, events): (u64, &[AiEvent]),
    at: Timestamp,
) -> Done<()> {
    if !events.is_empty() {
        let last = first + events.len() as u64 - 1;
        let sql = "INSERT INTO events (org, run, last_seq, first_seq, at, events)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let (org, run, events) = (org.as_str(), run.as_str(), row::json(&events)?);
        let values = params![org, run, row::int(last), row::int(first), at.0, events];
        row::execute(conn, sql, values)?;
    }
    Ok(())
}
