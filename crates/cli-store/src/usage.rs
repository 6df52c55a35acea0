//! `weft usage`: usage and cost of model calls.

use crate::args::Usage;
use weftwork::graph::SystemClock;
use weftwork::runtime::limits::{LimitLine, report_all_limits};
use weftwork::runtime::usage_report::{
    UsageColumn, UsageQuery, UsageQueryError, UsageReport, cost_text, report_usage,
};
use weftwork::store::UsageSum;
use weftwork::types::port::Clock as _;
use weftwork::types::usage::dollars;
use weftwork::types::{OrgId, Principal};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::Table;

pub async fn usage(args: Usage, context: &CommandContext) -> Result<Exit, CliError> {
    let terminal = &context.terminal;
    let Usage { by, zone, from, until, limits, csv, json, org } = args;
    let who = &operator_of(org.as_ref());
    if limits {
        return show_limits(who, json, context).await;
    }
    let query = query_of(by, &zone, from.as_deref(), until.as_deref());
    let query = query.map_err(|error| CliError::BadInput { reason: error.to_string() })?;
    let report = if context.is_new() {
        UsageReport::empty(&query)
    } else {
        let store = context.store_there()?;
        report_usage(store.as_ref(), who, &query).await?
    };
    if csv {
        report.to_csv().lines().try_for_each(|line| terminal.line(line))?;
    } else if json {
        report.to_json().iter().try_for_each(|line| terminal.line(line))?;
    } else if report.rows.is_empty() {
        terminal.note("no usage");
    } else {
        table_of(&report).write(terminal)?;
    }
    Ok(Exit::Done)
}

/// Returns the principal of an operator in an organisation, or in that of this machine.
pub(crate) fn operator_of(org: Option<&OrgId>) -> Principal {
    let local = Principal::local();
    Principal { org: org.cloned().unwrap_or_else(|| local.org.clone()), ..local }
}

/// Prints the limits of the accounts and keys that the configuration names, and of those with usage in
/// this month.
async fn show_limits(
    who: &Principal,
    json: bool,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let terminal = &context.terminal;
    let limits = &context.config.limits;
    if limits.is_empty() || context.is_new() {
        terminal.note(if limits.is_empty() { "no limits" } else { "no usage" });
        return Ok(Exit::Done);
    }
    let store = context.store_there()?;
    let now = SystemClock::new().now();
    let lines = report_all_limits(store.as_ref(), who, limits, now).await?;
    let mut table = Table::new(&["OF", "LIMIT", "USED", "MAX", "UNTIL"]);
    for line in lines {
        if json {
            terminal.line(line.to_json())?;
            continue;
        }
        let LimitLine { subject, name, used, limit, until } = line;
        let of = format!("{} {}", subject.kind(), subject.id());
        table.row([of, name, used, limit, until]);
    }
    if !json {
        table.write(terminal)?;
    }
    Ok(Exit::Done)
}

fn query_of(
    by: Vec<UsageColumn>,
    zone: &str,
    from: Option<&str>,
    until: Option<&str>,
) -> Result<UsageQuery, UsageQueryError> {
    let mut query = UsageQuery::new(by, zone)?;
    if let Some(day) = from {
        query = query.from(day)?;
    }
    if let Some(day) = until {
        query = query.until(day)?;
    }
    Ok(query)
}

fn table_of(report: &UsageReport) -> Table {
    let sums = [
        "ATTEMPTS",
        "FAILED",
        "INPUT",
        "OUTPUT",
        "COST $",
        "PROVIDER $",
        "PRICE $",
        "RETRIES $",
        "SAVED $",
    ];
    let head = report.by.iter().map(|column| column.heading()).chain(sums);
    let mut table = Table::new(&head.collect::<Vec<_>>());
    for line in &report.rows {
        let values =
            line.values.iter().map(|value| value.clone().unwrap_or_else(|| "-".to_owned()));
        table.row(values.chain(cells_of(&line.sum)));
    }
    if report.rows.len() > 1 {
        let total = report.by.iter().enumerate();
        let total = total.map(|(n, _)| if n == 0 { "total".to_owned() } else { String::new() });
        table.row(total.chain(cells_of(&report.total)));
    }
    table
}

fn cells_of(sum: &UsageSum) -> [String; 9] {
    let provider = match sum.provider_costs {
        0 => "-".to_owned(),
        _ => dollars(sum.provider_cost_micro_usd),
    };
    let price = match sum.prices {
        0 => "unpriced".to_owned(),
        _ => dollars(sum.price_micro_usd),
    };
    [
        sum.attempts.to_string(),
        sum.failed.to_string(),
        sum.tokens.input.to_string(),
        sum.tokens.output.to_string(),
        cost_text(sum.cost_micro_usd, sum.unpriced),
        provider,
        price,
        dollars(sum.retry_cost_micro_usd),
        dollars(sum.saved_micro_usd),
    ]
}
