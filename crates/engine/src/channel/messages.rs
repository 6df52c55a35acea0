mod found;

use super::{
    Channel, Items, Refused, from_json, patch, split_overwrite, to_json, typed, write_json,
};
use crate::list::{Keyed, List};
use crate::value::{Value, Write};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use weftwork_types::MessageId;
use weftwork_types::message::{Message, Part, read_written};

pub use found::{ids_in, ids_in_json};
pub(crate) use found::{messages_in_json, messages_written, returned_messages};

/// A conversation. A message with a new id is appended, a message with a known id replaces the
/// older one at its position, and a removal deletes it.
///
/// The changes of one write are applied together: removals take effect at its end, and a message
/// that is added after its removal stays at its position. A removal of [`REMOVE_ALL`] cancels the
/// changes before it in the write.
///
/// A message that is exactly the shown form of the known message with its id changes nothing: a
/// client that returns what it was shown does not delete the results that only models read. This
/// also applies to writes that remove all messages and to overwrites.
///
/// Source: `langgraph/graph/message.py`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Messages;

/// The id whose removal deletes all messages.
pub const REMOVE_ALL: &str = "__remove_all__";

/// A single change to a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MessageWrite {
    /// Removes the message with this id, which must exist; with the id [`REMOVE_ALL`], all
    /// messages.
    Remove {
        /// The id.
        remove: MessageId,
    },
    /// Appends the message, or replaces the one with the same id.
    Put(Message),
}

/// The JSON shape of a message, quoted in error texts.
const MESSAGE: &str = r#"`{"id": .., "role": "user", "parts": [{"type": "text", "text": ..}]}`"#;

impl Keyed for Message {
    type Id = MessageId;

    fn id(&self) -> &MessageId {
        &self.id
    }
}

impl From<Message> for MessageWrite {
    fn from(message: Message) -> Self {
        Self::Put(message)
    }
}

impl MessageWrite {
    /// Removes every message.
    #[must_use]
    pub fn remove_all() -> Self {
        #[expect(clippy::expect_used, reason = "the literal is a valid id")]
        let remove = MessageId::new(REMOVE_ALL).expect("it has only letters and `_`");
        Self::Remove { remove }
    }

    fn removes_all(&self) -> bool {
        matches!(self, Self::Remove { remove } if remove.as_str() == REMOVE_ALL)
    }

    /// Reads the changes from a JSON write of the channel [`Messages`]: a change or a list of them.
    pub(crate) fn read(json: &serde_json::Value) -> Result<Vec<Self>, String> {
        match json.as_array() {
            Some(all) => all.iter().map(Self::read_one).collect(),
            None => Self::read_one(json).map(|one| vec![one]),
        }
    }

    fn read_one(json: &serde_json::Value) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Remove {
            remove: MessageId,
        }
        if json.get("remove").is_some() {
            return from_json(json).map(|Remove { remove }| Self::Remove { remove });
        }
        let message = from_json(json).map(Self::Put);
        message.map_err(|e| format!("{e}; a message is {MESSAGE}, a removal `{{\"remove\": id}}`"))
    }
}

impl Messages {
    pub(crate) const KIND: &str = "messages";

    /// Reads messages into a list, beginning at index `start`.
    fn read_items(list: &mut List<Message>, start: usize, json: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(json).map_err(|error| error.to_string())?;
        let mut items = patch::Items::at(list, start);
        if read_written(text, |message| items.take(message)) {
            return Ok(());
        }
        // Read again from the first message, with those after them.
        patch::read_items(list, start, json)
    }

    fn write(list: &mut List<Message>, mut changes: &[MessageWrite]) -> Result<(), String> {
        let mut before = List::new();
        if let Some(at) = changes.iter().rposition(MessageWrite::removes_all) {
            before = std::mem::take(list);
            before.index_ids();
            changes = changes.get(at + 1..).unwrap_or_default();
        }
        let mut removed = BTreeSet::new();
        for change in changes {
            match change {
                MessageWrite::Put(message) => {
                    removed.remove(&message.id);
                    if may_be_shown_form(message) {
                        list.index_ids();
                    }
                    let known =
                        find_message(list, message).or_else(|| find_message(&before, message));
                    list.put(known.unwrap_or(message).clone());
                }
                MessageWrite::Remove { remove } => {
                    list.index_ids();
                    if list.position_of(remove).is_none() {
                        return Err(format!("there is no message `{remove}` to remove"));
                    }
                    removed.insert(remove);
                }
            }
        }
        if !removed.is_empty() {
            list.retain(|message| !removed.contains(&message.id));
        }
        Ok(())
    }
}

/// Returns `true` if the message has parts of which a client may send the shown form.
fn may_be_shown_form(message: &Message) -> bool {
    message.parts.iter().any(|part| matches!(part, Part::ToolResult(_) | Part::ToolCall(_)))
}

/// The message of a list whose shown form is this message. The ids of the list are indexed.
fn find_message<'l>(list: &'l List<Message>, message: &Message) -> Option<&'l Message> {
    if !may_be_shown_form(message) {
        return None;
    }
    let known = list.get(list.position_of(&message.id)?)?;
    message.is_shown_of(known).then_some(known)
}

impl Channel for Messages {
    fn kind(&self) -> &'static str {
        Self::KIND
    }

    fn initial(&self) -> Option<Value> {
        Some(Value::new(List::<Message>::new()))
    }

    fn apply(&self, current: Option<Value>, writes: &[Write]) -> Result<Option<Value>, Refused> {
        if let Some(json) = split_overwrite(writes)? {
            let bad = |reason| Refused::Bad { index: 0, reason };
            let list: List<Message> = from_json(json).map_err(bad)?;
            let mut before = current.and_then(Value::take::<List<Message>>).unwrap_or_default();
            if list.iter().any(may_be_shown_form) {
                before.index_ids();
            }
            let known = |message| find_message(&before, message).unwrap_or(message).clone();
            return Ok(Some(Value::new(list.iter().map(known).collect::<List<_>>())));
        }
        let mut list = current.and_then(Value::take::<List<Message>>).unwrap_or_default();
        for (index, write) in writes.iter().enumerate() {
            let bad = |reason| Refused::Bad { index, reason };
            let decoded;
            let changes = match write {
                Write::Typed(changes) => {
                    typed::<Items<MessageWrite>>(changes).map_err(bad)?.as_slice()
                }
                Write::Json(json) | Write::Overwrite(json) => {
                    decoded = MessageWrite::read(json).map_err(bad)?;
                    &decoded
                }
            };
            Self::write(&mut list, changes).map_err(bad)?;
        }
        Ok(Some(Value::new(list)))
    }

    fn encode(&self, value: &Value) -> Result<serde_json::Value, String> {
        to_json(typed::<List<Message>>(value)?)
    }

    fn decode(&self, json: &serde_json::Value) -> Result<Value, String> {
        from_json::<List<Message>>(json).map(Value::new)
    }

    fn encode_write(&self, write: &Value) -> Result<serde_json::Value, String> {
        to_json(&typed::<Items<MessageWrite>>(write)?.as_slice())
    }

    fn write_value(&self, value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
        write_json(typed::<List<Message>>(value)?, out)
    }

    fn read_value(&self, json: &[u8]) -> Result<Value, String> {
        let mut list = List::<Message>::new();
        Self::read_items(&mut list, 0, json)?;
        Ok(Value::new(list))
    }

    fn write_write(&self, write: &Value, out: &mut Vec<u8>) -> Result<(), String> {
        write_json(typed::<Items<MessageWrite>>(write)?.as_slice(), out)
    }

    fn items(&self, value: &Value) -> Option<usize> {
        value.get::<List<Message>>().map(List::len)
    }

    fn write_patch(&self, older: &Value, value: &Value, out: &mut Vec<u8>) -> Result<bool, String> {
        patch::write(typed::<List<Message>>(older)?, typed::<List<Message>>(value)?, out)
    }

    fn patched(&self, older: Value, patch: &[u8]) -> Result<Value, String> {
        patch::apply(older, patch, Self::read_items)
    }
}

#[cfg(test)]
mod tests;
