//! Amounts for limits: sums of the bill, and starts.

use crate::error::Done;
use crate::row;
use crate::store::SqliteStore;
use rusqlite::{Connection, params};
use weftwork_store::columns;
use weftwork_store::{
    BilledTo, LimitTable, LimitWindow, NewStart, Result, StartCheck, StartCounts, StartPlace,
    StartRefusal, StartRow, SubjectUsage,
};
use weftwork_types::{BoxFuture, InvocationId, Principal, Timestamp};

impl LimitTable for SqliteStore {
    fn subject_usage<'a>(
        &'a self,
        subject: &'a BilledTo,
        from: Timestamp,
        except: &'a [InvocationId],
    ) -> BoxFuture<'a, Result<SubjectUsage>> {
        let subject = subject.clone();
        let except = except.to_vec();
        self.read(move |conn| {
            // Sums of floats do not overflow, whatever counts a provider reports.
            let sql = match subject {
                BilledTo::Account(_) => {
                    "SELECT CAST(total(input_tokens) + total(output_tokens) AS INTEGER) AS tokens,
                         CAST(total(coalesce(provider_cost, price, 0)) AS INTEGER) AS cost
                     FROM model_calls WHERE account = ?1 AND started_at >= ?2
                         AND invocation NOT IN (SELECT value FROM json_each(?3))"
                }
                BilledTo::Key(_) => {
                    "SELECT CAST(total(input_tokens) + total(output_tokens) AS INTEGER) AS tokens,
                         CAST(total(coalesce(provider_cost, price, 0)) AS INTEGER) AS cost
                     FROM model_calls WHERE key = ?1 AND started_at >= ?2
                         AND invocation NOT IN (SELECT value FROM json_each(?3))"
                }
            };
            let asked = params![subject.id(), from.0, row::json(&except)?];
            let found = row::one(conn, sql, asked, |row| Ok(columns::read_subject_usage(row)?))?;
            Ok(found.unwrap_or_default())
        })
    }

    fn billed<'a>(
        &'a self,
        who: &'a Principal,
        attempts: &'a [InvocationId],
    ) -> BoxFuture<'a, Result<Vec<InvocationId>>> {
        let org = who.org.clone();
        let attempts = attempts.to_vec();
        self.read(move |conn| {
            let sql = "SELECT invocation FROM model_calls WHERE org = ?1
                       AND invocation IN (SELECT value FROM json_each(?2))";
            row::all(conn, sql, params![org.as_str(), row::json(&attempts)?], |row| {
                Ok(row::At::new("model_calls", &"a row").id(row, "invocation")?)
            })
        })
    }

    fn count_start<'a>(
        &'a self,
        start: &'a NewStart,
    ) -> BoxFuture<'a, Result<Option<StartRefusal>>> {
        let start = start.clone();
        self.write(move |conn| {
            for check in &start.checks {
                let refusal = check.compare(&rows_of(conn, check)?, start.counts);
                if refusal.is_some() {
                    return Ok(refusal);
                }
            }
            for place in start.places() {
                count_at(conn, &place, &start)?;
            }
            Ok(None)
        })
    }

    fn starts<'a>(
        &'a self,
        subject: &'a BilledTo,
        window: LimitWindow,
        from: Timestamp,
    ) -> BoxFuture<'a, Result<StartCounts>> {
        let subject = subject.clone();
        self.read(move |conn| {
            let sql =
                "SELECT coalesce(sum(requests), 0) AS requests, coalesce(sum(runs), 0) AS runs
                       FROM starts WHERE kind = ?1 AND id = ?2 AND span = ?3 AND at >= ?4";
            let asked = params![subject.kind(), subject.id(), row::word(&window.span())?, from.0];
            let found = row::one(conn, sql, asked, |row| Ok(columns::read_start_counts(row)?))?;
            Ok(found.unwrap_or_default())
        })
    }
}

fn rows_of(conn: &Connection, check: &StartCheck) -> Done<Vec<StartRow>> {
    let StartPlace { subject, span } = check.position();
    let sql = "SELECT * FROM starts WHERE kind = ?1 AND id = ?2 AND span = ?3 AND at >= ?4
               ORDER BY at";
    let asked = params![subject.kind(), subject.id(), row::word(&span)?, check.from.0];
    row::all(conn, sql, asked, |row| Ok(columns::read_start(row)?))
}

/// Counts a start, and removes counts that no window has.
fn count_at(conn: &Connection, place: &StartPlace, start: &NewStart) -> Done<()> {
    let StartPlace { subject, span } = place;
    let word = row::word(span)?;
    let old = "DELETE FROM starts WHERE kind = ?1 AND id = ?2 AND span = ?3 AND at < ?4";
    row::execute(conn, old, params![subject.kind(), subject.id(), word, span.oldest(start.at).0])?;
    let sql = "INSERT INTO starts (kind, id, span, at, requests, runs)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)
               ON CONFLICT (kind, id, span, at) DO UPDATE SET
                   requests = requests + excluded.requests, runs = runs + excluded.runs";
    let values = params![
        subject.kind(),
        subject.id(),
        word,
        span.begin_of(start.at).0,
        row::int(start.counts.requests),
        row::int(start.counts.runs),
    ];
    row::execute(conn, sql, values).map(drop)
}
