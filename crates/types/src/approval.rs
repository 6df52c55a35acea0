//! Approvals: a person says yes or no to one call with its exact arguments.

use crate::canonical::Hash;
use crate::tool::Effect;
use crate::{ThreadId, Timestamp, ToolCallId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A call that waits for a person, with everything the person must see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool's canonical name.
    pub tool: String,
    /// The exact arguments that will be used.
    pub args: Value,
    /// What the tool changes.
    pub effect: Effect,
    /// Binds the answer to tool, arguments, call and thread; other arguments need another answer.
    pub binding: Hash,
    /// Why policy asks.
    pub reason: String,
}

impl ApprovalRequest {
    /// The hash that binds an approval to one call of one thread with exact arguments.
    #[must_use]
    pub fn bind(thread: &ThreadId, call: &ToolCallId, tool: &str, args: &Value) -> Hash {
        crate::canonical::hash(&serde_json::json!({
            "v": 1, "thread": thread.as_str(), "call": call.as_str(), "tool": tool, "args": args,
        }))
    }
}

/// A person's answer to an [`ApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDecision {
    /// Whether the call may go ahead.
    pub approved: bool,
    /// The binding that was shown to the person. A decision with another binding is refused.
    pub binding: Hash,
    /// What the person said; the model reads it when the call is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// An answered approval as it stays on record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    /// What was asked.
    pub request: ApprovalRequest,
    /// What was answered.
    pub decision: ApprovalDecision,
    /// Who answered: the subject of the principal.
    pub decided_by: String,
    /// When.
    pub decided_at: Timestamp,
}
