//! Limits of accounts and keys in the configuration file.

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use weftwork_runtime::limits::{
    InvalidLimit, LimitName, LimitOwner, LimitRules, LimitUnit, UsageLimits,
};

/// Largest limit of a cost, in dollars.
const USD_MAX: f64 = 1_000_000_000.0;
/// Largest limit of another unit.
const COUNT_MAX: u64 = i64::MAX as u64;

/// The section `limits` of a configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LimitSection {
    zone: Option<Zone>,
    accounts: BTreeMap<Account, Entry>,
    keys: BTreeMap<Key, Entry>,
}

impl LimitSection {
    pub(super) fn limits(self) -> Result<UsageLimits, InvalidLimit> {
        let zone = self.zone.as_ref().map_or("UTC", |zone| zone.0.as_str());
        let mut limits = UsageLimits::new(zone)?;
        for (name, entry) in self.accounts {
            limits = limits.with(LimitOwner::Account, &name.0, entry.0)?;
        }
        for (name, entry) in self.keys {
            limits = limits.with(LimitOwner::Key, &name.0, entry.0)?;
        }
        Ok(limits)
    }
}

/// A text that is checked when it is read, so that an error has its line.
macro_rules! checked_text {
    ($name:ident, $check:expr) => {
        #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
        struct $name(String);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                let check: fn(&str) -> Result<UsageLimits, InvalidLimit> = $check;
                check(&text).map_err(D::Error::custom)?;
                Ok(Self(text))
            }
        }
    };
}

checked_text!(Zone, UsageLimits::new);
checked_text!(Account, |name| {
    UsageLimits::default().with(LimitOwner::Account, name, LimitRules::new())
});
checked_text!(Key, |name| UsageLimits::default().with(LimitOwner::Key, name, LimitRules::new()));

/// The limits of an account or key.
#[derive(Debug, Default)]
struct Entry(LimitRules);

/// The name of a limit.
struct Name(LimitName);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("limits such as `tokens_per_day = 10000`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Entry, A::Error> {
        let mut rules = LimitRules::new();
        while let Some(Name(name)) = members.next_key()? {
            let max = match name.unit {
                LimitUnit::Cost => members.next_value::<Dollars>()?.0,
                LimitUnit::Tokens | LimitUnit::Runs | LimitUnit::Requests => {
                    members.next_value::<Count>()?.0
                }
            };
            rules.insert(name, max);
        }
        Ok(Entry(rules))
    }
}

/// A number of tokens, runs or requests.
struct Count(u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let count = u64::deserialize(deserializer)?;
        let fits = (count <= COUNT_MAX).then_some(Self(count));
        fits.ok_or_else(|| D::Error::custom(format!("{count} is too large; leave the limit out")))
    }
}

/// An amount in dollars, as millionths.
struct Dollars(u64);

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        if !(0.0..=USD_MAX).contains(&dollars) {
            let problem =
                format!("`{dollars}` is no limit of usd; expected an amount from 0 to {USD_MAX}");
            return Err(D::Error::custom(problem));
        }
        let micro = (dollars * 1_000_000.0).round();
        // An amount below the smallest unit is not nothing.
        if micro == 0.0 && dollars > 0.0 {
            return Err(D::Error::custom(format!(
                "`{dollars}` is no limit of usd; expected at least 0.000001, or 0"
            )));
        }
        Ok(Self(micro as u64))
    }
}
