use super::namespace::Namespace;
use crate::error::StoreError;
use crate::table::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use weftwork_types::Timestamp;
use weftwork_types::canonical::{DEPTH_MAX, can_be_read_back};

/// How long a key may be, in bytes.
pub const KEY_BYTES_MAX: usize = 512;

/// How long the value of an item may be as JSON, in bytes.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// The name of an item: its namespace and its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemRef {
    namespace: Namespace,
    key: String,
}

impl ItemRef {
    /// Checks a key and makes a name of it.
    ///
    /// # Errors
    /// [`StoreError::BadKey`] when it is empty, longer than [`KEY_BYTES_MAX`], or has a NUL.
    pub fn new(namespace: Namespace, key: impl Into<String>) -> Result<Self> {
        let key = key.into();
        if key.is_empty() || key.len() > KEY_BYTES_MAX || key.contains('\0') {
            return Err(StoreError::BadKey { found: cut(&format!("{key:?}")), bytes: key.len() });
        }
        Ok(Self { namespace, key })
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// An item as it was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its key.
    pub key: String,
    /// Its value, an object.
    pub value: Value,
    /// When it was first put.
    pub created_at: Timestamp,
    /// When it was last put.
    pub updated_at: Timestamp,
    /// When it expires, if ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// How well it matches the text of a search, above 0 and at most 1; see
    /// [`Terms`](super::Terms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// What goes with a value that is put.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PutOptions {
    /// How long the item lives from now on; for ever when absent.
    pub ttl: Option<Duration>,
    /// Which parts of the value a search by text looks at.
    pub indexing: Indexing,
}

/// Which parts of a value a search by text looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Indexing {
    /// All of them.
    #[default]
    All,
    /// None: no text finds the item.
    Off,
    /// Those at these paths: names of fields with dots between them, such as `address.city`. A
    /// list on the way stands for each of its items, with or without `[*]`; `$` is all of the
    /// value.
    Paths(Vec<String>),
}

/// Whether reading an item makes it live on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ttl {
    /// It expires when it would have.
    #[default]
    Keep,
    /// Its time to live begins anew.
    Refresh,
}

/// Lets a value pass that can be stored; every store asks this before it writes.
///
/// # Errors
/// [`StoreError::BadValue`] for one that is no object, deeper than
/// [`DEPTH_MAX`](weftwork_types::canonical::DEPTH_MAX) or longer than [`VALUE_BYTES_MAX`].
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

/// What a JSON value is, in words.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A text cut to what fits into a message.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
