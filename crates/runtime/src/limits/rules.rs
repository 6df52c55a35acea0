//! Limits as the operator configures them.

use super::window;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use weftwork_store::{BilledTo, LimitWindow, StartUnit, SubjectUsage};
use weftwork_types::caller::Caller;
use weftwork_types::id::InvalidId;
use weftwork_types::{BillingAccountId, Timestamp, VirtualKeyId};

/// The unit of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitUnit {
    /// Input and output tokens of model calls.
    Tokens,
    /// Cost of model calls in millionths of a US dollar.
    Cost,
    /// Runs that requests start.
    Runs,
    /// Requests that start work.
    Requests,
}

impl LimitUnit {
    const ALL: [Self; 4] = [Self::Tokens, Self::Cost, Self::Runs, Self::Requests];

    /// Returns the unit in names of limits.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Cost => "usd",
            Self::Runs => "runs",
            Self::Requests => "requests",
        }
    }

    /// Returns the unit in messages.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Cost => weftwork_types::port::LimitReached::COST,
            other => other.as_str(),
        }
    }

    /// Returns the amount in usage; 0 for a unit that calls do not use.
    pub(super) fn of_usage(self, usage: SubjectUsage) -> u64 {
        match self {
            Self::Tokens => usage.tokens,
            Self::Cost => usage.cost_micro_usd,
            Self::Runs | Self::Requests => 0,
        }
    }

    /// Returns the unit of starts; `None` for a unit that calls use.
    pub(super) fn of_starts(self) -> Option<StartUnit> {
        match self {
            Self::Tokens | Self::Cost => None,
            Self::Runs => Some(StartUnit::Runs),
            Self::Requests => Some(StartUnit::Requests),
        }
    }
}

/// The name of a limit, such as `tokens_per_day`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimitName {
    /// The unit.
    pub unit: LimitUnit,
    /// The time over which it counts.
    pub window: LimitWindow,
}

impl LimitName {
    const WINDOWS: [LimitWindow; 3] = [LimitWindow::Minute, LimitWindow::Day, LimitWindow::Month];

    /// Returns the names of all limits.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_unit = |unit| Self::WINDOWS.into_iter().map(move |window| Self { unit, window });
        LimitUnit::ALL.into_iter().flat_map(of_unit)
    }

    const fn window_word(self) -> &'static str {
        match self.window {
            LimitWindow::Minute => "minute",
            LimitWindow::Day => "day",
            LimitWindow::Month => "month",
        }
    }

    /// Returns the window in messages.
    pub(super) const fn window_text(self) -> &'static str {
        match self.window {
            LimitWindow::Minute => "a minute",
            LimitWindow::Day => "a day",
            LimitWindow::Month => "a month",
        }
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_per_{}", self.unit.as_str(), self.window_word())
    }
}

impl FromStr for LimitName {
    type Err = InvalidLimit;

    fn from_str(text: &str) -> Result<Self, InvalidLimit> {
        let found = Self::all().find(|name| name.to_string() == text);
        found.ok_or_else(|| InvalidLimit::Name { found: text.chars().take(80).collect() })
    }
}

/// Error of the configuration of limits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidLimit {
    /// No limit has the name.
    Name {
        /// The text.
        found: String,
    },
    /// The text is no id of an account or key.
    Owner(InvalidId),
    /// The time zone is unknown.
    Zone {
        /// The text.
        found: String,
    },
}

impl fmt::Display for InvalidLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { found } => write!(
                f,
                "`{found}` is no limit; expected tokens, usd, runs or requests per minute, day or \
                 month, such as `tokens_per_day`"
            ),
            Self::Owner(error) => {
                write!(f, "{error}, or `*` for each one that has no limit of the name of its own")
            }
            Self::Zone { found } => write!(
                f,
                "the time zone `{found}` is unknown; expected one of the IANA database, such as \
                 `Europe/Berlin` or `UTC`"
            ),
        }
    }
}

impl std::error::Error for InvalidLimit {}

impl From<InvalidId> for InvalidLimit {
    fn from(error: InvalidId) -> Self {
        Self::Owner(error)
    }
}

/// The owner of limits in a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitOwner {
    /// Billing accounts.
    Account,
    /// Virtual keys.
    Key,
}

/// The maximum of each limit that an account or key has. Costs are in millionths of a US dollar.
pub type LimitRules = BTreeMap<LimitName, u64>;

/// A limit of an account or key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) subject: BilledTo,
    pub(crate) name: LimitName,
    pub(crate) max: u64,
}

/// Limits of accounts and keys.
///
/// ```
/// use weftwork_runtime::limits::{LimitOwner, LimitRules, UsageLimits};
///
/// # fn main() -> Result<(), weftwork_runtime::limits::InvalidLimit> {
/// let per_day = LimitRules::from([("tokens_per_day".parse()?, 10_000)]);
/// let limits = UsageLimits::new("Europe/Berlin")?
///     .with(LimitOwner::Key, "team-a", per_day.clone())?
///     .with(LimitOwner::Account, "*", per_day)?;
/// assert!(!limits.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct UsageLimits {
    zone: TimeZone,
    zone_name: String,
    accounts: OwnerRules,
    keys: OwnerRules,
}

/// The limits of accounts, or of keys.
#[derive(Debug, Clone, Default)]
struct OwnerRules {
    /// Limits of those that have none of the name of their own.
    usual: LimitRules,
    own: BTreeMap<String, LimitRules>,
}

impl OwnerRules {
    fn of(&self, subject: &BilledTo) -> impl Iterator<Item = Limit> {
        let mut rules = self.usual.clone();
        rules.extend(self.own.get(subject.id()).into_iter().flatten());
        let subject = subject.clone();
        rules.into_iter().map(move |(name, max)| Limit { subject: subject.clone(), name, max })
    }

    fn is_empty(&self) -> bool {
        self.usual.is_empty() && self.own.is_empty()
    }
}

impl Default for UsageLimits {
    fn default() -> Self {
        let accounts = OwnerRules::default();
        let keys = OwnerRules::default();
        Self { zone: TimeZone::UTC, zone_name: "UTC".to_owned(), accounts, keys }
    }
}

/// Returns the account and the key of a caller.
#[must_use]
pub fn subjects_of(caller: &Caller) -> [BilledTo; 2] {
    let account = BilledTo::Account(caller.billing_account.clone());
    [account, BilledTo::Key(caller.virtual_key.clone())]
}

impl UsageLimits {
    /// The name for all accounts, or all keys, that have no limit of a name of their own.
    pub const ALL: &str = "*";

    /// Creates a configuration without limits, whose days and months are those of a time zone of the
    /// IANA database.
    ///
    /// # Errors
    /// [`InvalidLimit::Zone`].
    pub fn new(zone: &str) -> Result<Self, InvalidLimit> {
        let found = TimeZone::get(zone);
        let unknown = || InvalidLimit::Zone { found: zone.chars().take(80).collect() };
        let zone_name = zone.to_owned();
        Ok(Self { zone: found.map_err(|_| unknown())?, zone_name, ..Self::default() })
    }

    /// Sets the limits of an account or key, or with [`ALL`](Self::ALL) those of each one that has
    /// no limit of the same name of its own.
    ///
    /// # Errors
    /// [`InvalidLimit::Owner`] for a text that is no id.
    pub fn with(
        mut self,
        owner: LimitOwner,
        name: &str,
        rules: LimitRules,
    ) -> Result<Self, InvalidLimit> {
        let of_owner = match owner {
            LimitOwner::Account => &mut self.accounts,
            LimitOwner::Key => &mut self.keys,
        };
        if name == Self::ALL {
            of_owner.usual = rules;
            return Ok(self);
        }
        match owner {
            LimitOwner::Account => drop(BillingAccountId::new(name)?),
            LimitOwner::Key => drop(VirtualKeyId::new(name)?),
        }
        of_owner.own.insert(name.to_owned(), rules);
        Ok(self)
    }

    /// Returns `true` if there is no limit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty() && self.keys.is_empty()
    }

    /// Returns the name of the time zone.
    #[must_use]
    pub fn zone(&self) -> &str {
        &self.zone_name
    }

    /// Returns the accounts and keys that are named.
    pub fn named(&self) -> impl Iterator<Item = BilledTo> {
        let accounts = self.accounts.own.keys().filter_map(|name| BillingAccountId::new(name).ok());
        let keys = self.keys.own.keys().filter_map(|name| VirtualKeyId::new(name).ok());
        accounts.map(BilledTo::Account).chain(keys.map(BilledTo::Key))
    }

    pub(super) fn of_subject(&self, subject: &BilledTo) -> Vec<Limit> {
        match subject {
            BilledTo::Account(_) => self.accounts.of(subject).collect(),
            BilledTo::Key(_) => self.keys.of(subject).collect(),
        }
    }

    pub(super) fn of_caller(&self, caller: &Caller) -> Vec<Limit> {
        subjects_of(caller).iter().flat_map(|subject| self.of_subject(subject)).collect()
    }

    pub(super) fn start(&self, window: LimitWindow, now: Timestamp) -> Timestamp {
        window::start(&self.zone, window, now)
    }

    pub(super) fn end(&self, window: LimitWindow, now: Timestamp) -> Timestamp {
        window::end(&self.zone, window, now)
    }

    pub(super) fn show(&self, time: Timestamp) -> String {
        window::show(&self.zone, time)
    }
}
