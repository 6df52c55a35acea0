//! What the cases put into a state, and what they should find there.

use crate::inline;
use serde_json::{Value, json};

/// The agent's last word.
pub const DONE: &str = inline::DONE;

/// What is in a state; what a case does not use is zero.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The number `n`.
    pub n: u64,
    /// How many items there are.
    pub items: usize,
    /// How many messages there are.
    pub messages: usize,
    /// How many further keys there are.
    pub keys: usize,
}

impl Found {
    /// What is in a state of JSON values: `n`, `items`, `messages`, and texts under keys that start
    /// with `k`.
    pub fn in_json<'a>(entries: impl Iterator<Item = (&'a str, &'a Value)>) -> Self {
        let mut found = Self::default();
        for (key, value) in entries {
            match key {
                "n" => found.n = value.as_u64().unwrap_or_default(),
                "items" => found.items = value.as_array().map_or(0, Vec::len),
                "messages" => found.messages = value.as_array().map_or(0, Vec::len),
                _ if key.starts_with('k') && value.is_string() => found.keys += 1,
                _ => {}
            }
        }
        found
    }
}

/// The further keys of the wide state and their values: a hundred texts of a hundred bytes.
pub fn wide() -> impl Iterator<Item = (String, Value)> {
    inline::wide()
}

/// Who speaks after `len` messages, and what it says.
#[must_use]
pub fn message(len: usize) -> (&'static str, String) {
    inline::message(len)
}

/// The same as an object.
#[must_use]
pub fn message_json(len: usize) -> Value {
    let (role, content) = message(len);
    json!({ "role": role, "content": content })
}

/// Whether this object is the agent's last word.
#[must_use]
pub fn is_done(message: &Value) -> bool {
    message.get("content").and_then(Value::as_str) == Some(DONE)
}
