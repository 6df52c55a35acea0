//! Questions as tool calls without a result, which every front end can show and answer.

use super::calls::Named;
use serde_json::{Map, Value, json};
use weftwork_types::approval::ApprovalRequest;
use weftwork_types::interrupt::{Ask, Interrupt};
use weftwork_types::tool::wire_name;
use weftwork_types::{InterruptId, TaskId};

/// Name of the call that stands for a question with a free answer.
pub(crate) const ASK_HUMAN: &str = "ask_human";
/// Name of the call that stands for the approval of another call.
pub(crate) const REQUEST_APPROVAL: &str = "request_approval";

/// A question with the call that stands for it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) interrupt: InterruptId,
    /// Id of the question in the interface: that of the interrupt.
    pub(crate) id: String,
    pub(crate) call: WireCall,
    /// Task that asks.
    pub(crate) task: TaskId,
    /// Call of the model that waits for the answer; `None` if it is the call itself, or there is
    /// none.
    pub(crate) waiting: Option<WireCall>,
    /// The question as a fact, for clients that show more than the call. The message adds the id of
    /// the call in its frames.
    pub(crate) fact: Value,
}

/// A call in a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WireCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) args: Value,
}

impl WireCall {
    pub(super) fn named(&self) -> Named<'_> {
        Named { id: &self.id, name: &self.name, args: &self.args }
    }
}

/// A decision that a person may take about a call.
const DECISIONS: [&str; 4] = ["approve", "edit", "reject", "respond"];

impl Asked {
    /// Returns the call for a question; `None` for a timer, which has no question.
    pub(crate) fn of(question: &Interrupt) -> Option<Self> {
        let id = question.id.to_string();
        let (kind, call, waiting) = match &question.ask {
            Ask::Question { question, tool_call_id, tool: None } => {
                let args = json!({"question": question});
                ("question", new_call(tool_call_id.as_str(), ASK_HUMAN, args), None)
            }
            Ask::Question { question: text, tool_call_id, tool: Some(tool) } => {
                let args = with_terms(json!({"question": text, "tool": tool}), question);
                let waiting = Some(new_call(tool_call_id.as_str(), tool, Value::Null));
                ("tool_question", new_call(&id, ASK_HUMAN, args), waiting)
            }
            Ask::Approval(request) => {
                let args = with_terms(approval_to_json(request, question), question);
                let ApprovalRequest { tool_call_id, tool, args: made_with, .. } = request;
                let waiting =
                    Some(new_call(tool_call_id.as_str(), &wire_name(tool), made_with.clone()));
                ("approval", new_call(&id, REQUEST_APPROVAL, args), waiting)
            }
            Ask::Value { value } => {
                let text = question.ask.to_string();
                let args = with_terms(json!({"question": text, "value": value}), question);
                ("value", new_call(&id, ASK_HUMAN, args), None)
            }
            Ask::Timer { .. } => return None,
        };
        let fact = json!({
            "interruptId": id,
            "kind": kind,
            "node": question.node,
            "graph": question.graph,
            "expiresAt": question.expires_at,
        });
        Some(Self { interrupt: question.id, id, call, task: question.task, waiting, fact })
    }

    /// Returns `true` if the call stands for the question alone, and the model knows nothing of it.
    pub(crate) fn is_own(&self) -> bool {
        self.call.id == self.id
    }
}

/// Returns the decisions that the schema of an approval allows.
pub(crate) fn allowed_decisions(question: &Interrupt) -> Vec<&'static str> {
    let forms = question.answer_schema.as_ref().and_then(|schema| schema["oneOf"].as_array());
    let edits = |form: &Value| form.pointer("/properties/args").is_some();
    let can_edit = forms.is_some_and(|forms| forms.iter().any(edits));
    DECISIONS.into_iter().filter(|decision| *decision != "edit" || can_edit).collect()
}

fn approval_to_json(request: &ApprovalRequest, question: &Interrupt) -> Value {
    json!({
        "action": request.tool,
        "args": request.args,
        "toolCallId": null,
        "effect": request.effect,
        "reason": request.reason,
        "binding": request.binding,
        "allowed": allowed_decisions(question),
    })
}

/// Adds the schema of the answer, and the time until which it counts.
fn with_terms(mut args: Value, question: &Interrupt) -> Value {
    let mut terms = Map::new();
    terms.insert("interruptId".to_owned(), json!(question.id));
    if let Some(schema) = &question.answer_schema {
        terms.insert("schema".to_owned(), schema.clone());
    }
    if let Some(expires) = question.expires_at {
        terms.insert("expiresAt".to_owned(), json!(expires));
    }
    if let Some(members) = args.as_object_mut() {
        members.extend(terms);
    }
    args
}

fn new_call(id: &str, name: &str, args: Value) -> WireCall {
    WireCall { id: id.to_owned(), name: name.to_owned(), args }
}
