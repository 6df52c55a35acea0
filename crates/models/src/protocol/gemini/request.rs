//! Request bodies of the protocol.

use crate::chat::{ChatRequest, ToolChoice};
use crate::fingerprint;
use crate::protocol::calls::{IdRule, WireCalls, input};
use crate::protocol::media::{self, Kind, Location};
use crate::protocol::signature::Format;
use crate::protocol::{GO_ON, Outgoing, ServerConfig, result_medium, turns};
use serde_json::{Map, Value, json};
use weftwork_types::message::{
    Media, Message, Part, Role, ToolResult, content_parts, content_text, media_note,
};
use weftwork_types::tool::ToolSpec;

/// Signature of a call that another model made, as the provider documents it.
const UNSIGNED: &str = "skip_thought_signature_validator";
/// Beginnings of the names of models that do not ask for signatures.
const OLD_MODELS: [&str; 2] = ["gemini-1", "gemini-2"];

/// Writes a request.
pub(in crate::protocol) fn write(
    model: &str,
    request: &ChatRequest,
    config: &ServerConfig,
) -> Result<Outgoing, String> {
    // The name is a part of the path.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let name = model.strip_prefix("models/").unwrap_or(model);
    if name.is_empty() || !name.chars().all(plain) {
        return Err("the name of a model consists of letters, digits, `-`, `.` and `_`".to_owned());
    }
    let path = format!("/models/{name}:streamGenerateContent?alt=sse");
    Ok(Outgoing { path, headers: Vec::new(), body: body(name, request, config)? })
}

fn body(model: &str, request: &ChatRequest, config: &ServerConfig) -> Result<Value, String> {
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
    let system = request.messages.iter().filter(|message| message.role == Role::System);
    let system: Vec<Value> = system.map(|message| json!({"text": message.joined_text()})).collect();
    if !system.is_empty() {
        set("systemInstruction", json!({"parts": system}));
    }
    set("contents", contents(model, request, &config.provider)?);
    if !request.tools.is_empty() {
        let tools: Value = request.tools.iter().map(tool).collect();
        set("tools", json!([{"functionDeclarations": tools}]));
        if let Some(choice) = calling(&request.tool_choice) {
            set("toolConfig", json!({"functionCallingConfig": choice}));
        }
    }
    let generation = generation(request);
    if !generation.is_empty() {
        set("generationConfig", generation.into());
    }
    Ok(Value::Object(body))
}

fn tool(spec: &ToolSpec) -> Value {
    json!({
        "name": spec.wire_name(),
        "description": spec.description,
        "parametersJsonSchema": spec.parameters,
    })
}

fn calling(choice: &ToolChoice) -> Option<Value> {
    Some(match choice {
        ToolChoice::Auto => return None,
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Required => json!({"mode": "ANY"}),
        ToolChoice::Named(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
    })
}

fn generation(request: &ChatRequest) -> Map<String, Value> {
    let mut config = Map::new();
    let mut set = |name: &str, value: Value| config.insert(name.to_owned(), value);
    if request.temperature.is_some() {
        set("temperature", fingerprint::decimal(request.temperature));
    }
    if request.top_p.is_some() {
        set("topP", fingerprint::decimal(request.top_p));
    }
    if !request.stop.is_empty() {
        set("stopSequences", json!(request.stop));
    }
    if let Some(seed) = request.seed {
        set("seed", seed.into());
    }
    if let Some(limit) = request.max_tokens {
        set("maxOutputTokens", limit.into());
    }
    if let Some(schema) = &request.response_schema {
        set("responseMimeType", "application/json".into());
        set("responseJsonSchema", schema.clone());
    }
    config
}

fn contents(model: &str, request: &ChatRequest, provider: &str) -> Result<Value, String> {
    let calls = WireCalls::new(request, IdRule::Length(usize::MAX));
    // Models from the third generation on refuse a first call without a signature.
    let is_old = || OLD_MODELS.iter().any(|old| model.starts_with(old));
    let reads_media = model.starts_with("gemini-") && !is_old();
    let unsigned = reads_media.then_some(UNSIGNED);
    let turns = turns(&request.messages, json!({"text": GO_ON}), |message| match message.role {
        Role::Assistant => Ok(assistant(message, &calls, provider, unsigned)),
        Role::Tool => {
            let results = message.tool_results();
            Ok(results.flat_map(|result| self::result(result, reads_media)).collect())
        }
        Role::User | Role::System => user(message),
    })?;
    let named = turns.into_iter().map(|(role, parts)| {
        let role = if role == Role::Assistant { "model" } else { "user" };
        json!({"role": role, "parts": parts})
    });
    Ok(named.collect())
}

fn user(message: &Message) -> Result<Vec<Value>, String> {
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(Ok(json!({ "text": text }))),
        Part::Media(media) => Some(write_medium(media)),
        Part::Reasoning { .. } | Part::ToolCall(_) | Part::ToolResult(_) => None,
    });
    parts.collect()
}

/// The parts of an answer. A signature belongs to the part after it; at the end of an answer it
/// belongs to an empty text.
fn assistant(
    message: &Message,
    calls: &WireCalls,
    provider: &str,
    unsigned: Option<&str>,
) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut signature = None;
    let mut is_signed = false;
    for part in &message.parts {
        let mut value = match part {
            Part::Reasoning { signature: found, .. } => {
                signature = Format::Gemini.issued(found.as_deref(), provider).or(signature);
                continue;
            }
            Part::Text { text } => json!({ "text": text }),
            Part::ToolCall(call) => json!({"functionCall": {
                "id": call.id.as_str(), "name": calls.name(&call.name), "args": input(call),
            }}),
            Part::Media(_) | Part::ToolResult(_) => continue,
        };
        let is_call = matches!(part, Part::ToolCall(_));
        let foreign = unsigned.filter(|_| is_call && !is_signed);
        if let Some(signature) = signature.take().or(foreign) {
            value["thoughtSignature"] = signature.into();
        }
        is_signed |= is_call;
        parts.push(value);
    }
    if let Some(signature) = signature {
        parts.push(json!({"text": "", "thoughtSignature": signature}));
    }
    parts
}

/// A result, which has to be an object. Its images and documents are parts of it for models that read
/// them there; other media follow it.
fn result(result: &ToolResult, reads_media: bool) -> Vec<Value> {
    let name = if result.is_error { "error" } else { "output" };
    let text = content_text(&result.value, "attached");
    let value = text.map_or_else(|| result.value.clone(), Value::from);
    let mut response = json!({
        "id": result.tool_call_id.as_str(), "name": result.name, "response": { name: value },
    });
    let mut inside = Vec::new();
    let mut after = Vec::new();
    for part in content_parts(&result.value).unwrap_or_default() {
        let Part::Media(media) = part else { continue };
        let is_read = matches!(media::locate(&media), Ok((Kind::Image | Kind::Pdf, _)));
        match result_medium(&media, write_medium) {
            Ok(part) if reads_media && is_read => inside.push(part),
            Ok(part) => after.push(part),
            Err(reason) => after.push(json!({"text": media_note(&media, &reason)})),
        }
    }
    if !inside.is_empty() {
        response["parts"] = inside.into();
    }
    let response = json!({ "functionResponse": response });
    [response].into_iter().chain(after).collect()
}

pub(in crate::protocol) fn write_medium(media: &Media) -> Result<Value, String> {
    let kind = &media.media_type;
    let (sort, location) = media::locate(media)?;
    if sort == Kind::Other && !kind.starts_with("text/") {
        return Err(media::refused(media, "images, audio, video, texts and PDF documents"));
    }
    Ok(match location {
        Location::Base64(data) => json!({"inlineData": {"mimeType": kind, "data": data}}),
        Location::Url(url) => json!({"fileData": {"mimeType": kind, "fileUri": url}}),
    })
}
