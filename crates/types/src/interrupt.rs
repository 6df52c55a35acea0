//! Open questions: a run ends at them, and an answer starts the run that goes on.

use crate::approval::ApprovalRequest;
use crate::{InterruptId, TaskId, Timestamp, ToolCallId};
use serde::{Deserialize, Serialize};
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
