//! The first step of a call: checks without side effects, which can be repeated.

use super::ToolRunner;
use crate::Policy;
use crate::content;
use crate::error::{code, cut};
use crate::policy::{Decision, PolicyCall, Requirements};
use crate::toolbox::{Entry, Kind};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use weftwork_schema::Quotes;
use weftwork_types::approval::{ApprovalDecision, ApprovalRequest, BindingThread, Verdict};
use weftwork_types::interrupt::Ask;
use weftwork_types::message::ToolCall;
use weftwork_types::port::CallContext;
use weftwork_types::retry::RetryPolicy;
use weftwork_types::secret;
use weftwork_types::tool::{ToolErrorKind, ToolFailure, ToolOutcome};
use weftwork_types::{Timestamp, ToolCallId};

/// Maximum length in characters of a quotation of model output.
const QUOTE_CHARS_MAX: usize = 200;
/// Maximum number of tools listed to a model that named an unknown one.
const NAMES_MAX: usize = 20;
/// Maximum length in characters of a person's text that is the result of a call.
const RESPONSE_CHARS_MAX: usize = 100_000;

/// A checked call.
#[derive(Debug)]
#[must_use = "a call that is not executed has no result, and a model must not see it open"]
pub enum Prepared {
    /// The call can be executed now. This includes refused calls: executing one returns the refusal
    /// to the model and does nothing else.
    Ready(ReadyCall),
    /// The policy requires a person's approval.
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

/// The common data of all calls.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) tool_call_id: ToolCallId,
    pub(super) wire_name: String,
    pub(super) args: Value,
    pub(super) context: CallContext,
    /// Arguments without secret ones; `None` if all may be shown.
    pub(super) shown: Option<Value>,
    /// Requirements of the policy on earlier calls, checked before the call is made.
    pub(super) requires: Requirements,
    /// Repetition by the policy of a call that failed because its tool was not available.
    pub(super) retry: Option<RetryPolicy>,
}

#[derive(Debug)]
pub(super) enum Plan {
    Run(Arc<Entry>),
    Refuse(ToolFailure),
    Answer(Value),
}

/// A call that waits for a person's approval.
#[derive(Debug)]
#[must_use = "put `ask()` to a person, then `decide`"]
pub struct PendingCall {
    head: Head,
    entry: Arc<Entry>,
    request: ApprovalRequest,
    policy: Arc<Policy>,
    expires_after: Option<Duration>,
}

/// A model's question that waits for a person's answer.
#[derive(Debug)]
#[must_use = "put `ask()` to a person, then `answer`"]
pub struct HumanCall {
    head: Head,
    question: String,
}

impl ToolRunner {
    /// Checks the tool, its arguments and the policy. Emits no events and writes no records.
    pub fn prepare(&self, call: &ToolCall, context: &CallContext) -> Prepared {
        let mut head = self.head(call, context);
        let entry = match self.find_admissible(&head) {
            Ok(entry) => entry,
            Err(refused) => return head.refused(refused),
        };
        let asked =
            PolicyCall { spec: &entry.spec, args: &head.args, principal: &context.principal };
        let verdict = self.policy.decide(asked);
        head.requires = verdict.requires;
        head.retry = verdict.retry;
        match (verdict.decision, &entry.kind) {
            (Decision::Deny { reason }, _) => head.refused(ToolFailure::new(
                ToolErrorKind::PolicyDenied,
                code::POLICY_DENIED,
                format!("policy denies tool `{}`: {reason}", entry.spec.name),
            )),
            // An approval of a question to the same person is pointless.
            (_, Kind::AskHuman) => {
                let question = head.args["question"].as_str().unwrap_or_default().to_owned();
                Prepared::AskHuman(HumanCall { head, question })
            }
            (Decision::AskHuman { reason }, Kind::Run(_)) => {
                let pending = PendingCall::new(head, entry, reason, Arc::clone(&self.policy));
                Prepared::NeedsApproval(PendingCall {
                    expires_after: verdict.expires_after,
                    ..pending
                })
            }
            (Decision::Allow, Kind::Run(_)) => {
                Prepared::Ready(ReadyCall { head, plan: Plan::Run(entry) })
            }
        }
    }

    pub(super) fn head(&self, call: &ToolCall, context: &CallContext) -> Head {
        let mut call = call.clone();
        if let Some(Kind::Run(tool)) = self.catalogue.get(&call.name).map(|entry| &entry.kind) {
            tool.complete(&mut call.args);
        }
        let shown = self.shown_args(&call);
        match (&shown, self.catalogue.get(&call.name)) {
            (Some(shown), Some(_)) => context.hidden.add_args(&call.args, shown),
            // All of them are hidden, because the tool is not known.
            (Some(shown), None) => context.hidden.add_result(&call.args, shown),
            (None, _) => {}
        }
        Head {
            tool_call_id: call.id,
            wire_name: call.name,
            args: call.args,
            shown,
            context: context.clone(),
            requires: Requirements::default(),
            retry: None,
        }
    }

    /// Returns the shown form of the arguments of a call: without secret ones. `None` if all may be
    /// shown. The arguments of a tool that does not exist are shown as the call has them.
    #[must_use]
    pub fn shown_args(&self, call: &ToolCall) -> Option<Value> {
        match self.catalogue.get(&call.name) {
            Some(entry) => secret::shown_args(&entry.spec.parameters, &call.args),
            None => call.shown.clone(),
        }
    }

    /// Returns the tool of a call if it exists, accepts the arguments, and declares what may be
    /// shown.
    fn find_admissible(&self, head: &Head) -> Result<Arc<Entry>, ToolFailure> {
        let entry = self.catalogue.get(&head.wire_name).ok_or_else(|| self.no_such_tool(head))?;
        check_args(entry, head)?;
        if entry.spec.shown.is_none() {
            // Checked before the call, so that no effect happens whose result could not be shown.
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

fn check_args(entry: &Entry, head: &Head) -> Result<(), ToolFailure> {
    let args = &head.args;
    let detail = match args {
        Value::Object(_) if head.shown.is_some() => entry.args.check(args, Quotes::Nothing).err(),
        Value::Object(_) => entry.args.check(args, Quotes::Values).err(),
        _ if head.shown.is_some() => Some("expected one JSON object".to_owned()),
        // Invalid JSON from a model arrives as a string. It is rejected, not repaired.
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
        let mut failure = ToolFailure::new(
            ToolErrorKind::Validation,
            code::INVALID_ARGS,
            format!("the arguments of `{}` are not valid: {detail}", entry.wire_name),
        );
        head.shape_failure(&mut failure);
        Err(failure)
    })
}

impl Head {
    /// The arguments as they are shown.
    pub(super) fn shown_args(&self) -> &Value {
        self.shown.as_ref().unwrap_or(&self.args)
    }

    /// Returns a text of the tool without what the run hides.
    pub(super) fn shape(&self, text: &str) -> String {
        self.context.hidden.shape(text)
    }

    /// Removes what the run hides from the message of a failure. The model keeps the whole text: it
    /// has the arguments and the results already.
    pub(super) fn shape_failure(&self, failure: &mut ToolFailure) {
        let shaped = self.shape(&failure.safe_message);
        let whole = std::mem::replace(&mut failure.safe_message, shaped);
        if failure.model_message.is_none() && whole != failure.safe_message {
            failure.model_message = Some(whole);
        }
    }

    /// Returns the outcome of a call that succeeded with its shown form: the members that the tool
    /// declares, without the secret arguments that they repeat.
    pub(super) fn outcome(&self, value: Value, members: &[String]) -> ToolOutcome {
        let mut shown = content::shown(&value, members);
        if let Some(args) = &self.shown {
            secret::hide_repeated(&mut shown, &self.args, args);
        }
        if shown == value {
            // Nothing is hidden, but events have no room for large media.
            content::note_large_media(&mut shown);
            let shown = (shown != value).then_some(shown);
            return ToolOutcome::Ok { value, shown };
        }
        self.context.hidden.add_result(&value, &shown);
        ToolOutcome::Ok { value, shown: Some(shown) }
    }

    fn refused(self, failure: ToolFailure) -> Prepared {
        Prepared::Ready(ReadyCall { head: self, plan: Plan::Refuse(failure) })
    }
}

impl ReadyCall {
    /// The reason for a refusal, if the call was refused.
    #[must_use]
    pub fn refusal(&self) -> Option<&ToolFailure> {
        match &self.plan {
            Plan::Refuse(failure) => Some(failure),
            Plan::Run(_) | Plan::Answer(_) => None,
        }
    }

    /// The id of the call.
    #[must_use]
    pub fn tool_call_id(&self) -> &ToolCallId {
        &self.head.tool_call_id
    }

    /// Returns the arguments with which the call is made, as they are shown; `None` if they are those of
    /// a call, without what its tool completes and a person edits.
    #[must_use]
    pub fn changed_args(&self, call: &ToolCall) -> Option<&Value> {
        (self.head.args != call.args).then(|| self.head.shown_args())
    }
}

impl PendingCall {
    fn new(head: Head, entry: Arc<Entry>, reason: String, policy: Arc<Policy>) -> Self {
        let other = head.context.dependencies.get::<BindingThread>();
        let thread = other.as_ref().map_or(&head.context.thread, |other| &other.0);
        let request = ApprovalRequest {
            tool_call_id: head.tool_call_id.clone(),
            tool: entry.spec.name.clone(),
            args: head.shown_args().clone(),
            effect: entry.spec.effect,
            binding: ApprovalRequest::bind(
                thread,
                &head.tool_call_id,
                &entry.spec.name,
                &head.args,
            ),
            reason,
        };
        Self { head, entry, request, policy, expires_after: None }
    }

    /// The data to show to the person.
    #[must_use]
    pub fn request(&self) -> &ApprovalRequest {
        &self.request
    }

    /// The question for the interrupt.
    #[must_use]
    pub fn ask(&self) -> Ask {
        Ask::Approval(self.request.clone())
    }

    /// JSON Schema of the answer, an [`ApprovalDecision`]. Arguments of a call with secret ones
    /// cannot be edited, because the person has not seen them and the answer would show them.
    #[must_use]
    pub fn answer_schema(&self) -> Value {
        let args = self.head.shown.is_none().then(|| self.entry.spec.parameters.clone());
        ApprovalDecision::schema(self.request.binding, args)
    }

    /// The time at which the question expires, and the answer that it takes then, which rejects the
    /// call.
    #[must_use]
    pub fn expiry(&self) -> Option<(Timestamp, Value)> {
        let at = self.head.context.clock.now().plus(self.expires_after?);
        Some((at, json!(ApprovalDecision::new(self.request.binding, Verdict::Lapse))))
    }

    /// Applies the person's decision. A decision about a different call, thread, tool or arguments
    /// refuses the call. Edited arguments are checked against the schema and the policy like those
    /// of the model; what was approved runs.
    pub fn decide(self, decision: &ApprovalDecision) -> ReadyCall {
        let tool = self.entry.spec.name.clone();
        let refuse = |head, code, message: String| {
            let failure = ToolFailure::new(ToolErrorKind::PolicyDenied, code, message);
            ReadyCall { head, plan: Plan::Refuse(failure) }
        };
        if decision.binding != self.request.binding {
            let message = format!(
                "the approval for `{tool}` was given for another call or other arguments; request a new approval"
            );
            return refuse(self.head, code::APPROVAL_MISMATCH, message);
        }
        let head = self.head;
        let entry = self.entry;
        match &decision.verdict {
            Verdict::Approve => ReadyCall { head, plan: Plan::Run(entry) },
            Verdict::Edit { args } => edited(head, entry, args, &self.policy),
            Verdict::Respond { text } => {
                ReadyCall { head, plan: Plan::Answer(json!(cut(text, RESPONSE_CHARS_MAX))) }
            }
            Verdict::Reject => {
                let comment = decision.comment.as_deref().unwrap_or("no reason was given");
                let message =
                    format!("a person refused the call of `{tool}`: {}", cut(comment, 2_000));
                refuse(head, code::APPROVAL_DENIED, message)
            }
            Verdict::Lapse => {
                let message = format!("nobody approved the call of `{tool}` before it expired");
                refuse(head, code::APPROVAL_DENIED, message)
            }
        }
    }
}

/// Checks a call with the arguments that a person approved in place of those of the model.
fn edited(mut head: Head, entry: Arc<Entry>, args: &Value, policy: &Policy) -> ReadyCall {
    if head.shown.is_some() {
        let failure = ToolFailure::new(
            ToolErrorKind::PolicyDenied,
            code::APPROVAL_MISMATCH,
            format!(
                "the arguments of `{}` were edited, which secret arguments do not allow; approve or reject the call as it is",
                entry.spec.name
            ),
        );
        return ReadyCall { head, plan: Plan::Refuse(failure) };
    }
    head.args = args.clone();
    if let Err(failure) = check_args(&entry, &head) {
        return ReadyCall { head, plan: Plan::Refuse(failure) };
    }
    let principal = &head.context.principal;
    let verdict = policy.decide(PolicyCall { spec: &entry.spec, args: &head.args, principal });
    let plan = match verdict.decision {
        Decision::Deny { reason } => Plan::Refuse(ToolFailure::new(
            ToolErrorKind::PolicyDenied,
            code::POLICY_DENIED,
            format!("policy denies tool `{}`: {reason}", entry.spec.name),
        )),
        // The person has approved these arguments.
        Decision::Allow | Decision::AskHuman { .. } => Plan::Run(entry),
    };
    head.requires = verdict.requires;
    head.retry = verdict.retry;
    ReadyCall { head, plan }
}

impl HumanCall {
    /// The question.
    #[must_use]
    pub fn question(&self) -> &str {
        &self.question
    }

    /// The question for the interrupt.
    #[must_use]
    pub fn ask(&self) -> Ask {
        Ask::Question {
            question: self.question.clone(),
            tool_call_id: self.head.tool_call_id.clone(),
            tool: None,
        }
    }

    /// JSON Schema of the answer, a text.
    #[must_use]
    pub fn answer_schema(&self) -> Value {
        json!({"type": "string"})
    }

    /// Uses the person's answer as the result of the call.
    pub fn answer(self, answer: Value) -> ReadyCall {
        ReadyCall { head: self.head, plan: Plan::Answer(answer) }
    }
}
