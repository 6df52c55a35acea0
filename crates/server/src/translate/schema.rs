//! JSON Schemas of graphs as clients see them: messages have the shape of LangChain.

use serde_json::{Value, json};
use weftwork_graph::CompiledGraph;

/// Returns the schemas of a graph. A schema is null if the types of the graph have none; graphs have
/// no types for settings and context.
pub(crate) fn schemas_to_json(name: &str, graph: &CompiledGraph) -> Value {
    let schemas = graph.schemas();
    let with_messages = |schema: Option<Value>| {
        let mut schema = schema?;
        for (channel, property) in schema["properties"].as_object_mut()? {
            if graph.holds_messages(channel) {
                property["items"] = message_schema();
            }
        }
        Some(schema)
    };
    json!({
        "graph_id": name,
        "input_schema": with_messages(schemas.input),
        "output_schema": with_messages(schemas.output),
        "state_schema": with_messages(schemas.state),
        "config_schema": {},
        "context_schema": null,
    })
}

/// Returns the schema of a message: one object for each type.
fn message_schema() -> Value {
    let text = json!({"type": "string"});
    let object = json!({"type": "object"});
    let call = json!({
        "type": "object",
        "properties": {
            "name": text, "args": object, "id": text, "type": {"const": "tool_call"},
        },
        "required": ["name", "args", "id"],
    });
    let calls = json!({"type": "array", "items": call});
    let of = |title: &str, kind: &str, more: Value, required: &[&str]| {
        let blocks = json!({"type": "array", "items": {"anyOf": [text, object]}});
        let mut properties = json!({
            "content": {"anyOf": [text, blocks]},
            "type": {"const": kind},
            "id": {"anyOf": [text, {"type": "null"}]},
            "name": {"anyOf": [text, {"type": "null"}]},
            "additional_kwargs": object,
            "response_metadata": object,
        });
        for (name, schema) in more.as_object().into_iter().flatten() {
            properties[name] = schema.clone();
        }
        let required = [&["content", "type"], required].concat();
        json!({"title": title, "type": "object", "properties": properties, "required": required})
    };
    json!({"oneOf": [
        of("HumanMessage", "human", json!({}), &[]),
        of("AIMessage", "ai", json!({"tool_calls": calls}), &[]),
        of("SystemMessage", "system", json!({}), &[]),
        of(
            "ToolMessage",
            "tool",
            json!({"tool_call_id": text, "status": {"enum": ["success", "error"]}}),
            &["tool_call_id"],
        ),
    ]})
}
