//! Reports of usage: the sums of the bill by account, key, agent, version, model and day.

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use weftwork_store::{Period, Store, UsageGroup, UsageSum, move_all_usage};
use weftwork_types::usage::dollars;
use weftwork_types::{Principal, RunId, Timestamp};

/// A property by which a report divides usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UsageColumn {
    /// Account that is billed.
    Account,
    /// Virtual key.
    Key,
    /// Agent, which its versions share. Calls outside of runs have none.
    Agent,
    /// Version of the graph. Calls outside of runs have none.
    Version,
    /// Model, as `provider:name`.
    Model,
    /// Day in the time zone of the report.
    Day,
}

impl UsageColumn {
    /// All properties.
    pub const ALL: [Self; 6] =
        [Self::Account, Self::Key, Self::Agent, Self::Version, Self::Model, Self::Day];

    /// Returns the heading of a column with the values.
    #[must_use]
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Account => "ACCOUNT",
            Self::Key => "KEY",
            Self::Agent => "AGENT",
            Self::Version => "VERSION",
            Self::Model => "MODEL",
            Self::Day => "DAY",
        }
    }

    /// Returns the name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Key => "key",
            Self::Agent => "agent",
            Self::Version => "version",
            Self::Model => "model",
            Self::Day => "day",
        }
    }
}

impl fmt::Display for UsageColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for UsageColumn {
    type Err = UsageQueryError;

    fn from_str(text: &str) -> Result<Self, UsageQueryError> {
        let found = Self::ALL.into_iter().find(|column| column.as_str() == text);
        found.ok_or_else(|| UsageQueryError::new("by", text, NAMES))
    }
}

const NAMES: &str = "account, key, agent, version, model or day";

/// Error of a query for a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageQueryError {
    parameter: &'static str,
    found: String,
    expected: &'static str,
}

impl UsageQueryError {
    fn new(parameter: &'static str, found: &str, expected: &'static str) -> Self {
        Self { parameter, found: found.chars().take(80).collect(), expected }
    }
}

impl fmt::Display for UsageQueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { parameter, found, expected } = self;
        write!(f, "`{parameter}` is {found:?}; expected {expected}")
    }
}

impl std::error::Error for UsageQueryError {}

/// A query for a report of usage.
#[derive(Debug, Clone)]
pub struct UsageQuery {
    by: Vec<UsageColumn>,
    zone: TimeZone,
    period: Period,
}

impl UsageQuery {
    /// Creates a query for all usage, by some properties in their order, with days in a time zone of
    /// the IANA database, such as `Europe/Berlin`. Times of attempts are those of their start.
    ///
    /// # Errors
    /// The zone is unknown.
    pub fn new(by: Vec<UsageColumn>, zone: &str) -> Result<Self, UsageQueryError> {
        let expected = "the name of a time zone, such as `Europe/Berlin` or `UTC`";
        let found = TimeZone::get(zone);
        let zone = found.map_err(|_| UsageQueryError::new("zone", zone, expected))?;
        Ok(Self { by, zone, period: Period::ALL })
    }

    /// Limits the report to the days from a first one, as `YYYY-MM-DD`.
    ///
    /// # Errors
    /// The text is no day, or the last day is before it.
    pub fn from(mut self, day: &str) -> Result<Self, UsageQueryError> {
        self.period.from = self.start_of(read_day("from", day)?, "from", day)?;
        self.check_order("from", day, "a day that is not after `until`")
    }

    /// Limits the report to the days up to a last one, which is included.
    ///
    /// # Errors
    /// The text is no day, or the first day is after it.
    pub fn until(mut self, day: &str) -> Result<Self, UsageQueryError> {
        let next = read_day("until", day)?.tomorrow();
        let next = next.map_err(|_| UsageQueryError::new("until", day, DAY))?;
        self.period.until = self.start_of(next, "until", day)?;
        self.check_order("until", day, "a day that is not before `from`")
    }

    /// Refuses a period without a day.
    fn check_order(
        self,
        parameter: &'static str,
        day: &str,
        expected: &'static str,
    ) -> Result<Self, UsageQueryError> {
        match self.period.from < self.period.until {
            true => Ok(self),
            false => Err(UsageQueryError::new(parameter, day, expected)),
        }
    }

    fn start_of(
        &self,
        day: Date,
        parameter: &'static str,
        text: &str,
    ) -> Result<Timestamp, UsageQueryError> {
        // Where clocks skip midnight, the day begins at the first time after it.
        let start = self.zone.to_timestamp(day.at(0, 0, 0, 0));
        let start = start.map_err(|_| UsageQueryError::new(parameter, text, DAY))?;
        Ok(Timestamp(start.as_millisecond()))
    }

    fn day_of(&self, time: Timestamp) -> String {
        let time = jiff::Timestamp::from_millisecond(time.0).unwrap_or_default();
        self.zone.to_datetime(time).date().to_string()
    }

    fn value(&self, column: UsageColumn, group: &UsageGroup) -> Option<String> {
        match column {
            UsageColumn::Account => Some(group.account.to_string()),
            UsageColumn::Key => Some(group.key.to_string()),
            UsageColumn::Agent => group.agent.clone(),
            UsageColumn::Version => group.version.clone(),
            UsageColumn::Model => Some(format!("{}:{}", group.provider, group.model)),
            UsageColumn::Day => Some(self.day_of(group.quarter)),
        }
    }
}

const DAY: &str = "a day, such as `2026-03-29`";

fn read_day(parameter: &'static str, text: &str) -> Result<Date, UsageQueryError> {
    text.parse().map_err(|_| UsageQueryError::new(parameter, text, DAY))
}

/// A report of usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageReport {
    /// Properties by which usage is divided.
    pub by: Vec<UsageColumn>,
    /// Rows in the order of their values, none without attempts.
    pub rows: Vec<UsageLine>,
    /// Sum of all rows.
    pub total: UsageSum,
}

/// A row of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageLine {
    /// A value for each property of the report.
    pub values: Vec<Option<String>>,
    /// The sum.
    pub sum: UsageSum,
}

/// Reports the usage of an organisation, after all of it was moved to the bill.
///
/// # Errors
/// Only system errors.
pub async fn report_usage(
    store: &dyn Store,
    who: &Principal,
    query: &UsageQuery,
) -> weftwork_store::Result<UsageReport> {
    move_all_usage(store).await?;
    let mut rows: BTreeMap<Vec<Option<String>>, UsageSum> = BTreeMap::new();
    let mut total = UsageSum::default();
    for of in store.usage_totals(who, query.period).await? {
        let values = query.by.iter().map(|column| query.value(*column, &of.group)).collect();
        *rows.entry(values).or_default() += of.sum;
        total += of.sum;
    }
    let rows = rows.into_iter().map(|(values, sum)| UsageLine { values, sum }).collect();
    Ok(UsageReport { by: query.by.clone(), rows, total })
}

/// Usage of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunUsage {
    /// The run.
    pub run: RunId,
    /// The sum of its attempts.
    pub sum: UsageSum,
}

/// Number of runs whose attempts are read at the same time.
const READS_MAX: usize = 16;

/// Returns the usage of runs of an organisation in their order, after all usage was moved to the bill.
///
/// # Errors
/// Only system errors.
pub async fn usage_of_runs(
    store: &dyn Store,
    who: &Principal,
    runs: Vec<RunId>,
) -> weftwork_store::Result<Vec<RunUsage>> {
    move_all_usage(store).await?;
    let reads = runs.into_iter().map(|run| usage_of_run(store, who, run));
    stream::iter(reads).buffered(READS_MAX).try_collect().await
}

async fn usage_of_run(
    store: &dyn Store,
    who: &Principal,
    run: RunId,
) -> weftwork_store::Result<RunUsage> {
    let mut sum = UsageSum::default();
    for row in store.model_calls(who, run.as_str()).await? {
        sum += UsageSum::of(&row.fact);
    }
    Ok(RunUsage { run, sum })
}

/// Names and values of a sum, in their order. A cost that is not known is null, never zero.
#[must_use]
pub fn usage_members(sum: &UsageSum) -> Vec<(&'static str, Value)> {
    let cost = (sum.unpriced == 0 || sum.cost_micro_usd > 0).then_some(sum.cost_micro_usd);
    let price = (sum.prices > 0 || sum.attempts == 0).then_some(sum.price_micro_usd);
    let provider = (sum.provider_costs > 0).then_some(sum.provider_cost_micro_usd);
    vec![
        ("attempts", json!(sum.attempts)),
        ("failed", json!(sum.failed)),
        ("input_tokens", json!(sum.tokens.input)),
        ("output_tokens", json!(sum.tokens.output)),
        ("cached_tokens", json!(sum.tokens.cached)),
        ("cache_written_tokens", json!(sum.tokens.cache_written)),
        ("reasoning_tokens", json!(sum.tokens.reasoning)),
        ("estimated", json!(sum.estimated)),
        ("cost_micro_usd", json!(cost)),
        ("unpriced", json!(sum.unpriced)),
        ("price_micro_usd", json!(price)),
        ("provider_cost_micro_usd", json!(provider)),
        ("provider_costs", json!(sum.provider_costs)),
        ("retries", json!(sum.retries)),
        ("retry_cost_micro_usd", json!(sum.retry_cost_micro_usd)),
        ("saved", json!(sum.saved)),
        ("saved_micro_usd", json!(sum.saved_micro_usd)),
    ]
}

/// Returns a cost in dollars for people; an unknown one in words.
#[must_use]
pub fn cost_text(cost_micro_usd: u64, unknown: u64) -> String {
    match (cost_micro_usd, unknown) {
        (cost, 0) => dollars(cost),
        (0, _) => "unpriced".to_owned(),
        (cost, unknown) => format!("{} + {unknown} unpriced", dollars(cost)),
    }
}

impl UsageReport {
    /// Returns the report of a store without usage.
    #[must_use]
    pub fn empty(query: &UsageQuery) -> Self {
        Self { by: query.by.clone(), rows: Vec::new(), total: UsageSum::default() }
    }

    /// Returns the rows as JSON objects.
    #[must_use]
    pub fn to_json(&self) -> Vec<Value> {
        self.rows.iter().map(|line| self.line_to_json(line)).collect()
    }

    fn line_to_json(&self, line: &UsageLine) -> Value {
        let values = self.by.iter().zip(&line.values);
        let values = values.map(|(column, value)| (column.to_string(), json!(value)));
        let sums = usage_members(&line.sum).into_iter();
        let members: Map<_, _> =
            values.chain(sums.map(|(name, value)| (name.to_owned(), value))).collect();
        Value::Object(members)
    }

    /// Returns the report as CSV (RFC 4180), with a line of names. Values that are not known are empty.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let columns = self.by.iter().map(|column| column.as_str());
        let sums = usage_members(&self.total).into_iter().map(|(name, _)| name);
        let mut csv = columns.chain(sums).collect::<Vec<_>>().join(",");
        csv.push_str("\r\n");
        for UsageLine { values, sum } in &self.rows {
            let values = values.iter().map(|value| csv_field(value.as_deref().unwrap_or_default()));
            let sums = usage_members(sum).into_iter().map(|(_, value)| match value {
                Value::Null => String::new(),
                value => value.to_string(),
            });
            csv.push_str(&values.chain(sums).collect::<Vec<_>>().join(","));
            csv.push_str("\r\n");
        }
        csv
    }
}

fn csv_field(text: &str) -> String {
    // Programs that show tables take such texts as formulas.
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests;
