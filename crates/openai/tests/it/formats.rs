//! Formats of answers.

use crate::world::{World, text_of};
use serde_json::{Value, json};

fn schema() -> Value {
    json!({"type": "object", "title": "Score", "required": ["line"],
        "properties": {"line": {"type": "string", "description": "A line"}}})
}

/// Asks by both APIs; returns the statuses, and the texts of the answers or errors.
async fn ask(world: &World, model: &str, format: &Value) -> [(u16, String); 2] {
    let mut of_chat = format.clone();
    let mut of_response = format.clone();
    if let Some(schema) = format.get("schema") {
        of_chat =
            json!({"type": format["type"], "json_schema": {"name": "score", "schema": schema}});
        of_response["name"] = "score".into();
    }
    let chat = world.chat(json!({"model": model, "response_format": of_chat,
        "messages": [{"role": "user", "content": "Hello"}]}));
    let chat = chat.await;
    let response =
        world.respond(json!({"model": model, "text": {"format": of_response}, "input": "Hello"}));
    let response = response.await;
    let texts = [&chat, &response].map(|answer| match answer.status {
        200 => {
            let body = answer.json();
            let of_chat = body.pointer("/choices/0/message/content").and_then(Value::as_str);
            of_chat.unwrap_or_else(|| text_of(&body)).to_owned()
        }
        _ => answer.error()["message"].as_str().expect("a text").to_owned(),
    });
    if response.status == 200 {
        assert_eq!(response.json()["text"]["format"], of_response);
    }
    let [first, second] = texts;
    [(chat.status, first), (response.status, second)]
}

#[tokio::test]
async fn json_is_what_builds_with_a_schema_answer() {
    let world = World::new().await;
    for format in [
        json!({"type": "json_object"}),
        json!({"type": "json_schema", "schema": schema()}),
        json!({"type": "text"}),
    ] {
        for (status, text) in ask(&world, "scores:build", &format).await {
            assert_eq!(status, 200, "{text}");
            let read: Value = serde_json::from_str(&text).expect("JSON");
            assert!(read["line"].is_string(), "{text}");
        }
    }
}

#[tokio::test]
async fn json_that_is_not_promised_is_refused() {
    let world = World::new().await;
    let mut other = schema();
    other["required"] = json!([]);
    for (model, format, part) in [
        ("golf", json!({"type": "json_object"}), "answers with a text"),
        ("scores", json!({"type": "json_object"}), "answers with a text"),
        ("golf:build", json!({"type": "json_schema", "schema": schema()}), "answers with a text"),
        ("scores:build", json!({"type": "json_schema", "schema": other}), "another schema"),
        ("scores:build", json!({"type": "json_schema"}), "a JSON Schema"),
        ("scores:build", json!({"type": "grammar"}), "json_object or json_schema"),
        ("golf", json!(5), "json_object or json_schema"),
    ] {
        for (status, text) in ask(&world, model, &format).await {
            assert!(status == 400 && text.contains(part), "{model} {format}: {status} {text}");
        }
    }
    assert!(world.requests().is_empty());
    for (status, _) in ask(&world, "golf", &json!({"type": "text"})).await {
        assert_eq!(status, 200);
    }
}
