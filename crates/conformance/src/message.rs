//! Messages at the kit's border: specs and traces have `$msg` values, the product its own records.
//!
//! A spec's message becomes a [`Message`] where the engine looks for one: in values that nodes
//! return or get, or in lists of these. In traces and in what nodes read it is a `$msg` again. An
//! id that the product does not allow is written in hexadecimal digits, a content that is no text
//! stands in a part of its own, and a message without an id gets one that traces leave out.

mod coerce;

pub(crate) use coerce::{check_content, coerced};

use crate::expr;
use crate::python::Raised;
use serde_json::{Value as Json, json};
use std::sync::atomic::{AtomicU64, Ordering};
use weftwork_graph::channel::{MessageWrite, REMOVE_ALL};
use weftwork_types::MessageId;
use weftwork_types::message::{Message, Part, Role};

/// Ids of messages that have none in the spec.
const MINTED: &str = "without-id-";
/// Ids that the product does not allow, in hexadecimal digits.
const HEX: &str = "hex-";
/// The name of a part that holds a content which is no text.
const CONTENT: &str = "content";

/// A value that is written to a channel, with its messages as records: the value itself, or the
/// items of a list.
pub(crate) fn record(value: Json) -> Json {
    match value {
        Json::Array(items) => items.into_iter().map(one).collect(),
        value => one(value),
    }
}

/// An object of values that are written to channels; any other value as it is.
pub(crate) fn records(value: Json) -> Json {
    if is_record(&value) || expr::as_message(&value).is_some() {
        return value;
    }
    match value {
        Json::Object(members) => {
            let members = members.into_iter().map(|(key, value)| (key, record(value)));
            Json::Object(members.collect())
        }
        value => value,
    }
}

/// The result of a flow or of a task: the engine looks for messages in it and in its members.
pub(crate) fn returned(value: Json) -> Json {
    records(record(value))
}

fn one(value: Json) -> Json {
    let Some((role, content, id)) = expr::as_message(&value) else { return value };
    if role == "remove" {
        return removal(id);
    }
    let Some(role) = role_of(role) else { return value };
    put(role, content, id)
}

/// A removal; the tag distinguishes it from other objects when it is read back from a write.
fn removal(id: Option<&str>) -> Json {
    let id = if id == Some(REMOVE_ALL) { REMOVE_ALL.to_owned() } else { encoded(id) };
    json!({ "remove": id, "$msg": true })
}

fn put(role: Role, content: &Json, id: Option<&str>) -> Json {
    let part = match content {
        Json::String(text) => json!({ "type": "text", "text": text }),
        other => json!({
            "type": "tool_result", "tool_call_id": CONTENT, "name": CONTENT, "value": other,
            "is_error": false,
        }),
    };
    json!({ "id": encoded(id), "role": role, "parts": [part] })
}

fn encoded(id: Option<&str>) -> String {
    static MINTED_SO_FAR: AtomicU64 = AtomicU64::new(0);
    match id {
        None => format!("{MINTED}{}", MINTED_SO_FAR.fetch_add(1, Ordering::Relaxed)),
        Some(id) if MessageId::new(id).is_ok() && !id.starts_with(HEX) => id.to_owned(),
        Some(id) => id.bytes().fold(HEX.to_owned(), |hex, byte| format!("{hex}{byte:02x}")),
    }
}

fn decoded(id: &str) -> String {
    let Some(hex) = id.strip_prefix(HEX) else { return id.to_owned() };
    let pair = |at| hex.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(pair).collect();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| id.to_owned())
}

fn role_of(name: &str) -> Option<Role> {
    Some(match name {
        "ai" => Role::Assistant,
        "human" => Role::User,
        "system" => Role::System,
        "tool" => Role::Tool,
        _ => return None,
    })
}

fn name_of(role: Role) -> &'static str {
    match role {
        Role::Assistant => "ai",
        Role::User => "human",
        Role::System => "system",
        Role::Tool => "tool",
    }
}

/// The content of a record as a spec has it.
pub(crate) fn content(message: &Message) -> Json {
    match message.parts.as_slice() {
        [Part::ToolResult(part)] if part.name == CONTENT => part.value.clone(),
        _ => message.joined_text().into(),
    }
}

/// The content and the id of a message, or of its removal, that a stream shows.
pub(crate) fn streamed(change: &MessageWrite) -> (Json, Json) {
    match change {
        MessageWrite::Put(message) => (content(message), id_shown(message.id.as_str())),
        MessageWrite::Remove { remove } => ("".into(), id_shown(remove.as_str())),
    }
}

/// An id as traces show it. The ids of the reference are random, and no trace can have them.
pub(crate) fn id_shown(id: &str) -> Json {
    if id.starts_with(MINTED) { Json::Null } else { decoded(id).into() }
}

/// The id of a record.
pub(crate) fn id_of(record: &Json) -> Result<MessageId, Raised> {
    let id = record.get("id").and_then(Json::as_str).unwrap_or_default();
    MessageId::new(id).map_err(|error| Raised::new("ValueError", error.to_string()))
}

/// Returns `true` if a value is a record of a message or a removal.
pub(crate) fn is_record(value: &Json) -> bool {
    read(value).is_some()
}

/// The role, content and id of a record.
fn read(value: &Json) -> Option<(&'static str, Json, String)> {
    let members = value.as_object()?;
    let has = |names: &[&str]| {
        names.len() == members.len() && names.iter().all(|name| members.contains_key(*name))
    };
    if has(&["remove", "$msg"]) {
        return Some(("remove", "".into(), decoded(members.get("remove")?.as_str()?)));
    }
    if !has(&["id", "role", "parts"]) {
        return None;
    }
    let message: Message = serde_json::from_value(value.clone()).ok()?;
    Some((name_of(message.role), content(&message), decoded(message.id.as_str())))
}

/// A value as nodes of a spec read it.
pub(crate) fn spec(value: Json) -> Json {
    if let Some((role, content, id)) = read(&value) {
        return expr::message(role, content, id.into());
    }
    match value {
        Json::Array(items) => items.into_iter().map(spec).collect(),
        Json::Object(members) => {
            let members = members.into_iter().map(|(key, value)| (key, spec(value)));
            Json::Object(members.collect())
        }
        value => value,
    }
}

/// A value as traces show it.
pub(crate) fn shown(value: Json) -> Json {
    fn without_minted(value: &mut Json) {
        match value {
            Json::Array(items) => items.iter_mut().for_each(without_minted),
            Json::Object(members) => members.values_mut().for_each(without_minted),
            Json::String(id) if id.starts_with(MINTED) => *value = Json::Null,
            _ => {}
        }
    }
    let mut value = spec(value);
    without_minted(&mut value);
    value
}

#[cfg(test)]
mod tests {
    use super::{id_shown, record, returned, shown, spec};
    use crate::expr::message;
    use serde_json::{Value as Json, json};

    #[test]
    fn messages_come_back_as_they_were() {
        let parts = json!(["a", {"type": "text"}]);
        for value in [
            message("ai", "x".into(), "m1".into()),
            message("human", parts, "a b/ü".into()),
            message("ai", "".into(), "".into()),
            message("system", "x".into(), "hex-1".into()),
            message("remove", "".into(), "m1".into()),
            message("remove", "".into(), "__remove_all__".into()),
        ] {
            let there = record(value.clone());
            assert_ne!(there, value);
            assert_eq!(spec(there), value);
            assert_eq!(shown(record(json!([value, 1]))), json!([value, 1]));
        }
    }

    #[test]
    fn messages_without_an_id_get_one_that_traces_leave_out() {
        let value = message("ai", "x".into(), Json::Null);
        let there = record(value.clone());
        let id = there["id"].as_str().unwrap();
        assert_ne!(there, record(value.clone()));
        assert_eq!(id_shown(id), Json::Null);
        assert_eq!(spec(there.clone())["$msg"][2], json!(id));
        assert_eq!(shown(json!({"all": [there]})), json!({"all": [value]}));
    }

    #[test]
    fn only_what_the_engine_looks_at_becomes_a_record() {
        let value = message("ai", "x".into(), "m".into());
        let nested = json!({"a": {"b": value}});
        assert_eq!(record(nested.clone()), nested);
        assert_eq!(returned(json!({"a": value}))["a"]["role"], json!("assistant"));
        let own = json!({"remove": "m", "x": {"id": 1, "role": "r", "parts": []}});
        assert_eq!(shown(own.clone()), own);
    }
}
