//! Amounts for limits: sums of the bill, and starts.

use crate::conn::{Ask, Conn, ask};
use crate::error::Done;
use crate::row::{At, int, text, word};
use crate::store::PostgresStore;
use std::collections::BTreeSet;
use weftwork_store::columns;
use weftwork_store::{
    BilledTo, LimitTable, LimitWindow, NewStart, Result, StartCheck, StartCounts, StartPlace,
    StartRefusal, SubjectUsage,
};
use weftwork_types::{BoxFuture, InvocationId, Principal, Timestamp};

impl LimitTable for PostgresStore {
    fn subject_usage<'a>(
        &'a self,
        subject: &'a BilledTo,
        from: Timestamp,
        except: &'a [InvocationId],
    ) -> BoxFuture<'a, Result<SubjectUsage>> {
        let except: Vec<String> = except.iter().map(text).collect();
        self.run((subject.clone(), from, except), |conn, (subject, from, except), _| {
            Box::pin(async move {
                let sql = match subject {
                    BilledTo::Account(_) => {
                        "SELECT CAST(least(coalesce(sum(input_tokens) + sum(output_tokens), 0),
                                 9223372036854775807) AS bigint) AS tokens,
                             CAST(least(coalesce(sum(coalesce(provider_cost, price, 0)), 0),
                                 9223372036854775807) AS bigint) AS cost
                         FROM model_calls WHERE account = $1 AND started_at >= $2
                             AND invocation <> ALL ($3)"
                    }
                    BilledTo::Key(_) => {
                        "SELECT CAST(least(coalesce(sum(input_tokens) + sum(output_tokens), 0),
                                 9223372036854775807) AS bigint) AS tokens,
                             CAST(least(coalesce(sum(coalesce(provider_cost, price, 0)), 0),
                                 9223372036854775807) AS bigint) AS cost
                         FROM model_calls WHERE key = $1 AND started_at >= $2
                             AND invocation <> ALL ($3)"
                    }
                };
                let rows = conn.rows(ask!(sql, subject.id().to_owned(), from.0, except.clone()));
                let found = rows.await?.first().map(columns::read_subject_usage);
                Ok(found.transpose()?.unwrap_or_default())
            })
        })
    }

    fn billed<'a>(
        &'a self,
        who: &'a Principal,
        attempts: &'a [InvocationId],
    ) -> BoxFuture<'a, Result<Vec<InvocationId>>> {
        let attempts: Vec<String> = attempts.iter().map(text).collect();
        self.run((who.org.clone(), attempts), |conn, (org, attempts), _| {
            Box::pin(async move {
                let sql = "SELECT invocation FROM model_calls WHERE org = $1
                           AND invocation = ANY ($2)";
                let rows = conn.rows(ask!(sql, text(org), attempts.clone())).await?;
                let at = At::new("model_calls", &"a row");
                Ok(rows.iter().map(|row| at.id(row, "invocation")).collect::<Result<_>>()?)
            })
        })
    }

    fn count_start<'a>(
        &'a self,
        start: &'a NewStart,
    ) -> BoxFuture<'a, Result<Option<StartRefusal>>> {
        self.run(start.clone(), |conn, start, _| Box::pin(count(conn, start)))
    }

    fn starts<'a>(
        &'a self,
        subject: &'a BilledTo,
        window: LimitWindow,
        from: Timestamp,
    ) -> BoxFuture<'a, Result<StartCounts>> {
        self.run((subject.clone(), window, from), |conn, (subject, window, from), _| {
            Box::pin(async move {
                let sql = "SELECT CAST(coalesce(sum(requests), 0) AS bigint) AS requests,
                               CAST(coalesce(sum(runs), 0) AS bigint) AS runs
                           FROM starts WHERE kind = $1 AND id = $2 AND span = $3 AND at >= $4";
                let asked = ask!(
                    sql,
                    subject.kind().to_owned(),
                    subject.id().to_owned(),
                    word(&window.span())?,
                    from.0
                );
                let rows = conn.rows(asked).await?;
                let found = rows.first().map(columns::read_start_counts).transpose()?;
                Ok(found.unwrap_or_default())
            })
        })
    }
}

/// Counts a start. One transaction at a time counts for an account or key.
async fn count(conn: &mut Conn, start: &NewStart) -> Done<Option<StartRefusal>> {
    let mut asks = Vec::new();
    // In one order, so that two transactions do not wait for each other.
    let subjects: BTreeSet<_> = start.checks.iter().map(|check| &check.subject).collect();
    for subject in subjects {
        let lock = "SELECT pg_advisory_xact_lock(lock_of('', 'starts ' || $1))";
        asks.push(ask!(lock, format!("{} {}", subject.kind(), subject.id())));
    }
    let first = asks.len();
    for check in &start.checks {
        asks.push(rows_of(check)?);
    }
    let found = conn.begin(asks).await?;
    for (check, rows) in start.checks.iter().zip(found.iter().skip(first)) {
        let rows: Vec<_> = rows.iter().map(columns::read_start).collect::<Result<_>>()?;
        let refusal = check.compare(&rows, start.counts);
        if refusal.is_some() {
            conn.commit(Vec::new()).await?;
            return Ok(refusal);
        }
    }
    let mut writes = Vec::new();
    for place in start.places() {
        writes.extend(count_at(&place, start)?);
    }
    conn.commit(writes).await?;
    Ok(None)
}

fn rows_of(check: &StartCheck) -> Result<Ask> {
    let StartPlace { subject, span } = check.position();
    let sql = "SELECT * FROM starts WHERE kind = $1 AND id = $2 AND span = $3 AND at >= $4
               ORDER BY at";
    let kind = subject.kind().to_owned();
    Ok(ask!(sql, kind, subject.id().to_owned(), word(&span)?, check.from.0))
}

/// Counts a start, and removes counts that no window has.
fn count_at(place: &StartPlace, start: &NewStart) -> Result<[Ask; 2]> {
    let StartPlace { subject, span } = place;
    let kind = subject.kind().to_owned();
    let id = subject.id().to_owned();
    let old = "DELETE FROM starts WHERE kind = $1 AND id = $2 AND span = $3 AND at < $4";
    let delete = ask!(old, kind.clone(), id.clone(), word(span)?, span.oldest(start.at).0);
    let sql = "INSERT INTO starts (kind, id, span, at, requests, runs)
               VALUES ($1, $2, $3, $4, $5, $6)
               ON CONFLICT (kind, id, span, at) DO UPDATE SET
                   requests = starts.requests + excluded.requests,
                   runs = starts.runs + excluded.runs";
    let insert = ask!(
        sql,
        kind,
        id,
        word(span)?,
        span.begin_of(start.at).0,
        int(start.counts.requests),
        int(start.counts.runs),
    );
    Ok([delete, insert])
}
