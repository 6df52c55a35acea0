//! Messages in the values and writes of any channel, for streams of messages.

use super::{MessageWrite, Messages};
use crate::channel::Items;
use crate::list::List;
use crate::plan::{ChannelIdx, Plan};
use crate::task::TaskOutput;
use crate::value::{Value, Write};
use serde_json::Value as Json;
use weftwork_types::message::Message;

/// The name under which a flow or a task returns its result.
const RETURNED: &str = "__return__";
/// The place of the write that holds what the next turn of the flow gets.
const SAVED: usize = 1;

/// Passes on the ids of the messages in a channel's value: of the value itself, or of the items of
/// a list.
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

/// Passes on the ids of the messages in a JSON value: of the value itself, or of the items of a
/// list.
pub fn ids_in_json(json: &Json, each: impl FnMut(&str)) {
    one_or_all(json).iter().filter_map(message_id).for_each(each);
}

fn one_or_all(json: &Json) -> &[Json] {
    json.as_array().map_or(std::slice::from_ref(json), Vec::as_slice)
}

/// The id of a JSON value that looks like a message: it has `id`, `role` and `parts`, no more.
fn message_id(json: &Json) -> Option<&str> {
    let members = json.as_object().filter(|members| members.len() == 3)?;
    let is_message = members.get("role")?.is_string() && members.get("parts")?.is_array();
    members.get("id")?.as_str().filter(|_| is_message)
}

fn message(json: &Json) -> Option<MessageWrite> {
    message_id(json)?;
    super::from_json(json).map(MessageWrite::Put).ok()
}

/// The messages in what a flow or a task returned: in the result itself, or in its members.
fn returned(result: &Json) -> Vec<MessageWrite> {
    let members = result.as_object().filter(|_| message_id(result).is_none());
    match members {
        Some(members) => members.values().flat_map(one_or_all).filter_map(message).collect(),
        None => one_or_all(result).iter().filter_map(message).collect(),
    }
}

impl Plan {
    /// The messages that a task returned, in the order of its writes: those of its writes to
    /// conversations, with the removals among them, and values of other channels that are
    /// messages or lists with messages. Overwrites are left out. Of a flow or a task of one, those
    /// of its result, and of what it saves.
    #[must_use]
    pub fn messages_in(&self, output: &TaskOutput) -> Vec<MessageWrite> {
        let mut found = Vec::new();
        let result = output.named.iter().find(|(name, _)| name == RETURNED);
        if let Some((_, Write::Json(result))) = result {
            found.extend(returned(result));
            if let Some((_, Write::Json(saved))) = output.writes.get(SAVED) {
                found.extend(one_or_all(saved).iter().filter_map(message));
            }
            return found;
        }
        for (index, write) in &output.writes {
            self.messages_of(Some(*index), write, &mut found);
        }
        for (name, write) in &output.named {
            self.messages_of(self.channel_idx(name), write, &mut found);
        }
        found
    }

    fn messages_of(
        &self,
        channel: Option<ChannelIdx>,
        write: &Write,
        found: &mut Vec<MessageWrite>,
    ) {
        match write {
            Write::Typed(value) => typed(value, found),
            Write::Json(json) => {
                let channel = channel.and_then(|index| self.channels.get(index.0));
                let talk = channel.is_some_and(|plan| plan.channel.kind() == Messages::KIND);
                let read = |json| match talk {
                    true => MessageWrite::read_one(json).ok(),
                    false => message(json),
                };
                found.extend(one_or_all(json).iter().filter_map(read));
            }
            Write::Overwrite(_) => {}
        }
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
    use crate::channel::{Append, Items, LastValue, MessageWrite, Messages};
    use crate::list::List;
    use crate::plan::{ChannelIdx, Plan, PlanBuilder, START};
    use crate::task::TaskOutput;
    use crate::value::{Value, Write};
    use serde_json::{Value as Json, json};
    use std::sync::Arc;
    use weftwork_types::MessageId;
    use weftwork_types::message::{Message, Role};

    fn message(id: &str) -> Message {
        Message::text(MessageId::new(id).expect("an id"), Role::User, "hi")
    }

    fn plan() -> Plan {
        let mut plan = PlanBuilder::default();
        plan.channel("talk", Arc::new(Messages));
        plan.channel("one", Arc::new(LastValue::<Json>::new()));
        plan.channel("all", Arc::new(Append::<Message>::new()));
        plan.node("a");
        plan.edge(START, "a");
        plan.build().expect("sound")
    }

    fn found(output: &TaskOutput) -> Vec<String> {
        let id = |change: MessageWrite| match change {
            MessageWrite::Put(message) => message.id.to_string(),
            MessageWrite::Remove { remove } => format!("-{remove}"),
        };
        plan().messages_in(output).into_iter().map(id).collect()
    }

    #[test]
    fn messages_are_found_in_writes_of_every_form() {
        let mut output = TaskOutput::default();
        let changes = [MessageWrite::Put(message("a")), MessageWrite::remove_all()];
        output.write(ChannelIdx(0), Write::typed(Items::from_iter(changes)));
        output.write(ChannelIdx(2), Write::typed(Items::from_iter([message("b")])));
        output.write(ChannelIdx(1), Write::json(json!([message("c"), 5, {"remove": "x"}])));
        output.named = vec![
            ("talk".to_owned(), Write::json(json!([message("d"), {"remove": "y"}]))),
            ("talk".to_owned(), Write::overwrite(json!([message("e")]))),
            ("unknown".to_owned(), Write::json(json!(message("f")))),
            ("one".to_owned(), Write::json(json!({"nested": message("g")}))),
        ];
        assert_eq!(found(&output), ["a", "-__remove_all__", "b", "c", "d", "-y", "f"]);
    }

    #[test]
    fn results_of_flows_are_searched_to_their_members() {
        let returned = |result: Json| {
            let named = vec![("__return__".to_owned(), Write::json(result))];
            found(&TaskOutput { named, ..TaskOutput::default() })
        };
        assert_eq!(returned(json!(message("a"))), ["a"]);
        assert_eq!(returned(json!([message("a"), 1])), ["a"]);
        assert_eq!(returned(json!({"x": message("a"), "y": [message("b")]})), ["a", "b"]);
        assert_eq!(returned(json!({"x": {"y": message("a")}})), [""; 0]);
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
