use crate::conn::ask;
use crate::error::Done;
use crate::row::{At, int, text};
use crate::store::PostgresStore;
use crate::table::pieces;
use tokio_postgres::Row;
use weftwork_store::{ReadEvents, Result};
use weftwork_store::{StoredEvent, invariants};
use weftwork_types::event::{FromStored, Piece, Position};
use weftwork_types::run::RunRef;
use weftwork_types::{BoxFuture, Principal, RunId, Timestamp};

impl ReadEvents for PostgresStore {
    fn events<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>>> {
        let args = (who.org.clone(), at.clone(), after, limit);
        self.run(args, |conn, (org, at, after, limit), _| {
            Box::pin(async move {
                let there = "SELECT 1 FROM runs WHERE org = $1 AND id = $2 AND thread = $3";
                // Each row has at least one event.
                let sql = "SELECT last_seq, first_seq, at, events FROM events
                           WHERE org = $1 AND run = $2 AND last_seq > $3
                           ORDER BY last_seq LIMIT $4";
                let run = text(&at.run);
                let thread = text(&at.thread);
                let asks = vec![
                    ask!(there, text(org), run.clone(), thread),
                    ask!(sql, text(org), run, int(*after), int(*limit)),
                ];
                let found = conn.read(asks).await?;
                let [there, rows] = found.as_slice() else { return Ok(Vec::new()) };
                if there.is_empty() {
                    return Err(invariants::missing("run", &at.run).into());
                }
                some(rows, &at.run, *after, *limit)
            })
        })
    }

    fn pieces<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        after: Position,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Piece>>> {
        let args = (who.org.clone(), at.clone(), after, limit);
        self.run(args, |conn, (org, at, after, limit), _| {
            Box::pin(pieces::read(conn, org, at, *after, *limit))
        })
    }
}

fn some(rows: &[Row], run: &RunId, after: u64, limit: usize) -> Done<Vec<StoredEvent>> {
    let mut found = Vec::new();
    for row in rows {
        let batch = batch(row, run)?.into_iter().filter(|event| event.seq > after);
        found.extend(batch.take(limit - found.len()));
    }
    invariants::check_kept(run, after, found.first().map(|event| event.seq))?;
    Ok(found)
}

/// Reads the events of one commit.
pub(crate) fn batch(row: &Row, run: &RunId) -> Done<Vec<StoredEvent>> {
    let name = format!("run `{run}`");
    let last: u64 = At::new("events", &name).count(row, "last_seq")?;
    let name = format!("run `{run}`, last_seq {last}");
    let place = At::new("events", &name);
    let first: u64 = place.count(row, "first_seq")?;
    let at = Timestamp(place.plain(row, "at")?);
    let events: Vec<FromStored> = place.json(row, "events")?;
    if first + events.len() as u64 != last + 1 {
        let what = format!("it holds {} events, expected {first} to {last}", events.len());
        return Err(place.corrupt(what).into());
    }
    let numbered = (first..).zip(events);
    Ok(numbered.map(|(seq, FromStored(event))| StoredEvent { seq, at, event }).collect())
}
