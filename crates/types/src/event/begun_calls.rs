//! Calls of tools that were begun and of which the outcome is not known.

use super::{AiEvent, RunEvent};
use crate::interrupt::Interrupt;
use crate::tool::{ToolFailure, code};
use crate::{TaskId, ToolCallId};
use serde_json::Value;
use std::fmt;

/// The calls that runs have begun and that have no known outcome: a run that is cancelled may have made
/// them. They are displayed for a person, with their arguments in their shown form.
#[derive(Debug, Clone, Default)]
pub struct BegunCalls {
    calls: Vec<BegunCall>,
}

#[derive(Debug, Clone)]
struct BegunCall {
    /// Id of a tool call, and the task that makes it; `None` for an effect of a node.
    at: Option<(ToolCallId, Option<TaskId>)>,
    name: String,
    args: Value,
}

impl BegunCalls {
    /// Reads the next event.
    pub fn read(&mut self, event: &RunEvent) {
        match &event.event {
            AiEvent::ToolCallStart { tool_call_id, tool_name, args, charged, task, .. } => {
                let at = (tool_call_id.clone(), *task);
                self.calls.retain(|call| call.at.as_ref() != Some(&at));
                // No tool runs for one that is not charged.
                if *charged {
                    let name = tool_name.clone();
                    self.calls.push(BegunCall { at: Some(at), name, args: args.clone() });
                }
            }
            AiEvent::ToolCallResult { tool_call_id, result, is_error, task } => {
                let at = (tool_call_id.clone(), *task);
                if !is_error || !is_unknown(result) {
                    self.calls.retain(|call| call.at.as_ref() != Some(&at));
                }
            }
            _ => {}
        }
    }

    /// Reads an open question: one about a call of unknown outcome names the call.
    pub fn read_question(&mut self, question: &Interrupt) {
        let Some(call) = question.unknown() else { return };
        let id = call.tool_call_id();
        let is_same =
            |begun: &BegunCall| begun.at.as_ref().is_some_and(|(of, _)| Some(of.as_str()) == id);
        if !self.calls.iter().any(is_same) {
            let args = call.given().cloned().unwrap_or_default();
            self.calls.push(BegunCall { at: None, name: call.name().to_owned(), args });
        }
    }

    /// Returns the text about a call or a task that was cancelled while it waited for an answer.
    #[must_use]
    pub fn cancelled_at_wait(&self, what: &str) -> String {
        match self.calls.as_slice() {
            [] => format!("{what} was cancelled"),
            _ => format!(
                "{what} was cancelled, but this was begun, has no known outcome, and may have been made: \
                 {self}"
            ),
        }
    }

    /// Returns the text about a call or a task that was cancelled while it was in progress.
    #[must_use]
    pub fn cancelled_in_progress(&self, what: &str) -> String {
        match self.calls.as_slice() {
            [] => format!(
                "{what} was cancelled while it was in progress; a request that was under way may have \
                 been made"
            ),
            _ => self.cancelled_at_wait(what),
        }
    }
}

fn is_unknown(result: &Value) -> bool {
    let failure = serde_json::from_value::<ToolFailure>(result.clone());
    failure.is_ok_and(|failure| failure.code.as_deref() == Some(code::OUTCOME_UNKNOWN.0))
}

/// Writes the calls with their arguments; nothing if there are none.
impl fmt::Display for BegunCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, BegunCall { name, args, .. }) in self.calls.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}`{name}` with {args}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Ask;
    use crate::{InterruptId, Timestamp};
    use serde_json::json;

    fn event(event: Value) -> RunEvent {
        let event = serde_json::from_value(event).expect("an event");
        RunEvent::durable(1, Timestamp(0), event)
    }

    fn start(id: &str) -> RunEvent {
        event(json!({"type": "tool_call_start", "tool_call_id": id, "tool_name": "pay",
            "args": {"to": id}}))
    }

    fn result(id: &str, result: &Value, is_error: bool) -> RunEvent {
        event(json!({"type": "tool_call_result", "tool_call_id": id, "result": result,
            "is_error": is_error}))
    }

    #[test]
    fn calls_without_a_known_outcome_are_named() {
        let mut begun = BegunCalls::default();
        ["a", "b", "c", "d"].iter().for_each(|id| begun.read(&start(id)));
        begun.read(&result("b", &json!(1), false));
        begun.read(&result("c", &json!(ToolFailure::outcome_unknown("pay")), true));
        begun.read(&result("d", &json!("no"), true));
        begun.read(&event(json!({"type": "tool_call_start", "tool_call_id": "e",
            "tool_name": "ask_human", "args": {}, "charged": false})));
        assert_eq!(begun.to_string(), r#"`pay` with {"to":"a"}, `pay` with {"to":"c"}"#);
        let asked = |id: &str| Interrupt {
            id: InterruptId(1),
            task: TaskId(1),
            node: "n".to_owned(),
            graph: None,
            ask: Ask::Value {
                value: json!({"kind": "tool_outcome_unknown", "tool_call_id": id, "tool": "pay",
                    "args": {"to": id}}),
            },
            answer_schema: None,
            expires_at: None,
            default: None,
            key: None,
        };
        begun.read_question(&asked("c"));
        assert_eq!(begun.calls.len(), 2, "it is named already");
        begun.read(&result("a", &json!(1), false));
        begun.read_question(&asked("f"));
        assert_eq!(begun.to_string(), r#"`pay` with {"to":"c"}, `pay` with {"to":"f"}"#);
        let text = begun.cancelled_in_progress("the call");
        assert!(text.contains("may have been made: `pay` with"), "{text}");
        let none = BegunCalls::default();
        assert_eq!(none.cancelled_at_wait("the call"), "the call was cancelled");
        assert!(none.cancelled_in_progress("the call").contains("may have been made"));
    }
}
