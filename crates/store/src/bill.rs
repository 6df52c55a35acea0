//! The bill: one row for each attempt of a model call, and one receipt for each attempt that is paid.
//!
//! Facts of usage are stored with the commits of their runs, or on their own. One writer moves them
//! from there to the tables `model_calls` and `receipts`, in order and once.

use crate::record::UsageRow;
use crate::table::Result;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::AddAssign;
use std::str::FromStr;
use weftwork_types::caller::Caller;
use weftwork_types::id::InvalidId;
use weftwork_types::usage::{Tokens, UsageFact, UsageStatus};
use weftwork_types::{BillingAccountId, BoxFuture, Principal, RequestId, Timestamp, VirtualKeyId};

/// Length of the interval by which sums of usage are divided, in milliseconds. Days of all time
/// zones begin at a multiple of it.
pub const QUARTER_MS: i64 = 15 * 60 * 1_000;

/// Writes the bill. The only writer of its tables.
pub trait WriteBill: Send + Sync {
    /// Moves at most `limit` facts of any organisation that are not yet moved, the oldest first, in
    /// one transaction. Returns the number of facts that were moved, or were there already; zero if
    /// none is left. A fact that is moved again changes nothing. A damaged fact stays where it is.
    ///
    /// # Errors
    /// Only system errors.
    fn move_usage(&self, limit: usize) -> BoxFuture<'_, Result<usize>>;

    /// Writes [`Caller::erased`] into all moved facts of an account or key of the organisation, and
    /// returns their number. Amounts stay; its limits begin anew. Facts that are not yet moved, and runs of threads that are
    /// not deleted, keep their names.
    ///
    /// # Errors
    /// Only system errors.
    fn erase_names<'a>(
        &'a self,
        who: &'a Principal,
        payer: &'a BilledTo,
    ) -> BoxFuture<'a, Result<usize>>;
}

/// The account or the key that usage is billed to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum BilledTo {
    /// All keys of an account.
    Account(BillingAccountId),
    /// A virtual key.
    Key(VirtualKeyId),
}

impl BilledTo {
    /// Returns `true` if calls of a caller are billed to it.
    #[must_use]
    pub fn has(&self, caller: &Caller) -> bool {
        match self {
            Self::Account(account) => *account == caller.billing_account,
            Self::Key(key) => *key == caller.virtual_key,
        }
    }

    /// Returns `account` or `key`, which is the column of the bill that names it, too.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Account(_) => "account",
            Self::Key(_) => "key",
        }
    }

    /// Returns its id.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Account(account) => account.as_str(),
            Self::Key(key) => key.as_str(),
        }
    }
}

impl fmt::Display for BilledTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind(), self.id())
    }
}

/// Text that names no account or key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBilledTo {
    /// It does not begin with the kind.
    #[error("expected `account:ID` or `key:ID`, found `{0}`")]
    Kind(String),
    /// The id is not valid.
    #[error(transparent)]
    Id(#[from] InvalidId),
}

/// Parses `account:ID` and `key:ID`.
impl FromStr for BilledTo {
    type Err = InvalidBilledTo;

    fn from_str(text: &str) -> std::result::Result<Self, InvalidBilledTo> {
        match text.split_once(':') {
            Some(("account", id)) => Ok(Self::Account(id.parse()?)),
            Some(("key", id)) => Ok(Self::Key(id.parse()?)),
            _ => Err(InvalidBilledTo::Kind(text.to_owned())),
        }
    }
}

/// Moves all facts, and then erases the names of an account or key; see
/// [`WriteBill::erase_names`]. Returns the number of attempts.
///
/// # Errors
/// Only system errors.
pub async fn erase_names(
    store: &(impl WriteBill + ?Sized),
    who: &Principal,
    payer: &BilledTo,
) -> Result<usize> {
    move_all_usage(store).await?;
    store.erase_names(who, payer).await
}

/// Reads the bill.
pub trait ReadBill: Send + Sync {
    /// Returns the moved attempts of a subject, which is a run, or the invocation of a call outside of
    /// runs, ordered by start time, then by invocation.
    ///
    /// # Errors
    /// Only system errors.
    fn model_calls<'a>(
        &'a self,
        who: &'a Principal,
        subject: &'a str,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>>;

    /// Returns the receipts of a subject, ordered by attempt.
    ///
    /// # Errors
    /// Only system errors.
    fn receipts<'a>(
        &'a self,
        who: &'a Principal,
        subject: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Receipt>>>;

    /// Returns the sums of the moved attempts that started in a period, by group, in the order of the
    /// groups.
    ///
    /// # Errors
    /// Only system errors.
    fn usage_totals<'a>(
        &'a self,
        who: &'a Principal,
        period: Period,
    ) -> BoxFuture<'a, Result<Vec<UsageTotal>>>;
}

/// Moves all facts that are not yet moved, in several transactions, and returns their number.
///
/// # Errors
/// Only system errors. Facts that were moved up to then stay moved.
pub async fn move_all_usage(store: &(impl WriteBill + ?Sized)) -> Result<usize> {
    let mut moved = 0;
    loop {
        match store.move_usage(MOVED_AT_ONCE).await? {
            0 => return Ok(moved),
            some => moved += some,
        }
    }
}

/// Number of facts that are moved in one transaction.
pub const MOVED_AT_ONCE: usize = 256;

/// A half-open interval of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// First time of the period.
    pub from: Timestamp,
    /// First time after the period.
    pub until: Timestamp,
}

impl Period {
    /// The period of all times.
    pub const ALL: Self = Self { from: Timestamp(i64::MIN), until: Timestamp(i64::MAX) };

    /// Returns `true` if the period has a time.
    #[must_use]
    pub fn has(&self, time: Timestamp) -> bool {
        self.from <= time && time < self.until
    }
}

/// The part of the system that used something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptSource {
    /// A model.
    Model,
}

/// The unit of the amount of a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptUnit {
    /// Input and output tokens.
    Tokens,
}

/// A receipt for a unit that an attempt used. Unique by source, subject, attempt and unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The part of the system that used the unit.
    pub source: ReceiptSource,
    /// The run, or the invocation of a call outside of runs.
    pub subject: String,
    /// The invocation.
    pub attempt: String,
    /// The unit.
    pub unit: ReceiptUnit,
    /// Number of units.
    pub amount: u64,
    /// Cost in millionths of a US dollar; `None` if the price is unknown.
    pub cost_micro_usd: Option<u64>,
    /// Account that is billed.
    pub account: BillingAccountId,
    /// Virtual key of the call.
    pub key: VirtualKeyId,
    /// Request that the call belongs to.
    pub request: RequestId,
    /// Start of the attempt.
    pub at: Timestamp,
}

impl Receipt {
    /// Returns the receipt of an attempt; `None` if it used nothing that is paid for.
    #[must_use]
    pub fn of(row: &UsageRow) -> Option<Self> {
        let UsageRow { caller, fact } = row;
        let attempt = fact.invocation_id.to_string();
        let caller = caller.caller();
        fact.is_paid().then(|| Self {
            source: ReceiptSource::Model,
            subject: row.subject().to_owned(),
            attempt,
            unit: ReceiptUnit::Tokens,
            amount: fact.tokens.total(),
            cost_micro_usd: fact.cost_micro_usd,
            account: caller.billing_account.clone(),
            key: caller.virtual_key.clone(),
            request: caller.request.clone(),
            at: fact.started_at,
        })
    }
}

/// Returns the agent of a graph, which its versions share: the part of the id before `@`.
#[must_use]
pub fn agent_of(graph: &str) -> &str {
    graph.split_once('@').map_or(graph, |(agent, _)| agent)
}

/// The attempts that one sum of usage has in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsageGroup {
    /// Account that is billed.
    pub account: BillingAccountId,
    /// Virtual key.
    pub key: VirtualKeyId,
    /// Agent; `None` outside of runs.
    pub agent: Option<String>,
    /// Version of the graph; `None` outside of runs.
    pub version: Option<String>,
    /// Provider.
    pub provider: String,
    /// Model name on the wire.
    pub model: String,
    /// Beginning of the interval of [`QUARTER_MS`] in which the attempts started.
    pub quarter: Timestamp,
}

impl UsageGroup {
    /// Returns the group of an attempt.
    #[must_use]
    pub fn of(row: &UsageRow) -> Self {
        let caller = row.caller.caller();
        let graph = row.caller.run();
        let quarter = row.fact.started_at.0.div_euclid(QUARTER_MS) * QUARTER_MS;
        Self {
            account: caller.billing_account.clone(),
            key: caller.virtual_key.clone(),
            agent: graph.map(|graph| agent_of(&graph.graph).to_owned()),
            version: graph.map(|graph| graph.graph_version.clone()),
            provider: row.fact.provider.clone(),
            model: row.fact.model.clone(),
            quarter: Timestamp(quarter),
        }
    }
}

/// A sum of usage of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageTotal {
    /// The group.
    pub group: UsageGroup,
    /// The sum.
    pub sum: UsageSum,
}

/// Sums of attempts. Costs are in millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageSum {
    /// Number of attempts.
    pub attempts: u64,
    /// Number of attempts without an answer.
    pub failed: u64,
    /// Number of attempts after the first of their call.
    pub retries: u64,
    /// Number of answers that were given without an attempt, from the response cache or the journal.
    pub saved: u64,
    /// Tokens.
    pub tokens: Tokens,
    /// Number of attempts whose tokens are estimated.
    pub estimated: u64,
    /// Cost: that of the provider, or else that of the price table. Without unpriced attempts.
    pub cost_micro_usd: u64,
    /// Number of attempts that used something whose cost is unknown.
    pub unpriced: u64,
    /// Cost by the price table, without attempts whose price is unknown.
    pub price_micro_usd: u64,
    /// Number of attempts whose price is known.
    pub prices: u64,
    /// Cost that providers stated, without attempts for which they stated none.
    pub provider_cost_micro_usd: u64,
    /// Number of attempts for which the provider stated a cost.
    pub provider_costs: u64,
    /// Cost of the retries.
    pub retry_cost_micro_usd: u64,
    /// Cost of the answers that were given without an attempt, without those whose cost is unknown.
    pub saved_micro_usd: u64,
}

impl UsageSum {
    /// Returns the sum of one attempt.
    #[must_use]
    pub fn of(fact: &UsageFact) -> Self {
        let is_attempt = fact.attempt > 0;
        let is_retry = fact.attempt > 1;
        let cost = fact.cost_micro_usd.unwrap_or_default();
        Self {
            attempts: is_attempt.into(),
            failed: (is_attempt && fact.status != UsageStatus::Ok).into(),
            retries: is_retry.into(),
            saved: (!is_attempt).into(),
            tokens: fact.tokens,
            estimated: (is_attempt && fact.tokens.estimated).into(),
            cost_micro_usd: cost,
            unpriced: (fact.is_paid() && fact.cost_micro_usd.is_none()).into(),
            price_micro_usd: fact.price_micro_usd().unwrap_or_default(),
            prices: (is_attempt && fact.price_micro_usd().is_some()).into(),
            provider_cost_micro_usd: fact.provider_cost_micro_usd.unwrap_or_default(),
            provider_costs: fact.provider_cost_micro_usd.is_some().into(),
            retry_cost_micro_usd: if is_retry { cost } else { 0 },
            saved_micro_usd: fact.saved_micro_usd.unwrap_or_default(),
        }
    }
}

impl AddAssign for UsageSum {
    fn add_assign(&mut self, other: Self) {
        self.attempts += other.attempts;
        self.failed += other.failed;
        self.retries += other.retries;
        self.saved += other.saved;
        self.tokens = self.tokens + other.tokens;
        self.estimated += other.estimated;
        self.cost_micro_usd += other.cost_micro_usd;
        self.unpriced += other.unpriced;
        self.price_micro_usd += other.price_micro_usd;
        self.prices += other.prices;
        self.provider_cost_micro_usd += other.provider_cost_micro_usd;
        self.provider_costs += other.provider_costs;
        self.retry_cost_micro_usd += other.retry_cost_micro_usd;
        self.saved_micro_usd += other.saved_micro_usd;
    }
}
