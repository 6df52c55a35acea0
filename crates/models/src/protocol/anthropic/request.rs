//! Request bodies of the protocol.

use crate::chat::{ChatRequest, ToolChoice};
use crate::fingerprint;
use crate::protocol::calls::{IdRule, WireCalls, input};
use crate::protocol::media::{self, Kind, Location};
use crate::protocol::signature::Format;
use crate::protocol::{GO_ON, Outgoing, ServerConfig, result_blocks, result_text, turns};
use serde_json::{Map, Value, json};
use weftwork_types::message::{Media, Message, Part, Role};
use weftwork_types::tool::ToolSpec;

/// Version of the protocol, as a header names it.
const VERSION: &str = "2023-06-01";
/// Token limit of an answer whose request has none, because the protocol requires one. Every model
/// since Claude 3.5 can write as many.
const MAX_TOKENS: u32 = 8192;
/// Maximum length of a call's id.
const ID_BYTES_MAX: usize = 64;

/// Writes a request.
pub(in crate::protocol) fn write(
    model: &str,
    request: &ChatRequest,
    config: &ServerConfig,
) -> Result<Outgoing, String> {
    let headers = vec![("anthropic-version", VERSION.to_owned())];
    let body = body(model, request, config)?;
    Ok(Outgoing { path: "/messages".to_owned(), headers, body })
}

fn body(model: &str, request: &ChatRequest, config: &ServerConfig) -> Result<Value, String> {
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
    set("messages", messages(model, request, config)?);
    if request.temperature.is_some() {
        set("temperature", fingerprint::decimal(request.temperature));
    }
    if request.top_p.is_some() {
        set("top_p", fingerprint::decimal(request.top_p));
    }
    if !request.stop.is_empty() {
        set("stop_sequences", json!(request.stop));
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

fn messages(model: &str, request: &ChatRequest, config: &ServerConfig) -> Result<Value, String> {
    let issuer = Issuer::new(model, config);
    let continuation = json!({"type": "text", "text": GO_ON});
    let calls = WireCalls::new(request, IdRule::Plain(ID_BYTES_MAX));
    let mut turns = turns(&request.messages, continuation, |message| match message.role {
        Role::Assistant => Ok(assistant(message, &calls, &issuer)),
        Role::Tool => Ok(results(message, &calls)),
        Role::User | Role::System => user(message),
    })?;
    // The provider continues an answer that it paused, and no other one.
    let last = request.messages.last();
    if last.is_some_and(|last| last.parts.iter().any(|part| issuer.turn(part).is_some())) {
        turns.pop_if(|(role, _)| *role == Role::User);
    }
    let turns = turns.into_iter();
    Ok(turns.map(|(role, blocks)| json!({"role": role, "content": blocks})).collect())
}

/// A block of text; `None` for an empty one, which the protocol refuses.
fn text(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn user(message: &Message) -> Result<Vec<Value>, String> {
    let blocks = message.parts.iter().filter_map(|part| match part {
        Part::Text { text: words } => text(words).map(Ok),
        Part::Media(media) => Some(write_medium(media)),
        Part::Reasoning { .. } | Part::ToolCall(_) | Part::ToolResult(_) => None,
    });
    blocks.collect()
}

fn assistant(message: &Message, calls: &WireCalls, issuer: &Issuer<'_>) -> Vec<Value> {
    let turn = message.parts.iter().find_map(|part| issuer.turn(part));
    if let Some(turn) = turn {
        return turn;
    }
    let blocks = message.parts.iter().filter_map(|part| match part {
        Part::Text { text: words } => text(words),
        Part::Reasoning { text, signature } => issuer.thinking(text, signature.as_deref()),
        Part::ToolCall(call) => Some(json!({
            "type": "tool_use", "id": calls.id(call.id.as_str()), "name": calls.name(&call.name),
            "input": input(call),
        })),
        Part::Media(_) | Part::ToolResult(_) => None,
    });
    blocks.collect()
}

/// The server that gets its thinking back.
struct Issuer<'a> {
    provider: &'a str,
    /// `true` if the server may have thinking without a signature, with an empty one. Anthropic
    /// refuses a conversation with it, also behind a gateway.
    may_be_unsigned: bool,
}

impl<'a> Issuer<'a> {
    fn new(model: &str, config: &'a ServerConfig) -> Self {
        let is_anthropic = model.to_ascii_lowercase().contains("claude")
            || config.base_url.contains("anthropic.com");
        Self { provider: &config.provider, may_be_unsigned: !is_anthropic }
    }

    /// Returns the content of an answer that was paused, as it came.
    fn turn(&self, part: &Part) -> Option<Vec<Value>> {
        let Part::Reasoning { signature, .. } = part else { return None };
        let issued = Format::AnthropicTurn.issued(signature.as_deref(), self.provider)?;
        serde_json::from_str(issued).ok()
    }

    fn thinking(&self, text: &str, signature: Option<&str>) -> Option<Value> {
        let thinking =
            |signature: &str| json!({"type": "thinking", "thinking": text, "signature": signature});
        if let Some(signature) = Format::Anthropic.issued(signature, self.provider) {
            return Some(thinking(signature));
        }
        if Format::AnthropicUnsigned.issued(signature, self.provider).is_some() {
            return (self.may_be_unsigned && !text.is_empty()).then(|| thinking(""));
        }
        let data = Format::AnthropicRedacted.issued(signature, self.provider)?;
        Some(json!({"type": "redacted_thinking", "data": data}))
    }
}

fn results(message: &Message, calls: &WireCalls) -> Vec<Value> {
    let results = message.tool_results().map(|result| {
        let blocks = result_blocks(&result.value, text, write_medium);
        let content = blocks.map_or_else(|| result_text(&result.value).into(), Value::from);
        json!({
            "type": "tool_result", "tool_use_id": calls.id(result.tool_call_id.as_str()),
            "content": content, "is_error": result.is_error,
        })
    });
    results.collect()
}

pub(in crate::protocol) fn write_medium(media: &Media) -> Result<Value, String> {
    let (kind, location) = media::locate(media)?;
    let block = match kind {
        Kind::Image => {
            media::check_image(media)?;
            "image"
        }
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
