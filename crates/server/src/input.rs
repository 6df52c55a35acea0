//! Input of graphs, without the members that a graph does not have: clients of LangGraph's server add
//! members of their own to the input, and that server ignores them.

use crate::error::{ApiError, Result};
use crate::translate::messages;
use axum::http::{HeaderMap, HeaderValue};
use serde_json::{Map, Value};
use std::fmt::Write;
use uuid::Uuid;
use weftwork_graph::CompiledGraph;
use weftwork_types::canonical::first_128;
use weftwork_types::{MessageId, ThreadId};

/// Header with the names of ignored members.
const HEADER: &str = "x-ignored-input";
/// Maximum number of names in the header, and maximum length of each in characters.
const NAMES_MAX: usize = 20;
const NAME_CHARS_MAX: usize = 64;

/// Names of ignored members of a request, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ignored(Vec<String>);

impl Ignored {
    pub(crate) fn add(&mut self, name: String) {
        if !self.0.contains(&name) {
            self.0.push(name);
        }
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.0
    }

    /// Adds the header with the names, if there are some: the first ones, with the characters that
    /// headers cannot have in the form of URLs.
    pub(crate) fn add_header(&self, headers: &mut HeaderMap) {
        if let Ok(value) = HeaderValue::from_str(&self.list_names())
            && !self.0.is_empty()
        {
            headers.insert(HEADER, value);
        }
    }

    fn list_names(&self) -> String {
        let mut listed = String::new();
        for name in self.0.iter().take(NAMES_MAX) {
            if !listed.is_empty() {
                listed.push_str(", ");
            }
            for letter in name.chars().take(NAME_CHARS_MAX) {
                match letter {
                    ',' | '%' => write_encoded(&mut listed, letter),
                    ' '..='~' => listed.push(letter),
                    _ => write_encoded(&mut listed, letter),
                }
            }
        }
        if self.0.len() > NAMES_MAX {
            listed.push_str(", ...");
        }
        listed
    }
}

/// Source of ids for messages that come without one. A request with an idempotency key gets the same ids
/// each time, so that it equals its repetition.
#[derive(Debug)]
pub(crate) enum NewIds {
    Random,
    /// Text that no other request has, and the number of ids that were made of it.
    Derived {
        seed: String,
        count: usize,
    },
}

impl NewIds {
    pub(crate) fn of_request(thread: &ThreadId, key: Option<&str>) -> Self {
        key.map_or(Self::Random, |key| {
            // The thread, because a copy of it may get the key again once the original was deleted.
            Self::Derived { seed: format!("message\u{0}{thread}\u{0}{key}"), count: 0 }
        })
    }

    pub(crate) fn make(&mut self) -> MessageId {
        MessageId::from_uuid(match self {
            Self::Random => Uuid::new_v4(),
            Self::Derived { seed, count } => {
                *count += 1;
                Uuid::from_u128(first_128(&format!("{seed}\u{0}{count}")))
            }
        })
    }
}

fn write_encoded(listed: &mut String, letter: char) {
    let mut bytes = [0; 4];
    for byte in letter.encode_utf8(&mut bytes).bytes() {
        // Writing to a text does not fail.
        write!(listed, "%{byte:02X}").unwrap_or_default();
    }
}

/// Returns a change of the state of a graph, with messages in the shape of states and without members
/// that the graph does not have.
pub(crate) fn read_changes(
    graph: &CompiledGraph,
    values: Value,
    ignored: &mut Ignored,
) -> Result<Value> {
    let ids = &mut NewIds::Random;
    let is_known = |name: &str| graph.plan().channel_idx(name).is_some();
    match values {
        Value::Array(all) => {
            let all = all.into_iter().map(|one| read_writes(graph, one, &is_known, ids, ignored));
            all.collect::<Result<Vec<_>>>().map(Value::Array)
        }
        one => read_writes(graph, one, &is_known, ids, ignored),
    }
}

/// Returns writes for a graph, with messages in the shape of states and without members that it does
/// not take. A graph of one node takes a value as it is.
pub(crate) fn read_writes(
    graph: &CompiledGraph,
    input: Value,
    is_taken: &dyn Fn(&str) -> bool,
    ids: &mut NewIds,
    ignored: &mut Ignored,
) -> Result<Value> {
    let Value::Object(members) = input else { return Ok(input) };
    let takes_all = graph.plan().is_single();
    let mut taken = Map::new();
    for (name, value) in members {
        if takes_all || is_taken(&name) {
            let value = read_value(graph, &name, value, ids)?;
            taken.insert(name, value);
        } else {
            ignored.add(name);
        }
    }
    Ok(Value::Object(taken))
}

/// Returns the value of a channel, with messages in the shape of states.
pub(crate) fn read_value(
    graph: &CompiledGraph,
    channel: &str,
    value: Value,
    ids: &mut NewIds,
) -> Result<Value> {
    if !graph.holds_messages(channel) || value.is_null() {
        return Ok(value);
    }
    messages::read(value, &mut || ids.make())
        .map_err(|problem| ApiError::invalid(format!("`{channel}`: {problem}")))
}

/// Returns names in backticks.
pub(crate) fn quote_names<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(names: &[&str]) -> Option<String> {
        let mut ignored = Ignored::default();
        names.iter().for_each(|name| ignored.add((*name).to_owned()));
        let mut headers = HeaderMap::new();
        ignored.add_header(&mut headers);
        headers.get(HEADER).map(|value| value.to_str().expect("ASCII").to_owned())
    }

    #[test]
    fn the_header_has_each_name_once_and_no_line_breaks() {
        assert_eq!(header(&[]), None);
        assert_eq!(header(&["tools", "ag-ui", "tools"]).as_deref(), Some("tools, ag-ui"));
        let odd = header(&["a\r\nset-cookie: x", "ä,%"]);
        assert_eq!(odd.as_deref(), Some("a%0D%0Aset-cookie: x, %C3%A4%2C%25"));
        let long = "n".repeat(1_000);
        assert_eq!(header(&[&long]).map(|value| value.len()), Some(NAME_CHARS_MAX));
        let names: Vec<_> = (0..30).map(|number| number.to_string()).collect();
        let listed = header(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(listed.is_some_and(|listed| listed.ends_with("19, ...")));
    }
}
