use super::{Channel, Persist, Refused, from_json, split_overwrite, to_json, typed};
use crate::list::List;
use crate::value::{Value, Write};
use serde::{Deserialize, Serialize};
use weftwork_types::MessageId;
use weftwork_types::message::Message;

/// A conversation. A message with a new id is appended, one with a known id replaces the older,
/// a removal takes it out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Messages;

/// One change to a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MessageWrite {
    /// Removes the message with this id; it must be there.
    Remove {
        /// The id.
        remove: MessageId,
    },
    /// Appends the message, or replaces the one with the same id.
    Put(Message),
}

impl From<Message> for MessageWrite {
    fn from(message: Message) -> Self {
        Self::Put(message)
    }
}

impl MessageWrite {
    /// The changes that a JSON write of the channel [`Messages`] stands for: one, or a list.
    pub(crate) fn read(json: &serde_json::Value) -> Result<Vec<Self>, String> {
        if json.is_array() { from_json(json) } else { from_json(json).map(|one| vec![one]) }
    }
}

impl Messages {
    pub(crate) const KIND: &str = "messages";

    fn put(list: &mut List<Message>, message: Message) {
        // From the end: what is replaced is nearly always recent.
        let known = list.iter().rev().position(|m| m.id == message.id);
        match known {
            Some(from_end) => {
                let index = list.len() - 1 - from_end;
                list.set(index, message);
            }
            None => list.push(message),
        }
    }

    fn change(list: &mut List<Message>, write: &MessageWrite) -> Result<(), String> {
        match write {
            MessageWrite::Put(message) => Self::put(list, message.clone()),
            MessageWrite::Remove { remove } => {
                let index = list
                    .iter()
                    .position(|m| m.id == *remove)
                    .ok_or_else(|| format!("there is no message `{remove}` to remove"))?;
                list.remove(index);
            }
        }
        Ok(())
    }
}

impl Channel for Messages {
    fn kind(&self) -> &'static str {
        Self::KIND
    }

    fn persist(&self) -> Persist {
        Persist::Writes
    }

    fn initial(&self) -> Option<Value> {
        Some(Value::new(List::<Message>::new()))
    }

    fn apply(&self, current: Option<Value>, writes: &[Write]) -> Result<Option<Value>, Refused> {
        if let Some(json) = split_overwrite(writes)? {
            let value = self.decode(json).map_err(|reason| Refused::Bad { index: 0, reason })?;
            return Ok(Some(value));
        }
        let mut list = current.and_then(Value::take::<List<Message>>).unwrap_or_default();
        for (index, write) in writes.iter().enumerate() {
            let bad = |reason| Refused::Bad { index, reason };
            let decoded;
            let changes = match write {
                Write::Typed(changes) => typed::<Vec<MessageWrite>>(changes).map_err(bad)?,
                Write::Json(json) | Write::Overwrite(json) => {
                    decoded = MessageWrite::read(json).map_err(bad)?;
                    &decoded
                }
            };
            for change in changes {
                Self::change(&mut list, change).map_err(bad)?;
            }
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
        to_json(typed::<Vec<MessageWrite>>(write)?)
    }
}
