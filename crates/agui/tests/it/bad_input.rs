//! Requests that do not fit.

use crate::world::{ADA, World, code_of, says, says_all};
use serde_json::{Value, json};

/// A part of a body, and a part of the message.
#[rustfmt::skip]
const WRONG: &[(&str, &str)] = &[
    ("[]", "JSON object"),
    ("{}", "threadId"),
    (r#"{"threadId": 5}"#, "`threadId` is 5"),
    (r#"{"threadId": ""}"#, "`threadId`"),
    (r#"{"threadId": "t"}"#, "`runId`"),
    (r#"{"threadId": "t", "runId": ""}"#, "`runId`"),
    (r#"{"threadId": "t", "runId": "r"}"#, "`messages` is missing"),
    (r#"{"threadId": "t", "runId": "r", "messages": {}}"#, "`messages` is {}"),
    (r#"{"threadId": "t", "runId": "r", "messages": []}"#, "no message of the user"),
    (r#"{"threadId": "t", "runId": "r", "messages": [5]}"#, "`messages[0]`"),
    (r#"{"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": "a"}]}"#, "`messages[0].id`"),
    (r#"{"threadId": "t", "runId": "r", "messages": [{"id": "m", "content": "a"}]}"#, "`messages[0].role`"),
    (r#"{"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "robot"}]}"#, "activity or reasoning"),
    (r#"{"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user"}]}"#, "`messages[0].content`"),
    (r#"{"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": ""}]}"#, "no message of the user"),
    (r#"{"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": [{"type": "poem"}]}]}"#, "`messages[0].content[0].type`"),
    (r#"{"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": [{"type": "text", "text": 5}]}]}"#, "content[0].text"),
    (r#"{"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": [{"type": "image", "source": {"type": "file", "value": "x"}}]}]}"#, "`data` with Base64"),
    (r#"{"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": [{"type": "image", "source": {"type": "data", "value": "@@", "mimeType": "image/png"}}]}]}"#, "base64"),
    (r#"{"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": [{"type": "image", "source": {"type": "url", "value": "file:///etc/passwd"}}]}]}"#, "`https` address"),
    (r#"{"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "assistant", "content": "a"}]}"#, "no message of the user"),
    (r#"{"threadId": "t", "runId": "r", "messages": [], "resume": {}}"#, "`resume`"),
    (r#"{"threadId": "t", "runId": "r", "messages": [], "resume": [5]}"#, "`resume[0]`"),
    (r#"{"threadId": "t", "runId": "r", "messages": [], "resume": [{"interruptId": "i", "status": "maybe"}]}"#, "resolved or cancelled"),
    (r#"{"threadId": "t", "runId": "r", "messages": [], "resume": [{"interruptId": "i", "status": "cancelled"}, {"interruptId": "i", "status": "cancelled"}]}"#, "twice"),
    (r#"{"threadId": "t", "runId": "r", "messages": [], "tools": {}}"#, "`tools`"),
    (r#"{"threadId": "t", "runId": "r", "messages": [], "context": "c"}"#, "`context`"),
    (r#"{"threadId": "t", "runId": "r", "messages": [], "forwardedProps": {"mode": "fly"}}"#, "converse, plan or build"),
    (r#"{"threadId": "t", "runId": "r", "messages": [], "forwardedProps": {"input": 5}}"#, "forwardedProps.input"),
    (r#"{"threadId": "t", "runId": "r", "messages": [], "protocolVersion": 1}"#, "`protocolVersion`"),
];

#[tokio::test]
async fn what_does_not_fit_is_named_and_begins_nothing() {
    let world = World::new().await;
    for (body, part) in WRONG {
        let answer = world.send_with(ADA, "POST /agui/golf", &[], body).await;
        assert_eq!((answer.status, code_of(&answer).as_str()), (400, "invalid_input"), "{body}");
        assert!(answer.body.contains(part), "{body}: {}", answer.body);
    }
    for body in ["{}", r#"{"threadId": "t"}"#, r#"{"threadId": "t", "runId": 5}"#, "{"] {
        let answer = world.send_with(ADA, "POST /agui/golf/cancel", &[], body).await;
        assert_eq!((answer.status, code_of(&answer).as_str()), (400, "invalid_input"), "{body}");
    }
    assert!(world.requests().is_empty());
    let listed = world.get(ADA, "/conversations").await.json();
    assert_eq!(listed["conversations"], json!([]));
}

#[tokio::test]
async fn limits_are_those_of_the_guide() {
    let world = World::new().await;
    let texts = |thread: &str, users: usize, all: usize| {
        let texts: Vec<_> = (0..users).map(|index| index.to_string()).collect();
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        let mut input = says_all(thread, "r", &texts);
        let messages = input["messages"].as_array_mut().expect("a list");
        messages.resize(all, json!({"id": "a", "role": "assistant", "content": "a"}));
        input
    };
    let parts = |count: usize| {
        let mut input = says("parts", "r", "m");
        input["messages"][0]["content"] = vec![json!({"type": "text", "text": "a"}); count].into();
        input
    };
    let resume = |count: usize| {
        let mut input = says_all("resume", "r", &[]);
        let entry = |index: usize| json!({"interruptId": index.to_string(), "status": "cancelled"});
        input["resume"] = (0..count).map(entry).collect::<Value>();
        input
    };
    let ids = |thread: usize, run: usize, message: usize| {
        let mut input = says(&"t".repeat(thread), &"r".repeat(run), "m");
        input["messages"][0]["id"] = "m".repeat(message).into();
        input
    };
    for (input, status) in [
        (texts("many", 1, 2_000), 200),
        (texts("more", 1, 2_001), 400),
        (texts("new", 100, 100), 200),
        (texts("newer", 101, 101), 400),
        (parts(100), 200),
        (parts(101), 400),
        // No interrupt is open, which is an error of the stream.
        (resume(100), 200),
        (resume(101), 400),
        (ids(512, 256, 256), 200),
        (ids(513, 1, 1), 400),
        (ids(1, 257, 1), 400),
        (ids(1, 1, 257), 400),
    ] {
        let answer = world.post(ADA, "/agui/golf", &input).await;
        assert_eq!(answer.status, status, "{:.200}", answer.body);
    }
}
