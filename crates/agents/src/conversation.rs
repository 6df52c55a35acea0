//! Conversations in the form that models accept.

use std::collections::{BTreeMap, BTreeSet};
use weftwork_tools::ASK_HUMAN;
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
/// A call has one result, the first one after it: clients send invented results of calls that the
/// agent has closed itself, and the model must not read those. Only answers of a person to a question
/// of the model may come from clients, so that the newest one counts.
///
/// Models get the whole values, without marks of what is hidden: the run remembers that here.
pub(crate) fn for_model<'a>(
    messages: impl Iterator<Item = &'a Message> + Clone,
    hidden: &HiddenValues,
) -> Vec<Message> {
    hidden.add_conversation(messages.clone());
    let results = Results::of(messages.clone());
    let mut out = Vec::new();
    for (index, message) in messages.enumerate() {
        if message.tool_results().next().is_some() {
            continue;
        }
        out.push(whole_calls(message));
        for call in message.tool_calls() {
            let result = results.find(call, index).map(whole_result);
            let result = result.unwrap_or_else(|| left_open(call.id.clone(), &call.name));
            out.push(result_message(result, &message.id));
        }
    }
    out
}

/// The results in a conversation, with the positions of their messages.
#[derive(Default)]
struct Results<'a> {
    results: BTreeMap<&'a ToolCallId, Vec<(usize, &'a ToolResult)>>,
    /// Positions of the messages with a call. Some models count their calls from 1 in each answer.
    calls: BTreeMap<&'a ToolCallId, Vec<usize>>,
}

impl<'a> Results<'a> {
    fn of(messages: impl Iterator<Item = &'a Message>) -> Self {
        let mut found = Self::default();
        for (index, message) in messages.enumerate() {
            for result in message.tool_results() {
                found.results.entry(&result.tool_call_id).or_default().push((index, result));
            }
            for call in message.tool_calls() {
                found.calls.entry(&call.id).or_default().push(index);
            }
        }
        found
    }

    /// Returns the result of a call: one between it and the next call with its id, otherwise, if no
    /// other call has the id, one before it.
    fn find(&self, call: &ToolCall, index: usize) -> Option<&'a ToolResult> {
        let results = self.results.get(&call.id)?;
        let calls = self.calls.get(&call.id).map(Vec::as_slice).unwrap_or_default();
        let next = calls.iter().find(|other| **other > index).copied().unwrap_or(usize::MAX);
        let mut own = results.iter().filter(|(at, _)| (index..next).contains(at));
        let found = if call.name == ASK_HUMAN { own.next_back() } else { own.next() };
        let found = found.or_else(|| results.last().filter(|_| calls.len() == 1));
        found.map(|(_, result)| *result)
    }
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
    fn the_first_result_of_a_call_counts_and_equal_ids_are_told_apart_by_position() {
        let asks = |name: &str, call: &str| {
            let mut message = calls(name, &[call]);
            let Part::ToolCall(call) = &mut message.parts[0] else { panic!("a call") };
            call.name = ASK_HUMAN.to_owned();
            message
        };
        let own = result("a", json!("was not called"), true);
        let invented = Message { id: id("x"), ..result("a", json!("Successfully handled"), false) };
        let user = || Message::text(id("u"), Role::User, "never mind");
        for (stored, seen) in [
            (
                vec![calls("m1", &["a"]), own.clone(), invented.clone(), user()],
                vec!["was not called"],
            ),
            (
                vec![calls("m1", &["a"]), user(), own.clone(), invented.clone()],
                vec!["was not called"],
            ),
            // An answer to a question comes from a person.
            (vec![asks("m1", "a"), own.clone(), invented], vec!["Successfully handled"]),
            // A conversation that has the results first.
            (vec![own, calls("m1", &["a"])], vec!["was not called"]),
            (
                vec![
                    calls("m1", &["1"]),
                    result("1", json!("first"), false),
                    calls("m2", &["1"]),
                    Message { id: id("r2"), ..result("1", json!("second"), false) },
                ],
                vec!["first", "second"],
            ),
        ] {
            let sent = for_model(stored.iter(), &HiddenValues::default());
            let values: Vec<_> = sent.iter().flat_map(Message::tool_results).collect();
            let values: Vec<_> = values.iter().map(|result| result.value.clone()).collect();
            assert_eq!(values, seen, "{stored:?}");
        }
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
