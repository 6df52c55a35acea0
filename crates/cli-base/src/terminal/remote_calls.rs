//! Tool calls of assistants of other servers, read from the frames of their runs.

use super::shorten;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of calls that are remembered, so that each is shown once. At more, all are
/// forgotten.
const CALLS_MAX: usize = 1_024;
/// Maximum length of the id of a call, in bytes.
const ID_BYTES_MAX: usize = 256;
/// Maximum length of the displayed name of a tool, in characters.
const NAME_CHARS_MAX: usize = 128;
/// Maximum length of displayed arguments, in characters.
const ARGS_CHARS_MAX: usize = 400;

/// A call that was made, with texts that can be shown on a line.
#[derive(Debug, PartialEq)]
pub(super) struct RemoteCall {
    pub(super) name: String,
    /// `None` if the message with the call is not part of the run, as after an approval.
    pub(super) args: Option<String>,
    pub(super) result: String,
    pub(super) is_error: bool,
}

/// A reader of frames. All that it reads is untrusted.
#[derive(Debug, Default)]
pub(super) struct RemoteCalls {
    /// Names and arguments of calls without a result, by their ids.
    requested: BTreeMap<String, (String, String)>,
    /// Ids of calls with a result. Frames of graphs repeat the results of their subgraphs.
    answered: BTreeSet<String>,
}

impl RemoteCalls {
    /// Reads a frame of the mode `updates`, and returns the calls whose results it has. A call
    /// without a result may wait for an approval, and is not made yet.
    pub(crate) fn read(&mut self, frame: &Value, result_chars_max: usize) -> Vec<RemoteCall> {
        let mut made = Vec::new();
        for message in frame.as_object().into_iter().flatten().flat_map(|(_, update)| {
            // A node may make several updates.
            let several = update.as_array().map(Vec::as_slice);
            several.unwrap_or(std::slice::from_ref(update)).iter().flat_map(messages_of)
        }) {
            match text_member(message, "type") {
                Some("ai") => self.add_request(message),
                Some("tool") => made.extend(self.take_answer(message, result_chars_max)),
                _ => {}
            }
        }
        made
    }

    fn add_request(&mut self, message: &Value) {
        for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let Some(id) = id_member(call, "id") else { continue };
            let Some(name) = text_member(call, "name") else { continue };
            if !self.answered.contains(id) {
                if self.requested.len() == CALLS_MAX {
                    self.requested.clear();
                }
                let args = call.get("args").unwrap_or(&Value::Null).to_string();
                let shown = (shorten(name, NAME_CHARS_MAX), shorten(&args, ARGS_CHARS_MAX));
                self.requested.insert(id.to_owned(), shown);
            }
        }
    }

    fn take_answer(&mut self, message: &Value, result_chars_max: usize) -> Option<RemoteCall> {
        let id = id_member(message, "tool_call_id")?;
        if self.answered.len() == CALLS_MAX {
            self.answered.clear();
        }
        if !self.answered.insert(id.to_owned()) {
            return None;
        }
        let result = match message.get("content") {
            Some(Value::String(text)) => shorten(text, result_chars_max),
            other => shorten(&other.unwrap_or(&Value::Null).to_string(), result_chars_max),
        };
        let is_error = text_member(message, "status") == Some("error");
        let (name, args) = match self.requested.remove(id) {
            Some((name, args)) => (name, Some(args)),
            None => (shorten(text_member(message, "name").unwrap_or(id), NAME_CHARS_MAX), None),
        };
        Some(RemoteCall { name, args, result, is_error })
    }
}

/// Returns the messages of an update.
fn messages_of(update: &Value) -> &[Value] {
    match update.get("messages") {
        Some(Value::Array(messages)) => messages,
        Some(message) => std::slice::from_ref(message),
        None => &[],
    }
}

fn text_member<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

fn id_member<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    text_member(value, name).filter(|id| !id.is_empty() && id.len() <= ID_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn requested(id: &str, name: &str) -> Value {
        json!({"type": "ai", "tool_calls": [{"id": id, "name": name, "args": {"a": 1}}]})
    }

    fn result(id: &str, content: &Value) -> Value {
        json!({"type": "tool", "tool_call_id": id, "name": "add", "content": content})
    }

    #[test]
    fn a_call_is_shown_once_and_with_its_result() {
        let mut calls = RemoteCalls::default();
        let frame = json!({"model": {"messages": [requested("c", "add")]}});
        assert_eq!(calls.read(&frame, 9), [], "it may wait for an approval");
        let frame = json!({"tools": [{"messages": result("c", &json!("2"))}, null]});
        let name = "add".to_owned();
        let args = Some("{\"a\":1}".to_owned());
        let made = RemoteCall { name, args, result: "2".to_owned(), is_error: false };
        assert_eq!(calls.read(&frame, 9), [made]);
        // The outer graph repeats the messages of the subgraph.
        let again = [requested("c", "add"), result("c", &json!("2"))];
        assert_eq!(calls.read(&json!({"agent": {"messages": again}}), 9), []);
        assert!(calls.requested.is_empty());
        let mut other = result("d", &json!([{"type": "text", "text": "2"}]));
        other["status"] = json!("error");
        let made = calls.read(&json!({"tools": {"messages": [other]}}), 9);
        let expected = RemoteCall {
            name: "add".to_owned(),
            args: None,
            result: "[{\"type\":…".to_owned(),
            is_error: true,
        };
        assert_eq!(made, [expected]);
    }

    #[test]
    fn texts_of_the_server_are_harmless_and_limited() {
        let mut calls = RemoteCalls::default();
        let long = "n\n\u{1b}[2J".repeat(200);
        let messages = [requested("c", &long), result("c", &json!("a\n\u{202e}b"))];
        let made = calls.read(&json!({"x": {"messages": messages}}), 160);
        assert_eq!(made[0].result, "a \\u{202e}b");
        assert_eq!(made[0].name.chars().count(), NAME_CHARS_MAX + 1);
        assert!(!made[0].name.contains(['\n', '\u{1b}']));
        for frame in [json!(1), json!({"x": [1]}), json!({"x": {"messages": [1, {"type": "ai"}]}})]
        {
            assert_eq!(calls.read(&frame, 160), [], "{frame}");
        }
        for number in 0..2 * CALLS_MAX {
            let messages = [requested(&format!("r{number}"), "add")];
            calls.read(&json!({"x": {"messages": messages}}), 160);
            let messages = [result(&format!("a{number}"), &json!(""))];
            calls.read(&json!({"x": {"messages": messages}}), 160);
        }
        assert!(calls.requested.len() <= CALLS_MAX && calls.answered.len() <= CALLS_MAX);
        let long = [result(&"i".repeat(ID_BYTES_MAX + 1), &json!(""))];
        assert_eq!(RemoteCalls::default().read(&json!({"x": {"messages": long}}), 9), []);
    }
}
