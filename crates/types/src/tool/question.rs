//! Questions that a tool asks within a call, and a person's replies.

use super::ToolOutcome;
use crate::Timestamp;
use crate::shown::present;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A question that a tool asks a person before it returns its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolQuestion {
    /// Text of the question.
    pub question: String,
    /// JSON Schema (2020-12) of the content of an accepting reply. It refers to nothing outside
    /// itself.
    pub schema: Value,
    /// Time at which the question expires; `None` if it waits without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Content of the reply that the question takes when it expires; `None` for a cancelled reply.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub default: Option<Value>,
}

impl ToolQuestion {
    /// Creates a question without a time limit.
    #[must_use]
    pub fn new(question: impl Into<String>, schema: Value) -> Self {
        Self { question: question.into(), schema, expires_at: None, default: None }
    }

    /// Sets the time at which the question is cancelled if it has no reply.
    #[must_use]
    pub fn expires_at(mut self, at: Timestamp) -> Self {
        self.expires_at = Some(at);
        self
    }

    /// Sets the content that is taken when the question expires.
    #[must_use]
    pub fn default(mut self, content: Value) -> Self {
        self.default = Some(content);
        self
    }

    /// Returns the reply that the question takes when it expires.
    #[must_use]
    pub fn lapse(&self) -> Reply {
        match &self.default {
            Some(content) => Reply::Accept { content: content.clone() },
            None => Reply::Cancel,
        }
    }
}

/// The questions of one round of a call, and what the tool needs to go on after the replies.
///
/// ```
/// use serde_json::json;
/// use weftwork_types::tool::{Questions, ToolQuestion};
///
/// let guests = ToolQuestion::new("How many guests?", json!({"type": "integer"}));
/// let round = Questions::new([guests]).state(json!({"table": 7}));
/// assert_eq!(round.questions.len(), 1);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Questions {
    /// The questions, asked one after the other.
    pub questions: Vec<ToolQuestion>,
    /// State of the tool, which it gets back with the replies. It is recorded and never shown.
    #[serde(default)]
    pub state: Value,
    /// `true` if the tool has taken an effect before it asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acted: bool,
}

impl Questions {
    /// Creates a round without state, of a tool that has taken no effect.
    #[must_use]
    pub fn new(questions: impl IntoIterator<Item = ToolQuestion>) -> Self {
        Self { questions: questions.into_iter().collect(), state: Value::Null, acted: false }
    }

    /// Sets the state that the tool gets back with the replies.
    #[must_use]
    pub fn state(mut self, state: Value) -> Self {
        self.state = state;
        self
    }

    /// Declares that the tool has taken an effect before it asked. If the call then fails, the
    /// failure says so.
    #[must_use]
    pub fn acted(mut self) -> Self {
        self.acted = true;
        self
    }
}

/// A person's reply to a [`ToolQuestion`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// The person answered.
    Accept {
        /// The answer, which satisfies the question's schema.
        content: Value,
    },
    /// The person refuses to answer.
    Decline,
    /// The person dismissed the question, or it expired.
    Cancel,
}

impl Reply {
    /// Returns the JSON Schema of a reply, given the schema of its content.
    #[must_use]
    pub fn schema(content: Value) -> Value {
        json!({"oneOf": [
            {
                "type": "object",
                "properties": {"action": {"const": "accept"}, "content": content},
                "required": ["action", "content"],
                "additionalProperties": false,
            },
            {
                "type": "object",
                "properties": {"action": {"enum": ["decline", "cancel"]}},
                "required": ["action"],
                "additionalProperties": false,
            },
        ]})
    }
}

/// The end of one round of a call, as recorded: questions, or the outcome of the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ToolRecord {
    /// The tool asked. The call goes on in a further round.
    Asked(Questions),
    /// The call ended.
    #[serde(untagged)]
    Ended(ToolOutcome),
}

impl ToolRecord {
    /// Returns the record with what may be shown: no state, and the shown form of the value.
    #[must_use]
    pub fn into_shown(self) -> Self {
        match self {
            Self::Asked(questions) => Self::Asked(questions.state(Value::Null)),
            Self::Ended(outcome) => Self::Ended(outcome.into_shown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_rounds_and_of_ends_are_read_back() {
        let asked = Questions::new([ToolQuestion::new("How many?", json!({"type": "integer"}))])
            .state(json!({"secret": 1}));
        for record in [
            ToolRecord::Asked(asked.clone().acted()),
            ToolRecord::Asked(asked.clone()),
            ToolRecord::Ended(ToolOutcome::ok(json!({"status": "asked"}))),
        ] {
            let read: ToolRecord = serde_json::from_value(json!(record)).expect("is read");
            assert_eq!(read, record);
        }
        let outcome = json!(ToolOutcome::ok(json!(1)));
        let read: ToolRecord = serde_json::from_value(outcome).expect("an older record is read");
        assert_eq!(read, ToolRecord::Ended(ToolOutcome::ok(json!(1))));
        assert!(!json!(ToolRecord::Asked(asked).into_shown()).to_string().contains("secret"));
    }
}
