use super::namespace::Namespace;
use crate::StoreError;
use crate::Timestamp;
use crate::canonical::{DEPTH_MAX, can_be_read_back};
use crate::store_error::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// Maximum length of a key, in bytes.
pub const KEY_BYTES_MAX: usize = 512;

/// Maximum length of an item's value as JSON, in bytes.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// The name of an item: its namespace and its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemRef {
    namespace: Namespace,
    key: String,
}

impl ItemRef {
    /// Validates a key and creates the name of an item.
    ///
    /// # Errors
    /// Returns [`StoreError::BadKey`] if the key is empty, longer than [`KEY_BYTES_MAX`], or
    /// contains a NUL.
    pub fn new(namespace: Namespace, key: impl Into<String>) -> Result<Self> {
        let key = key.into();
        if key.is_empty() || key.len() > KEY_BYTES_MAX || key.contains('\0') {
            return Err(StoreError::BadKey { found: cut(&format!("{key:?}")), bytes: key.len() });
        }
        Ok(Self { namespace, key })
    }

    /// Returns the namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// An item, as returned by a read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Namespace.
    pub namespace: Namespace,
    /// Key.
    pub key: String,
    /// Value, a JSON object.
    pub value: Value,
    /// Time of the first put.
    pub created_at: Timestamp,
    /// Time of the last put.
    pub updated_at: Timestamp,
    /// Expiry time, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Score for the text of a search, above 0 and at most 1; see [`Terms`](super::Terms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// Options of a put.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PutOptions {
    /// Time to live from now on; unlimited if `None`.
    pub ttl: Option<Duration>,
    /// Parts of the value that a text search covers.
    pub indexing: Indexing,
}

/// The parts of a value that a text search covers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Indexing {
    /// The whole value.
    #[default]
    All,
    /// Nothing: no text search finds the item.
    Off,
    /// The values at these paths: field names separated by dots, such as `address.city`. A list in
    /// a path stands for each of its items, with or without `[*]`; `$` is the whole value.
    Paths(Vec<String>),
}

/// The effect of a read on the time to live of an item.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ttl {
    /// The expiry time is not changed.
    #[default]
    Keep,
    /// The time to live restarts.
    Refresh,
}

/// Checks that a value can be stored. Every store calls this before it writes.
///
/// # Errors
/// Returns [`StoreError::BadValue`] for a value that is not an object, is deeper than
/// [`DEPTH_MAX`](crate::canonical::DEPTH_MAX) or longer than [`VALUE_BYTES_MAX`].
pub fn check_value(at: &ItemRef, value: &Value) -> Result<()> {
    let bad = |expected: String, found: String| {
        let item = cut(&format!("{:?}", at.key));
        Err(StoreError::BadValue { item, namespace: at.namespace.to_string(), expected, found })
    };
    if !value.is_object() {
        return bad("an object".to_owned(), kind(value).to_owned());
    }
    if !can_be_read_back(value) {
        return bad(format!("at most {DEPTH_MAX} levels"), "more".to_owned());
    }
    let bytes = value.to_string().len();
    if bytes > VALUE_BYTES_MAX {
        return bad(format!("at most {VALUE_BYTES_MAX} bytes of JSON"), format!("{bytes} bytes"));
    }
    Ok(())
}

/// Returns the type of a JSON value, for messages.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Truncates a text for use in a message.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
