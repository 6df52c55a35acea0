use super::*;
use crate::protocol::{Protocol, Quirks};
use std::time::Duration;
use weftwork_types::message::{ToolCall, ToolResult};
use weftwork_types::tool::{Effect, ToolSpec, UnknownOutcome};
use weftwork_types::{MessageId, ToolCallId};

fn config(quirks: &[Quirk]) -> ServerConfig {
    ServerConfig {
        provider: "p".to_owned(),
        protocol: Protocol::Openai,
        base_url: "https://p.example/v1".to_owned(),
        key: None,
        key_variable: String::new(),
        key_header: None,
        extras: crate::RequestExtras::default(),
        quirks: quirks.iter().copied().collect::<Quirks>(),
        head_timeout: Duration::ZERO,
        idle_timeout: Duration::ZERO,
    }
}

fn id(text: &str) -> MessageId {
    MessageId::new(text).expect("an id")
}

fn request() -> ChatRequest {
    ChatRequest { messages: vec![Message::text(id("m1"), Role::User, "hi")], ..Default::default() }
}

fn add() -> ToolSpec {
    ToolSpec {
        name: "math/add".to_owned(),
        description: "adds".to_owned(),
        parameters: json!({"type": "object"}),
        output: None,
        effect: Effect::ReadOnly,
        on_unknown: UnknownOutcome::Idempotent,
        shown: None,
        examples: Vec::new(),
    }
}

#[test]
fn a_plain_request_says_only_what_it_must() {
    assert_eq!(
        body("m", &request(), &config(&[])),
        Ok(json!({
            "model": "m", "stream": true, "stream_options": {"include_usage": true},
            "messages": [{"role": "user", "content": "hi"}],
        }))
    );
}

#[test]
fn no_message_of_the_user_follows_a_result_where_the_server_refuses_it() {
    let call = ToolCallId::new("c").expect("an id");
    let image = json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]);
    let roles = |value: &Value, quirks: &[Quirk]| {
        let made =
            ToolCall { id: call.clone(), name: "f".to_owned(), args: json!({}), shown: None };
        let result = ToolResult {
            tool_call_id: call.clone(),
            name: "f".to_owned(),
            value: value.clone(),
            shown: None,
            is_error: false,
        };
        let messages = vec![
            Message::text(id("a"), Role::User, "hi"),
            Message::new(id("b"), Role::Assistant, vec![Part::ToolCall(made)]),
            Message::tool_result(id("c"), result),
            Message::text(id("d"), Role::User, "and?"),
        ];
        let request = ChatRequest { messages, ..Default::default() };
        let body = body("m", &request, &config(quirks)).expect("a body");
        let roles = body["messages"].as_array().expect("a list").iter();
        roles.map(|message| message["role"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let plain: Vec<String> = roles(&json!("done"), &[]);
    assert_eq!(plain, ["user", "assistant", "tool", "user"]);
    let apart: Vec<String> = roles(&json!("done"), &[Quirk::NoUserAfterTool]);
    assert_eq!(apart, ["user", "assistant", "tool", "assistant", "user"]);
    let with_image: Vec<String> = roles(&image, &[Quirk::NoUserAfterTool]);
    assert_eq!(with_image, ["user", "assistant", "tool", "assistant", "user", "user"]);
}

#[test]
fn every_option_has_its_member() {
    let request = ChatRequest {
        tools: vec![add()],
        tool_choice: ToolChoice::Named("math__add".to_owned()),
        temperature: Some(0.7),
        top_p: Some(0.9),
        stop: vec!["END".to_owned(), "\n#".to_owned()],
        seed: Some(i64::MIN),
        max_tokens: Some(50),
        parallel_tool_calls: Some(false),
        response_schema: Some(json!({"type": "string"})),
        ..request()
    };
    let quirks = [Quirk::MaxCompletionTokens, Quirk::NoStreamOptions];
    assert_eq!(
        body("m", &request, &config(&quirks)),
        Ok(json!({
            "model": "m", "stream": true,
            "messages": [{"role": "user", "content": "hi"}],
            "temperature": 0.7, "top_p": 0.9, "stop": ["END", "\n#"], "seed": i64::MIN,
            "max_completion_tokens": 50, "parallel_tool_calls": false,
            "tools": [{"type": "function", "function": {
                "name": "math__add", "description": "adds", "parameters": {"type": "object"},
            }}],
            "tool_choice": {"type": "function", "function": {"name": "math__add"}},
            "response_format": {"type": "json_schema", "json_schema": {
                "name": "answer", "strict": true, "schema": {"type": "string"},
            }},
        }))
    );
}

#[test]
fn a_seed_has_the_name_that_the_server_expects() {
    let request = ChatRequest { seed: Some(7), ..request() };
    let body = body("m", &request, &config(&[Quirk::RandomSeed])).expect("a body");
    assert_eq!((&body["random_seed"], body.get("seed")), (&json!(7), None));
}

#[test]
fn a_conversation_with_calls_goes_back_as_it_came() {
    let call = |call_id: &str, args: Value| {
        let id = ToolCallId::new(call_id).expect("an id");
        Part::ToolCall(ToolCall { id, name: "add".to_owned(), args, shown: None })
    };
    let result = |call_id: &str, value: Value| {
        let tool_call_id = ToolCallId::new(call_id).expect("an id");
        Part::ToolResult(ToolResult {
            tool_call_id,
            name: "add".to_owned(),
            value,
            shown: None,
            is_error: false,
        })
    };
    let thought = Part::Reasoning { text: "hm".to_owned(), signature: None };
    let messages = vec![
        Message::text(id("s"), Role::System, "be brief"),
        Message::new(
            id("a"),
            Role::Assistant,
            vec![thought, call("c1", json!({"a": 1})), call("c2", json!("{\"a\": oops"))],
        ),
        Message::new(
            id("t"),
            Role::Tool,
            vec![result("c1", json!({"sum": 1})), result("c2", json!("plain"))],
        ),
    ];
    let body = body("m", &ChatRequest { messages, ..Default::default() }, &config(&[]));
    assert_eq!(
        body.expect("a body")["messages"],
        json!([
            {"role": "system", "content": "be brief"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function",
                 "function": {"name": "add", "arguments": "{\"a\":1}"}},
                {"id": "c2", "type": "function",
                 "function": {"name": "add", "arguments": "{\"invalid_arguments\":\"{\\\"a\\\": oops\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "{\"sum\":1}"},
            {"role": "tool", "tool_call_id": "c2", "content": "plain"},
        ])
    );
}

#[test]
fn images_are_sent_and_other_media_are_refused_by_name() {
    let with = |media_type: &str, url: &str| {
        let media = Media { media_type: media_type.to_owned(), url: url.to_owned() };
        let text = Part::Text { text: "what is it?".to_owned() };
        let parts = vec![text, Part::Media(media)];
        let message = Message::new(id("m"), Role::User, parts);
        body("m", &ChatRequest { messages: vec![message], ..Default::default() }, &config(&[]))
    };
    let sent = with("image/png", "data:image/png;base64,AA").expect("a body");
    assert_eq!(
        sent["messages"][0]["content"],
        json!([
            {"type": "text", "text": "what is it?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
        ])
    );
    for (media_type, url) in [("audio/wav", "https://x/y"), ("image/png", "blob:1")] {
        let error = with(media_type, url).expect_err("refused");
        assert!(error.contains(media_type), "{error}");
    }
}

#[test]
fn only_closed_schemas_are_promised_to_be_strict() {
    let closed = json!({
        "type": "object", "properties": {"a": {"type": "string"}},
        "required": ["a"], "additionalProperties": false,
    });
    assert!(is_strict(&closed));
    assert!(is_strict(&json!({"anyOf": [closed, {"type": "number"}]})));
    let mut open = closed.clone();
    open["required"] = json!([]);
    assert!(!is_strict(&json!({"type": "array", "items": open})));
    assert!(!is_strict(&json!({"type": "object"})));
}
