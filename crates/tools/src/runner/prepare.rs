//! The first step of a call: checks that change nothing and can be repeated.

use super::ToolRunner;
use crate::error::{code, cut};
use crate::policy::Decision;
use crate::toolbox::{Entry, Kind};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_types::ToolCallId;
use weftwork_types::approval::{ApprovalDecision, ApprovalRequest};
use weftwork_types::interrupt::Ask;
use weftwork_types::message::ToolCall;
use weftwork_types::port::CallContext;
use weftwork_types::tool::{ToolErrorKind, ToolFailure};

/// The longest quotation of what a model wrote, in characters.
const QUOTE_CHARS_MAX: usize = 200;
/// How many tools are listed to a model that named one that does not exist.
const NAMES_MAX: usize = 20;

/// A call after the checks.
#[derive(Debug)]
#[must_use = "a call that is not executed has no result, and a model must not see it open"]
pub enum Prepared {
    /// It can be executed now. A call that was refused is ready too: executing it gives the
    /// refusal to the model and touches nothing.
    Ready(ReadyCall),
    /// Policy wants a person to see it first.
    NeedsApproval(PendingCall),
    /// The model asks the person a question.
    AskHuman(HumanCall),
}

/// A call that can be executed.
#[derive(Debug)]
#[must_use = "a call that is not executed has no result, and a model must not see it open"]
pub struct ReadyCall {
    pub(super) head: Head,
    pub(super) plan: Plan,
}

/// What every call has.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) tool_call_id: ToolCallId,
    pub(super) wire_name: String,
    pub(super) args: Value,
    pub(super) context: CallContext,
}

#[derive(Debug)]
pub(super) enum Plan {
    Run(Arc<Entry>),
    Refuse(ToolFailure),
    Answer(Value),
}

/// A call that waits for a person's yes or no.
#[derive(Debug)]
#[must_use = "put `ask()` to a person, then `decide`"]
pub struct PendingCall {
    head: Head,
    entry: Arc<Entry>,
    request: ApprovalRequest,
}

/// A question of the model that waits for a person's answer.
#[derive(Debug)]
#[must_use = "put `ask()` to a person, then `answer`"]
pub struct HumanCall {
    head: Head,
    question: String,
}

impl ToolRunner {
    /// Checks a call: the tool, its arguments, the policy. Emits nothing and writes nothing.
    pub fn prepare(&self, call: &ToolCall, context: &CallContext) -> Prepared {
        let head = Head {
            tool_call_id: call.id.clone(),
            wire_name: call.name.clone(),
            args: call.args.clone(),
            context: context.clone(),
        };
        let entry = match self.admissible(&head) {
            Ok(entry) => entry,
            Err(refused) => return head.refused(refused),
        };
        match (self.policy.decide(&entry.spec), &entry.kind) {
            (Decision::Deny { reason }, _) => head.refused(ToolFailure::new(
                ToolErrorKind::PolicyDenied,
                code::POLICY_DENIED,
                format!("policy denies tool `{}`: {reason}", entry.spec.name),
            )),
            // Asking a person whether a person may be asked helps nobody.
            (_, Kind::AskHuman) => {
                let question = head.args["question"].as_str().unwrap_or_default().to_owned();
                Prepared::AskHuman(HumanCall { head, question })
            }
            (Decision::AskHuman { reason }, Kind::Run(_)) => {
                Prepared::NeedsApproval(PendingCall::new(head, entry, reason))
            }
            (Decision::Allow, Kind::Run(_)) => {
                Prepared::Ready(ReadyCall { head, plan: Plan::Run(entry) })
            }
        }
    }

    /// The tool of a call, when it exists, takes these arguments, and may show something.
    fn admissible(&self, head: &Head) -> Result<Arc<Entry>, ToolFailure> {
        let entry = self.catalogue.get(&head.wire_name).ok_or_else(|| self.no_such_tool(head))?;
        check_args(entry, &head.args)?;
        if entry.spec.shown.is_none() {
            // Known before the call, so nothing is done that nobody could be told about.
            return Err(ToolFailure::new(
                ToolErrorKind::RedactionFailed,
                code::NOTHING_SHOWN,
                format!(
                    "tool `{}` does not declare which members of its result may be shown, so it was not called; its author must declare them",
                    entry.spec.name
                ),
            ));
        }
        Ok(Arc::clone(entry))
    }

    fn no_such_tool(&self, head: &Head) -> ToolFailure {
        let found = cut(&head.wire_name, 80);
        let hint = match self.catalogue.nearest(&head.wire_name) {
            Some(name) => format!("did you mean `{name}`?"),
            None => {
                let names: Vec<&str> =
                    self.catalogue.iter().take(NAMES_MAX).map(|e| e.wire_name.as_str()).collect();
                format!("the tools are: {}", names.join(", "))
            }
        };
        ToolFailure::new(
            ToolErrorKind::Unavailable,
            code::UNKNOWN_TOOL,
            format!("no tool is named `{found}`; {hint}"),
        )
    }
}

fn check_args(entry: &Entry, args: &Value) -> Result<(), ToolFailure> {
    let detail = match args {
        Value::Object(_) => entry.args.check(args).err(),
        // A model that wrote no valid JSON leaves a string here. It is never guessed at.
        Value::String(text) => Some(format!(
            "they are not valid JSON: `{}`; send one JSON object",
            cut(text, QUOTE_CHARS_MAX)
        )),
        other => Some(format!(
            "expected one JSON object, found `{}`",
            cut(&other.to_string(), QUOTE_CHARS_MAX)
        )),
    };
    detail.map_or(Ok(()), |detail| {
        Err(ToolFailure::new(
            ToolErrorKind::Validation,
            code::INVALID_ARGS,
            format!("the arguments of `{}` are not valid: {detail}", entry.wire_name),
        ))
    })
}

impl Head {
    fn refused(self, failure: ToolFailure) -> Prepared {
        Prepared::Ready(ReadyCall { head: self, plan: Plan::Refuse(failure) })
    }
}

impl ReadyCall {
    /// Why the call will not be made, when it was refused.
    #[must_use]
    pub fn refusal(&self) -> Option<&ToolFailure> {
        match &self.plan {
            Plan::Refuse(failure) => Some(failure),
            Plan::Run(_) | Plan::Answer(_) => None,
        }
    }

    /// The call's id.
    #[must_use]
    pub fn tool_call_id(&self) -> &ToolCallId {
        &self.head.tool_call_id
    }
}

impl PendingCall {
    fn new(head: Head, entry: Arc<Entry>, reason: String) -> Self {
        let thread = &head.context.thread;
        let request = ApprovalRequest {
            tool_call_id: head.tool_call_id.clone(),
            tool: entry.spec.name.clone(),
            args: head.args.clone(),
            effect: entry.spec.effect,
            binding: ApprovalRequest::bind(
                thread,
                &head.tool_call_id,
                &entry.spec.name,
                &head.args,
            ),
            reason,
        };
        Self { head, entry, request }
    }

    /// What the person must see.
    #[must_use]
    pub fn request(&self) -> &ApprovalRequest {
        &self.request
    }

    /// The question to interrupt with.
    #[must_use]
    pub fn ask(&self) -> Ask {
        Ask::Approval(self.request.clone())
    }

    /// JSON Schema of an answer: an [`ApprovalDecision`].
    #[must_use]
    pub fn answer_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "approved": {"type": "boolean"},
                "binding": {"const": self.request.binding},
                "comment": {"type": ["string", "null"]},
            },
            "required": ["approved", "binding"],
            "additionalProperties": false,
        })
    }

    /// Takes the person's decision. A decision that was given for another call, thread, tool or
    /// other arguments refuses the call.
    pub fn decide(self, decision: &ApprovalDecision) -> ReadyCall {
        let tool = &self.entry.spec.name;
        let refusal = if decision.binding != self.request.binding {
            Some((
                code::APPROVAL_MISMATCH,
                format!(
                    "the approval for `{tool}` was given for another call or other arguments; it must be asked for again"
                ),
            ))
        } else if !decision.approved {
            let comment = decision.comment.as_deref().unwrap_or("no reason was given");
            Some((
                code::APPROVAL_DENIED,
                format!("a person refused the call of `{tool}`: {}", cut(comment, 2_000)),
            ))
        } else {
            None
        };
        let plan = match refusal {
            Some((code, message)) => {
                Plan::Refuse(ToolFailure::new(ToolErrorKind::PolicyDenied, code, message))
            }
            None => Plan::Run(self.entry),
        };
        ReadyCall { head: self.head, plan }
    }
}

impl HumanCall {
    /// The question.
    #[must_use]
    pub fn question(&self) -> &str {
        &self.question
    }

    /// The question to interrupt with.
    #[must_use]
    pub fn ask(&self) -> Ask {
        Ask::Question {
            question: self.question.clone(),
            tool_call_id: self.head.tool_call_id.clone(),
        }
    }

    /// JSON Schema of an answer: words.
    #[must_use]
    pub fn answer_schema(&self) -> Value {
        json!({"type": "string"})
    }

    /// Takes the person's answer: it becomes the result of the call.
    pub fn answer(self, answer: Value) -> ReadyCall {
        ReadyCall { head: self.head, plan: Plan::Answer(answer) }
    }
}
