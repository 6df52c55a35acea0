//! The bill, and the queue of facts that are not yet moved there.

use crate::error::{Done, Fail};
use crate::row::{self, At};
use crate::store::SqliteStore;
use crate::table::{log, usage};
use rusqlite::{Connection, Row, params};
use weftwork_store::columns;
use weftwork_store::{
    BilledTo, Period, ReadBill, Receipt, Result, StoreError, UsageRow, UsageTotal, WriteBill,
    agent_of,
};
use weftwork_types::caller::Caller;
use weftwork_types::{BoxFuture, InvocationId, OrgId, Principal, ThreadId};

impl WriteBill for SqliteStore {
    fn move_usage(&self, limit: usize) -> BoxFuture<'_, Result<usize>> {
        Box::pin(async move {
            // An empty queue is the usual case, and takes no lock.
            let waits = self
                .look(|conn| row::one(conn, "SELECT 1 FROM usage_queue LIMIT 1", [], |_| Ok(())));
            match waits.await? {
                Some(()) => self.write(move |conn| move_facts(conn, limit)).await,
                None => Ok(0),
            }
        })
    }

    fn erase_names<'a>(
        &'a self,
        who: &'a Principal,
        payer: &'a BilledTo,
    ) -> BoxFuture<'a, Result<usize>> {
        let org = who.org.clone();
        let payer = payer.clone();
        self.write(move |conn| erase_names(conn, &org, &payer))
    }
}

fn erase_names(conn: &Connection, org: &OrgId, payer: &BilledTo) -> Done<usize> {
    let sql = "SELECT * FROM usage WHERE org = ?1 AND instr(caller, ?2) > 0";
    let kept = row::all(conn, sql, [org.as_str(), payer.id()], usage::read)?;
    for fact in kept.iter().filter(|fact| payer.has(fact.caller.caller())) {
        let sql = "UPDATE usage SET caller = ?3 WHERE org = ?1 AND invocation = ?2";
        let caller = row::json(&fact.caller.erased())?;
        row::execute(conn, sql, params![org.as_str(), fact.fact.invocation_id.as_str(), caller])?;
    }
    let starts = "DELETE FROM starts WHERE kind = ?1 AND id = ?2";
    row::execute(conn, starts, [payer.kind(), payer.id()])?;
    let nobody = Caller::erased();
    let column = payer.kind();
    let names = params![
        org.as_str(),
        payer.id(),
        nobody.billing_account.as_str(),
        nobody.virtual_key.as_str(),
        nobody.request.as_str()
    ];
    let sql = format!(
        "UPDATE receipts SET account = ?3, key = ?4, request = ?5 WHERE org = ?1 AND {column} = ?2"
    );
    row::execute(conn, &sql, names)?;
    let sql = format!(
        "UPDATE model_calls SET account = ?3, key = ?4, request = ?5, trace = ?5
         WHERE org = ?1 AND {column} = ?2"
    );
    row::execute(conn, &sql, names)
}

impl ReadBill for SqliteStore {
    fn model_calls<'a>(
        &'a self,
        who: &'a Principal,
        subject: &'a str,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        let org = who.org.clone();
        let subject = subject.to_owned();
        self.read(move |conn| {
            let sql = "SELECT * FROM model_calls WHERE org = ?1 AND run = ?2
                       UNION ALL SELECT * FROM model_calls
                       WHERE org = ?1 AND invocation = ?2 AND run IS NULL
                       ORDER BY started_at, invocation";
            row::all(conn, sql, [org.as_str(), &subject], read)
        })
    }

    fn receipts<'a>(
        &'a self,
        who: &'a Principal,
        subject: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Receipt>>> {
        let org = who.org.clone();
        let subject = subject.to_owned();
        self.read(move |conn| {
            let sql = "SELECT * FROM receipts WHERE org = ?1 AND source = 'model' AND subject = ?2
                       ORDER BY attempt, unit";
            row::all(conn, sql, [org.as_str(), &subject], read_receipt)
        })
    }

    fn usage_totals<'a>(
        &'a self,
        who: &'a Principal,
        period: Period,
    ) -> BoxFuture<'a, Result<Vec<UsageTotal>>> {
        let org = who.org.clone();
        self.read(move |conn| {
            let asked = params![org.as_str(), period.from.0, period.until.0];
            let total = |row: &Row<'_>| Ok(columns::read_usage_total(row)?);
            let mut totals = row::all(conn, columns::USAGE_TOTALS, asked, total)?;
            totals.sort_by(|a, b| a.group.cmp(&b.group));
            Ok(totals)
        })
    }
}

/// Adds the facts of a row of the log to the queue.
pub(crate) fn enqueue_log(conn: &Connection, place: i64) -> Done<()> {
    row::execute(conn, "INSERT INTO usage_queue (place) VALUES (?1)", [place]).map(drop)
}

/// Adds a fact of the table `usage` to the queue, unless it is already moved.
pub(crate) fn enqueue(conn: &Connection, org: &OrgId, invocation: &InvocationId) -> Done<()> {
    let sql = "INSERT INTO usage_queue (org, invocation) SELECT ?1, ?2 WHERE NOT EXISTS (
                   SELECT 1 FROM model_calls WHERE org = ?1 AND invocation = ?2)";
    row::execute(conn, sql, [org.as_str(), invocation.as_str()]).map(drop)
}

/// Removes the rows of the log of a thread from the queue.
pub(crate) fn dequeue_logs(conn: &Connection, org: &OrgId, thread: &ThreadId) -> Done<()> {
    let sql = "DELETE FROM usage_queue WHERE place >> 32 IN (
                   SELECT number FROM runs WHERE org = ?1 AND thread = ?2)";
    row::execute(conn, sql, [org.as_str(), thread.as_str()]).map(drop)
}

/// A row of the queue.
struct Queued {
    number: i64,
    source: Source,
}

/// The place of queued facts.
enum Source {
    Log(i64),
    Usage { org: String, invocation: String },
}

fn read_queued(row: &Row<'_>) -> Done<Queued> {
    let number = row.get("number")?;
    let name = format!("number {number}");
    let at = At::new("usage_queue", &name);
    let source = match at.plain::<Option<i64>>(row, "place")? {
        Some(place) => Source::Log(place),
        None => {
            Source::Usage { org: at.plain(row, "org")?, invocation: at.plain(row, "invocation")? }
        }
    };
    Ok(Queued { number, source })
}

/// Facts of one organisation.
struct Facts {
    org: OrgId,
    rows: Vec<UsageRow>,
}

fn move_facts(conn: &Connection, limit: usize) -> Done<usize> {
    let mut moved = 0;
    // A row of the log may have several facts, and a damaged row stays in the queue.
    let sql = "SELECT * FROM usage_queue ORDER BY number LIMIT ?1";
    for Queued { number, source } in row::all(conn, sql, [row::int(limit)], read_queued)? {
        let found = match find(conn, &source) {
            Err(Fail::Store(StoreError::Corrupt { .. })) => continue,
            found => found?,
        };
        let count = found.as_ref().map_or(0, |facts| facts.rows.len());
        if moved > 0 && moved + count > limit {
            break;
        }
        if let Some(Facts { org, rows }) = found {
            rows.iter().try_for_each(|row| insert(conn, &org, row))?;
        }
        row::execute(conn, "DELETE FROM usage_queue WHERE number = ?1", [number])?;
        // A row whose facts are gone counts, too: zero means that the queue is empty.
        moved += count.max(1);
    }
    Ok(moved)
}

fn find(conn: &Connection, source: &Source) -> Done<Option<Facts>> {
    match source {
        Source::Log(place) => {
            let sql = "SELECT org, runs.id AS run, place, caller, graph, usage
                       FROM log JOIN runs ON number = place >> 32 WHERE place = ?1";
            row::one(conn, sql, [place], |row| {
                Ok(Facts { org: org_of(row)?, rows: log::usage(row)? })
            })
        }
        Source::Usage { org, invocation } => {
            let sql = "SELECT * FROM usage WHERE org = ?1 AND invocation = ?2";
            row::one(conn, sql, [org, invocation], |row| {
                Ok(Facts { org: org_of(row)?, rows: vec![usage::read(row)?] })
            })
        }
    }
}

fn org_of(row: &Row<'_>) -> Done<OrgId> {
    Ok(At::new("usage", &"the organisation of a row").id(row, "org")?)
}

/// Writes the rows of an attempt, unless they are there.
fn insert(conn: &Connection, org: &OrgId, row: &UsageRow) -> Done<()> {
    let UsageRow { caller: origin, fact } = row;
    let caller = origin.caller();
    let graph = origin.run();
    let sql = "INSERT INTO model_calls (org, invocation, request, trace, run, graph, graph_version,
                   agent, account, key, provider, model, attempt, status, code, input_tokens,
                   output_tokens, cached_tokens, cache_written_tokens, reasoning_tokens, estimated,
                   provider_call_id, provider_cost, price, saved, prompt_hash, started_at,
                   latency_ms, first_token_ms)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
                   ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)
               ON CONFLICT (org, invocation) DO NOTHING";
    let values = params![
        org.as_str(),
        fact.invocation_id.as_str(),
        caller.request.as_str(),
        caller.trace.as_str(),
        graph.map(|graph| graph.run.as_str()),
        graph.map(|graph| &graph.graph),
        graph.map(|graph| &graph.graph_version),
        graph.map(|graph| agent_of(&graph.graph)),
        caller.billing_account.as_str(),
        caller.virtual_key.as_str(),
        fact.provider,
        fact.model,
        fact.attempt,
        row::word(&fact.status)?,
        fact.error_code,
        row::int(fact.tokens.input),
        row::int(fact.tokens.output),
        row::int(fact.tokens.cached),
        row::int(fact.tokens.cache_written),
        row::int(fact.tokens.reasoning),
        fact.tokens.estimated,
        fact.provider_call_id,
        fact.provider_cost_micro_usd.map(row::int),
        fact.price_micro_usd().map(row::int),
        fact.saved_micro_usd.map(row::int),
        fact.prompt_hash.0,
        fact.started_at.0,
        row::int(fact.latency_ms),
        fact.first_token_ms.map(row::int),
    ];
    row::execute(conn, sql, values)?;
    Receipt::of(row).map_or(Ok(()), |receipt| insert_receipt(conn, org, &receipt))
}

fn insert_receipt(conn: &Connection, org: &OrgId, receipt: &Receipt) -> Done<()> {
    let sql =
        "INSERT INTO receipts (org, source, subject, attempt, unit, amount, cost, account, key,
                   request, at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
               ON CONFLICT (org, source, subject, attempt, unit) DO NOTHING";
    let values = params![
        org.as_str(),
        row::word(&receipt.source)?,
        receipt.subject,
        receipt.attempt,
        row::word(&receipt.unit)?,
        row::int(receipt.amount),
        receipt.cost_micro_usd.map(row::int),
        receipt.account.as_str(),
        receipt.key.as_str(),
        receipt.request.as_str(),
        receipt.at.0,
    ];
    row::execute(conn, sql, values).map(drop)
}

pub(crate) fn read(row: &Row<'_>) -> Done<UsageRow> {
    Ok(columns::read_model_call(row)?)
}

pub(crate) fn read_receipt(row: &Row<'_>) -> Done<Receipt> {
    Ok(columns::read_receipt(row)?)
}
