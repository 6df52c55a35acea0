//! Questions about calls that were begun and have no result, and the answers that they take.

use crate::error::{ApiError, Result};
use serde_json::{Value, json};
use weftwork_types::interrupt::{Ask, Interrupt};
use weftwork_types::tool::UnknownAnswer;

/// Kinds of such questions: about a call of a tool, and about an effect of a node.
const KINDS: [&str; 2] = ["tool_outcome_unknown", "once_outcome_unknown"];

/// Answers that a question takes, for a person who types one.
const ANSWERS: &str =
    "`happened` and its result as JSON, `call again` (it may then happen twice), or `give up`";

/// A question about a call of unknown outcome.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnknownCall<'a> {
    value: &'a Value,
}

impl<'a> UnknownCall<'a> {
    /// Returns the call that a question is about; `None` for other questions.
    pub(crate) fn of(question: &'a Interrupt) -> Option<Self> {
        match &question.ask {
            Ask::Value { value } => Self::of_value(value),
            _ => None,
        }
    }

    /// As [`UnknownCall::of`], for the value of a question.
    pub(crate) fn of_value(value: &'a Value) -> Option<Self> {
        let kind = value.get("kind").and_then(Value::as_str)?;
        KINDS.contains(&kind).then_some(Self { value })
    }

    /// Returns the question as a text.
    pub(crate) fn text(self) -> String {
        let reason = self.value["reason"].as_str().unwrap_or_default();
        format!("{reason}. Did it happen? Answer {ANSWERS}.")
    }

    /// Reads an answer: an [`UnknownAnswer`], or a line that means one, each also as `answer` of an
    /// object.
    ///
    /// # Errors
    /// Status 422 for anything else. The question stays open.
    pub(crate) fn read(self, mut value: &Value) -> Result<Value> {
        let only = |value: &Value| value.as_object().is_some_and(|members| members.len() == 1);
        while let Some(answer) = value.get("answer").filter(|_| only(value)) {
            value = answer;
        }
        let answer = match value {
            Value::String(line) => UnknownAnswer::of_line(line),
            // Further members could mean something else than is done.
            other => serde_json::from_value(other.clone())
                .ok()
                .filter(|answer: &UnknownAnswer| json!(answer) == *other),
        };
        answer.map(|answer| json!(answer)).ok_or_else(|| self.refuse())
    }

    fn refuse(self) -> ApiError {
        let name = ["tool", "name"].iter().find_map(|name| self.value[*name].as_str());
        ApiError::invalid(format!(
            "this does not say what happened to the call of `{}`; expected {ANSWERS}. The question \
             stays open",
            name.unwrap_or_default()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::UnknownCall;
    use serde_json::json;

    #[test]
    fn only_the_three_answers_are_read() {
        let value = json!({"kind": "tool_outcome_unknown", "tool": "pay", "reason": "it died"});
        let call = UnknownCall::of_value(&value).expect("it is about a call");
        let again = json!({"answer": "call_again"});
        let give_up = json!({"answer": "give_up"});
        let happened = json!({"answer": "happened", "value": {"id": 1}});
        for (given, expected) in [
            (json!("call again"), Some(&again)),
            (json!("Again"), Some(&again)),
            (again.clone(), Some(&again)),
            (json!({"answer": "give up"}), Some(&give_up)),
            (give_up.clone(), Some(&give_up)),
            (json!(r#"happened {"id": 1}"#), Some(&happened)),
            (happened.clone(), Some(&happened)),
            (json!({"answer": happened}), Some(&happened)),
            (json!({"answer": again}), Some(&again)),
            (json!("happened"), None),
            (json!("yes"), None),
            (json!({"answer": "yes"}), None),
            (json!({"answer": "give_up", "value": 1}), None),
            (json!({"type": "approve"}), None),
        ] {
            assert_eq!(call.read(&given).ok().as_ref(), expected, "{given}");
        }
        assert!(UnknownCall::of_value(&json!({"kind": "other"})).is_none());
        let refused = call.read(&json!("yes")).expect_err("no answer");
        assert!(refused.detail().contains("`pay`"), "{}", refused.detail());
    }
}
