//! Approvals: a person accepts or refuses one call with its exact arguments.

use crate::canonical::Hash;
use crate::shown::present;
use crate::tool::Effect;
use crate::{InterruptId, ThreadId, Timestamp, ToolCallId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A call that waits for approval, with everything the person has to see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// The thread to which the decisions of a run about its calls are bound, where it is not necessarily the
/// thread of the run: an activity that was set aside was asked about in the thread of its instance. A
/// dependency of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingThread(pub ThreadId);

/// A person's answer to an [`ApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "DecisionForm", into = "DecisionForm")]
pub struct ApprovalDecision {
    /// Binding that was shown to the person. A decision with another binding is refused.
    pub binding: Hash,
    /// Decision about the call.
    pub verdict: Verdict,
    /// Comment of the person; the model reads it if the call is rejected.
    pub comment: Option<String>,
}

/// A decision about a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The call is made with the arguments that were shown.
    Approve,
    /// The call is made with these arguments instead.
    Edit {
        /// Arguments of the call, complete.
        args: Value,
    },
    /// The call is not made.
    Reject,
    /// The call is not made, and this text is its result.
    Respond {
        /// Result of the call.
        text: String,
    },
    /// Nobody decided in time, and the call is not made. No answer of a person has this form.
    Lapse,
}

/// The form of a decision in JSON.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionForm {
    approved: bool,
    binding: Hash,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    args: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    respond: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lapsed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
}

impl TryFrom<DecisionForm> for ApprovalDecision {
    type Error = String;

    fn try_from(form: DecisionForm) -> Result<Self, String> {
        let DecisionForm { approved, binding, args, respond, lapsed, comment } = form;
        let verdict = match (approved, args, respond, lapsed) {
            (true, None, None, false) => Verdict::Approve,
            (true, Some(args), None, false) => Verdict::Edit { args },
            (false, None, None, false) => Verdict::Reject,
            (false, None, Some(text), false) => Verdict::Respond { text },
            (false, None, None, true) => Verdict::Lapse,
            _ => return Err("expected `args` only if `approved`, and `respond` only if not".into()),
        };
        Ok(Self { binding, verdict, comment })
    }
}

impl From<ApprovalDecision> for DecisionForm {
    fn from(decision: ApprovalDecision) -> Self {
        let ApprovalDecision { binding, verdict, comment } = decision;
        let (approved, lapsed) = match &verdict {
            Verdict::Approve | Verdict::Edit { .. } => (true, false),
            Verdict::Reject | Verdict::Respond { .. } => (false, false),
            Verdict::Lapse => (false, true),
        };
        let (args, respond) = match verdict {
            Verdict::Edit { args } => (Some(args), None),
            Verdict::Respond { text } => (None, Some(text)),
            Verdict::Approve | Verdict::Reject | Verdict::Lapse => (None, None),
        };
        Self { approved, binding, args, respond, lapsed, comment }
    }
}

impl ApprovalDecision {
    /// Creates a decision without a comment.
    #[must_use]
    pub fn new(binding: Hash, verdict: Verdict) -> Self {
        Self { binding, verdict, comment: None }
    }

    /// Returns the JSON Schema of a person's decision with this binding. `args` is the schema of
    /// edited arguments; without one, arguments cannot be edited.
    #[must_use]
    pub fn schema(binding: Hash, args: Option<Value>) -> Value {
        let form = |approved: bool, member: Option<(&str, Value)>| {
            let mut schema = json!({
                "type": "object",
                "properties": {
                    "approved": {"const": approved},
                    "binding": {"const": binding},
                    "comment": {"type": ["string", "null"]},
                },
                "required": ["approved", "binding"],
                "additionalProperties": false,
            });
            if let Some((name, of)) = member {
                schema["properties"][name] = of;
                schema["required"] = json!(["approved", "binding", name]);
            }
            schema
        };
        let text = json!({"type": "string"});
        let mut forms = vec![form(true, None), form(false, None)];
        forms.push(form(false, Some(("respond", text))));
        forms.extend(args.map(|args| form(true, Some(("args", args)))));
        json!({"oneOf": forms})
    }
}

/// A decision about a call, or an answer that was refused, as recorded. What the record shows of the
/// call is what the person was shown: secret arguments never stand in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRecord {
    /// Id of the question.
    pub question: InterruptId,
    /// The call, as it was shown; its binding is of the exact arguments.
    pub request: ApprovalRequest,
    /// The decision that was applied, or the reason for which an answer was refused.
    pub outcome: ApprovalOutcome,
    /// Subject of the principal that answered. `None` if nobody did in time, and the question took
    /// its default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Time at which the answer was given, or the default was taken.
    pub at: Timestamp,
}

/// The result of an answer to an [`ApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalOutcome {
    /// The decision was applied. Edited arguments stand in it complete; schema and policy may still
    /// refuse the call with them.
    Decided(ApprovalDecision),
    /// The answer was refused and changed nothing. It is not recorded itself, because a refused
    /// answer may have any content.
    Refused(RefusedAnswer),
}

/// The reason for which an answer to an approval was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedAnswer {
    /// The question was answered before, with the same answer or another one.
    AlreadyAnswered,
    /// The time for the decision was over.
    Expired,
    /// The decision was bound to another call or other arguments.
    OtherCall,
    /// The thread left the question without an answer.
    Closed,
    /// The answer did not fit the schema of the question.
    Invalid,
}

impl RefusedAnswer {
    /// Returns the reason in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::AlreadyAnswered => "the question was answered before",
            Self::Expired => "the time for the decision was over",
            Self::OtherCall => "the decision was about another call or other arguments",
            Self::Closed => "the thread left the question without an answer",
            Self::Invalid => "the answer did not fit its schema",
        }
    }
}

impl ApprovalOutcome {
    /// Reads an answer that a task takes: a decision about the call, or one that does not count.
    #[must_use]
    pub fn of(request: &ApprovalRequest, answer: &Value) -> Self {
        match serde_json::from_value::<ApprovalDecision>(answer.clone()) {
            Ok(decision) if decision.binding == request.binding => Self::Decided(decision),
            Ok(_) => Self::Refused(RefusedAnswer::OtherCall),
            Err(_) => Self::Refused(RefusedAnswer::Invalid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_have_one_form_each() {
        let binding = Hash([7; 32]);
        let of = |verdict| ApprovalDecision::new(binding, verdict);
        for (decision, form) in [
            (of(Verdict::Approve), json!({"approved": true})),
            (of(Verdict::Edit { args: Value::Null }), json!({"approved": true, "args": null})),
            (of(Verdict::Reject), json!({"approved": false})),
            (
                of(Verdict::Respond { text: "no".into() }),
                json!({"approved": false, "respond": "no"}),
            ),
            (of(Verdict::Lapse), json!({"approved": false, "lapsed": true})),
        ] {
            let mut form = form;
            form["binding"] = json!(binding);
            assert_eq!(json!(decision), form);
            assert_eq!(serde_json::from_value::<ApprovalDecision>(form).expect("reads"), decision);
        }
        for wrong in [
            json!({"approved": false, "args": {}}),
            json!({"approved": true, "respond": "no"}),
            json!({"approved": true, "lapsed": true}),
            json!({"approved": true, "other": 1}),
        ] {
            let mut form = wrong.clone();
            form["binding"] = json!(binding);
            assert!(serde_json::from_value::<ApprovalDecision>(form).is_err(), "{wrong}");
        }
    }

    #[test]
    fn records_are_written_in_the_form_of_format_1() {
        let binding = Hash([7; 32]);
        let request = ApprovalRequest {
            tool_call_id: ToolCallId::new("c").expect("an id"),
            tool: "pay".to_owned(),
            args: json!({"cents": 50}),
            effect: Effect::ExternalSideEffect,
            binding,
            reason: "it pays".to_owned(),
        };
        let call = json!({
            "tool_call_id": "c", "tool": "pay", "args": {"cents": 50},
            "effect": "external_side_effect", "binding": binding, "reason": "it pays",
        });
        let edit = json!({"approved": true, "binding": binding, "args": {"cents": 7}});
        for (answer, outcome) in [
            (edit.clone(), json!({"decided": edit})),
            (json!({"approved": true, "binding": Hash([8; 32])}), json!({"refused": "other_call"})),
            (json!("yes"), json!({"refused": "invalid"})),
        ] {
            let record = ApprovalRecord {
                question: InterruptId(1),
                outcome: ApprovalOutcome::of(&request, &answer),
                request: request.clone(),
                by: Some("ada".to_owned()),
                at: Timestamp(5),
            };
            let mut form = json!({
                "question": InterruptId(1), "request": call, "outcome": outcome, "by": "ada",
                "at": 5,
            });
            assert_eq!(json!(record), form);
            assert_eq!(serde_json::from_value::<ApprovalRecord>(form.clone()).ok(), Some(record));
            form["secret"] = json!(1);
            assert!(serde_json::from_value::<ApprovalRecord>(form).is_err());
        }
    }
}
