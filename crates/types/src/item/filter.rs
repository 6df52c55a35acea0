use super::record::{cut, kind};
use crate::StoreError;
use crate::canonical::{DEPTH_MAX, can_be_read_back};
use crate::store_error::Result;
use serde_json::{Map, Number, Value};
use std::cmp::Ordering;

/// Conditions on the fields of an item's value, all of which must hold.
///
/// In JSON, each member of the filter is a condition on the field of the same name. A plain value
/// must be equal. An object applies to the fields of an object. A list must have the same length,
/// and each item must match. An object of operators compares: `$eq`, `$ne`, `$gt`, `$gte`, `$lt`,
/// `$lte`. A missing field is treated as null. Numbers are compared by value, strings by code
/// points. Values of different types are not equal, and neither is less than the other.
///
/// Source: `langgraph/store/memory`, which instead raises an error for values without an order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter(Vec<(String, Test)>);

#[derive(Debug, Clone, PartialEq)]
enum Test {
    Is(Value),
    Compare(Vec<(Operator, Value)>),
    Fields(Vec<(String, Test)>),
    Each(Vec<Test>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Eq,
    Ne,
    Gt,
    Gte,
    Lt,
    Lte,
}

impl Filter {
    /// Parses a filter.
    ///
    /// # Errors
    /// Returns [`StoreError::BadFilter`] for a filter that is not an object, an unknown or
    /// misplaced operator, and an operand without an order.
    pub fn parse(json: &Value) -> Result<Self> {
        let Value::Object(conditions) = json else {
            return Err(bad("", "an object of conditions", kind(json)));
        };
        if !can_be_read_back(json) {
            return Err(bad("", &format!("at most {DEPTH_MAX} levels"), "more"));
        }
        if let Some(operator) = conditions.keys().find(|key| key.starts_with('$')) {
            return Err(bad("", "the name of a field", operator));
        }
        Ok(Self(fields("", conditions)?))
    }

    /// Returns `true` if the filter matches every value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if a value satisfies all conditions.
    #[must_use]
    pub fn matches(&self, value: &Value) -> bool {
        self.0.iter().all(|(name, test)| test.holds(value.get(name).unwrap_or(&Value::Null)))
    }
}

impl Test {
    fn parse(at: &str, json: &Value) -> Result<Self> {
        match json {
            Value::Object(map) if map.keys().any(|key| key.starts_with('$')) => {
                let compared = map.iter().map(|(name, with)| {
                    Operator::parse(at, name, with).map(|operator| (operator, with.clone()))
                });
                compared.collect::<Result<_>>().map(Self::Compare)
            }
            Value::Object(map) => fields(at, map).map(Self::Fields),
            Value::Array(items) => {
                let tests = items.iter().map(|item| Self::parse(at, item));
                tests.collect::<Result<_>>().map(Self::Each)
            }
            plain => Ok(Self::Is(plain.clone())),
        }
    }

    fn holds(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Is(wanted), _) => same(value, wanted),
            (Self::Compare(all), _) => {
                all.iter().all(|(operator, with)| operator.holds(value, with))
            }
            (Self::Fields(all), Value::Object(map)) => {
                all.iter().all(|(name, test)| test.holds(map.get(name).unwrap_or(&Value::Null)))
            }
            (Self::Each(all), Value::Array(items)) => {
                all.len() == items.len() && all.iter().zip(items).all(|(test, v)| test.holds(v))
            }
            _ => false,
        }
    }
}

impl Operator {
    fn parse(at: &str, name: &str, with: &Value) -> Result<Self> {
        let operator = match name {
            "$eq" => return Ok(Self::Eq),
            "$ne" => return Ok(Self::Ne),
            "$gt" => Self::Gt,
            "$gte" => Self::Gte,
            "$lt" => Self::Lt,
            "$lte" => Self::Lte,
            other => {
                let expected = "one of `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`";
                return Err(bad(at, expected, other));
            }
        };
        if with.is_number() || with.is_string() {
            return Ok(operator);
        }
        Err(bad(&format!("{at}.{name}"), "a number or a text", kind(with)))
    }

    fn holds(self, value: &Value, with: &Value) -> bool {
        match self {
            Self::Eq => same(value, with),
            Self::Ne => !same(value, with),
            Self::Gt => order(value, with).is_some_and(Ordering::is_gt),
            Self::Gte => order(value, with).is_some_and(Ordering::is_ge),
            Self::Lt => order(value, with).is_some_and(Ordering::is_lt),
            Self::Lte => order(value, with).is_some_and(Ordering::is_le),
        }
    }
}

fn fields(at: &str, conditions: &Map<String, Value>) -> Result<Vec<(String, Test)>> {
    let tests = conditions.iter().map(|(name, json)| {
        let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        Test::parse(&at, json).map(|test| (name.clone(), test))
    });
    tests.collect()
}

/// Returns `true` if two values are equal. Numbers are compared by value.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b) == Some(Ordering::Equal),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn bad(at: &str, expected: &str, found: &str) -> StoreError {
    let field =
        if at.is_empty() { "filter".to_owned() } else { format!("filter at `{}`", cut(at)) };
    StoreError::BadFilter { location: field, expected: expected.to_owned(), found: cut(found) }
}
