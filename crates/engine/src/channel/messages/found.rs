//! Messages in the values and writes of any channel, for streams of messages.

use super::MessageWrite;
use crate::channel::Items;
use crate::list::List;
use crate::value::{Value, Write};
use serde_json::Value as Json;
use weftwork_types::message::Message;

/// Calls `each` with the ids of the messages in a channel's value: the value itself, or the items
/// of a list.
pub fn ids_in(value: &Value, mut each: impl FnMut(&str)) {
    if let Some(list) = value.get::<List<Message>>() {
        list.iter().for_each(|message| each(message.id.as_str()));
    } else if let Some(message) = value.get::<Message>() {
        each(message.id.as_str());
    } else if let Some(json) = value.get::<Json>() {
        ids_in_json(json, each);
    } else if let Some(list) = value.get::<List<Json>>() {
        list.iter().filter_map(message_id).for_each(each);
    }
}

/// Calls `each` with the ids of the messages in a JSON value: the value itself, or the items of a
/// list.
pub fn ids_in_json(json: &Json, each: impl FnMut(&str)) {
    one_or_all(json).iter().filter_map(message_id).for_each(each);
}

fn one_or_all(json: &Json) -> &[Json] {
    json.as_array().map_or(std::slice::from_ref(json), Vec::as_slice)
}

/// The id of a JSON value with the form of a message: exactly the members `id`, `role` and `parts`.
fn message_id(json: &Json) -> Option<&str> {
    let members = json.as_object().filter(|members| members.len() == 3)?;
    let is_message = members.get("role")?.is_string() && members.get("parts")?.is_array();
    members.get("id")?.as_str().filter(|_| is_message)
}

/// The message that a JSON value is, or the messages among its items.
pub(crate) fn messages_in_json(json: &Json) -> impl Iterator<Item = MessageWrite> + '_ {
    one_or_all(json).iter().filter_map(message)
}

fn message(json: &Json) -> Option<MessageWrite> {
    message_id(json)?;
    super::from_json(json).map(MessageWrite::Put).ok()
}

/// The messages in the result of a flow or a task: the result itself, or its members.
pub(crate) fn returned_messages(result: &Json) -> Vec<MessageWrite> {
    let members = result.as_object().filter(|_| message_id(result).is_none());
    match members {
        Some(members) => members.values().flat_map(one_or_all).filter_map(message).collect(),
        None => messages_in_json(result).collect(),
    }
}

/// Adds the messages in a write. Writes of JSON to a conversation may also remove messages;
/// overwrites are left out.
pub(crate) fn messages_written(
    write: &Write,
    is_conversation: bool,
    found: &mut Vec<MessageWrite>,
) {
    match write {
        Write::Typed(value) => typed(value, found),
        Write::Json(json) if is_conversation => {
            found
                .extend(one_or_all(json).iter().filter_map(|one| MessageWrite::read_one(one).ok()));
        }
        Write::Json(json) => found.extend(messages_in_json(json)),
        Write::Overwrite(_) => {}
    }
}

fn typed(value: &Value, found: &mut Vec<MessageWrite>) {
    if let Some(changes) = value.get::<Items<MessageWrite>>() {
        found.extend(changes.iter().cloned());
    } else if let Some(messages) = value.get::<Items<Message>>() {
        found.extend(messages.iter().cloned().map(MessageWrite::Put));
    } else if let Some(message) = value.get::<Message>() {
        found.push(MessageWrite::Put(message.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::{ids_in, ids_in_json};
    use crate::list::List;
    use crate::value::Value;
    use serde_json::json;
    use weftwork_types::MessageId;
    use weftwork_types::message::{Message, Role};

    fn message(id: &str) -> Message {
        Message::text(MessageId::new(id).expect("an id"), Role::User, "hi")
    }

    #[test]
    fn ids_are_found_in_values() {
        let ids = |value: Value| {
            let mut ids = Vec::new();
            ids_in(&value, |id| ids.push(id.to_owned()));
            ids
        };
        let list: List<Message> = [message("a"), message("b")].into_iter().collect();
        assert_eq!(ids(Value::new(list)), ["a", "b"]);
        assert_eq!(ids(Value::new(message("a"))), ["a"]);
        assert_eq!(ids(Value::new(json!([message("a"), {"id": "b"}]))), ["a"]);
        assert_eq!(ids(Value::new(5)), [""; 0]);
        ids_in_json(&json!({"id": 1, "role": "user", "parts": []}), |id| panic!("{id}"));
    }
}
