//! The bill, to which rows of the table `usage` are moved.

use crate::conn::{Ask, Conn, Value, ask};
use crate::error::{Done, Fail};
use crate::row::{At, int, json, text, word};
use crate::store::PostgresStore;
use crate::table::usage;
use weftwork_store::columns;
use weftwork_store::{
    BilledTo, Period, ReadBill, Receipt, Result, StoreError, UsageRow, UsageTotal, WriteBill,
    agent_of,
};
use weftwork_types::caller::Caller;
use weftwork_types::{BoxFuture, OrgId, Principal};

impl WriteBill for PostgresStore {
    fn move_usage(&self, limit: usize) -> BoxFuture<'_, Result<usize>> {
        self.run(int(limit), |conn, limit, _| Box::pin(move_facts(conn, *limit)))
    }

    fn erase_names<'a>(
        &'a self,
        who: &'a Principal,
        payer: &'a BilledTo,
    ) -> BoxFuture<'a, Result<usize>> {
        self.run((who.org.clone(), payer.clone()), |conn, (org, payer), _| {
            Box::pin(erase_names(conn, org, payer))
        })
    }
}

impl ReadBill for PostgresStore {
    fn model_calls<'a>(
        &'a self,
        who: &'a Principal,
        subject: &'a str,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        self.run((who.org.clone(), subject.to_owned()), |conn, (org, subject), _| {
            Box::pin(async move {
                let sql = "SELECT * FROM model_calls WHERE org = $1 AND run = $2
                           UNION ALL SELECT * FROM model_calls
                           WHERE org = $1 AND invocation = $2 AND run IS NULL
                           ORDER BY started_at, invocation";
                let rows = conn.rows(ask!(sql, text(org), subject.clone())).await?;
                Ok(rows.iter().map(columns::read_model_call).collect::<Result<_>>()?)
            })
        })
    }

    fn receipts<'a>(
        &'a self,
        who: &'a Principal,
        subject: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Receipt>>> {
        self.run((who.org.clone(), subject.to_owned()), |conn, (org, subject), _| {
            Box::pin(async move {
                let sql = "SELECT * FROM receipts
                           WHERE org = $1 AND source = 'model' AND subject = $2
                           ORDER BY attempt, unit";
                let rows = conn.rows(ask!(sql, text(org), subject.clone())).await?;
                Ok(rows.iter().map(columns::read_receipt).collect::<Result<_>>()?)
            })
        })
    }

    fn usage_totals<'a>(
        &'a self,
        who: &'a Principal,
        period: Period,
    ) -> BoxFuture<'a, Result<Vec<UsageTotal>>> {
        self.run((who.org.clone(), period), |conn, (org, period), _| {
            Box::pin(async move {
                let asked = ask!(columns::USAGE_TOTALS, text(org), period.from.0, period.until.0);
                let rows = conn.rows(asked).await?;
                let totals = rows.iter().map(columns::read_usage_total);
                let mut totals: Vec<_> = totals.collect::<Result<_>>()?;
                totals.sort_by(|a, b| a.group.cmp(&b.group));
                Ok(totals)
            })
        })
    }
}

async fn erase_names(conn: &mut Conn, org: &OrgId, payer: &BilledTo) -> Done<usize> {
    let sql = "SELECT invocation, caller, fact FROM usage
               WHERE org = $1 AND strpos(caller, $2) > 0 FOR UPDATE";
    let id = || payer.id().to_owned();
    let kept = conn.begin(vec![ask!(sql, text(org), id())]).await?;
    let mut asks = Vec::new();
    for row in kept.last().into_iter().flatten() {
        let fact = usage::read(row)?;
        if payer.has(fact.caller.caller()) {
            let sql = "UPDATE usage SET caller = $3 WHERE org = $1 AND invocation = $2";
            let invocation = text(&fact.fact.invocation_id);
            asks.push(ask!(sql, text(org), invocation, json(&fact.caller.erased())?));
        }
    }
    let starts = "DELETE FROM starts WHERE kind = $1 AND id = $2";
    asks.push(ask!(starts, payer.kind().to_owned(), id()));
    let nobody = Caller::erased();
    let (receipts, calls) = match payer {
        BilledTo::Account(_) => (RECEIPTS_OF_ACCOUNT, CALLS_OF_ACCOUNT),
        BilledTo::Key(_) => (RECEIPTS_OF_KEY, CALLS_OF_KEY),
    };
    for sql in [receipts, calls] {
        let account = text(&nobody.billing_account);
        asks.push(ask!(
            sql,
            text(org),
            id(),
            account,
            text(&nobody.virtual_key),
            text(&nobody.request)
        ));
    }
    let done = conn.commit(asks).await?;
    Ok(done.last().map_or(0, Vec::len))
}

const RECEIPTS_OF_ACCOUNT: &str =
    "UPDATE receipts SET account = $3, key = $4, request = $5 WHERE org = $1 AND account = $2";
const RECEIPTS_OF_KEY: &str =
    "UPDATE receipts SET account = $3, key = $4, request = $5 WHERE org = $1 AND key = $2";
const CALLS_OF_ACCOUNT: &str = "UPDATE model_calls
    SET account = $3, key = $4, request = $5, trace = $5
    WHERE org = $1 AND account = $2 RETURNING 1";
const CALLS_OF_KEY: &str = "UPDATE model_calls
    SET account = $3, key = $4, request = $5, trace = $5
    WHERE org = $1 AND key = $2 RETURNING 1";

/// Moves facts. One transaction moves at a time: a process that waits sees what another one moved.
async fn move_facts(conn: &mut Conn, limit: i64) -> Done<usize> {
    // An empty queue is the usual case, and takes no lock.
    let waits = "SELECT 1 FROM usage WHERE NOT moved LIMIT 1";
    if conn.rows(ask!(waits)).await?.is_empty() {
        return Ok(0);
    }
    let alone = ask!("SELECT pg_advisory_xact_lock(lock_of('', 'bill'))");
    let next = "SELECT org, invocation, caller, fact FROM usage WHERE NOT moved
                ORDER BY started_at, org, invocation LIMIT $1";
    let found = conn.begin(vec![alone, ask!(next, limit)]).await?;
    let mut asks = Vec::new();
    let mut moved = 0;
    for row in found.last().into_iter().flatten() {
        let fact = match usage::read(row) {
            // A damaged row stays where it is.
            Err(Fail::Store(StoreError::Corrupt { .. })) => continue,
            fact => fact?,
        };
        let org: OrgId = At::new("usage", &fact.fact.invocation_id).id(row, "org")?;
        asks.extend(insert(&org, &fact)?);
        let done = "UPDATE usage SET moved = true WHERE org = $1 AND invocation = $2";
        asks.push(ask!(done, text(&org), text(&fact.fact.invocation_id)));
        moved += 1;
    }
    conn.commit(asks).await?;
    Ok(moved)
}

/// Writes the rows of an attempt, unless they are there.
fn insert(org: &OrgId, row: &UsageRow) -> Result<Vec<Ask>> {
    let sql = "INSERT INTO model_calls (org, invocation, request, trace, run, graph, graph_version,
                   agent, account, key, provider, model, attempt, status, code, input_tokens,
                   output_tokens, cached_tokens, cache_written_tokens, reasoning_tokens, estimated,
                   provider_call_id, provider_cost, price, saved, prompt_hash, started_at,
                   latency_ms, first_token_ms)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
                   $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29)
               ON CONFLICT (org, invocation) DO NOTHING";
    let mut asks = vec![Ask::new(sql, values(org, row)?)];
    if let Some(receipt) = Receipt::of(row) {
        asks.push(insert_receipt(org, receipt)?);
    }
    Ok(asks)
}

fn values(org: &OrgId, row: &UsageRow) -> Result<Vec<Value>> {
    let UsageRow { caller: origin, fact } = row;
    let caller = origin.caller();
    let graph = origin.run();
    let values: [Value; 29] = [
        Box::new(text(org)),
        Box::new(text(&fact.invocation_id)),
        Box::new(text(&caller.request)),
        Box::new(text(&caller.trace)),
        Box::new(graph.map(|graph| text(&graph.run))),
        Box::new(graph.map(|graph| graph.graph.clone())),
        Box::new(graph.map(|graph| graph.graph_version.clone())),
        Box::new(graph.map(|graph| agent_of(&graph.graph).to_owned())),
        Box::new(text(&caller.billing_account)),
        Box::new(text(&caller.virtual_key)),
        Box::new(fact.provider.clone()),
        Box::new(storable(&fact.model)),
        Box::new(i64::from(fact.attempt)),
        Box::new(word(&fact.status)?),
        Box::new(fact.error_code.clone()),
        Box::new(int(fact.tokens.input)),
        Box::new(int(fact.tokens.output)),
        Box::new(int(fact.tokens.cached)),
        Box::new(int(fact.tokens.cache_written)),
        Box::new(int(fact.tokens.reasoning)),
        Box::new(fact.tokens.estimated),
        Box::new(fact.provider_call_id.as_deref().map(storable)),
        Box::new(fact.provider_cost_micro_usd.map(int)),
        Box::new(fact.price_micro_usd().map(int)),
        Box::new(fact.saved_micro_usd.map(int)),
        Box::new(fact.prompt_hash.0.to_vec()),
        Box::new(fact.started_at.0),
        Box::new(int(fact.latency_ms)),
        Box::new(fact.first_token_ms.map(int)),
    ];
    Ok(values.into())
}

/// Returns a text of a provider without NUL characters, which Postgres does not store.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn insert_receipt(org: &OrgId, receipt: Receipt) -> Result<Ask> {
    let sql =
        "INSERT INTO receipts (org, source, subject, attempt, unit, amount, cost, account, key,
                   request, at)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
               ON CONFLICT (org, source, subject, attempt, unit) DO NOTHING";
    Ok(ask!(
        sql,
        text(org),
        word(&receipt.source)?,
        receipt.subject,
        receipt.attempt,
        word(&receipt.unit)?,
        int(receipt.amount),
        receipt.cost_micro_usd.map(int),
        text(&receipt.account),
        text(&receipt.key),
        text(&receipt.request),
        receipt.at.0,
    ))
}
