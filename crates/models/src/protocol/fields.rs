//! Members of documents, read liberally.

use super::account::Account;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// Treats `null` as a missing member.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Treats a member that cannot be read as missing. For members that an answer can be used without.
pub(super) fn if_readable<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    let member = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(member).unwrap_or_default())
}

/// Reads a text. A number is its digits; anything else is missing.
pub(super) fn text_or_default<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    })
}

/// A fragment of a text; some servers send the value that it is the text of.
pub(super) fn fragment(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Reads an index, which some servers send as a text or with a fraction; anything else is missing.
pub(super) fn index<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(Account(&json!({"index": value})).count(&["/index"]))
}

/// Reads a list. One item alone is a list of it; items that cannot be read are left out.
pub(super) fn list<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let items = match Value::deserialize(deserializer)? {
        Value::Array(items) => items,
        item @ Value::Object(_) => vec![item],
        _ => Vec::new(),
    };
    Ok(items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect())
}

/// Returns an error member unless it says nothing.
pub(super) fn error_member(error: Value) -> Option<Value> {
    let is_empty = match &error {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    (!is_empty).then_some(error)
}
