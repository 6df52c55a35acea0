//! Request bodies of the protocol.

use super::returned::Returned;
use crate::chat::{ChatRequest, ToolChoice};
use crate::fingerprint;
use crate::protocol::calls::{IdRule, WireCalls, input};
use crate::protocol::media::{self, Kind, Location};
use crate::protocol::{Outgoing, Quirk, ServerConfig, result_medium, result_text};
use serde_json::{Map, Value, json};
use weftwork_types::message::{Media, Message, Part, Role, ToolResult, content_parts, media_note};

/// Maximum length of a call's id, at OpenAI.
const ID_BYTES_MAX: usize = 40;
/// Text of the assistant between results of tools and a message of the user, for servers that refuse
/// them one after the other.
const BETWEEN_RESULT_AND_USER: &str = "OK.";

/// Writes a request.
pub(in crate::protocol) fn write(
    model: &str,
    request: &ChatRequest,
    config: &ServerConfig,
) -> Result<Outgoing, String> {
    let body = body(model, request, config)?;
    Ok(Outgoing { path: "/chat/completions".to_owned(), headers: Vec::new(), body })
}

fn body(model: &str, request: &ChatRequest, config: &ServerConfig) -> Result<Value, String> {
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
    set("model", model.into());
    set("messages", messages(model, request, config)?);
    set("stream", true.into());
    if !config.quirks.has(Quirk::NoStreamOptions) {
        set("stream_options", json!({"include_usage": true}));
    }
    if request.temperature.is_some() {
        set("temperature", fingerprint::decimal(request.temperature));
    }
    if request.top_p.is_some() {
        set("top_p", fingerprint::decimal(request.top_p));
    }
    if !request.stop.is_empty() {
        set("stop", json!(request.stop));
    }
    if let Some(seed) = request.seed {
        let random = config.quirks.has(Quirk::RandomSeed);
        set(if random { "random_seed" } else { "seed" }, seed.into());
    }
    if let Some(limit) = request.max_tokens {
        let completion = config.quirks.has(Quirk::MaxCompletionTokens);
        set(if completion { "max_completion_tokens" } else { "max_tokens" }, limit.into());
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(fingerprint::tool);
        set("tools", tools.map(|tool| json!({"type": "function", "function": tool})).collect());
    }
    if let Some(choice) = tool_choice(request) {
        set("tool_choice", choice);
    }
    if let Some(parallel) = request.parallel_tool_calls
        && !request.tools.is_empty()
    {
        set("parallel_tool_calls", parallel.into());
    }
    if let Some(schema) = &request.response_schema {
        set("response_format", response_format(schema));
    }
    Ok(Value::Object(body))
}

fn tool_choice(request: &ChatRequest) -> Option<Value> {
    match &request.tool_choice {
        ToolChoice::Named(name) => Some(json!({"type": "function", "function": {"name": name}})),
        ToolChoice::Required => Some("required".into()),
        ToolChoice::None if !request.tools.is_empty() => Some("none".into()),
        ToolChoice::None | ToolChoice::Auto => None,
    }
}

fn response_format(schema: &Value) -> Value {
    json!({
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": is_strict(schema), "schema": schema},
    })
}

/// Returns `true` if strict servers accept the schema: every object is closed and requires all its
/// members. Other schemas are sent without `strict` instead of being rejected.
pub(in crate::protocol) fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            let closed = match map.get("properties").and_then(Value::as_object) {
                Some(properties) => {
                    let required = map.get("required").and_then(Value::as_array);
                    map.get("additionalProperties") == Some(&Value::Bool(false))
                        && required.is_some_and(|names| names.len() == properties.len())
                }
                None => map.get("type") != Some(&Value::from("object")),
            };
            closed && map.values().all(is_strict)
        }
        Value::Array(items) => items.iter().all(is_strict),
        _ => true,
    }
}

fn messages(model: &str, request: &ChatRequest, config: &ServerConfig) -> Result<Value, String> {
    let rule = match config.quirks.has(Quirk::NineCharacterIds) {
        true => IdRule::Exactly(9),
        false => IdRule::Length(ID_BYTES_MAX),
    };
    let calls = WireCalls::new(request, rule);
    let mut out = Vec::with_capacity(request.messages.len());
    let mut media = Vec::new();
    for message in &request.messages {
        if message.role != Role::Tool {
            out.extend(media_message(&mut media));
        }
        match message.role {
            Role::System => out.push(json!({"role": "system", "content": message.joined_text()})),
            Role::User => out.push(json!({"role": "user", "content": user_content(message)?})),
            Role::Assistant => out.extend(assistant(message, &calls, &config.provider, model)),
            Role::Tool => out.extend(message.tool_results().map(|result| {
                json!({
                    "role": "tool", "tool_call_id": calls.id(result.tool_call_id.as_str()),
                    "content": result_content(result, &mut media),
                })
            })),
        }
    }
    out.extend(media_message(&mut media));
    if config.quirks.has(Quirk::NoUserAfterTool) {
        out = separate_results(out);
    }
    Ok(out.into())
}

/// Writes a message of the assistant between results of tools and a message that is no answer to them.
fn separate_results(messages: Vec<Value>) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::with_capacity(messages.len());
    for message in messages {
        let follows_result = out.last().is_some_and(|last| last["role"] == "tool");
        if follows_result && (message["role"] == "user" || message["role"] == "system") {
            out.push(json!({"role": "assistant", "content": BETWEEN_RESULT_AND_USER}));
        }
        out.push(message);
    }
    out
}

/// The text of a result. Results have no media in this protocol, so they are added to those that
/// follow in a message of the user, and noted in the text.
fn result_content(result: &ToolResult, media: &mut Vec<Value>) -> String {
    let Some(parts) = content_parts(&result.value) else { return result_text(&result.value) };
    let mut text = |part: &Part| match part {
        Part::Text { text } => Some(text.clone()),
        Part::Media(medium) => Some(match result_medium(medium, write_medium) {
            Ok(part) => {
                let text = format!("From the result of `{}`:", result.name);
                media.extend([json!({"type": "text", "text": text}), part]);
                media_note(medium, "it follows the results")
            }
            Err(reason) => media_note(medium, &reason),
        }),
        Part::Reasoning { .. } | Part::ToolCall(_) | Part::ToolResult(_) => None,
    };
    parts.iter().filter_map(&mut text).collect::<Vec<_>>().join("\n")
}

/// The message after the results of an answer with their media; `None` if they have none.
fn media_message(media: &mut Vec<Value>) -> Option<Value> {
    let content = std::mem::take(media);
    (!content.is_empty()).then(|| json!({"role": "user", "content": content}))
}

/// An answer; `None` for one without text and calls, which servers refuse.
fn assistant(message: &Message, calls: &WireCalls, provider: &str, model: &str) -> Option<Value> {
    let made: Vec<Value> = message
        .tool_calls()
        .map(|call| {
            let name = calls.name(&call.name);
            let function = json!({"name": name, "arguments": input(call).to_string()});
            json!({"id": calls.id(call.id.as_str()), "type": "function", "function": function})
        })
        .collect();
    let text = message.joined_text();
    let content = match (text.is_empty(), made.is_empty()) {
        (true, true) => return None,
        (true, false) => Value::Null,
        (false, _) => text.into(),
    };
    let mut out = json!({"role": "assistant", "content": content});
    if !made.is_empty() {
        out["tool_calls"] = made.into();
    }
    Returned::of(message, provider, model).write(message, &mut out);
    Some(out)
}

fn user_content(message: &Message) -> Result<Value, String> {
    let only_text = message.parts.iter().all(|part| matches!(part, Part::Text { .. }));
    if only_text {
        return Ok(message.joined_text().into());
    }
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(Ok(json!({"type": "text", "text": text}))),
        Part::Media(media) => Some(write_medium(media)),
        Part::Reasoning { .. } | Part::ToolCall(_) | Part::ToolResult(_) => None,
    });
    parts.collect()
}

pub(in crate::protocol) fn write_medium(media: &Media) -> Result<Value, String> {
    let accepted = "images, and audio and PDF documents from `data:` URLs";
    match media::locate(media)? {
        (Kind::Image, _) => Ok(json!({"type": "image_url", "image_url": {"url": media.url}})),
        (Kind::Audio, Location::Base64(data)) => {
            let format = match media.media_type.as_str() {
                "audio/mpeg" => "mp3",
                "audio/x-wav" | "audio/vnd.wave" => "wav",
                other => other.trim_start_matches("audio/"),
            };
            Ok(json!({"type": "input_audio", "input_audio": {"data": data, "format": format}}))
        }
        (Kind::Pdf, Location::Base64(_)) => Ok(json!({
            "type": "file", "file": {"filename": "document.pdf", "file_data": media.url},
        })),
        _ => Err(media::refused(media, accepted)),
    }
}

#[cfg(test)]
mod tests;
