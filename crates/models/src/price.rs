//! Prices of models: data with a date and a source (`prices.toml`).

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use weftwork_types::usage::Tokens;

const BUILT_IN: &str = include_str!("../prices.toml");

/// Price of a model, in millionths of a US dollar per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Price {
    /// Input tokens that were not read from a cache.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens that the provider read from its cache.
    pub cached: u64,
    /// Input tokens that the provider wrote to its cache.
    pub cache_written: u64,
}

impl Price {
    /// Returns the cost of tokens in millionths of a US dollar, rounded up.
    #[must_use]
    pub fn of(&self, tokens: Tokens) -> u64 {
        let fresh = tokens.input.saturating_sub(tokens.cached.saturating_add(tokens.cache_written));
        let parts = [
            (fresh, self.input),
            (tokens.cached, self.cached),
            (tokens.cache_written, self.cache_written),
            (tokens.output, self.output),
        ];
        let sum = parts.iter().map(|(count, price)| u128::from(*count) * u128::from(*price)).sum();
        u64::try_from(u128::div_ceil(sum, 1_000_000)).unwrap_or(u64::MAX)
    }
}

/// Prices by model.
#[derive(Debug, Clone, Default)]
pub struct PriceTable {
    free: Vec<String>,
    prices: BTreeMap<String, Price>,
}

impl PriceTable {
    /// The table of this program.
    #[must_use]
    pub fn built_in() -> &'static Self {
        #[expect(clippy::expect_used, reason = "the table is part of the program; a test reads it")]
        static TABLE: LazyLock<PriceTable> =
            LazyLock::new(|| PriceTable::read(BUILT_IN).expect("the built-in table is valid"));
        &TABLE
    }

    /// Returns the price of a model by its id, `provider:model`; `None` if it is unknown.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Price> {
        let (provider, _) = id.split_once(':')?;
        if self.free.iter().any(|free| free == provider) {
            return Some(Price::default());
        }
        self.prices.get(id).or_else(|| self.prices.get(undated(id))).copied()
    }

    fn read(text: &str) -> Result<Self, toml::de::Error> {
        let Rows { free, price } = toml::from_str(text)?;
        let mut prices = BTreeMap::new();
        for provider in price {
            for row in provider.models {
                let price = Price {
                    input: micro(row.input),
                    output: micro(row.output),
                    cached: micro(row.cached.unwrap_or(row.input)),
                    cache_written: micro(row.cache_written.unwrap_or(row.input)),
                };
                prices.insert(format!("{}:{}", provider.provider, row.name), price);
            }
        }
        Ok(Self { free, prices })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    free: Vec<String>,
    price: Vec<ProviderRows>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderRows {
    provider: String,
    #[expect(dead_code, reason = "for readers of the table, and for the guide")]
    checked: String,
    #[expect(dead_code, reason = "for readers of the table, and for the guide")]
    source: String,
    models: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    input: f64,
    output: f64,
    cached: Option<f64>,
    cache_written: Option<f64>,
}

fn micro(dollars: f64) -> u64 {
    (dollars * 1_000_000.0).round() as u64
}

/// An id without the date at its end: `-20260131` or `-2026-01-31`.
fn undated(id: &str) -> &str {
    let is_date = |text: &str| {
        let digits = text.chars().filter(char::is_ascii_digit).count();
        digits == 8 && text.chars().all(|c| c.is_ascii_digit() || c == '-')
    };
    let ends = [11, 9].into_iter().filter_map(|length| id.len().checked_sub(length));
    ends.filter_map(|at| Some((at, id.get(at..)?)))
        .find(|(_, text)| text.starts_with('-') && is_date(&text[1..]))
        .map_or(id, |(at, _)| &id[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_rounded_up_and_cached_input_is_cheaper() {
        let price = PriceTable::built_in().get("openai:gpt-4o-mini").expect("known");
        let expected =
            Price { input: 150_000, output: 600_000, cached: 75_000, cache_written: 150_000 };
        assert_eq!(price, expected);
        assert_eq!(price.of(Tokens::reported(1_000_000, 1_000_000)), 750_000);
        assert_eq!(price.of(Tokens::reported(1_000_000, 0).cached(1_000_000)), 75_000);
        let written = Tokens::reported(1_000_000, 0).cached(500_000).cache_written(500_000);
        let sonnet = PriceTable::built_in().get("anthropic:claude-sonnet-4-5").expect("known");
        assert_eq!(sonnet.of(written), 150_000 + 1_875_000);
        assert_eq!(price.of(Tokens::reported(1, 0)), 1);
        assert_eq!(price.of(Tokens::default()), 0);
        assert_eq!(price.of(Tokens::reported(u64::MAX, u64::MAX)), 13_835_058_055_282_163_712);
    }

    #[test]
    fn dated_versions_have_the_price_of_the_model() {
        let table = PriceTable::built_in();
        let plain = table.get("openai:gpt-4o");
        assert!(plain.is_some());
        assert_eq!(table.get("openai:gpt-4o-2024-08-06"), plain);
        let haiku = table.get("anthropic:claude-haiku-4-5-20251001");
        assert_eq!(haiku, table.get("anthropic:claude-haiku-4-5"));
        assert_eq!(table.get("local:smollm2-135m"), Some(Price::default()));
        for unknown in ["openai:gpt-4o-audio", "openai", "lab:tiny", "openai:gpt-4o-20", ""] {
            assert_eq!(table.get(unknown), None, "{unknown}");
        }
    }
}
