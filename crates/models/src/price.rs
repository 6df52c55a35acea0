//! Prices of models: data with a date and a source (`prices.toml`).

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use toml::Value;
use weftwork_types::usage::Tokens;

/// Maximum price of a million tokens, in US dollars.
const PRICE_MAX: f64 = 1_000_000.0;

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

/// Prices of the models of one provider, by the name of the model on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "Vec<PriceRow>")]
pub struct ModelPrices(BTreeMap<String, Price>);

impl ModelPrices {
    /// Returns the price of a model; `None` if it is unknown. A dated version has the price of the
    /// model.
    #[must_use]
    pub fn get(&self, model: &str) -> Option<Price> {
        self.0.get(model).or_else(|| self.0.get(undated(model))).copied()
    }
}

impl FromIterator<(String, Price)> for ModelPrices {
    fn from_iter<T: IntoIterator<Item = (String, Price)>>(prices: T) -> Self {
        Self(prices.into_iter().collect())
    }
}

impl TryFrom<Vec<PriceRow>> for ModelPrices {
    type Error = String;

    fn try_from(rows: Vec<PriceRow>) -> Result<Self, String> {
        let mut prices = BTreeMap::new();
        for row in rows {
            let price = row.price()?;
            if prices.insert(row.name.clone(), price).is_some() {
                return Err(format!("two prices of model `{}`, expected one", row.name));
            }
        }
        Ok(Self(prices))
    }
}

/// Prices by provider and model.
#[derive(Debug, Clone, Default)]
pub struct PriceTable {
    free: Vec<String>,
    prices: BTreeMap<String, ModelPrices>,
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
        let (provider, model) = id.split_once(':')?;
        if self.free.iter().any(|free| free == provider) {
            return Some(Price::default());
        }
        self.prices.get(provider)?.get(model)
    }

    fn read(text: &str) -> Result<Self, toml::de::Error> {
        let Rows { free, price } = toml::from_str(text)?;
        let priced = |rows: ProviderRows| {
            let ProviderRows { providers, models, .. } = rows;
            providers.into_iter().map(move |provider| (provider, models.clone()))
        };
        let prices = price.into_iter().flat_map(priced).collect();
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
    providers: Vec<String>,
    #[expect(dead_code, reason = "for readers of the table, and for the guide")]
    checked: String,
    #[expect(dead_code, reason = "for readers of the table, and for the guide")]
    source: String,
    models: ModelPrices,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceRow {
    name: String,
    input: Value,
    output: Value,
    cached: Option<Value>,
    cache_written: Option<Value>,
}

impl PriceRow {
    fn price(&self) -> Result<Price, String> {
        let cached = self.cached.as_ref().unwrap_or(&self.input);
        let cache_written = self.cache_written.as_ref().unwrap_or(&self.input);
        Ok(Price {
            input: self.parse_micro("input", &self.input)?,
            output: self.parse_micro("output", &self.output)?,
            cached: self.parse_micro("cached", cached)?,
            cache_written: self.parse_micro("cache_written", cache_written)?,
        })
    }

    /// Returns an amount of dollars in millionths.
    fn parse_micro(&self, member: &str, found: &Value) -> Result<u64, String> {
        let dollars = found.as_float().or(found.as_integer().map(|dollars| dollars as f64));
        match dollars {
            Some(dollars) if (0.0..=PRICE_MAX).contains(&dollars) => {
                Ok((dollars * 1_000_000.0).round() as u64)
            }
            _ => Err(format!(
                "`{member}` of the price of model `{}` is `{found}`, expected US dollars per million tokens, a number from 0 to 1000000",
                self.name
            )),
        }
    }
}

/// A name without the date at its end: `-20260131` or `-2026-01-31`.
fn undated(name: &str) -> &str {
    let is_date = |text: &str| {
        let digits = text.chars().filter(char::is_ascii_digit).count();
        digits == 8 && text.chars().all(|c| c.is_ascii_digit() || c == '-')
    };
    let ends = [11, 9].into_iter().filter_map(|length| name.len().checked_sub(length));
    ends.filter_map(|at| Some((at, name.get(at..)?)))
        .find(|(_, text)| text.starts_with('-') && is_date(&text[1..]))
        .map_or(name, |(at, _)| &name[..at])
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
    fn bad_prices_are_named_with_what_was_expected() {
        let read = |models: &str| {
            let text = format!(
                "free = []\n[[price]]\nprovider = \"p\"\nchecked = \"\"\nsource = \"\"\nmodels = [{models}]"
            );
            PriceTable::read(&text).map_err(|error| error.message().to_owned())
        };
        let dollars = "expected US dollars per million tokens, a number from 0 to 1000000";
        for (models, expected) in [
            (
                r#"{ name = "m", input = -1, output = 2 }"#,
                format!("`input` of the price of model `m` is `-1`, {dollars}"),
            ),
            (
                r#"{ name = "m", input = 1, output = "2" }"#,
                format!("`output` of the price of model `m` is `\"2\"`, {dollars}"),
            ),
            (
                r#"{ name = "m", input = 1, output = 2, cached = nan }"#,
                format!("`cached` of the price of model `m` is `nan`, {dollars}"),
            ),
            (
                r#"{ name = "m", input = 1, output = 2 }, { name = "m", input = 1, output = 3 }"#,
                "two prices of model `m`, expected one".to_owned(),
            ),
            (r#"{ name = "m", input = 1 }"#, "missing field `output`".to_owned()),
        ] {
            assert_eq!(read(models).expect_err("refused"), expected, "{models}");
        }
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
