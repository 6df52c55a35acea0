//! The messages of a conversation, as programs read them.

use super::{Message, Role, ToolResult};
use serde::{Deserialize, Serialize};
use std::ops::Deref;

/// The messages of a conversation, oldest first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Messages(Vec<Message>);

impl Messages {
    /// Text of the last message of the assistant; empty if there is none.
    ///
    /// ```
    /// use weftwork_types::message::{Message, Messages};
    ///
    /// let messages = Messages::from_iter([Message::user("Hello")]);
    /// assert_eq!(messages.text(), "");
    /// ```
    #[must_use]
    pub fn text(&self) -> String {
        let said = self.0.iter().rev().find(|message| message.role == Role::Assistant);
        said.map(Message::joined_text).unwrap_or_default()
    }

    /// The last result of the tool with this wire name, also one that is an error.
    #[must_use]
    pub fn tool_result(&self, name: &str) -> Option<&ToolResult> {
        let results = self.0.iter().rev().flat_map(|message| message.parts.iter().rev());
        results.filter_map(super::Part::as_tool_result).find(|result| result.name == name)
    }
}

impl Deref for Messages {
    type Target = [Message];

    fn deref(&self) -> &[Message] {
        &self.0
    }
}

impl FromIterator<Message> for Messages {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        Self(messages.into_iter().collect())
    }
}

impl IntoIterator for Messages {
    type Item = Message;
    type IntoIter = std::vec::IntoIter<Message>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Messages {
    type Item = &'a Message;
    type IntoIter = std::slice::Iter<'a, Message>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Part;
    use super::*;
    use crate::{MessageId, ToolCallId};
    use serde_json::json;

    fn result(call: &str, name: &str, value: u32) -> Part {
        Part::ToolResult(ToolResult {
            tool_call_id: ToolCallId::new(call).expect("an id"),
            name: name.to_owned(),
            value: json!(value),
            shown: None,
            is_error: value == 2,
        })
    }

    #[test]
    fn text_and_results_are_the_last_ones() {
        let id = |name: &str| MessageId::new(name).expect("an id");
        let results =
            vec![result("a", "look_up", 1), result("b", "other", 3), result("c", "look_up", 2)];
        let messages = Messages::from_iter([
            Message::text(id("1"), Role::Assistant, "first"),
            Message::text(id("2"), Role::Assistant, "second"),
            Message::new(id("3"), Role::Tool, results),
            Message::user("thanks"),
        ]);
        assert_eq!(messages.text(), "second");
        let found = messages.tool_result("look_up").expect("there is one");
        assert_eq!((&found.value, found.is_error), (&json!(2), true));
        assert_eq!(messages.tool_result("unknown"), None);
        assert_eq!(messages.len(), 4, "a slice of messages");
        let read: Messages = serde_json::from_value(json!(messages)).expect("is read");
        assert_eq!(read, messages);
    }
}
