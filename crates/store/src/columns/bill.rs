//! Rows of the bill.

use super::{At, Columns};
use crate::bill::{Receipt, UsageGroup, UsageSum, UsageTotal};
use crate::limit::{StartCounts, StartRow, SubjectUsage};
use crate::record::UsageRow;
use crate::table::Result;
use std::sync::Arc;
use weftwork_types::Timestamp;
use weftwork_types::caller::{CallOrigin, Caller, GraphCaller};
use weftwork_types::usage::{Tokens, UsageFact};

/// Query for the sums of usage of an organisation from a time until another, for databases whose
/// parameters are `$1` to `$3`; see [`read_usage_total`]. The sums are not in order.
pub const USAGE_TOTALS: &str = "
    SELECT account, key, agent, graph_version, provider, model,
        started_at - ((started_at % 900000) + 900000) % 900000 AS quarter,
        sum(CASE WHEN attempt > 0 THEN 1 ELSE 0 END) AS attempts,
        sum(CASE WHEN attempt > 0 AND status <> 'ok' THEN 1 ELSE 0 END) AS failed,
        sum(CASE WHEN attempt > 1 THEN 1 ELSE 0 END) AS retries,
        sum(CASE WHEN attempt = 0 THEN 1 ELSE 0 END) AS saved_answers,
        CAST(sum(input_tokens) AS bigint) AS input_tokens,
        CAST(sum(output_tokens) AS bigint) AS output_tokens,
        CAST(sum(cached_tokens) AS bigint) AS cached_tokens,
        CAST(sum(cache_written_tokens) AS bigint) AS cache_written_tokens,
        CAST(sum(reasoning_tokens) AS bigint) AS reasoning_tokens,
        sum(CASE WHEN estimated THEN 1 ELSE 0 END) AS estimated_attempts,
        CAST(sum(coalesce(provider_cost, price, 0)) AS bigint) AS cost,
        sum(CASE WHEN coalesce(provider_cost, price) IS NULL AND input_tokens + output_tokens > 0
            THEN 1 ELSE 0 END) AS unpriced,
        CAST(sum(coalesce(price, 0)) AS bigint) AS price,
        sum(CASE WHEN attempt > 0 AND price IS NOT NULL THEN 1 ELSE 0 END) AS prices,
        CAST(sum(coalesce(provider_cost, 0)) AS bigint) AS provider_cost,
        count(provider_cost) AS provider_costs,
        CAST(sum(CASE WHEN attempt > 1 THEN coalesce(provider_cost, price, 0) ELSE 0 END) AS bigint)
            AS retry_cost,
        CAST(sum(coalesce(saved, 0)) AS bigint) AS saved
    FROM model_calls WHERE org = $1 AND started_at >= $2 AND started_at < $3
    GROUP BY account, key, agent, graph_version, provider, model,
        started_at - ((started_at % 900000) + 900000) % 900000";

/// Reads the usage of an account or key.
///
/// # Errors
/// [`StoreError::Corrupt`](crate::StoreError::Corrupt).
pub fn read_subject_usage<D>(row: &impl Columns<D>) -> Result<SubjectUsage> {
    let at = At::new("model_calls", &"a sum of an account or key");
    Ok(SubjectUsage { tokens: at.count(row, "tokens")?, cost_micro_usd: at.count(row, "cost")? })
}

/// Reads starts that are counted under one time.
///
/// # Errors
/// [`StoreError::Corrupt`](crate::StoreError::Corrupt).
pub fn read_start<D>(row: &impl Columns<D>) -> Result<StartRow> {
    let at = At::new("starts", &"a row");
    let counts = read_start_counts(row)?;
    Ok(StartRow { at: Timestamp(at.plain(row, "at")?), counts })
}

/// Reads numbers of starts.
///
/// # Errors
/// [`StoreError::Corrupt`](crate::StoreError::Corrupt).
pub fn read_start_counts<D>(row: &impl Columns<D>) -> Result<StartCounts> {
    let at = At::new("starts", &"a row");
    Ok(StartCounts { requests: at.count(row, "requests")?, runs: at.count(row, "runs")? })
}

/// Reads an attempt of the bill.
///
/// # Errors
/// [`StoreError::Corrupt`](crate::StoreError::Corrupt).
pub fn read_model_call<D>(row: &impl Columns<D>) -> Result<UsageRow> {
    let key = At::new("model_calls", &"a row").text(row, "invocation")?;
    let name = format!("invocation `{key}`");
    let at = At::new("model_calls", &name);
    let provider_cost_micro_usd = maybe_count(&at, row, "provider_cost")?;
    let price = maybe_count(&at, row, "price")?;
    let fact = UsageFact {
        invocation_id: at.id(row, "invocation")?,
        attempt: at.count(row, "attempt")?,
        provider: at.plain(row, "provider")?,
        model: at.plain(row, "model")?,
        status: at.word(row, "status")?,
        error_code: maybe_text(&at, row, "code")?,
        tokens: read_tokens(&at, row, at.plain(row, "estimated")?)?,
        cost_micro_usd: provider_cost_micro_usd.or(price),
        provider_cost_micro_usd,
        compared_micro_usd: provider_cost_micro_usd.and(price),
        saved_micro_usd: maybe_count(&at, row, "saved")?,
        provider_call_id: maybe_text(&at, row, "provider_call_id")?,
        prompt_hash: at.hash(row, "prompt_hash")?,
        started_at: Timestamp(at.plain(row, "started_at")?),
        latency_ms: at.count(row, "latency_ms")?,
        first_token_ms: maybe_count(&at, row, "first_token_ms")?,
    };
    Ok(UsageRow { caller: read_origin(&at, row)?, fact })
}

fn read_origin<D>(at: &At<'_, D>, row: &impl Columns<D>) -> Result<CallOrigin> {
    let caller = Caller {
        billing_account: at.id(row, "account")?,
        virtual_key: at.id(row, "key")?,
        request: at.id(row, "request")?,
        trace: at.id(row, "trace")?,
    };
    let Some(run) = at.maybe_id(row, "run")? else {
        return Ok(CallOrigin::Program(Arc::new(caller)));
    };
    let graph = at.plain(row, "graph")?;
    let graph_version = at.plain(row, "graph_version")?;
    Ok(GraphCaller { caller, run, graph, graph_version }.into())
}

fn read_tokens<D>(at: &At<'_, D>, row: &impl Columns<D>, estimated: bool) -> Result<Tokens> {
    Ok(Tokens {
        input: at.count(row, "input_tokens")?,
        output: at.count(row, "output_tokens")?,
        estimated,
        cached: at.count(row, "cached_tokens")?,
        cache_written: at.count(row, "cache_written_tokens")?,
        reasoning: at.count(row, "reasoning_tokens")?,
    })
}

/// Reads a receipt.
///
/// # Errors
/// [`StoreError::Corrupt`](crate::StoreError::Corrupt).
pub fn read_receipt<D>(row: &impl Columns<D>) -> Result<Receipt> {
    let attempt: String = At::new("receipts", &"a row").plain(row, "attempt")?;
    let name = format!("attempt `{attempt}`");
    let at = At::new("receipts", &name);
    Ok(Receipt {
        source: at.word(row, "source")?,
        subject: at.plain(row, "subject")?,
        unit: at.word(row, "unit")?,
        amount: at.count(row, "amount")?,
        cost_micro_usd: maybe_count(&at, row, "cost")?,
        account: at.id(row, "account")?,
        key: at.id(row, "key")?,
        request: at.id(row, "request")?,
        at: Timestamp(at.plain(row, "at")?),
        attempt: attempt.clone(),
    })
}

/// Reads a row of [`USAGE_TOTALS`].
///
/// # Errors
/// [`StoreError::Corrupt`](crate::StoreError::Corrupt).
pub fn read_usage_total<D>(row: &impl Columns<D>) -> Result<UsageTotal> {
    let at = At::new("model_calls", &"a sum of usage");
    let group = UsageGroup {
        account: at.id(row, "account")?,
        key: at.id(row, "key")?,
        agent: maybe_text(&at, row, "agent")?,
        version: maybe_text(&at, row, "graph_version")?,
        provider: at.plain(row, "provider")?,
        model: at.plain(row, "model")?,
        quarter: Timestamp(at.plain(row, "quarter")?),
    };
    let estimated: u64 = at.count(row, "estimated_attempts")?;
    let sum = UsageSum {
        attempts: at.count(row, "attempts")?,
        failed: at.count(row, "failed")?,
        retries: at.count(row, "retries")?,
        saved: at.count(row, "saved_answers")?,
        tokens: read_tokens(&at, row, estimated > 0)?,
        estimated,
        cost_micro_usd: at.count(row, "cost")?,
        unpriced: at.count(row, "unpriced")?,
        price_micro_usd: at.count(row, "price")?,
        prices: at.count(row, "prices")?,
        provider_cost_micro_usd: at.count(row, "provider_cost")?,
        provider_costs: at.count(row, "provider_costs")?,
        retry_cost_micro_usd: at.count(row, "retry_cost")?,
        saved_micro_usd: at.count(row, "saved")?,
    };
    Ok(UsageTotal { group, sum })
}

fn maybe_text<D>(at: &At<'_, D>, row: &impl Columns<D>, column: &str) -> Result<Option<String>> {
    at.maybe_id(row, column)
}

fn maybe_count<D>(at: &At<'_, D>, row: &impl Columns<D>, column: &str) -> Result<Option<u64>> {
    let found: Option<i64> = at.plain(row, column)?;
    let count = found.map(u64::try_from).transpose();
    count.map_err(|error| at.corrupt(format!("column `{column}`: {error}")))
}
