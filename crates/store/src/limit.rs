//! Amounts that limits of accounts and keys are compared with: the usage of their model calls, from
//! the bill, and the requests and runs that they started.

use crate::bill::{BilledTo, QUARTER_MS};
use crate::table::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::AddAssign;
use weftwork_types::{BoxFuture, InvocationId, Principal, Timestamp};

/// Length of the window [`LimitWindow::Minute`] in milliseconds.
pub const MINUTE_MS: i64 = 60_000;

/// Time for which starts are stored that only windows of days and months count, in milliseconds.
const STARTS_KEPT_MS: i64 = 32 * 24 * 60 * 60 * 1_000;

/// Reads and counts what limits are compared with, over all organisations of the store.
pub trait LimitTable: Send + Sync {
    /// Returns the usage of the moved attempts of an account or key that started at a time or later,
    /// without the attempts in `except`.
    ///
    /// # Errors
    /// Only system errors.
    fn subject_usage<'a>(
        &'a self,
        subject: &'a BilledTo,
        from: Timestamp,
        except: &'a [InvocationId],
    ) -> BoxFuture<'a, Result<SubjectUsage>>;

    /// Returns those of some attempts that are in the bill, in any order.
    ///
    /// # Errors
    /// Only system errors.
    fn billed<'a>(
        &'a self,
        who: &'a Principal,
        attempts: &'a [InvocationId],
    ) -> BoxFuture<'a, Result<Vec<InvocationId>>>;

    /// Counts a start if it passes no limit, in one transaction with the comparison: starts that are
    /// counted at the same time never pass a limit together. Returns the first limit that it would
    /// pass; then nothing is counted.
    ///
    /// # Errors
    /// Only system errors.
    fn count_start<'a>(
        &'a self,
        start: &'a NewStart,
    ) -> BoxFuture<'a, Result<Option<StartRefusal>>>;

    /// Returns the starts of an account or key that a window has, from its first time.
    ///
    /// # Errors
    /// Only system errors.
    fn starts<'a>(
        &'a self,
        subject: &'a BilledTo,
        window: LimitWindow,
        from: Timestamp,
    ) -> BoxFuture<'a, Result<StartCounts>>;
}

/// The time over which a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitWindow {
    /// The last 60 seconds.
    Minute,
    /// A calendar day.
    Day,
    /// A calendar month.
    Month,
}

impl LimitWindow {
    /// Returns the precision of the counts of starts in the window.
    #[must_use]
    pub fn span(self) -> StartSpan {
        match self {
            Self::Minute => StartSpan::Moment,
            Self::Day | Self::Month => StartSpan::Quarter,
        }
    }
}

/// Usage of the model calls of an account or key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubjectUsage {
    /// Input and output tokens.
    pub tokens: u64,
    /// Cost in millionths of a US dollar, without attempts whose cost is unknown.
    pub cost_micro_usd: u64,
}

impl AddAssign for SubjectUsage {
    fn add_assign(&mut self, other: Self) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(other.cost_micro_usd);
    }
}

/// Numbers of requests that start work, and of the runs among it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StartCounts {
    /// Requests.
    pub requests: u64,
    /// Runs.
    pub runs: u64,
}

impl AddAssign for StartCounts {
    fn add_assign(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.runs = self.runs.saturating_add(other.runs);
    }
}

/// The precision of the time of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartSpan {
    /// The time itself. Counts are stored for a minute.
    Moment,
    /// The interval of [`QUARTER_MS`], at which the days of all time zones begin. Counts are stored
    /// for longer than a month.
    Quarter,
}

impl StartSpan {
    /// Returns the time under which a start is counted.
    #[must_use]
    pub fn begin_of(self, at: Timestamp) -> Timestamp {
        match self {
            Self::Moment => at,
            Self::Quarter => Timestamp(at.0.div_euclid(QUARTER_MS) * QUARTER_MS),
        }
    }

    /// Returns the oldest time that is stored.
    #[must_use]
    pub fn oldest(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Moment => Timestamp(now.0.saturating_sub(MINUTE_MS)),
            Self::Quarter => Timestamp(now.0.saturating_sub(STARTS_KEPT_MS)),
        }
    }
}

/// The unit of a limit of starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StartUnit {
    /// Requests that start work.
    Requests,
    /// Runs.
    Runs,
}

impl StartUnit {
    /// Returns the number of units.
    #[must_use]
    pub fn of(self, counts: StartCounts) -> u64 {
        match self {
            Self::Requests => counts.requests,
            Self::Runs => counts.runs,
        }
    }
}

/// A limit to which a start is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartCheck {
    /// The account or key.
    pub subject: BilledTo,
    /// The unit.
    pub unit: StartUnit,
    /// The window.
    pub window: LimitWindow,
    /// First time of the window.
    pub from: Timestamp,
    /// Maximum number of units in the window.
    pub limit: u64,
}

/// Work that a request starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewStart {
    /// Time of the request.
    pub at: Timestamp,
    /// The request, and its runs.
    pub counts: StartCounts,
    /// The limits. The start is counted for the accounts and keys that they have.
    pub checks: Vec<StartCheck>,
}

/// The place where starts are counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartPlace {
    /// The account or key.
    pub subject: BilledTo,
    /// The precision of times.
    pub span: StartSpan,
}

/// Starts that are counted under one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRow {
    /// The time.
    pub at: Timestamp,
    /// The numbers.
    pub counts: StartCounts,
}

/// A limit that a start would pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartRefusal {
    /// The limit.
    pub check: StartCheck,
    /// Number of units that the window has.
    pub used: u64,
    /// Time at which enough has left the window [`LimitWindow::Minute`]; `None` for other windows,
    /// and for a start that alone passes the limit.
    pub free_at: Option<Timestamp>,
}

impl StartCheck {
    /// Returns the place whose counts the limit has.
    #[must_use]
    pub fn position(&self) -> StartPlace {
        StartPlace { subject: self.subject.clone(), span: self.window.span() }
    }

    /// Compares a start with the rows of the window, which are in the order of their times.
    #[must_use]
    pub fn compare(&self, rows: &[StartRow], new: StartCounts) -> Option<StartRefusal> {
        let needed = self.unit.of(new);
        let amount = |row: &StartRow| self.unit.of(row.counts);
        let used = rows.iter().map(amount).fold(0, u64::saturating_add);
        let fits = |used: u64| used.saturating_add(needed) <= self.limit;
        if needed == 0 || fits(used) {
            return None;
        }
        let mut left = used;
        let mut leaving = rows.iter().filter(|_| self.window == LimitWindow::Minute);
        let last = leaving.find(|row| {
            left = left.saturating_sub(amount(row));
            fits(left)
        });
        let free_at = last.map(|row| Timestamp(row.at.0.saturating_add(MINUTE_MS)));
        Some(StartRefusal { check: self.clone(), used, free_at })
    }
}

impl NewStart {
    /// Returns the places where the start is counted, in one order.
    #[must_use]
    pub fn places(&self) -> BTreeSet<StartPlace> {
        self.checks.iter().map(StartCheck::position).collect()
    }
}
