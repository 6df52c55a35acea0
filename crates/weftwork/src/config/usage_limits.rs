//! Limits of accounts and keys in the configuration file.

use serde::de::{DeserializeSeed, Error as _, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use weftwork_runtime::limits::{
    InvalidLimit, LimitName, LimitOwner, LimitRules, LimitUnit, UsageLimits,
};

/// Largest limit of a cost, in dollars.
const USD_MAX: f64 = 1_000_000_000.0;
/// Largest limit of another unit.
const COUNT_MAX: i64 = i64::MAX;

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
            rules.insert(name, members.next_value_seed(MaxOf(name))?);
        }
        Ok(Entry(rules))
    }
}

/// The largest value of a limit. Errors name the limit.
struct MaxOf(LimitName);

impl<'de> DeserializeSeed<'de> for MaxOf {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for MaxOf {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name) = self;
        match name.unit {
            LimitUnit::Cost => write!(f, "`{name}` in dollars, from 0.000001 to {USD_MAX}, or 0"),
            LimitUnit::Tokens | LimitUnit::Runs | LimitUnit::Requests => {
                write!(f, "`{name}` as a whole number from 0 to {COUNT_MAX}")
            }
        }
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<u64, E> {
        match self.0.unit {
            LimitUnit::Cost => self.visit_f64(value as f64),
            LimitUnit::Tokens | LimitUnit::Runs | LimitUnit::Requests => {
                u64::try_from(value).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
            }
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<u64, E> {
        if self.0.unit != LimitUnit::Cost {
            return Err(E::invalid_type(Unexpected::Float(value), &self));
        }
        let micro = (value * 1_000_000.0).round();
        // An amount below the smallest unit is not nothing.
        if !(0.0..=USD_MAX).contains(&value) || micro == 0.0 && value > 0.0 {
            return Err(E::invalid_value(Unexpected::Float(value), &self));
        }
        Ok(micro as u64)
    }
}
