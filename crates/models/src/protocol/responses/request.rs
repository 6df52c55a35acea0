//! Request bodies of the protocol.

use crate::chat::{ChatRequest, ToolChoice};
use crate::fingerprint;
use crate::protocol::calls::{IdRule, WireCalls, input};
use crate::protocol::media::{self, Kind, Location};
use crate::protocol::openai::is_strict;
use crate::protocol::signature::Format;
use crate::protocol::{Outgoing, ServerConfig, result_blocks, result_text};
use serde_json::{Map, Value, json};
use weftwork_types::message::{Media, Message, Part, Role};
use weftwork_types::tool::ToolSpec;

/// Maximum length of a call's id.
const ID_BYTES_MAX: usize = 64;

/// Writes a request.
pub(in crate::protocol) fn write(
    model: &str,
    reasons: bool,
    request: &ChatRequest,
    config: &ServerConfig,
) -> Result<Outgoing, String> {
    let body = body(model, reasons, request, &config.provider)?;
    Ok(Outgoing { path: "/responses".to_owned(), headers: Vec::new(), body })
}

fn body(
    model: &str,
    reasons: bool,
    request: &ChatRequest,
    provider: &str,
) -> Result<Value, String> {
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
    set("model", model.into());
    set("input", items(request, provider)?);
    set("stream", true.into());
    set("store", false.into());
    if reasons {
        // Without storage, reasoning goes back in this form.
        set("include", json!(["reasoning.encrypted_content"]));
    }
    if request.temperature.is_some() {
        set("temperature", fingerprint::decimal(request.temperature));
    }
    if request.top_p.is_some() {
        set("top_p", fingerprint::decimal(request.top_p));
    }
    if let Some(limit) = request.max_tokens {
        set("max_output_tokens", limit.into());
    }
    if !request.tools.is_empty() {
        set("tools", request.tools.iter().map(tool).collect());
        if let Some(choice) = tool_choice(&request.tool_choice) {
            set("tool_choice", choice);
        }
        if let Some(parallel) = request.parallel_tool_calls {
            set("parallel_tool_calls", parallel.into());
        }
    }
    if let Some(schema) = &request.response_schema {
        let strict = is_strict(schema);
        set(
            "text",
            json!({"format": {
                "type": "json_schema", "name": "answer", "strict": strict, "schema": schema,
            }}),
        );
    }
    Ok(Value::Object(body))
}

fn tool(spec: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "name": spec.wire_name(),
        "description": spec.description,
        "parameters": spec.parameters,
        // Without this member, the provider changes schemas to strict ones.
        "strict": is_strict(&spec.parameters),
    })
}

fn tool_choice(choice: &ToolChoice) -> Option<Value> {
    Some(match choice {
        ToolChoice::Auto => return None,
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Named(name) => json!({"type": "function", "name": name}),
    })
}

fn items(request: &ChatRequest, provider: &str) -> Result<Value, String> {
    let calls = WireCalls::new(request, IdRule::Length(ID_BYTES_MAX));
    let mut items = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        match message.role {
            Role::System => {
                items.push(json!({"role": "system", "content": message.joined_text()}));
            }
            Role::User => items.push(json!({"role": "user", "content": user(message)?})),
            Role::Assistant => items.extend(assistant(message, &calls, provider)),
            Role::Tool => items.extend(message.tool_results().map(|result| {
                let blocks = result_blocks(&result.value, input_text, write_medium);
                let output = blocks.map_or_else(|| result_text(&result.value).into(), Value::from);
                json!({
                    "type": "function_call_output",
                    "call_id": calls.id(result.tool_call_id.as_str()),
                    "output": output,
                })
            })),
        }
    }
    Ok(items.into())
}

fn input_text(text: &str) -> Option<Value> {
    Some(json!({"type": "input_text", "text": text}))
}

fn user(message: &Message) -> Result<Value, String> {
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => input_text(text).map(Ok),
        Part::Media(media) => Some(write_medium(media)),
        Part::Reasoning { .. } | Part::ToolCall(_) | Part::ToolResult(_) => None,
    });
    parts.collect()
}

/// The items of an answer. The members of a message come before its text.
fn assistant(message: &Message, calls: &WireCalls, provider: &str) -> Vec<Value> {
    let mut phase = None;
    let items = message.parts.iter().filter_map(|part| {
        if let Part::Reasoning { signature, .. } = part
            && let Some(issued) = Format::OpenaiMessage.issued(signature.as_deref(), provider)
        {
            let members: Option<Value> = serde_json::from_str(issued).ok();
            phase = members.and_then(|members| members.get("phase").cloned());
            return None;
        }
        let mut item = item(part, calls, provider)?;
        // The phase belongs to the next item only, also if that is no text.
        let phase = phase.take();
        if let Some(phase) = phase.filter(|_| matches!(part, Part::Text { .. })) {
            item["phase"] = phase;
        }
        Some(item)
    });
    items.collect()
}

fn item(part: &Part, calls: &WireCalls, provider: &str) -> Option<Value> {
    match part {
        Part::Text { text } if text.is_empty() => None,
        Part::Text { text } => Some(json!({
            "type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": text}],
        })),
        Part::Reasoning { text, signature } => reasoning(text, signature.as_deref(), provider),
        Part::ToolCall(call) => Some(json!({
            "type": "function_call", "call_id": calls.id(call.id.as_str()),
            "name": calls.name(&call.name), "arguments": input(call).to_string(),
        })),
        Part::Media(_) | Part::ToolResult(_) => None,
    }
}

/// A reasoning item as the provider issued it.
fn reasoning(text: &str, signature: Option<&str>, provider: &str) -> Option<Value> {
    let issued: Value = serde_json::from_str(Format::Openai.issued(signature, provider)?).ok()?;
    // The parts of the summary as they came, or the one that the text is.
    let texts = match issued["summary"].as_array() {
        Some(parts) => parts.clone(),
        None if text.is_empty() => Vec::new(),
        None => vec![text.into()],
    };
    let parts = texts.into_iter().map(|text| json!({"type": "summary_text", "text": text}));
    let summary: Value = parts.collect();
    Some(json!({
        "type": "reasoning", "id": issued["id"], "summary": summary,
        "encrypted_content": issued["encrypted_content"],
    }))
}

pub(in crate::protocol) fn write_medium(media: &Media) -> Result<Value, String> {
    match media::locate(media)? {
        (Kind::Image, _) => {
            media::check_image(media)?;
            Ok(json!({"type": "input_image", "image_url": media.url, "detail": "auto"}))
        }
        (Kind::Pdf, Location::Base64(_)) => Ok(json!({
            "type": "input_file", "filename": "document.pdf", "file_data": media.url,
        })),
        (Kind::Pdf, Location::Url(url)) => Ok(json!({"type": "input_file", "file_url": url})),
        (Kind::Audio | Kind::Video | Kind::Other, _) => {
            Err(media::refused(media, "images and PDF documents"))
        }
    }
}
