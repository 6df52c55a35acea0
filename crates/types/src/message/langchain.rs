//! Messages in the shape of LangChain, both ways.
//!
//! A message of a state is an object with exactly the members `id`, `role` and `parts`; wherever a
//! value has one, clients see LangChain's shape. In input, an object with `type` or `role` and
//! `content` is a message in the channels that hold messages.

use super::block::{block, is_ignored, media_block};
use super::{Message, MessageExtra, Part, Role, ToolCall, ToolResult, content_parts};
use crate::usage::Tokens;
use crate::{MessageId, ToolCallId};
use serde_json::{Map, Value, json};

/// Maximum length of a value in texts of errors, in characters.
const FOUND_CHARS_MAX: usize = 80;

/// Replaces all messages in a value by their LangChain shape.
pub fn show(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(show),
        Value::Object(members) => match message_of(members) {
            Some(message) => *value = shown(&message),
            None => members.iter_mut().for_each(|(_, member)| show(member)),
        },
        _ => {}
    }
}

/// Returns a value with all its messages in LangChain's shape.
#[must_use]
pub fn into_shown(mut value: Value) -> Value {
    show(&mut value);
    value
}

/// Returns the message that an object is; `None` for other objects.
#[must_use]
pub fn message_of(members: &Map<String, Value>) -> Option<Message> {
    let has = |name: &str| members.contains_key(name);
    let is_message = ["id", "role", "parts"].iter().all(|name| has(name))
        && members.len() == 3 + usize::from(has("extra"));
    if !is_message {
        return None;
    }
    serde_json::from_value(Value::Object(members.clone())).ok()
}

/// Returns a message in LangChain's shape.
#[must_use]
pub fn shown(message: &Message) -> Value {
    let kind = match message.role {
        Role::System => "system",
        Role::User => "human",
        Role::Assistant => "ai",
        Role::Tool => "tool",
    };
    let mut shown = json!({
        "content": content(message),
        "additional_kwargs": {},
        "response_metadata": {},
        "type": kind,
        "name": null,
        "id": message.id,
    });
    match message.role {
        Role::Assistant => {
            shown["tool_calls"] = message.tool_calls().map(call).collect();
            shown["invalid_tool_calls"] = json!([]);
            shown["usage_metadata"] = Value::Null;
        }
        Role::Tool => {
            if let Some(result) = message.tool_results().next() {
                shown["name"] = json!(result.name);
                shown["tool_call_id"] = json!(result.tool_call_id);
                shown["artifact"] = Value::Null;
                shown["status"] = json!(if result.is_error { "error" } else { "success" });
            }
        }
        Role::System | Role::User => {}
    }
    if let Some(extra) = &message.extra {
        shown["additional_kwargs"] = json!(extra.additional_kwargs);
        shown["response_metadata"] = json!(extra.response_metadata);
        if let Some(name) = &extra.name {
            shown["name"] = json!(name);
        }
    }
    shown
}

fn call(call: &ToolCall) -> Value {
    let args = call.shown.as_ref().unwrap_or(&call.args);
    json!({"name": call.name, "args": args, "id": call.id, "type": "tool_call"})
}

/// Returns the content: a text if the message has nothing else, otherwise a list of blocks.
fn content(message: &Message) -> Value {
    if let Some(result) = message.tool_results().next() {
        return match result.shown.as_ref().unwrap_or(&result.value) {
            Value::String(text) => json!(text),
            blocks if content_parts(blocks).is_some() => blocks.clone(),
            value => json!(value.to_string()),
        };
    }
    let media = message.parts.iter().any(|part| matches!(part, Part::Media(_)));
    if !media {
        return json!(message.joined_text());
    }
    let block = |part: &Part| match part {
        Part::Text { text } => Some(json!({"type": "text", "text": text})),
        Part::Media(media) => Some(media_block(media)),
        _ => None,
    };
    message.parts.iter().filter_map(block).collect()
}

/// Returns partial text of a message as the chunk of an assistant's message.
#[must_use]
pub fn chunk(id: &MessageId, text: &str) -> Value {
    json!({
        "content": text,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "AIMessageChunk",
        "name": null,
        "id": id,
        "tool_calls": [],
        "invalid_tool_calls": [],
        "usage_metadata": null,
        "tool_call_chunks": [],
        "chunk_position": null,
    })
}

/// Returns the last chunk of an assistant's message of which a client has a text: the rest of the
/// text, which may be empty, and the tool calls.
#[must_use]
pub fn rest(message: &Message, known: &str, usage: Option<&Tokens>) -> Value {
    let text = message.joined_text();
    let text = text.strip_prefix(known).unwrap_or_default();
    let calls: Vec<_> = message.tool_calls().map(call).collect();
    let parts = calls.iter().enumerate().map(|(index, call)| {
        let args = call["args"].to_string();
        json!({"name": call["name"], "args": args, "id": call["id"], "index": index, "type": "tool_call_chunk"})
    });
    let mut chunk = chunk(&message.id, text);
    chunk["tool_call_chunks"] = parts.collect();
    chunk["tool_calls"] = calls.into();
    end(&mut chunk, usage);
    chunk
}

/// Returns the chunks that complete an assistant's message as providers send them: the rest of the
/// text, the beginning and the arguments of each tool call with an empty chunk before, because readers
/// end at it what they were reading, and an empty last chunk.
#[must_use]
pub fn rest_in_parts(message: &Message, known: &str, usage: Option<&Tokens>) -> Vec<Value> {
    let text = message.joined_text();
    let text = text.strip_prefix(known).unwrap_or_default();
    let empty = || chunk(&message.id, "");
    let mut chunks = Vec::new();
    if !text.is_empty() {
        chunks.push(chunk(&message.id, text));
    }
    for (index, call) in message.tool_calls().map(call).enumerate() {
        let part = |name: &Value, id: &Value, args: &str| {
            let mut chunk = empty();
            chunk["tool_call_chunks"] = json!([{"name": name, "args": args, "id": id,
                "index": index, "type": "tool_call_chunk"}]);
            chunk
        };
        chunks.push(empty());
        chunks.push(part(&call["name"], &call["id"], ""));
        chunks.push(part(&Value::Null, &Value::Null, &call["args"].to_string()));
    }
    let mut last = empty();
    end(&mut last, usage);
    chunks.push(last);
    chunks
}

/// Makes a chunk the last one of a message.
fn end(chunk: &mut Value, usage: Option<&Tokens>) {
    chunk["chunk_position"] = json!("last");
    if let Some(usage) = usage {
        chunk["usage_metadata"] = usage_metadata(usage);
    }
}

/// Returns token counts in LangChain's shape.
#[must_use]
pub fn usage_metadata(tokens: &Tokens) -> Value {
    let mut shown = json!({
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "total_tokens": tokens.total(),
    });
    if tokens.cached > 0 || tokens.cache_written > 0 {
        shown["input_token_details"] =
            json!({"cache_read": tokens.cached, "cache_creation": tokens.cache_written});
    }
    if tokens.reasoning > 0 {
        shown["output_token_details"] = json!({"reasoning": tokens.reasoning});
    }
    shown
}

/// Reads the messages of a channel: one, or a list, in LangChain's shape or in ours; a text is a
/// message of the user. Ids are made where they are missing.
///
/// # Errors
/// A text that names the member that does not fit.
pub fn read(value: Value, make_id: &mut dyn FnMut() -> MessageId) -> Result<Value, String> {
    match value {
        Value::Array(items) => {
            let items = items.into_iter().enumerate().map(|(index, item)| {
                read_one(item, make_id).map_err(|problem| format!("message {index}: {problem}"))
            });
            items.collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        one => read_one(one, make_id).map(|message| json!([message])),
    }
}

/// Returns the members of a message that LangChain has serialised, with its class as `type`; `None` for
/// other objects.
fn serialized(members: &Map<String, Value>) -> Option<Map<String, Value>> {
    let is_serialized =
        members.contains_key("lc") && members.get("type")?.as_str() == Some("constructor");
    let class = members.get("id")?.as_array()?.last()?.as_str()?;
    let mut message = members.get("kwargs")?.as_object().filter(|_| is_serialized)?.clone();
    if class != "ChatMessage" && class != "ChatMessageChunk" {
        message.insert("type".to_owned(), json!(class));
    }
    Some(message)
}

/// Returns a message that is a pair of a role and a content as an object; `None` for other lists.
fn pair(items: &[Value]) -> Option<Value> {
    let [Value::String(role), content] = items else { return None };
    Some(json!({"role": role, "content": content}))
}

fn read_one(value: Value, make_id: &mut dyn FnMut() -> MessageId) -> Result<Value, String> {
    let mut members = match value {
        Value::Object(members) => serialized(&members).unwrap_or(members),
        Value::String(text) => return Ok(json!(Message::text(make_id(), Role::User, text))),
        other => match other.as_array().and_then(|items| pair(items)) {
            Some(message) => return read_one(message, make_id),
            None => {
                let found: String = other.to_string().chars().take(FOUND_CHARS_MAX).collect();
                return Err(format!(
                    "expected a message, found `{found}`; a message is an object with `type` and \
                     `content`, a pair of a role and a content, or a text of the user"
                ));
            }
        },
    };
    if members.contains_key("parts") || members.contains_key("remove") {
        check_parts(&members)?;
        if !members.contains_key("remove") {
            members.entry("id").or_insert_with(|| json!(make_id()));
        }
        return Ok(Value::Object(members));
    }
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    let kind = text("type").or_else(|| text("role")).ok_or("a message needs `type` or `role`")?;
    let id = match text("id") {
        Some(id) => MessageId::new(id).map_err(|error| error.to_string())?,
        None => make_id(),
    };
    let role = match kind {
        "human" | "user" | "HumanMessage" | "HumanMessageChunk" => Role::User,
        "ai" | "assistant" | "AIMessage" | "AIMessageChunk" => Role::Assistant,
        "system" | "developer" | "SystemMessage" | "SystemMessageChunk" => Role::System,
        "tool" | "ToolMessage" | "ToolMessageChunk" => Role::Tool,
        "remove" | "RemoveMessage" => return Ok(json!({"remove": id})),
        other => {
            return Err(format!(
                "message type `{other}` is not known; expected human, ai, system, tool or remove"
            ));
        }
    };
    let content = members.get("content").cloned().unwrap_or(Value::Null);
    if role == Role::Tool {
        let call = text("tool_call_id").ok_or("a tool message needs `tool_call_id`")?;
        let result = ToolResult {
            tool_call_id: ToolCallId::new(call).map_err(|error| error.to_string())?,
            name: text("name").unwrap_or_default().to_owned(),
            value: content,
            shown: None,
            is_error: text("status") == Some("error"),
        };
        let extra = extra_of(&members, None);
        return Ok(json!(Message { extra, ..Message::tool_result(id, result) }));
    }
    let mut parts = blocks(content)?;
    for call in members.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| call.get(name).and_then(Value::as_str);
        let name = text("name").ok_or("a tool call needs `name`")?.to_owned();
        let id = text("id").ok_or("a tool call needs `id`")?;
        let id = ToolCallId::new(id).map_err(|error| error.to_string())?;
        let args = call.get("args").cloned().unwrap_or_else(|| json!({}));
        parts.push(Part::ToolCall(ToolCall { id, name, args, shown: None }));
    }
    let extra = extra_of(&members, text("name"));
    Ok(json!(Message { extra, ..Message::new(id, role, parts) }))
}

fn extra_of(members: &Map<String, Value>, name: Option<&str>) -> Option<Box<MessageExtra>> {
    let object = |name: &str| members.get(name).and_then(Value::as_object).cloned();
    let extra = MessageExtra {
        name: name.map(str::to_owned),
        additional_kwargs: object("additional_kwargs").unwrap_or_default(),
        response_metadata: object("response_metadata").unwrap_or_default(),
    };
    (extra != MessageExtra::default()).then(|| Box::new(extra))
}

/// Reads the content of a message: a text, or a list of blocks in the forms of front ends. Blocks that
/// are for the client alone are left out.
///
/// # Errors
/// A text that names the block that does not fit.
pub fn blocks(content: Value) -> Result<Vec<Part>, String> {
    match content {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => Ok(vec![Part::Text { text }]),
        Value::Array(blocks) => {
            let blocks = blocks.iter().enumerate().filter(|(_, block)| !is_ignored(block));
            let parts = blocks.map(|(index, block)| {
                read_block(block).map_err(|problem| format!("part {index}: {problem}"))
            });
            parts.collect()
        }
        other => Err(format!("expected a text or a list of blocks as `content`, found `{other}`")),
    }
}

/// Reads a block, with inline data in base64.
fn read_block(content: &Value) -> Result<Part, String> {
    match block(content)? {
        Part::Media(media) => media.normalize().map(Part::Media),
        part => Ok(part),
    }
}

/// Checks the inline data of a message in our shape.
fn check_parts(members: &Map<String, Value>) -> Result<(), String> {
    let parts = members.get("parts").and_then(Value::as_array).into_iter().flatten();
    for (index, part) in parts.enumerate().filter(|(_, part)| part["type"] == "media") {
        if let Ok(Part::Media(media)) = serde_json::from_value(part.clone()) {
            media.normalize().map_err(|problem| format!("part {index}: {problem}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
