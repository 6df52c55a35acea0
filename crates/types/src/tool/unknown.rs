//! Questions about calls that were begun and have no result, and the answers that they take.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;

/// Kinds of such questions: about a call of a tool, and about an effect of a node.
const KINDS: [&str; 2] = ["tool_outcome_unknown", "once_outcome_unknown"];

/// A person's answer about a call with an unknown outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case", deny_unknown_fields)]
pub enum UnknownAnswer {
    /// The call took effect, with this result.
    Happened {
        /// Result, as the call would have returned it.
        value: Value,
    },
    /// The call did not take effect: repeat it, with the same idempotency key.
    CallAgain,
    /// Give up: the outcome stays unknown.
    GiveUp,
}

impl UnknownAnswer {
    /// The answers in words, for a person who types one.
    pub const WORDS: &str =
        "`happened` and its result as JSON, `call again` (it may then happen twice), or `give up`";

    /// Reads an answer that a person typed: `again` or `call again`, `give up`, or `happened` and the
    /// result as JSON. `None` for anything else.
    #[must_use]
    pub fn of_line(line: &str) -> Option<Self> {
        let line = line.trim();
        match line.to_lowercase().as_str() {
            "again" | "call again" | "call_again" => Some(Self::CallAgain),
            "give up" | "give_up" => Some(Self::GiveUp),
            _ => {
                let result = line.strip_prefix("happened")?.trim();
                Some(Self::Happened { value: crate::json::read(result.as_bytes()).ok()? })
            }
        }
    }

    /// Reads an answer: one in its own form, or a line that means one, each also as the only member
    /// `answer` of an object. `None` for anything else, also for an answer with further members, which
    /// could mean something else than is done.
    #[must_use]
    pub fn read(mut value: &Value) -> Option<Self> {
        let only = |value: &Value| value.as_object().is_some_and(|members| members.len() == 1);
        while let Some(answer) = value.get("answer").filter(|_| only(value)) {
            value = answer;
        }
        match value {
            Value::String(line) => Self::of_line(line),
            other => {
                let answer: Self = serde_json::from_value(other.clone()).ok()?;
                (json!(answer) == *other).then_some(answer)
            }
        }
    }

    /// Returns the JSON Schema of an answer, given the schema of results.
    #[must_use]
    pub fn schema(result: Value) -> Value {
        json!({"oneOf": [
            {
                "type": "object",
                "properties": {"answer": {"const": "happened"}, "value": result},
                "required": ["answer", "value"],
                "additionalProperties": false,
            },
            {
                "type": "object",
                "properties": {"answer": {"enum": ["call_again", "give_up"]}},
                "required": ["answer"],
                "additionalProperties": false,
            },
        ]})
    }

    /// Returns the schema of results in a [`schema`](Self::schema) of answers.
    #[must_use]
    pub fn result_in(schema: &Value) -> Option<&Value> {
        schema.pointer("/oneOf/0/properties/value")
    }

    /// Returns the JSON Schema of a form with one field for the answer, and one for the result of a call
    /// that happened.
    #[must_use]
    pub fn form(mut result: Value) -> Value {
        if let Some(members) = result.as_object_mut() {
            let text = "Result of the call, if it happened";
            members.entry("description").or_insert_with(|| text.into());
        }
        json!({
            "type": "object",
            "properties": {
                "answer": {
                    "type": "string",
                    "title": "What happened",
                    "description": "happened: the call took effect, with the result in `value`; \
                                    call_again: it is made again, and may then happen twice; give_up: \
                                    it stays unknown",
                    "enum": ["happened", "call_again", "give_up"],
                },
                "value": result,
            },
            "required": ["answer"],
        })
    }
}

/// A question about a call of unknown outcome. It is displayed as a sentence for a person.
#[derive(Debug, Clone, Copy)]
pub struct UnknownCall<'a> {
    value: &'a Value,
}

impl<'a> UnknownCall<'a> {
    /// Reads the value of a question; `None` for one about something else.
    #[must_use]
    pub fn of_value(value: &'a Value) -> Option<Self> {
        let kind = value.get("kind").and_then(Value::as_str)?;
        KINDS.contains(&kind).then_some(Self { value })
    }

    /// Returns the name of the tool, or of the effect of a node.
    #[must_use]
    pub fn name(self) -> &'a str {
        ["tool", "name"].iter().find_map(|name| self.value[*name].as_str()).unwrap_or_default()
    }

    /// Returns the id of a call of a tool; `None` for an effect of a node.
    pub(crate) fn tool_call_id(self) -> Option<&'a str> {
        self.value["tool_call_id"].as_str()
    }

    /// Returns the arguments of the call, or the input of the effect.
    pub(crate) fn given(self) -> Option<&'a Value> {
        ["args", "input"].iter().find_map(|name| self.value.get(*name))
    }
}

impl fmt::Display for UnknownCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value["reason"].as_str() {
            Some(reason) => f.write_str(reason)?,
            None => write!(f, "`{}` was begun and left no result", self.name())?,
        }
        f.write_str(". It may have been made")?;
        if let Some(given) = self.given().filter(|given| !given.is_null()) {
            write!(f, ", with {given}")?;
        }
        write!(f, ". Did it happen? Answer {}.", UnknownAnswer::WORDS)?;
        match self.value["idempotency_key"].as_str() {
            Some(key) => write!(f, " The other side knows it by the key {key}."),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_three_answers_are_read() {
        let happened = UnknownAnswer::Happened { value: json!({"id": 1}) };
        for (given, expected) in [
            (json!("call again"), Some(UnknownAnswer::CallAgain)),
            (json!("Again"), Some(UnknownAnswer::CallAgain)),
            (json!({"answer": "call_again"}), Some(UnknownAnswer::CallAgain)),
            (json!({"answer": "give up"}), Some(UnknownAnswer::GiveUp)),
            (json!({"answer": "give_up"}), Some(UnknownAnswer::GiveUp)),
            (json!(r#"happened {"id": 1}"#), Some(happened.clone())),
            (json!(happened), Some(happened.clone())),
            (json!({"answer": happened}), Some(happened.clone())),
            (json!({"answer": {"answer": "again"}}), Some(UnknownAnswer::CallAgain)),
            (json!("happened"), None),
            (json!("yes"), None),
            (json!({"answer": "yes"}), None),
            (json!({"answer": "give_up", "value": 1}), None),
            (json!({"type": "approve"}), None),
        ] {
            assert_eq!(UnknownAnswer::read(&given), expected, "{given}");
        }
    }

    #[test]
    fn a_question_names_the_call_what_may_have_happened_and_the_answers() {
        for (value, parts) in [
            (
                json!({"kind": "tool_outcome_unknown", "tool": "pay", "args": {"cents": 50},
                    "idempotency_key": "k-1", "reason": "tool `pay` was called and left no result"}),
                &["tool `pay` was called", r#"with {"cents":50}"#, "key k-1"][..],
            ),
            (
                json!({"kind": "once_outcome_unknown", "name": "charge", "input": null}),
                &["`charge` was begun", "may have been made. Did it happen?"][..],
            ),
        ] {
            let text = UnknownCall::of_value(&value).expect("it is about a call").to_string();
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
            assert!(text.contains(UnknownAnswer::WORDS) && !text.contains("kind"), "{text}");
        }
        assert!(UnknownCall::of_value(&json!({"kind": "other"})).is_none());
    }
}
