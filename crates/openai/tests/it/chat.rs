//! Chat completions.

use crate::world::{ADA, RUNNER, World, last_text, malformed, written};
use serde_json::{Value, json};
use weftwork::models::{ChatEvent, ModelError};
use weftwork::testing::Step;
use weftwork::types::message::Role;

fn asks(text: &str) -> Value {
    json!({"model": "golf", "messages": [{"role": "user", "content": text}]})
}

/// The text of a completion.
fn text(completion: &Value) -> &str {
    completion.pointer("/choices/0/message/content").and_then(Value::as_str).expect("a text")
}

/// The text of the chunks of a stream.
fn streamed(chunks: &[Value]) -> String {
    let delta =
        |chunk: &Value| chunk.pointer("/choices/0/delta/content")?.as_str().map(str::to_owned);
    chunks.iter().filter_map(delta).collect()
}

#[tokio::test]
async fn an_answer_is_the_same_whole_and_in_chunks() {
    let world = World::new().await;
    let whole = world.chat(asks("Which club?")).await.json();
    assert_eq!(text(&whole), "1: Which club?");
    assert_eq!(whole["object"], "chat.completion");
    assert_eq!(whole["model"], "golf");
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    let usage = json!({
        "prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2},
    });
    assert_eq!(whole["usage"], usage);

    let mut body = asks("Which club?");
    body["stream"] = true.into();
    body["stream_options"] = json!({"include_usage": true});
    let answer = world.chat(body).await;
    assert!(answer.body.ends_with("data: [DONE]\n\n"), "{}", answer.body);
    let kind = answer.headers["content-type"].to_str().expect("text");
    assert!(kind.starts_with("text/event-stream"), "{kind}");
    let chunks = answer.events();
    assert_eq!(streamed(&chunks), "1: Which club?");
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk"));
    assert!(chunks.iter().all(|chunk| chunk["id"] == chunks[0]["id"]));
    let last = chunks.last().expect("chunks");
    assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &usage));
    let before = &chunks[chunks.len() - 2];
    assert_eq!(before["choices"][0]["finish_reason"], "stop");
    assert_eq!(before["usage"], Value::Null);
}

#[tokio::test]
async fn without_a_thread_the_history_of_the_request_is_that_of_the_agent() {
    let world = World::new().await;
    let body = json!({"model": "golf", "messages": [
        {"role": "system", "content": "Speak English."},
        {"role": "user", "content": "One."},
        {"role": "assistant", "content": "1: One."},
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Two."}]},
    ]});
    for _ in 0..2 {
        let completion = world.chat(body.clone()).await.json();
        assert_eq!(text(&completion), "3: Be brief.\n\nTwo.", "nothing is kept between requests");
    }
    let request = &world.requests()[0];
    let roles: Vec<_> = request.messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::User]);
    assert_eq!(request.messages[1].joined_text(), "Speak English.\n\nOne.");
    assert!(!request.messages[0].joined_text().contains("English"), "the agent has its own");
}

#[tokio::test]
async fn a_thread_has_the_history_and_takes_the_last_message_alone() {
    let world = World::new().await;
    let ask = async |text: &str, headers: &[(&str, &str)], metadata: Option<&str>| {
        let mut body = json!({"model": "golf", "messages": [
            {"role": "user", "content": "One."},
            {"role": "assistant", "content": "1: One."},
            {"role": "user", "content": text},
        ]});
        if let Some(thread) = metadata {
            body["metadata"] = json!({"thread_id": thread});
        }
        world.send_with(ADA, "POST /v1/chat/completions", headers, &body.to_string()).await.json()
    };
    let first = ask("Two.", &[("x-thread-id", "chat-1")], None).await;
    assert_eq!(text(&first), "3: Two.", "the first turn of a thread has all messages");
    let second = ask("Three.", &[("x-thread-id", "chat-1")], None).await;
    assert_eq!(text(&second), "5: Three.");
    let third = ask("Four.", &[], Some("chat-1")).await;
    assert_eq!(text(&third), "7: Four.", "a member of the metadata is the same");
    let listed = world.get(ADA, "/conversations").await.json();
    assert_eq!(listed["conversations"][0]["id"], "chat-1");
    assert_eq!(listed["conversations"][0]["title"], "Two.");
}

#[tokio::test]
async fn a_mode_of_an_agent_is_a_model() {
    let world = World::new().await;
    let mut body = asks("Make a plan.");
    body["model"] = "golf:build".into();
    let made = world.chat(body).await.json();
    assert_eq!(made["model"], "golf:build");
    let place = world.get(ADA, "/conversations").await.json();
    let id = place["conversations"][0]["id"].as_str().expect("an id");
    let path = format!("/deliverables?conversationId={id}");
    let listed = world.get(ADA, &path).await.json();
    assert_eq!(listed["content"].as_array().map(Vec::len), Some(1), "{listed}");
}

#[tokio::test]
async fn an_approval_is_a_message_with_the_address_of_its_page() {
    let world = World::new().await;
    let before = written();
    let body = json!({"model": "clerk", "messages": [{"role": "user", "content": "Write a."}]});
    let answer = world.chat(body.clone()).await;
    let completion = answer.json();
    assert_eq!(completion["choices"][0]["finish_reason"], "stop");
    let said = text(&completion);
    assert!(said.starts_with("approve the call of `desk/write` with {\"line\":\"a\"}?"), "{said}");
    assert!(said.contains("http://localhost/ui/#/thread/"), "{said}");
    let mut streaming = body.clone();
    streaming["stream"] = true.into();
    let chunks = world.chat(streaming).await.events();
    assert!(streamed(&chunks).starts_with("approve the call"), "{chunks:?}");
    assert_eq!(written(), before, "nobody has approved");

    // A further message in the conversation cannot answer it.
    let thread = [("x-thread-id", "desk"), ("x-forwarded-proto", "https")];
    let ask = async || {
        world.send_with(ADA, "POST /v1/chat/completions", &thread, &body.to_string()).await
    };
    assert_eq!(ask().await.status, 200);
    let waits = ask().await;
    let error = waits.error();
    assert_eq!((waits.status, &error["code"]), (400, &json!("W1038")));
    let message = error["message"].as_str().expect("a text");
    assert!(message.contains("https://localhost/ui/#/thread/"), "{message}");
}

#[tokio::test]
async fn a_failed_run_is_an_error_that_no_sdk_repeats() {
    let world = World::with(|_| Step::fails(malformed()));
    let world = world.await;
    let failed = world.chat(asks("Hello")).await;
    assert_eq!(failed.status, 500, "{}", failed.body);
    assert_eq!(failed.headers["x-should-retry"], "false");
    let error = failed.error();
    assert_eq!(error["type"], "server_error");
    assert!(error["code"].as_str().is_some_and(|code| code.starts_with("W03")), "{error}");

    let mut body = asks("Hello");
    body["stream"] = true.into();
    let answer = world.chat(body).await;
    let last = answer.events().pop().expect("an event");
    assert_eq!(last["error"]["code"], error["code"], "{last}");
    assert!(answer.body.ends_with("data: [DONE]\n\n"), "{}", answer.body);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_fails_leaves_its_text_before_a_rule() {
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let world = World::with(move |request| {
        match calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 2 {
            0 => Step::events(vec![
                Ok(ChatEvent::TextDelta("Half".to_owned())),
                Err(ModelError::Truncated {
                    provider: "p".into(),
                    events: 1,
                    reason: "cut".into(),
                }),
            ]),
            _ => Step::text(last_text(request)),
        }
    });
    let world = world.await;
    let mut body = asks("Whole.");
    body["stream"] = true.into();
    let chunks = world.chat(body).await.events();
    assert_eq!(streamed(&chunks), "Half\n\n---\n\nWhole.");
    assert_eq!(text(&world.chat(asks("Whole.")).await.json()), "Whole.");
}

#[tokio::test]
async fn a_repeated_request_with_a_key_has_the_run_of_the_first_one() {
    let world = World::new().await;
    let key = [("idempotency-key", "key-1")];
    let body = asks("Once.").to_string();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let answer = world.send_with(ADA, "POST /v1/chat/completions", &key, &body).await;
        ids.push(answer.json()["id"].clone());
    }
    assert_eq!(ids[0], ids[1]);
    assert_eq!(world.requests().len(), 1);
    // In a thread too, whose first request has all messages, and when others have followed.
    let thread = |key: &'static str| [("idempotency-key", key), ("x-thread-id", "talk")];
    let history = json!({"model": "golf", "messages": [
        {"role": "user", "content": "A"}, {"role": "assistant", "content": "B"},
        {"role": "user", "content": "C"},
    ]});
    let history = history.to_string();
    let ask = async |key: &'static str| {
        let headers = thread(key);
        world.send_with(ADA, "POST /v1/chat/completions", &headers, &history).await.json()
    };
    let first = ask("first").await;
    let second = ask("second").await;
    assert_ne!(first["id"], second["id"]);
    assert_eq!((ask("first").await, ask("second").await), (first, second));
    let other = asks("Another.").to_string();
    let reused = world.send_with(ADA, "POST /v1/chat/completions", &key, &other).await;
    assert_eq!((reused.status, &reused.error()["code"]), (400, &json!("W0205")));
}

#[tokio::test]
async fn an_image_is_refused_for_an_agent_whose_model_does_not_take_it() {
    let world = World::new().await;
    let png = "data:image/png;base64,iVBORw0KGgo=";
    for part in [
        json!({"type": "image_url", "image_url": {"url": png}}),
        json!({"type": "input_image", "image_url": png}),
    ] {
        let content = json!([{"type": "text", "text": "What is it?"}, part]);
        let message = json!({"role": "user", "content": content});
        for (path, body) in [
            ("/v1/chat/completions", json!({"model": "golf", "messages": [message]})),
            ("/v1/responses", json!({"model": "golf", "input": [message]})),
        ] {
            let refused = world.post(RUNNER, path, &body).await;
            let error = refused.error();
            assert_eq!((refused.status, &error["code"]), (400, &json!("W0310")), "{error}");
            assert!(
                error["message"].as_str().is_some_and(|text| text.contains("images")),
                "{error}"
            );
        }
    }
    assert!(world.requests().is_empty());
}

#[tokio::test]
async fn a_server_with_too_many_runs_asks_to_come_again() {
    let world = World::busy().await;
    for (path, body) in [
        ("/v1/chat/completions", asks("Hi")),
        ("/v1/responses", json!({"model": "golf", "input": "Hi"})),
    ] {
        let busy = world.post(ADA, path, &body).await;
        let error = busy.error();
        assert_eq!((busy.status, &error["code"]), (429, &json!("rate_limit_exceeded")));
        assert_eq!(busy.headers["retry-after"], "1");
    }
}

#[tokio::test]
async fn a_repeated_request_is_not_counted_and_a_new_one_over_the_limit_says_when_to_come_again() {
    for (path, body) in [
        ("/v1/chat/completions", asks("Hi")),
        ("/v1/responses", json!({"model": "golf", "input": "Hi"})),
        ("/agents/golf/tasks", json!({"agent": "golf", "mode": "converse", "userMessage": "Hi"})),
    ] {
        let world = World::limited().await;
        let send = async |key: &'static str| {
            let headers = [("idempotency-key", key)];
            world.send_with(ADA, &format!("POST {path}"), &headers, &body.to_string()).await
        };
        let first = send("once").await;
        assert_eq!(first.status, 200, "{path}: {}", first.body);
        for _ in 0..3 {
            assert_eq!(send("once").await.status, 200, "{path}");
        }
        let other = send("other").await;
        assert_eq!(other.status, 429, "{path}: {}", other.body);
        assert!(other.body.contains("W0661"), "{path}: {}", other.body);
        assert!(other.headers.contains_key("retry-after"), "{path}");
        assert_eq!(world.requests().len(), 1, "{path}");
    }
}
