//! Messages with lists of content blocks, the shape of LangChain's output version `v1`.

use serde_json::{Map, Value, json};
use weftwork_types::ToolCallId;
use weftwork_types::message::{Media, Message, Part, Role, ToolCall};

/// Replaces all messages in a value by their form with content blocks.
pub(crate) fn into_shown(mut value: Value) -> Value {
    show_messages(&mut value);
    value
}

fn show_messages(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(show_messages),
        Value::Object(members) => match crate::translate::messages::message_of(members) {
            Some(message) => *value = message_to_json(&message),
            None => members.iter_mut().for_each(|(_, member)| show_messages(member)),
        },
        _ => {}
    }
}

/// Returns a message with content blocks. Members without a value are omitted.
pub(crate) fn message_to_json(message: &Message) -> Value {
    match message.role {
        Role::Assistant => of_assistant(message),
        Role::Tool => of_tool(message),
        role => {
            let kind = if role == Role::System { "system" } else { "human" };
            let is_text = message.parts.iter().all(|part| matches!(part, Part::Text { .. }));
            let content = match is_text {
                true => json!(message.joined_text()),
                false => message.parts.iter().map(block_of_part).collect(),
            };
            json!({"type": kind, "content": content, "id": message.id})
        }
    }
}

fn of_assistant(message: &Message) -> Value {
    // Reasoning without text only carries a signature.
    let is_shown = |part: &&Part| !matches!(part, Part::Reasoning { text, .. } if text.is_empty());
    let content = message.parts.iter().filter(is_shown).enumerate().map(|(index, part)| {
        let mut block = block_of_part(part);
        // A call is complete, so nothing is merged into it.
        if !matches!(part, Part::ToolCall(_)) {
            block["index"] = json!(index);
        }
        block
    });
    let content: Vec<_> = content.collect();
    let extra = message.extra.as_ref();
    let mut metadata = extra.map(|extra| extra.response_metadata.clone()).unwrap_or_default();
    metadata.insert("output_version".to_owned(), "v1".into());
    let mut shown = json!({
        "type": "ai",
        "content": content,
        "id": message.id,
        "response_metadata": metadata,
    });
    let calls = message.tool_calls().map(block_of_call);
    let (valid, invalid): (Vec<_>, Vec<_>) = calls.partition(|call| call["type"] == "tool_call");
    for (name, calls) in [("tool_calls", valid), ("invalid_tool_calls", invalid)] {
        if !calls.is_empty() {
            shown[name] = calls.into();
        }
    }
    shown
}

fn of_tool(message: &Message) -> Value {
    let mut shown = Map::from_iter([("type".to_owned(), json!("tool"))]);
    if let Some(result) = message.tool_results().next() {
        let value = result.shown.as_ref().unwrap_or(&result.value);
        shown.insert("content".to_owned(), content_of_result(value));
        shown.insert("id".to_owned(), json!(message.id));
        shown.insert("name".to_owned(), json!(result.name));
        shown.insert("tool_call_id".to_owned(), json!(result.tool_call_id));
        let status = if result.is_error { "error" } else { "success" };
        shown.insert("status".to_owned(), json!(status));
    }
    shown.into()
}

/// Returns the output of a tool that did not fail: the message of its result, in which clients read
/// the status and the content.
pub(crate) fn tool_output(id: &ToolCallId, result: &Value) -> Value {
    json!({"type": "tool", "content": content_of_result(result), "tool_call_id": id, "status": "success"})
}

fn content_of_result(result: &Value) -> Value {
    match result {
        Value::String(text) => json!(text),
        value => json!(value.to_string()),
    }
}

/// Returns the final content block of a part.
pub(crate) fn block_of_part(part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({"type": "text", "text": text}),
        Part::Reasoning { text, .. } => json!({"type": "reasoning", "reasoning": text}),
        Part::ToolCall(made) => block_of_call(made),
        Part::Media(media) => of_media(media),
        Part::ToolResult(result) => json!({
            "type": "server_tool_result",
            "tool_call_id": result.tool_call_id,
            "status": if result.is_error { "error" } else { "success" },
            "output": result.shown.as_ref().unwrap_or(&result.value),
        }),
    }
}

/// Returns a tool call. Arguments that are no object, because the model produced invalid JSON, are
/// an invalid call.
fn block_of_call(call: &ToolCall) -> Value {
    let args = call.shown.as_ref().unwrap_or(&call.args);
    if args.is_object() {
        return json!({"type": "tool_call", "id": call.id, "name": call.name, "args": args});
    }
    let text = args.as_str().map_or_else(|| args.to_string(), str::to_owned);
    json!({"type": "invalid_tool_call", "id": call.id, "name": call.name, "args": text,
        "error": "the arguments are not a JSON object"})
}

fn of_media(media: &Media) -> Value {
    let kind = media.media_type.split('/').next().unwrap_or_default();
    let kind = if ["image", "audio", "video"].contains(&kind) { kind } else { "file" };
    let data = media.url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match data {
        Some((_, data)) => json!({"type": kind, "base64": data, "mime_type": media.media_type}),
        None => json!({"type": kind, "url": media.url, "mime_type": media.media_type}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_content_blocks() {
        let state = json!({"n": 1, "messages": [
            {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "2+3?"}]},
            {"id": "m2", "role": "assistant", "parts": [
                {"type": "reasoning", "text": "a sum"},
                {"type": "text", "text": "Let me add"},
                {"type": "tool_call", "id": "c1", "name": "add", "args": {"a": 2}},
                {"type": "tool_call", "id": "c2", "name": "add", "args": "{bad"},
            ]},
            {"id": "m3", "role": "tool", "parts": [{"type": "tool_result", "tool_call_id": "c1",
                "name": "add", "value": 5, "is_error": false}]},
            {"id": "m4", "role": "user", "parts": [
                {"type": "media", "media_type": "image/png", "url": "data:image/png;base64,AA=="},
                {"type": "media", "media_type": "text/csv", "url": "https://example.org/a.csv"},
            ]},
        ]});
        let call = json!({"type": "tool_call", "id": "c1", "name": "add", "args": {"a": 2}});
        let invalid = json!({"type": "invalid_tool_call", "id": "c2", "name": "add",
            "args": "{bad", "error": "the arguments are not a JSON object"});
        assert_eq!(
            into_shown(state),
            json!({"n": 1, "messages": [
                {"type": "human", "content": "2+3?", "id": "m1"},
                {"type": "ai", "content": [
                    {"type": "reasoning", "reasoning": "a sum", "index": 0},
                    {"type": "text", "text": "Let me add", "index": 1},
                    call, invalid,
                 ], "id": "m2", "response_metadata": {"output_version": "v1"},
                 "tool_calls": [call], "invalid_tool_calls": [invalid]},
                {"type": "tool", "content": "5", "id": "m3", "name": "add", "tool_call_id": "c1",
                 "status": "success"},
                {"type": "human", "content": [
                    {"type": "image", "base64": "AA==", "mime_type": "image/png"},
                    {"type": "file", "url": "https://example.org/a.csv", "mime_type": "text/csv"},
                 ], "id": "m4"},
            ]})
        );
    }
}
