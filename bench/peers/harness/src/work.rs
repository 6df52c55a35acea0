//! The values that the cases write, and the expected results.

use crate::inline;
use serde_json::{Value, json};

/// The agent's final message.
pub const DONE: &str = inline::DONE;

/// The content of a state; figures that a case does not use are zero.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The number `n`.
    pub n: u64,
    /// Number of items.
    pub items: usize,
    /// Number of messages.
    pub messages: usize,
    /// Number of additional keys.
    pub keys: usize,
}

impl Found {
    /// Reads the content of a state of JSON values: `n`, `items`, `messages`, and the texts under
    /// keys that start with `k`.
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

/// The additional keys of the wide state and their values: a hundred texts of a hundred bytes.
pub fn wide() -> impl Iterator<Item = (String, Value)> {
    inline::wide()
}

/// Role and text of the message after `len` messages.
#[must_use]
pub fn message(len: usize) -> (&'static str, String) {
    inline::message(len)
}

/// The same message as an object.
#[must_use]
pub fn message_json(len: usize) -> Value {
    let (role, content) = message(len);
    json!({ "role": role, "content": content })
}

/// Returns `true` if this object is the agent's final message.
#[must_use]
pub fn is_done(message: &Value) -> bool {
    message.get("content").and_then(Value::as_str) == Some(DONE)
}
