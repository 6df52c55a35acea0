//! The shown form of data that contains calls and results of tools.
//!
//! The full value of a result is for the model. Events, streams, states and outcomes contain the
//! shown form instead: the members that the tool's declaration allows. Arguments that the tool declares as secret are
//! replaced by a text ([`secret`](crate::secret)). Messages in checkpoints have
//! both forms.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The form in which state is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StateForm {
    /// The shown form of results of tools.
    #[default]
    Shown,
    /// The state as it is stored, with the values that only models read.
    Whole,
}

impl StateForm {
    /// Returns a value of a channel, or an object with such values, in this form.
    #[must_use]
    pub fn of(self, mut state: Value) -> Value {
        if self == Self::Shown {
            show(&mut state);
        }
        state
    }
}

/// Replaces each tool call and tool result in a JSON value by its shown form, at any depth: in
/// messages, in lists of messages, and in objects that contain them.
///
/// A result is an object in the form of [`ToolResult`](crate::message::ToolResult) as a part of a
/// message. Its own members are data of a tool and are not searched.
pub fn show(json: &mut Value) {
    match json {
        Value::Array(items) => items.iter_mut().for_each(show),
        Value::Object(members) => {
            let whole = match form(members) {
                Some(Form::Result) => "value",
                Some(Form::Call) => "args",
                None => return members.values_mut().for_each(show),
            };
            if let Some(shown) = members.remove("shown") {
                members.insert(whole.to_owned(), shown);
            }
        }
        _ => {}
    }
}

/// An object with a whole and a shown form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A result of a tool, whose whole form is `value`.
    Result,
    /// A call of a tool, whose whole form is `args`.
    Call,
}

/// Returns the form of an object; `None` if it is no result and no call.
pub(crate) fn form(members: &serde_json::Map<String, Value>) -> Option<Form> {
    if is_result(members) {
        return Some(Form::Result);
    }
    is_call(members).then_some(Form::Call)
}

fn is_result(members: &serde_json::Map<String, Value>) -> bool {
    let is = |name: &str, form: fn(&Value) -> bool| members.get(name).is_some_and(form);
    is("type", |kind| kind == "tool_result")
        && is("tool_call_id", Value::is_string)
        && is("name", Value::is_string)
        && members.contains_key("value")
}

/// Returns `true` for a call as a part of a message, or alone as the argument of a task.
fn is_call(members: &serde_json::Map<String, Value>) -> bool {
    let is_text = |name: &str| members.get(name).is_some_and(Value::is_string);
    let known = |name: &str| matches!(name, "type" | "id" | "name" | "args" | "shown");
    is_text("id")
        && is_text("name")
        && members.contains_key("args")
        && members.contains_key("shown")
        && members.get("type").is_none_or(|kind| kind == "tool_call")
        && members.keys().all(|name| known(name))
}

/// Deserialises a member that is present, including `null`, as `Some`.
///
/// # Errors
/// The error of the deserializer.
pub fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Message, ToolResult};
    use crate::{MessageId, ToolCallId};
    use serde_json::json;

    fn message(value: Value, shown: Option<Value>) -> Message {
        let tool_call_id = ToolCallId::new("c1").expect("an id");
        let name = "order".to_owned();
        let result = ToolResult { tool_call_id, name, value, shown, is_error: false };
        Message::tool_result(MessageId::new("m1").expect("an id"), result)
    }

    #[test]
    fn results_are_shown_at_any_depth() {
        let whole = message(json!({"id": 1, "card": "4111"}), Some(json!({"id": 1})));
        let shown = json!(message(json!({"id": 1}), None));
        assert_eq!(json!(whole.clone().into_shown()), shown);
        for (state, expected) in [
            (json!(whole), shown.clone()),
            (json!([whole, 7]), json!([shown, 7])),
            (json!({"messages": [whole], "n": 1}), json!({"messages": [shown], "n": 1})),
            (json!([{"a": {"b": [whole.parts]}}]), json!([{"a": {"b": [shown["parts"]]}}])),
        ] {
            assert_eq!(StateForm::Whole.of(state.clone()), state);
            assert_eq!(StateForm::Shown.of(state), expected);
        }
    }

    #[test]
    fn a_result_that_is_shown_as_null_is_not_shown_whole() {
        let whole = message(json!("4111"), Some(Value::Null));
        let read: Message = serde_json::from_value(json!(whole)).expect("a message");
        assert_eq!(read, whole);
        assert_eq!(read.into_shown(), message(Value::Null, None));
        assert_eq!(StateForm::Shown.of(json!(whole)), json!(message(Value::Null, None)));
    }

    #[test]
    fn data_of_tools_is_not_interpreted() {
        let inner = json!(message(json!(1), Some(json!(2)))).pointer("/parts/0").cloned();
        let whole = message(json!({"of": inner}), None);
        assert_eq!(StateForm::Shown.of(json!(whole)), json!(whole));
        let other = json!({"type": "tool_result", "value": 1, "shown": 2});
        assert_eq!(StateForm::Shown.of(other.clone()), other);
    }
}
