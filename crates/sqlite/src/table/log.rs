//! What the commits of runs leave besides checkpoints: a row each, in the order of a number made of
//! the run's and of which of its commits it was.

use crate::error::Done;
use crate::row::{self, At};
use crate::table::short::{Call, Fact, Payer};
use rusqlite::{Connection, Row, params};
use std::sync::Arc;
use weftwork_store::{StoredEvent, UsageRow, rule};
use weftwork_types::event::AiEvent;
use weftwork_types::port::CallRecord;
use weftwork_types::{CheckpointId, OrgId, RunId, Timestamp};

/// How many bits number the commits of a run.
const BITS: u32 = 32;

/// The places of a run: those from the first to the last of these, after its number.
const LAST: i64 = (1 << BITS) - 1;

/// What a commit leaves.
#[derive(Default)]
pub(crate) struct Entry<'a> {
    pub(crate) at: Timestamp,
    /// The head of the thread, when the commit moved it.
    pub(crate) head: Option<CheckpointId>,
    pub(crate) calls: Vec<Call<'a>>,
    /// Facts of the run itself, and what its row says of who pays.
    pub(crate) usage: Option<(&'a Payer, &'a [Arc<UsageRow>])>,
    pub(crate) events: &'a [AiEvent],
}

/// Where the log of a run ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    /// The place of its newest row; the one before its first when it has none.
    pub(crate) place: i64,
    /// The number of its newest event; none: 0.
    pub(crate) seq: u64,
}

/// What leads from runs to the rows of their logs.
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
    /// Of a run of this number, whose newest row is known.
    pub(crate) fn of(number: i64, newest: Option<(i64, u64)>) -> Self {
        newest.map_or(Self { place: number << BITS, seq: 0 }, |(place, seq)| Self { place, seq })
    }

    /// After a commit that tells so many events.
    pub(crate) fn after(self, events: usize) -> Self {
        Self { place: self.place + 1, seq: self.seq + events as u64 }
    }

    fn first_place(self) -> i64 {
        (self.place >> BITS) << BITS
    }
}

/// The number of a run.
fn number(conn: &Connection, org: &OrgId, run: &RunId) -> Done<Option<i64>> {
    let sql = "SELECT number FROM runs WHERE org = ?1 AND id = ?2";
    row::one(conn, sql, params![org.as_str(), run.as_str()], |row| Ok(row.get(0)?))
}

/// The number of the run whose row is at a place.
pub(crate) fn run(place: i64) -> i64 {
    place >> BITS
}

/// Where the log of a run ends.
pub(crate) fn end(conn: &Connection, org: &OrgId, run: &RunId) -> Done<End> {
    let number = number(conn, org, run)?.ok_or_else(|| rule::missing("run", run))?;
    let sql = "SELECT place, last_seq FROM log WHERE place BETWEEN ?1 AND ?2
               ORDER BY place DESC LIMIT 1";
    let first = number << BITS;
    let newest = row::one(conn, sql, [first, first + LAST], |row| {
        let at = At::new("log", run);
        Ok((at.plain(row, "place")?, at.plain(row, "last_seq")?))
    })?;
    Ok(End::of(number, newest))
}

/// Adds the row of a commit; returns the number of its first event.
pub(crate) fn add(conn: &Connection, end: End, new: Entry<'_>) -> Done<u64> {
    let Entry { at, head, calls, usage, events } = new;
    let (first, last) = (end.seq + 1, end.after(events.len()));
    let usage = usage.map(|(payer, facts)| facts.iter().map(|fact| payer.shorten(fact)));
    let usage: Vec<_> = usage.into_iter().flatten().collect();
    let sql = "INSERT INTO log (place, first_seq, last_seq, at, head, calls, usage, events)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let values = params![
        last.place,
        row::int(first),
        row::int(last.seq),
        at.0,
        head.map(|id| id.0.to_be_bytes()),
        some(&calls)?,
        some(&usage)?,
        some(events)?,
    ];
    row::execute(conn, sql, values)?;
    Ok(first)
}

/// Lets the row of a thread say what its head is, and not the log of a run of this number.
pub(crate) fn forget_heads(conn: &Connection, number: i64) -> Done<()> {
    let sql = "UPDATE log SET head = NULL WHERE place BETWEEN ?1 AND ?2 AND head IS NOT NULL";
    let first = number << BITS;
    row::execute(conn, sql, [first, first + LAST])?;
    Ok(())
}

/// The JSON of a list; nothing for an empty one.
fn some<T: serde::Serialize>(list: &[T]) -> Done<Option<String>> {
    Ok((!list.is_empty()).then(|| row::json(&list)).transpose()?)
}

/// Names a row for messages, by its run and which of its commits it was.
fn named(row: &Row<'_>) -> Done<String> {
    let (run, place): (Option<String>, i64) = (row.get("run")?, row.get("place")?);
    let commit = place & LAST;
    Ok(match run {
        Some(run) => format!("run `{run}`, commit {commit}"),
        None => format!("run number {}, commit {commit}", place >> BITS),
    })
}

/// The calls of a row.
pub(crate) fn calls(row: &Row<'_>) -> Done<Vec<CallRecord>> {
    let name = named(row)?;
    let calls: Option<Vec<Call<'_>>> = At::new("log", &name).maybe_json(row, "calls")?;
    Ok(calls.into_iter().flatten().map(CallRecord::from).collect())
}

/// The usage of a row that has caller and graph of its run beside it.
pub(crate) fn usage(row: &Row<'_>) -> Done<Vec<UsageRow>> {
    let name = named(row)?;
    let at = At::new("log", &name);
    let facts: Option<Vec<Fact<'_>>> = at.maybe_json(row, "usage")?;
    let (payer, run) = (Payer::read(&at, row)?, at.id(row, "run")?);
    facts.into_iter().flatten().map(|fact| payer.lengthen(&at, &run, fact)).collect()
}

/// The events of a row.
pub(crate) fn events(row: &Row<'_>) -> Done<Vec<StoredEvent>> {
    let name = named(row)?;
    let place = At::new("log", &name);
    let (first, last): (u64, u64) = (place.plain(row, "first_seq")?, place.plain(row, "last_seq")?);
    let at = Timestamp(place.plain(row, "at")?);
    let events: Vec<AiEvent> = place.maybe_json(row, "events")?.unwrap_or_default();
    if first + events.len() as u64 != last + 1 {
        let what = format!("it holds {} events, expected {first} to {last}", events.len());
        return Err(place.corrupt(what).into());
    }
    let numbered = (first..).zip(events);
    Ok(numbered.map(|(seq, event)| StoredEvent { seq, at, event }).collect())
}

/// At most so many events of a run after a number. The row of the first of them is looked for by
/// halves, so that the rest of a long log is not read.
pub(crate) fn events_after(
    conn: &Connection,
    (run, end): (&RunId, End),
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
    let mut rows = statement.query(params![first, end.place, run.as_str()])?;
    while found.len() < limit {
        let Some(row) = rows.next()? else { break };
        let events = events(row)?.into_iter().filter(|event| event.seq > after);
        found.extend(events.take(limit - found.len()));
    }
    Ok(found)
}

/// The place from which on rows have events after a number, or a place between that of this row
/// and the one before it.
fn first_after(conn: &Connection, end: End, after: u64) -> Done<i64> {
    let (mut low, mut high) = (end.first_place(), end.place);
    if after == 0 {
        return Ok(low);
    }
    let sql = "SELECT place, last_seq FROM log WHERE place BETWEEN ?1 AND ?2
               ORDER BY place LIMIT 1";
    while low < high {
        let middle = low + (high - low) / 2;
        let next = row::one(conn, sql, [middle, end.place], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, u64>(1)?))
        })?;
        match next {
            Some((place, last)) if last <= after => low = place + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// Reads a row of any run and drops it.
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
