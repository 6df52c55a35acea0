//! Open questions. A run ends at them, and an answer starts the run that continues.

use crate::approval::{ApprovalDecision, ApprovalRequest, Verdict};
use crate::run::AnswerTo;
use crate::shown::{present, show};
use crate::tool::{UnknownAnswer, UnknownCall};
use crate::{InterruptId, TaskId, Timestamp, ToolCallId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;

/// An open question of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Id, derived from the task and the number of its previous answers.
    pub id: InterruptId,
    /// Task that asked.
    pub task: TaskId,
    /// Node that asked.
    pub node: String,
    /// Name of the subgraph of that node, such as the member of a team; `None` if it is a node of the
    /// outermost graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// Content of the question.
    pub ask: Ask,
    /// JSON Schema that the answer must satisfy, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Value>,
    /// Time at which the question expires, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Answer that the question takes when it expires. It is not checked against the schema.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub default: Option<Value>,
    /// Key by which the question can be answered instead of its id. Several questions may share a
    /// key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl Interrupt {
    /// Returns the time at which an unanswered question takes its default; `None` if it waits for
    /// an answer without a limit.
    #[must_use]
    pub fn lapses_at(&self) -> Option<Timestamp> {
        self.default.as_ref().and(self.expires_at)
    }

    /// Returns `true` if the question waits for somebody, and not for a time alone.
    #[must_use]
    pub fn asks(&self) -> bool {
        !matches!(self.ask, Ask::Timer { .. })
    }

    /// Returns the call that waits for an approval; `None` for a question of another kind.
    #[must_use]
    pub fn approval(&self) -> Option<&ApprovalRequest> {
        match &self.ask {
            Ask::Approval(request) => Some(request),
            Ask::Question { .. } | Ask::Value { .. } | Ask::Timer { .. } => None,
        }
    }

    /// Returns the call of unknown outcome that the question is about; `None` for a question of another
    /// kind.
    #[must_use]
    pub fn unknown(&self) -> Option<UnknownCall<'_>> {
        match &self.ask {
            Ask::Value { value } => UnknownCall::of_value(value),
            Ask::Question { .. } | Ask::Approval(_) | Ask::Timer { .. } => None,
        }
    }

    /// Returns the JSON Schema of a form for the answer to a question about a call of unknown outcome;
    /// `None` for a question of another kind.
    #[must_use]
    pub fn unknown_form(&self) -> Option<Value> {
        self.unknown()?;
        let schema = self.answer_schema.as_ref();
        let result = schema.and_then(UnknownAnswer::result_in);
        let any = || json!({});
        Some(UnknownAnswer::form(result.filter(|of| of.is_object()).cloned().unwrap_or_else(any)))
    }

    /// The answer with this value.
    #[must_use]
    pub fn answer(&self, value: impl Into<Value>) -> AnswerTo {
        AnswerTo { question: self.id, value: value.into() }
    }

    /// The answer that approves the call which waits for an approval, exactly as the question shows
    /// it. For a question of another kind it is `true`.
    #[must_use]
    pub fn approve(&self) -> AnswerTo {
        self.decide(Verdict::Approve, None, true)
    }

    /// The answer that refuses the call which waits for an approval, for a reason that the model
    /// reads. For a question of another kind it is `false`, without the reason.
    #[must_use]
    pub fn reject(&self, reason: impl Into<String>) -> AnswerTo {
        self.decide(Verdict::Reject, Some(reason.into()), false)
    }

    /// The answer that approves the call which waits for an approval with these arguments, complete,
    /// in place of its own. For a question of another kind it is the arguments.
    #[must_use]
    pub fn edit(&self, args: Value) -> AnswerTo {
        self.decide(Verdict::Edit { args: args.clone() }, None, args)
    }

    fn decide(
        &self,
        verdict: Verdict,
        comment: Option<String>,
        other: impl Into<Value>,
    ) -> AnswerTo {
        self.answer(match self.approval() {
            Some(ApprovalRequest { binding, .. }) => {
                json!(ApprovalDecision { binding: *binding, verdict, comment })
            }
            None => other.into(),
        })
    }

    /// Returns the question with the shown form of results of tools.
    #[must_use]
    pub fn into_shown(self) -> Self {
        let mut default = self.default;
        default.iter_mut().for_each(show);
        Self { ask: self.ask.into_shown(), default, ..self }
    }
}

/// The content of a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ask {
    /// A question to a person, asked by the model or within the call of a tool.
    Question {
        /// Text of the question.
        question: String,
        /// Call that waits for the answer.
        tool_call_id: ToolCallId,
        /// Canonical name of the tool that asks; `None` if the model asks through `ask_human`, and
        /// the answer is the result of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
    },
    /// A request to approve a call.
    Approval(ApprovalRequest),
    /// Any other value that a node passed.
    Value {
        /// The value.
        value: Value,
    },
    /// A timer: the node waits for a time and asks nothing.
    Timer {
        /// Time at which the node resumes.
        until: Timestamp,
    },
}

impl Ask {
    /// Returns the content with the shown form of results of tools.
    #[must_use]
    pub fn into_shown(self) -> Self {
        match self {
            Self::Value { mut value } => {
                show(&mut value);
                Self::Value { value }
            }
            Self::Question { .. } | Self::Approval(_) | Self::Timer { .. } => self,
        }
    }
}

/// Writes what is asked, for a person.
impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Question { question, .. } => f.write_str(question),
            Self::Approval(ApprovalRequest { tool, args, reason, .. }) => {
                write!(f, "approve the call of `{tool}` with {args}? {reason}")
            }
            Self::Value { value } => write_value(f, value),
            Self::Timer { .. } => f.write_str("waits for a time"),
        }
    }
}

/// Writes a value that a node passed: a text, a call of unknown outcome, or a text with the call that it
/// is about. Of others, the JSON.
fn write_value(f: &mut fmt::Formatter<'_>, value: &Value) -> fmt::Result {
    if let Some(unknown) = UnknownCall::of_value(value) {
        return write!(f, "{unknown}");
    }
    let Some(text) = value.as_str().or_else(|| value.get("question")?.as_str()) else {
        return write!(f, "{value}");
    };
    f.write_str(text)?;
    let Some(tool) = value.pointer("/call/tool").and_then(Value::as_str) else { return Ok(()) };
    let args = value["call"]["arguments"].to_string();
    // The text of an approval names its call.
    match text.contains(tool) && text.contains(&args) {
        true => Ok(()),
        false => write!(f, " (the call of `{tool}` with {args})"),
    }
}

/// An answer with its author. It is written once; a second answer receives the record of the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The answer.
    pub value: Value,
    /// Subject of the principal that answered.
    pub answered_by: String,
    /// Time of the answer.
    pub answered_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_default_of_null_is_not_the_same_as_none() {
        let mut interrupt = Interrupt {
            id: InterruptId(1),
            task: TaskId(2),
            node: "nap".to_owned(),
            graph: None,
            ask: Ask::Timer { until: Timestamp(5) },
            answer_schema: None,
            expires_at: Some(Timestamp(5)),
            default: Some(Value::Null),
            key: Some("order-1".to_owned()),
        };
        let written = json!(interrupt);
        assert_eq!(written["ask"], json!({"kind": "timer", "until": 5}));
        assert_eq!(serde_json::from_value::<Interrupt>(written).expect("is read"), interrupt);
        assert_eq!(interrupt.lapses_at(), Some(Timestamp(5)));
        interrupt.default = None;
        let written = json!(interrupt);
        assert!(written.get("default").is_none(), "{written}");
        assert_eq!(serde_json::from_value::<Interrupt>(written).expect("is read"), interrupt);
        assert_eq!(interrupt.lapses_at(), None, "nothing to take");
    }

    #[test]
    fn a_value_is_asked_in_words() {
        let call = json!({"tool": "pay", "arguments": {"cents": 5}});
        let named = r#"approve the call of `pay` with {"cents":5}? it pays"#;
        let unknown = json!({"kind": "tool_outcome_unknown", "tool": "pay", "reason": "it died"});
        for (value, expected) in [
            (json!("Which?"), "Which?"),
            (json!({"question": "Which?", "a": 1}), "Which?"),
            (
                json!({"question": "Pay?", "call": call}),
                r#"Pay? (the call of `pay` with {"cents":5})"#,
            ),
            (json!({"question": named, "call": call}), named),
            (json!({"question": 1}), r#"{"question":1}"#),
            (json!([1]), "[1]"),
            (unknown.clone(), &UnknownCall::of_value(&unknown).expect("is one").to_string()),
        ] {
            assert_eq!(Ask::Value { value: value.clone() }.to_string(), expected, "{value}");
        }
    }

    #[test]
    fn a_question_from_before_there_were_keys_is_read() {
        let written = json!({
            "id": InterruptId(1), "task": TaskId(2), "node": "ask",
            "ask": {"kind": "value", "value": 1}, "expires_at": 5,
        });
        let interrupt: Interrupt = serde_json::from_value(written).expect("is read");
        assert_eq!((interrupt.default, interrupt.key), (None, None));
    }
}
