//! Request bodies of the protocol.

use crate::chat::{ChatRequest, ToolChoice};
use crate::fingerprint;
use crate::protocol::media::{self, Kind, Location};
use crate::protocol::signature::Format;
use crate::protocol::{GO_ON, Outgoing, result_text, turns};
use serde_json::{Map, Value, json};
use weftwork_types::message::{Media, Message, Part, Role, ToolCall};
use weftwork_types::tool::ToolSpec;

/// Version of the protocol, as a header names it.
const VERSION: &str = "2023-06-01";
/// Token limit of an answer whose request has none, because the protocol requires one. Every model
/// since Claude 3.5 can write as many.
const MAX_TOKENS: u32 = 8192;

/// Writes a request.
pub(in crate::protocol) fn write(model: &str, request: &ChatRequest) -> Result<Outgoing, String> {
    let headers = vec![("anthropic-version", VERSION.to_owned())];
    Ok(Outgoing { path: "/messages".to_owned(), headers, body: body(model, request)? })
}

fn body(model: &str, request: &ChatRequest) -> Result<Value, String> {
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
    set("model", model.into());
    set("max_tokens", request.max_tokens.unwrap_or(MAX_TOKENS).into());
    set("stream", true.into());
    let system = request.messages.iter().filter(|message| message.role == Role::System);
    let system: Vec<Value> = system.filter_map(|message| text(&message.joined_text())).collect();
    if !system.is_empty() {
        set("system", system.into());
    }
    set("messages", messages(&request.messages)?);
    if request.temperature.is_some() {
        set("temperature", fingerprint::temperature(request.temperature));
    }
    if !request.tools.is_empty() {
        set("tools", request.tools.iter().map(tool).collect());
        set("tool_choice", tool_choice(request));
    }
    if let Some(schema) = &request.response_schema {
        set("output_config", json!({"format": {"type": "json_schema", "schema": schema}}));
    }
    Ok(Value::Object(body))
}

fn tool(spec: &ToolSpec) -> Value {
    json!({
        "name": spec.wire_name(),
        "description": spec.description,
        "input_schema": spec.parameters,
    })
}

fn tool_choice(request: &ChatRequest) -> Value {
    let mut choice = match &request.tool_choice {
        ToolChoice::Auto => json!({"type": "auto"}),
        ToolChoice::Required => json!({"type": "any"}),
        ToolChoice::Named(name) => json!({"type": "tool", "name": name}),
        ToolChoice::None => return json!({"type": "none"}),
    };
    if let Some(parallel) = request.parallel_tool_calls {
        choice["disable_parallel_tool_use"] = (!parallel).into();
    }
    choice
}

fn messages(messages: &[Message]) -> Result<Value, String> {
    let go_on = json!({"type": "text", "text": GO_ON});
    let turns = turns(messages, go_on, |message| match message.role {
        Role::Assistant => Ok(assistant(message)),
        Role::Tool => Ok(results(message)),
        Role::User | Role::System => user(message),
    })?;
    let named = |(role, blocks): (Role, Vec<Value>)| json!({"role": role, "content": blocks});
    Ok(turns.into_iter().map(named).collect())
}

/// A block of text; `None` for an empty one, which the protocol refuses.
fn text(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn user(message: &Message) -> Result<Vec<Value>, String> {
    let blocks = message.parts.iter().filter_map(|part| match part {
        Part::Text { text: words } => text(words).map(Ok),
        Part::Media(media) => Some(medium(media)),
        Part::Reasoning { .. } | Part::ToolCall(_) | Part::ToolResult(_) => None,
    });
    blocks.collect()
}

fn assistant(message: &Message) -> Vec<Value> {
    let blocks = message.parts.iter().filter_map(|part| match part {
        Part::Text { text: words } => text(words),
        Part::Reasoning { text, signature } => thinking(text, signature.as_deref()),
        Part::ToolCall(call) => Some(json!({
            "type": "tool_use", "id": id(call.id.as_str()), "name": call.name,
            "input": input(call),
        })),
        Part::Media(_) | Part::ToolResult(_) => None,
    });
    blocks.collect()
}

fn thinking(text: &str, signature: Option<&str>) -> Option<Value> {
    if let Some(signature) = Format::Anthropic.issued(signature) {
        return Some(json!({"type": "thinking", "thinking": text, "signature": signature}));
    }
    let data = Format::AnthropicRedacted.issued(signature)?;
    Some(json!({"type": "redacted_thinking", "data": data}))
}

/// The arguments of a call, which have to be an object.
fn input(call: &ToolCall) -> Value {
    match &call.args {
        Value::Object(_) => call.args.clone(),
        other => json!({ "invalid_arguments": other }),
    }
}

/// An id with the characters that the protocol accepts. Calls of other models may have others.
fn id(id: &str) -> String {
    let accepted = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    id.chars().map(accepted).collect()
}

fn results(message: &Message) -> Vec<Value> {
    let results = message.tool_results().map(|result| {
        json!({
            "type": "tool_result", "tool_use_id": id(result.tool_call_id.as_str()),
            "content": result_text(&result.value), "is_error": result.is_error,
        })
    });
    results.collect()
}

fn medium(media: &Media) -> Result<Value, String> {
    let (kind, location) = media::locate(media)?;
    let block = match kind {
        Kind::Image => "image",
        Kind::Pdf => "document",
        Kind::Audio | Kind::Video | Kind::Other => {
            return Err(media::refused(media, "images and PDF documents"));
        }
    };
    let source = match location {
        Location::Base64(data) => {
            json!({"type": "base64", "media_type": media.media_type, "data": data})
        }
        Location::Url(url) => json!({"type": "url", "url": url}),
    };
    Ok(json!({"type": block, "source": source}))
}
