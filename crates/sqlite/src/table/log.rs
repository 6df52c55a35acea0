//! The log: one row per commit of a run, with everything except checkpoints. The key is composed of
//! the number of the run and the number of the commit.

use crate::error::Done;
use crate::row::{self, At};
use crate::table::bill;
use crate::table::compact::{Call, Fact, Payer};
use rusqlite::{Connection, Row, params};
use std::sync::Arc;
use weftwork_store::{StoredEvent, UsageRow, invariants};
use weftwork_types::event::{AiEvent, FromStored, StoredForm};
use weftwork_types::port::CallRecord;
use weftwork_types::{CheckpointId, OrgId, RunId, Timestamp};

/// Number of bits for the number of a commit within its run.
const BITS: u32 = 32;

/// Highest commit number within a run.
const LAST: i64 = (1 << BITS) - 1;

/// The content of a log row.
#[derive(Default)]
pub(crate) struct Entry<'a> {
    pub(crate) at: Timestamp,
    /// Head of the thread, if the commit moved it.
    pub(crate) head: Option<CheckpointId>,
    pub(crate) calls: Vec<Call<'a>>,
    /// Usage facts of the run, and its billing identity.
    pub(crate) usage: Option<(&'a Payer, &'a [Arc<UsageRow>])>,
    pub(crate) events: &'a [AiEvent],
}

/// The end of a run's log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    /// Position of the newest row; if there is none, the position before the first.
    pub(crate) position: i64,
    /// Number of the newest event; 0 if there is none.
    pub(crate) seq: u64,
}

/// Builds a query that joins runs with their log rows.
macro_rules! of_runs {
    ($columns:literal, $rest:literal) => {
        concat!(
            "SELECT runs.id AS run, place, ",
            $columns,
            " FROM runs CROSS JOIN log ON place BETWEEN number << 32 AND (number << 32) + 0xffffffff
              WHERE ",
            $rest
        )
    };
}
pub(crate) use of_runs;

impl End {
    /// Creates the end of the log of a run, given the run's number and newest row.
    pub(crate) fn of(number: i64, newest: Option<(i64, u64)>) -> Self {
        newest.map_or(Self { position: number << BITS, seq: 0 }, |(position, seq)| Self {
            position,
            seq,
        })
    }

    /// Returns the end after a commit with a number of events.
    pub(crate) fn after(self, events: usize) -> Self {
        Self { position: self.position + 1, seq: self.seq + events as u64 }
    }

    fn first_place(self) -> i64 {
        (self.position >> BITS) << BITS
    }
}

/// Returns the number of a run.
fn number(conn: &Connection, org: &OrgId, run: &RunId) -> Done<Option<i64>> {
    let sql = "SELECT number FROM runs WHERE org = ?1 AND id = ?2";
    row::one(conn, sql, params![org.as_str(), run.as_str()], |row| Ok(row.get(0)?))
}

/// Returns the number of the run that a place belongs to.
pub(crate) fn run(position: i64) -> i64 {
    position >> BITS
}

/// Returns the end of a run's log.
pub(crate) fn end(conn: &Connection, org: &OrgId, run: &RunId) -> Done<End> {
    let number = number(conn, org, run)?.ok_or_else(|| invariants::missing("run", run))?;
    let sql = "SELECT place, last_seq FROM log WHERE place BETWEEN ?1 AND ?2
               ORDER BY place DESC LIMIT 1";
    let first = number << BITS;
    let newest = row::one(conn, sql, [first, first + LAST], |row| {
        let at = At::new("log", run);
        Ok((at.plain(row, "place")?, at.plain(row, "last_seq")?))
    })?;
    Ok(End::of(number, newest))
}

/// Appends the row of a commit and returns the number of its first event.
pub(crate) fn add(conn: &Connection, end: End, new: Entry<'_>) -> Done<u64> {
    let Entry { at, head, calls, usage, events } = new;
    let first = end.seq + 1;
    let last = end.after(events.len());
    // All of these facts are of the run.
    let usage = usage.map(|(payer, rows)| {
        rows.iter().filter_map(|row| Some(payer.shorten(row.caller.run()?, &row.fact)))
    });
    let usage: Vec<_> = usage.into_iter().flatten().collect();
    let sql = "INSERT INTO log (place, first_seq, last_seq, at, head, calls, usage, events)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let values = params![
        last.position,
        row::int(first),
        row::int(last.seq),
        at.0,
        head.map(|id| id.0.to_be_bytes()),
        some(&calls)?,
        some(&usage)?,
        some(&events.iter().map(StoredForm).collect::<Vec<_>>())?,
    ];
    row::execute(conn, sql, values)?;
    if !usage.is_empty() {
        bill::enqueue_log(conn, last.position)?;
    }
    Ok(first)
}

/// Removes the heads from the log of a run, so that the row of the thread has the current head.
pub(crate) fn delete_heads(conn: &Connection, number: i64) -> Done<()> {
    let sql = "UPDATE log SET head = NULL WHERE place BETWEEN ?1 AND ?2 AND head IS NOT NULL";
    let first = number << BITS;
    row::execute(conn, sql, [first, first + LAST])?;
    Ok(())
}

/// Serialises a list as JSON; `None` if it is empty.
fn some<T: serde::Serialize>(list: &[T]) -> Done<Option<String>> {
    Ok((!list.is_empty()).then(|| row::json(&list)).transpose()?)
}

/// Returns the name of a row for messages: its run and commit number.
fn named(row: &Row<'_>) -> Done<String> {
    let run: Option<String> = row.get("run")?;
    let position: i64 = row.get("place")?;
    let commit = position & LAST;
    Ok(match run {
        Some(run) => format!("run `{run}`, commit {commit}"),
        None => format!("run number {}, commit {commit}", position >> BITS),
    })
}

/// Reads the calls of a row.
pub(crate) fn calls(row: &Row<'_>) -> Done<Vec<CallRecord>> {
    let name = named(row)?;
    let calls: Option<Vec<Call<'_>>> = At::new("log", &name).maybe_json(row, "calls")?;
    Ok(calls.into_iter().flatten().map(CallRecord::from).collect())
}

/// Reads the usage of a row that is joined with the caller and graph of its run.
pub(crate) fn usage(row: &Row<'_>) -> Done<Vec<UsageRow>> {
    let name = named(row)?;
    let at = At::new("log", &name);
    let facts: Option<Vec<Fact<'_>>> = at.maybe_json(row, "usage")?;
    let payer = Payer::read(&at, row)?;
    let run = at.id(row, "run")?;
    facts.into_iter().flatten().map(|fact| payer.lengthen(&at, &run, fact)).collect()
}

/// Reads the events of a row.
pub(crate) fn events(row: &Row<'_>) -> Done<Vec<StoredEvent>> {
    let name = named(row)?;
    let place = At::new("log", &name);
    let first: u64 = place.plain(row, "first_seq")?;
    let last: u64 = place.plain(row, "last_seq")?;
    let at = Timestamp(place.plain(row, "at")?);
    let events: Option<Vec<FromStored>> = place.maybe_json(row, "events")?;
    let events = events.unwrap_or_default();
    if first + events.len() as u64 != last + 1 {
        let what = format!("it holds {} events, expected {first} to {last}", events.len());
        return Err(place.corrupt(what).into());
    }
    let numbered = (first..).zip(events);
    Ok(numbered.map(|(seq, FromStored(event))| StoredEvent { seq, at, event }).collect())
}

/// Returns at most `limit` events of a run after a number. The row of the first one is found by
/// binary search, so that earlier parts of a long log are not read.
pub(crate) fn events_after(
    conn: &Connection,
    run: &RunId,
    end: End,
    after: u64,
    limit: usize,
) -> Done<Vec<StoredEvent>> {
    let mut found = Vec::new();
    if after >= end.seq {
        return Ok(found);
    }
    let sql = "SELECT ?3 AS run, * FROM log WHERE place BETWEEN ?1 AND ?2 ORDER BY place";
    let mut statement = conn.prepare_cached(sql)?;
    let first = first_after(conn, end, after)?;
    let mut rows = statement.query(params![first, end.position, run.as_str()])?;
    while found.len() < limit {
        let Some(row) = rows.next()? else { break };
        let events = events(row)?.into_iter().filter(|event| event.seq > after);
        found.extend(events.take(limit - found.len()));
    }
    Ok(found)
}

/// Returns the place of the first row with events after a number, or a lower place without such
/// rows in between.
fn first_after(conn: &Connection, end: End, after: u64) -> Done<i64> {
    let mut low = end.first_place();
    let mut high = end.position;
    if after == 0 {
        return Ok(low);
    }
    let sql = "SELECT place, last_seq FROM log WHERE place BETWEEN ?1 AND ?2
               ORDER BY place LIMIT 1";
    while low < high {
        let middle = low + (high - low) / 2;
        let next = row::one(conn, sql, [middle, end.position], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, u64>(1)?))
        })?;
        match next {
            Some((place, last)) if last <= after => low = place + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// Validates a row of any run.
pub(crate) fn check(row: &Row<'_>) -> Done<()> {
    let name = named(row)?;
    let at = At::new("log", &name);
    if at.plain::<Option<String>>(row, "run")?.is_none() {
        return Err(at.corrupt("it belongs to no run").into());
    }
    at.maybe_bits(row, "head")?;
    drop(events(row)?);
    drop(calls(row)?);
    drop(usage(row)?);
    Ok(())
}
