//! The object of a response.

use super::output;
use crate::answer::{Answer, Cut, End, Item};
use crate::approval::response_id;
use crate::error::ApiError;
use crate::model;
use crate::turn::METADATA;
use serde_json::{Value, json};
use weftwork_types::port::TurnRun;
use weftwork_types::run::RunStatus;
use weftwork_types::usage::Tokens;

/// A response: what is known of it before its run has ended.
#[derive(Debug)]
pub(super) struct ResponseObject {
    id: String,
    created: i64,
    model: String,
    /// Slug of the agent.
    agent: String,
    conversation: String,
    /// Metadata of the request, as stored with the run.
    request: Value,
    /// Id of the message that is being streamed.
    pub(super) open: Option<String>,
}

/// Returns the model of a stored response.
pub(super) fn model_of(turn: &TurnRun) -> String {
    let model = turn.metadata.get(METADATA).and_then(|own| own["model"].as_str());
    model.unwrap_or(&turn.agent).to_owned()
}

impl ResponseObject {
    pub(super) fn new(turn: &TurnRun, model: String) -> Self {
        Self {
            id: response_id(&turn.at.run),
            created: model::seconds(turn.created_at),
            model,
            agent: turn.agent.clone(),
            conversation: turn.conversation.clone(),
            request: turn.metadata.get(METADATA).cloned().unwrap_or_default(),
            open: None,
        }
    }

    /// The object with all its members. Those of models that agents do not have are null.
    fn object(&self, status: &str) -> Value {
        let request = &self.request;
        let metadata = request.get("metadata").cloned().unwrap_or_else(|| json!({}));
        // Only a client that named the conversation sees it.
        let conversation = request.get("conversation").map(|_| json!({"id": self.conversation}));
        let text = || json!({"type": "text"});
        let format = request.get("format").cloned().unwrap_or_else(text);
        json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": request["background"] == true,
            "conversation": conversation,
            "error": null,
            "incomplete_details": null,
            "instructions": null,
            "max_output_tokens": null,
            "max_tool_calls": null,
            "metadata": metadata,
            "model": self.model,
            "output": [],
            "parallel_tool_calls": true,
            "previous_response_id": request.get("previous_response_id"),
            "reasoning": {"effort": null, "summary": null},
            "store": request["store"] != false,
            "temperature": null,
            "text": {"format": format},
            "tool_choice": "auto",
            "tools": [],
            "top_p": null,
            "truncation": "disabled",
            "usage": null,
            "user": null,
        })
    }

    /// The response of a run that goes on.
    pub(super) fn unfinished(&self, status: RunStatus) -> Value {
        self.object(match status {
            RunStatus::Queued | RunStatus::Pending => "queued",
            _ => "in_progress",
        })
    }

    /// The response of a run that has ended.
    pub(super) fn whole(&self, answer: &Answer) -> Value {
        let status = match &answer.end {
            End::Answered(Cut::Whole) => "completed",
            End::Answered(_) | End::Limit(_) => "incomplete",
            End::Cancelled => "cancelled",
            End::Failed(_) => "failed",
        };
        let mut object = self.object(status);
        object["output"] = output(self, &answer.items);
        object["usage"] = usage_to_json(answer.tokens);
        match &answer.end {
            End::Failed(fault) => {
                let error = ApiError::failed(fault).body();
                object["error"] = json!({"code": error["code"], "message": error["message"]});
            }
            End::Answered(Cut::Length) => {
                object["incomplete_details"] = reason("max_output_tokens")
            }
            End::Answered(Cut::Filter) => object["incomplete_details"] = reason("content_filter"),
            End::Limit(_) => object["incomplete_details"] = reason("step_limit"),
            End::Answered(Cut::Whole) | End::Cancelled => {}
        }
        object
    }

    /// An item of the output.
    pub(super) fn item(&self, item: &Item) -> Value {
        match item {
            Item::Message { id, text } => message(id, Some(text), "completed"),
            Item::Approval { id, tool, args, .. } => json!({
                "id": id.to_string(),
                "type": "mcp_approval_request",
                "server_label": self.agent,
                "name": tool,
                "arguments": args,
            }),
        }
    }
}

fn reason(reason: &str) -> Value {
    json!({"reason": reason})
}

/// A message of the output; without a text, one that begins.
pub(super) fn message(id: &str, text: Option<&str>, status: &str) -> Value {
    let content: Vec<_> = text.map(text_part).into_iter().collect();
    json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content})
}

pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn usage_to_json(tokens: Tokens) -> Value {
    json!({
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.total(),
    })
}
