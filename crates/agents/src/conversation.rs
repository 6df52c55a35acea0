//! Conversations in the form that models accept.

use std::collections::{BTreeMap, BTreeSet};
use weftwork_types::message::{Message, Part, ToolCall, ToolResult};
use weftwork_types::secret::HiddenValues;
use weftwork_types::tool::ToolErrorKind;
use weftwork_types::{MessageId, ToolCallId};

/// Places each tool result directly after the message with its call, and answers calls without a
/// result with an error, so that no model receives an open call.
///
/// Agents close the calls of their own messages from the record. A call without a result comes with
/// a conversation from elsewhere, of which nothing is known.
///
/// Models get the whole values, without marks of what is hidden: the run remembers that here.
pub(crate) fn for_model<'a>(
    messages: impl Iterator<Item = &'a Message> + Clone,
    hidden: &HiddenValues,
) -> Vec<Message> {
    hidden.add_conversation(messages.clone());
    let mut results: BTreeMap<&ToolCallId, &ToolResult> = BTreeMap::new();
    for result in messages.clone().flat_map(Message::tool_results) {
        results.insert(&result.tool_call_id, result);
    }
    let mut out = Vec::new();
    for message in messages {
        if message.tool_results().next().is_some() {
            continue;
        }
        out.push(whole_calls(message));
        for call in message.tool_calls() {
            let result = results.get(&call.id).map(|result| whole_result(result));
            let result = result.unwrap_or_else(|| left_open(call.id.clone(), &call.name));
            out.push(result_message(result, &message.id));
        }
    }
    out
}

/// Returns the calls of the last message that have no result after it. A message of results has none
/// of its own.
pub(crate) fn open_calls<'a>(
    messages: impl DoubleEndedIterator<Item = &'a Message>,
) -> Vec<&'a ToolCall> {
    let mut closed = BTreeSet::new();
    for message in messages.rev() {
        if message.tool_results().next().is_none() {
            return message.tool_calls().filter(|call| !closed.contains(&call.id)).collect();
        }
        closed.extend(message.tool_results().map(|result| &result.tool_call_id));
    }
    Vec::new()
}

/// The message reuses the id of a stored one: providers do not see ids, and hashes exclude them.
fn result_message(result: ToolResult, of: &MessageId) -> Message {
    Message::tool_result(of.clone(), result)
}

/// The message with the model's arguments alone.
fn whole_calls(message: &Message) -> Message {
    let mut message = message.clone();
    for part in &mut message.parts {
        if let Part::ToolCall(call) = part {
            call.shown = None;
        }
    }
    message
}

/// The result with the model's value alone.
fn whole_result(result: &ToolResult) -> ToolResult {
    let ToolResult { tool_call_id, name, value, is_error, shown: _ } = result;
    ToolResult {
        tool_call_id: tool_call_id.clone(),
        name: name.clone(),
        value: value.clone(),
        shown: None,
        is_error: *is_error,
    }
}

fn left_open(tool_call_id: ToolCallId, name: &str) -> ToolResult {
    ToolResult {
        tool_call_id,
        name: name.to_owned(),
        value: serde_json::json!({
            "error_code": "unavailable",
            "safe_message": "the conversation has no result of the call: it may have been made; do not repeat it without checking whether it was",
        }),
        shown: None,
        is_error: true,
    }
}

/// The number of rounds at the end that contain only calls with invalid arguments.
pub(crate) fn invalid_rounds<'a>(messages: impl DoubleEndedIterator<Item = &'a Message>) -> usize {
    let mut rounds = 0;
    let mut invalid_since_call = false;
    for message in messages.rev() {
        let mut results = message.tool_results().peekable();
        if results.peek().is_some() {
            if !results.all(is_invalid) {
                return rounds;
            }
            invalid_since_call = true;
        } else if message.parts.iter().any(|part| matches!(part, Part::ToolCall(_))) {
            if !std::mem::replace(&mut invalid_since_call, false) {
                return rounds;
            }
            rounds += 1;
        } else {
            return rounds;
        }
    }
    rounds
}

fn is_invalid(result: &ToolResult) -> bool {
    let kind = serde_json::to_value(ToolErrorKind::Validation).ok();
    result.is_error && result.value.get("error_code") == kind.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weftwork_types::message::{Role, ToolCall};

    fn id(text: &str) -> MessageId {
        MessageId::new(text).expect("valid id")
    }

    fn calls(name: &str, ids: &[&str]) -> Message {
        let part = |id: &&str| {
            Part::ToolCall(ToolCall {
                id: ToolCallId::new(id).expect("valid id"),
                name: "t".to_owned(),
                args: json!({}),
                shown: None,
            })
        };
        Message::new(id(name), Role::Assistant, ids.iter().map(part).collect())
    }

    fn result(call: &str, value: serde_json::Value, is_error: bool) -> Message {
        let tool_call_id = ToolCallId::new(call).expect("valid id");
        let result =
            ToolResult { tool_call_id, name: "t".to_owned(), value, shown: None, is_error };
        Message::tool_result(id(&format!("r-{call}")), result)
    }

    #[test]
    fn results_follow_their_calls_and_open_calls_are_closed() {
        let stored = [
            calls("m1", &["a", "b"]),
            Message::text(id("u"), Role::User, "never mind"),
            result("b", json!(2), false),
        ];
        let seen = for_model(stored.iter(), &HiddenValues::default());
        let shape: Vec<_> = seen
            .iter()
            .map(|m| match m.tool_results().next() {
                Some(r) => format!("{}:{}", r.tool_call_id, r.is_error),
                None => m.id.to_string(),
            })
            .collect();
        assert_eq!(shape, ["m1", "a:true", "b:false", "u"]);
    }

    #[test]
    fn only_unbroken_invalid_rounds_count() {
        let bad = |call: &str| result(call, json!({"error_code": "validation"}), true);
        let user = Message::text(id("u"), Role::User, "hi");
        let mut list = vec![user, calls("m1", &["a"]), bad("a"), calls("m2", &["b"]), bad("b")];
        assert_eq!(invalid_rounds(list.iter()), 2);
        list.extend([calls("m3", &["c"]), result("c", json!(1), false)]);
        assert_eq!(invalid_rounds(list.iter()), 0);
        list.extend([calls("m4", &["d"]), bad("d")]);
        assert_eq!(invalid_rounds(list.iter()), 1);
    }
}
