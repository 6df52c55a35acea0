//! Requests as JSON without ids, as used for hashes and recordings.

use crate::ChatRequest;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use weftwork_types::ToolCallId;
use weftwork_types::message::{Message, Part};
use weftwork_types::tool::ToolSpec;

/// Returns everything in a request that can change the answer, and nothing else.
///
/// Message ids are left out. Tool calls are numbered in order of first appearance, so that results
/// still refer to their calls while random ids make no difference.
#[must_use]
pub(crate) fn request(request: &ChatRequest) -> Value {
    let mut value = json!({
        "messages": messages(&request.messages),
        "tools": request.tools.iter().map(full_tool).collect::<Vec<_>>(),
        "tool_choice": request.tool_choice,
        "temperature": decimal(request.temperature),
        "max_tokens": request.max_tokens,
        "parallel_tool_calls": request.parallel_tool_calls,
        "response_schema": request.response_schema,
    });
    add_later_options(&mut value, request);
    value
}

/// Adds the options that were not in the first version of the format, as far as they are set. Hashes
/// and recordings of requests without them stay the same.
pub(crate) fn add_later_options(value: &mut Value, request: &ChatRequest) {
    if request.top_p.is_some() {
        value["top_p"] = decimal(request.top_p);
    }
    if !request.stop.is_empty() {
        value["stop"] = json!(request.stop);
    }
    if let Some(seed) = request.seed {
        value["seed"] = seed.into();
    }
}

/// Messages as `{role, content}`, where the content is a text or a list of parts.
pub(crate) fn messages(messages: &[Message]) -> Value {
    let mut numbers = CallNumbers::default();
    messages.iter().map(|message| message_json(message, &mut numbers)).collect()
}

/// The tool as sent to the model.
pub(crate) fn tool(spec: &ToolSpec) -> Value {
    json!({
        "name": spec.wire_name(),
        "description": spec.description,
        "parameters": spec.parameters,
    })
}

/// A number in its shortest decimal form: 0.7, not 0.699999988079071.
pub(crate) fn decimal(value: Option<f32>) -> Value {
    // The shortest text of an f32 parses as the f64 nearest to the intended decimal number.
    let number = value.and_then(|value| value.to_string().parse::<f64>().ok());
    number.map_or(Value::Null, Value::from)
}

fn full_tool(spec: &ToolSpec) -> Value {
    let mut value = tool(spec);
    if !spec.examples.is_empty()
        && let Value::Object(map) = &mut value
    {
        map.insert("examples".to_owned(), json!(spec.examples));
    }
    value
}

#[derive(Default)]
struct CallNumbers<'a>(HashMap<&'a ToolCallId, usize>);

impl<'a> CallNumbers<'a> {
    fn of(&mut self, id: &'a ToolCallId) -> usize {
        let next = self.0.len();
        *self.0.entry(id).or_insert(next)
    }
}

fn message_json<'a>(message: &'a Message, numbers: &mut CallNumbers<'a>) -> Value {
    let content = match message.parts.as_slice() {
        [Part::Text { text }] => Value::from(text.as_str()),
        parts => parts.iter().map(|part| part_json(part, numbers)).collect(),
    };
    let mut map = Map::new();
    map.insert("role".to_owned(), json!(message.role));
    map.insert("content".to_owned(), content);
    Value::Object(map)
}

fn part_json<'a>(part: &'a Part, numbers: &mut CallNumbers<'a>) -> Value {
    match part {
        Part::Text { text } => json!({"type": "text", "text": text}),
        Part::Reasoning { text, .. } => json!({"type": "reasoning", "text": text}),
        Part::Media(media) => {
            json!({"type": "media", "media_type": media.media_type, "url": media.url})
        }
        Part::ToolCall(call) => json!({
            "type": "tool_call", "call": numbers.of(&call.id),
            "name": call.name, "args": call.args,
        }),
        Part::ToolResult(result) => json!({
            "type": "tool_result", "call": numbers.of(&result.tool_call_id),
            "name": result.name, "value": result.value, "is_error": result.is_error,
        }),
    }
}
