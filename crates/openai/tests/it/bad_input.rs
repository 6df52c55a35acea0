//! Requests that do not fit.

use crate::world::{ADA, World};
use serde_json::{Value, json};

/// The body of a request, its wrong member, and a part of the message.
type Wrong = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
const CHAT: &[Wrong] = &[
    ("[]", "body", "JSON object"),
    ("{}", "model", "missing"),
    (r#"{"model": 5, "messages": []}"#, "model", "found"),
    (r#"{"model": "golf"}"#, "messages", "missing"),
    (r#"{"model": "golf", "messages": {}}"#, "messages", "a list"),
    (r#"{"model": "golf", "messages": []}"#, "messages", "no message"),
    (r#"{"model": "golf", "messages": ["hi"]}"#, "messages[0]", "a message"),
    (r#"{"model": "golf", "messages": [{"role": "robot", "content": "hi"}]}"#, "messages[0].role", "developer"),
    (r#"{"model": "golf", "messages": [{"content": "hi"}]}"#, "messages[0].role", "null"),
    (r#"{"model": "golf", "messages": [{"role": "user", "content": 5}]}"#, "messages[0].content", "a text"),
    (r#"{"model": "golf", "messages": [{"role": "user", "content": [5]}]}"#, "messages[0].content[0].type", "text"),
    (r#"{"model": "golf", "messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}"#, "messages[0].content[0].text", "a text"),
    (r#"{"model": "golf", "messages": [{"role": "user", "content": [{"type": "video_url"}]}]}"#, "messages[0].content[0].type", "video_url"),
    (r#"{"model": "golf", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,@@"}}]}]}"#, "messages[0].content[0]", "base64"),
    (r#"{"model": "golf", "messages": [{"role": "user", "content": ""}]}"#, "messages", "no message"),
    (r#"{"model": "golf", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}"#, "messages", "assistant"),
    (r#"{"model": "golf", "messages": [{"role": "user", "content": "a"}], "stream": "yes"}"#, "stream", "true or false"),
    (r#"{"model": "golf", "messages": [{"role": "user", "content": "a"}], "stream_options": []}"#, "stream_options", "an object"),
    (r#"{"model": "golf", "messages": [{"role": "user", "content": "a"}], "stream_options": {"include_usage": 1}}"#, "stream_options.include_usage", "true or false"),
    (r#"{"model": "golf", "messages": [{"role": "user", "content": "a"}], "n": 2}"#, "n", "one answer"),
    (r#"{"model": "golf", "messages": [{"role": "user", "content": "a"}], "metadata": {"a": 1}}"#, "metadata", "512"),
];

#[rustfmt::skip]
const RESPONSES: &[Wrong] = &[
    ("5", "body", "JSON object"),
    ("{}", "model", "missing"),
    (r#"{"model": "golf"}"#, "input", "missing"),
    (r#"{"model": "golf", "input": 5}"#, "input", "a text or a list"),
    (r#"{"model": "golf", "input": "  "}"#, "input", "no message"),
    (r#"{"model": "golf", "input": []}"#, "input", "no message"),
    (r#"{"model": "golf", "input": [5]}"#, "input[0]", "a message"),
    (r#"{"model": "golf", "input": [{"type": "item_reference", "id": "x"}]}"#, "input[0].type", "item_reference"),
    (r#"{"model": "golf", "input": [{"type": "message", "role": "user", "content": [{"type": "input_text"}]}]}"#, "input[0].content[0].text", "a text"),
    (r#"{"model": "golf", "input": "a", "instructions": []}"#, "instructions", "a text"),
    (r#"{"model": "golf", "input": "a", "stream": 1}"#, "stream", "true or false"),
    (r#"{"model": "golf", "input": "a", "background": "no"}"#, "background", "true or false"),
    (r#"{"model": "golf", "input": "a", "background": true, "store": false}"#, "store", "background"),
    (r#"{"model": "golf", "input": "a", "conversation": {"id": 5}}"#, "conversation.id", "a text"),
    (r#"{"model": "golf", "input": "a", "conversation": 5}"#, "conversation", "an id"),
    (r#"{"model": "golf", "input": "a", "previous_response_id": 5}"#, "previous_response_id", "a text"),
    (r#"{"model": "golf", "input": [{"type": "mcp_approval_response", "approve": true}]}"#, "input[0].approval_request_id", "the id"),
    (r#"{"model": "golf", "input": [{"type": "mcp_approval_response", "approve": 1, "approval_request_id": "ID"}]}"#, "input[0].approve", "true or false"),
    (r#"{"model": "golf", "input": [{"type": "mcp_approval_response", "approve": false, "reason": 1, "approval_request_id": "ID"}]}"#, "input[0].reason", "a text"),
];

#[tokio::test]
async fn what_does_not_fit_is_named_and_begins_nothing() {
    let world = World::new().await;
    let approval = "mcpr_00000000000000000000000000000001_00000000000000000000000000000001";
    for (path, wrong) in [("/v1/chat/completions", CHAT), ("/v1/responses", RESPONSES)] {
        for (body, param, part) in wrong {
            let body = body.replace("ID", approval);
            let answer = world.send_with(ADA, &format!("POST {path}"), &[], &body).await;
            let error = answer.error();
            for member in ["type", "param", "code"] {
                assert!(error.get(member).is_some(), "{error}");
            }
            assert_eq!((answer.status, &error["param"]), (400, &json!(param)), "{body}: {error}");
            assert_eq!(error["type"], "invalid_request_error");
            let message = error["message"].as_str().expect("a text");
            assert!(message.contains(part) || *part == "found", "{body}: {message}");
        }
        let broken = world.send_with(ADA, &format!("POST {path}"), &[], "{").await;
        assert_eq!(broken.status, 400, "{}", broken.body);
    }
    assert!(world.requests().is_empty());
    let listed = world.get(ADA, "/conversations").await.json();
    assert_eq!(listed["conversations"], json!([]));
}

#[tokio::test]
async fn limits_are_those_of_the_guide() {
    let world = World::new().await;
    let chat = async |body: Value| world.chat(body).await;
    let message = json!({"role": "user", "content": "a"});
    let with = |count: usize| json!({"model": "golf", "messages": vec![message.clone(); count]});
    assert_eq!(chat(with(2_000)).await.status, 200);
    let many = chat(with(2_001)).await;
    assert_eq!((many.status, &many.error()["param"]), (400, &json!("messages")));

    let metadata = |metadata: Value| json!({"model": "golf", "input": "a", "metadata": metadata});
    let members = |count: usize| -> Value {
        (0..count)
            .map(|number| (number.to_string(), json!("v")))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let long = |name: usize, value: usize| json!({"n".repeat(name): "v".repeat(value)});
    for (fits, body) in [
        (true, metadata(members(16))),
        (false, metadata(members(17))),
        (true, metadata(long(64, 512))),
        (false, metadata(long(65, 1))),
        (false, metadata(long(1, 513))),
    ] {
        let answer = world.respond(body).await;
        assert_eq!(answer.status == 200, fits, "{}", answer.body);
    }
    let thread = |length: usize| "t".repeat(length);
    for (length, status) in [(512, 200), (513, 400)] {
        let thread = thread(length);
        let headers = [("x-thread-id", thread.as_str())];
        let answer =
            world.send_with(ADA, "POST /v1/chat/completions", &headers, &with(1).to_string()).await;
        assert_eq!(answer.status, status, "{}", answer.body);
    }
}

#[tokio::test]
async fn secrets_of_a_request_are_in_no_error() {
    let world = World::new().await;
    let canary = "canary-7f3a";
    let long = format!("{}{canary}", "x".repeat(200));
    for body in [
        json!({"model": long, "input": "a"}),
        json!({"model": "golf", "input": [{"type": long}]}),
        json!({"model": "golf", "input": "a", "previous_response_id": long}),
        json!({"model": "golf", "input": "a", "metadata": {long.clone(): 1}}),
        json!({"model": "golf", "input": "a", "conversation": {"id": [long]}}),
    ] {
        let answer = world.respond(body).await;
        assert!(answer.status >= 400, "{}", answer.body);
        assert!(!answer.body.contains(canary), "{}", answer.body);
    }
}
