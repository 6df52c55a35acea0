//! Approvals: a person accepts or refuses one call with its exact arguments.

use crate::canonical::Hash;
use crate::tool::Effect;
use crate::{ThreadId, Timestamp, ToolCallId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A call that waits for approval, with everything the person has to see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// Id of the call.
    pub tool_call_id: ToolCallId,
    /// Canonical name of the tool.
    pub tool: String,
    /// Arguments of the call; secret ones are replaced by a text. The binding is of the exact ones.
    pub args: Value,
    /// Effect of the tool.
    pub effect: Effect,
    /// Hash of tool, arguments, call and thread. A call with other arguments needs its own
    /// approval.
    pub binding: Hash,
    /// Reason for which the policy requires an approval.
    pub reason: String,
}

impl ApprovalRequest {
    /// Returns the hash that binds an approval to one call of one thread with exact arguments.
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
    /// `true` if the call may be made.
    pub approved: bool,
    /// Binding that was shown to the person. A decision with another binding is refused.
    pub binding: Hash,
    /// Comment of the person; the model reads it if the call is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// An answered approval as recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    /// The request.
    pub request: ApprovalRequest,
    /// The decision.
    pub decision: ApprovalDecision,
    /// Subject of the principal that decided.
    pub decided_by: String,
    /// Time of the decision.
    pub decided_at: Timestamp,
}
