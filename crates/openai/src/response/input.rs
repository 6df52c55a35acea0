//! Requests for responses.

use crate::approval::ApprovalId;
use crate::body::Body;
use crate::content::Messages;
use crate::error::{ApiError, Result};
use crate::format::Format;
use crate::turn::Decision;
use axum::body::Bytes;
use serde_json::{Map, Value, json};
use weftwork_types::message::Message;

/// Member with the format of the answer.
pub(super) const FORMAT: &str = "text.format";
/// Items of earlier responses that clients send back, and that the log has.
const ITEMS_OF_LOG: [&str; 6] = [
    "reasoning",
    "mcp_approval_request",
    "mcp_call",
    "mcp_list_tools",
    "function_call",
    "function_call_output",
];

/// A request.
#[derive(Debug)]
pub(super) struct ResponseRequest {
    pub(super) model: String,
    pub(super) input: Input,
    pub(super) previous: Option<String>,
    pub(super) conversation: Option<String>,
    pub(super) options: Options,
    /// Names of members that are ignored.
    pub(super) ignored: Vec<String>,
}

/// Content of a request.
#[derive(Debug)]
pub(super) enum Input {
    Messages(Vec<Message>),
    /// Answers to calls that wait for an approval.
    Decisions(Vec<Decision>),
}

/// Options of a response.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) stream: bool,
    pub(super) background: bool,
    store: bool,
    metadata: Map<String, Value>,
    model: String,
    /// Format of the answer, as the client asked for it.
    format: Value,
}

impl ResponseRequest {
    pub(super) fn read(bytes: &Bytes) -> Result<Self> {
        let mut body = Body::read(bytes)?;
        let model = body.required_text("model")?;
        let mut ignored = Vec::new();
        let format = take_format(&mut body, &mut ignored)?;
        let options = Options {
            stream: body.flag("stream")?,
            background: body.flag("background")?,
            store: body.optional_flag("store")?.unwrap_or(true),
            metadata: body.metadata()?,
            model: model.clone(),
            format,
        };
        if options.background && !options.store {
            let message = "a response in the background is stored; leave `store` out";
            return Err(ApiError::invalid("store", message));
        }
        let previous = body.text("previous_response_id")?;
        let conversation = read_conversation(&mut body)?;
        if previous.is_some() && conversation.is_some() {
            let message = "`previous_response_id` and `conversation` are both set; set one";
            return Err(ApiError::invalid("conversation", message));
        }
        let instructions = body.text("instructions")?;
        let input = body.take("input");
        let input = read_input(input, instructions.as_deref(), previous.is_some(), &mut ignored)?;
        ignored.extend(body.rest().map(str::to_owned));
        Ok(Self { model, input, previous, conversation, options, ignored })
    }
}

impl Options {
    /// Returns the format of the answer.
    ///
    /// # Errors
    /// Status 400 for an unknown one.
    pub(super) fn format(&self) -> Result<Format> {
        match &self.format {
            Value::Null => Ok(Format::Text),
            format => Format::read(format, FORMAT),
        }
    }

    /// Returns the metadata that is stored with the run.
    pub(super) fn stored(
        &self,
        api: &str,
        previous: Option<&str>,
        conversation: Option<&str>,
    ) -> Value {
        let mut stored = json!({"api": api, "model": self.model, "store": self.store});
        if self.background {
            stored["background"] = true.into();
        }
        if !self.format.is_null() {
            stored["format"] = self.format.clone();
        }
        if !self.metadata.is_empty() {
            stored["metadata"] = json!(self.metadata);
        }
        if let Some(previous) = previous {
            stored["previous_response_id"] = previous.into();
        }
        if conversation.is_some() {
            stored["conversation"] = true.into();
        }
        stored
    }
}

/// Takes the format of the answer from `text`, and names its other members, which are ignored.
fn take_format(body: &mut Body, ignored: &mut Vec<String>) -> Result<Value> {
    match body.take("text") {
        None => Ok(Value::Null),
        Some(Value::Object(mut text)) => {
            let format = text.shift_remove("format").unwrap_or_default();
            ignored.extend(text.keys().map(|name| format!("text.{name}")));
            Ok(format)
        }
        Some(other) => Err(ApiError::wrong_type("text", &other, "an object with `format`")),
    }
}

/// Reads `conversation`: an id, or an object with one.
fn read_conversation(body: &mut Body) -> Result<Option<String>> {
    match body.take("conversation") {
        None => Ok(None),
        Some(Value::String(id)) => Ok(Some(id)),
        Some(Value::Object(of)) => match of.get("id") {
            Some(Value::String(id)) => Ok(Some(id.clone())),
            other => {
                let found = other.cloned().unwrap_or_default();
                Err(ApiError::wrong_type("conversation.id", &found, "a text"))
            }
        },
        Some(other) => Err(ApiError::wrong_type("conversation", &other, "an id")),
    }
}

fn read_input(
    input: Option<Value>,
    instructions: Option<&str>,
    continues: bool,
    ignored: &mut Vec<String>,
) -> Result<Input> {
    let mut messages = Messages::default();
    messages.instruct(instructions.unwrap_or_default());
    let items = match input {
        Some(Value::String(text)) => {
            messages.add_text(&text);
            return messages.finish("input").map(Input::Messages);
        }
        Some(Value::Array(items)) => items,
        None => {
            return Err(ApiError::invalid(
                "input",
                "`input` is missing; expected a text or a list",
            ));
        }
        Some(other) => return Err(ApiError::wrong_type("input", &other, "a text or a list")),
    };
    let mut said = Vec::new();
    let mut decisions = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        let param = format!("input[{index}]");
        match item["type"].as_str() {
            Some("mcp_approval_response") => decisions.push(read_decision(&item, &param)?),
            Some(kind) if ITEMS_OF_LOG.contains(&kind) => ignored.push(format!("{kind} items")),
            // A message has a role, and need not have a type.
            Some("message") => said.push(item),
            None if item["type"].is_null() => said.push(item),
            _ => {
                let expected = "message, mcp_approval_response, or an item of an earlier response";
                let param = format!("{param}.type");
                return Err(ApiError::wrong_type(&param, &item["type"], expected));
            }
        }
    }
    if decisions.is_empty() {
        let read = Messages::read(&said, "input")?;
        ignored.extend(read.ignored.iter().map(|name| (*name).to_owned()));
        return read.after(messages).finish("input").map(Input::Messages);
    }
    // Without an earlier response, the messages are those of the conversation so far.
    if continues && !said.is_empty() {
        let message = "`input` has messages and approval responses; send the messages after them";
        return Err(ApiError::invalid("input", message));
    }
    Ok(Input::Decisions(decisions))
}

fn read_decision(item: &Value, param: &str) -> Result<Decision> {
    let id = &item["approval_request_id"];
    let Some(text) = id.as_str() else {
        let param = format!("{param}.approval_request_id");
        return Err(ApiError::wrong_type(&param, id, "the id of an approval request"));
    };
    let id = ApprovalId::read(text);
    let id = id.ok_or_else(|| ApiError::missing("approval request", text))?;
    let Some(approves) = item["approve"].as_bool() else {
        let param = format!("{param}.approve");
        return Err(ApiError::wrong_type(&param, &item["approve"], "true or false"));
    };
    let reason = match &item["reason"] {
        Value::Null => None,
        Value::String(reason) => Some(reason.clone()),
        other => return Err(ApiError::wrong_type(&format!("{param}.reason"), other, "a text")),
    };
    Ok(Decision { id, approves, reason })
}
