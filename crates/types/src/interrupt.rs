//! Open questions: a run ends at them, and an answer starts the run that goes on.

use crate::approval::ApprovalRequest;
use crate::{InterruptId, TaskId, Timestamp, ToolCallId};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// One open question of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Its id: a function of the task and of how many answers the task had before.
    pub id: InterruptId,
    /// The task that waits.
    pub task: TaskId,
    /// The node that waits.
    pub node: String,
    /// What is asked.
    pub ask: Ask,
    /// JSON Schema the answer must satisfy, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Value>,
    /// When the question lapses, if ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// What it takes as its answer once it has lapsed. It need not satisfy the schema.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub default: Option<Value>,
    /// The key by which it can be answered instead of by its id. Several questions may share one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl Interrupt {
    /// When the question takes its default if nobody answered it before; `None` when it waits for
    /// an answer however long that takes.
    #[must_use]
    pub fn lapses_at(&self) -> Option<Timestamp> {
        self.default.as_ref().and(self.expires_at)
    }
}

/// A member that is there, though it may be `null`.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ask {
    /// A question in words, asked through the `ask_human` tool.
    Question {
        /// The question.
        question: String,
        /// The tool call whose result will be the answer.
        tool_call_id: ToolCallId,
    },
    /// May this call go ahead?
    Approval(ApprovalRequest),
    /// Anything else a node asks.
    Value {
        /// What the node passed.
        value: Value,
    },
    /// Nothing: a node waits for a time.
    Timer {
        /// The time.
        until: Timestamp,
    },
}

/// An answer, and who gave it. Written once; a second answer gets the first one's record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The answer.
    pub value: Value,
    /// Who answered: the subject of the principal.
    pub answered_by: String,
    /// When.
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
    fn a_question_from_before_there_were_keys_is_read() {
        let written = json!({
            "id": InterruptId(1), "task": TaskId(2), "node": "ask",
            "ask": {"kind": "value", "value": 1}, "expires_at": 5,
        });
        let interrupt: Interrupt = serde_json::from_value(written).expect("is read");
        assert_eq!((interrupt.default, interrupt.key), (None, None));
    }
}
