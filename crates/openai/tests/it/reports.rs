//! Habits of clients that other servers of this protocol were reported for.

use crate::world::{ADA, World, text_of};
use serde_json::{Value, json};

/// Returns the status of a chat with these messages, and the text of the answer.
async fn ask(world: &World, messages: Value) -> (u16, String) {
    let answer = world.chat(json!({"model": "golf", "messages": messages})).await;
    let body: Value = serde_json::from_str(&answer.body).expect("JSON");
    let text = body.pointer("/choices/0/message/content").and_then(Value::as_str);
    (answer.status, text.unwrap_or_default().to_owned())
}

/// `peonist-ai/halogen-flash-server` 32: a client that sends its instructions as `developer`.
#[tokio::test]
async fn the_role_developer_is_that_of_system() {
    let world = World::new().await;
    for role in ["developer", "system"] {
        let messages =
            json!([{"role": role, "content": "Be brief."}, {"role": "user", "content": "Hi"}]);
        assert_eq!(ask(&world, messages).await, (200, "1: Be brief.\n\nHi".to_owned()), "{role}");
    }
}

/// `lmstudio-ai/lmstudio-bug-tracker` 261, `vllm-project/vllm` 21089: messages of the assistant without
/// content, whose tools the client ran.
#[tokio::test]
async fn messages_of_the_assistant_without_content_are_left_out() {
    let world = World::new().await;
    let call =
        json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    for empty in [
        json!({"role": "assistant", "content": null, "tool_calls": call}),
        json!({"role": "assistant", "content": null, "tool_calls": null}),
        json!({"role": "assistant", "content": ""}),
        json!({"role": "assistant", "content": []}),
        json!({"role": "assistant"}),
        json!({"role": "assistant", "content": [{"type": "text", "text": ""}]}),
    ] {
        let messages = json!([
            {"role": "user", "content": "A"}, empty,
            {"role": "tool", "tool_call_id": "c", "content": "42"},
            {"role": "user", "content": "B"},
        ]);
        assert_eq!(ask(&world, messages).await, (200, "2: B".to_owned()), "{empty}");
    }
}

/// `gradio-app/gradio` 11729: readers that take the first choice of each chunk.
#[tokio::test]
async fn a_chunk_without_choices_comes_only_if_usage_is_asked_for() {
    let world = World::new().await;
    for options in [Value::Null, json!({}), json!({"include_usage": false})] {
        let body = json!({"model": "golf", "stream": true, "stream_options": options,
            "messages": [{"role": "user", "content": "Hi"}]});
        let chunks = world.chat(body).await.events();
        assert!(chunks.iter().all(|chunk| chunk["choices"][0].is_object()), "{chunks:?}");
        assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()), "{chunks:?}");
        let ends = chunks.iter().filter(|chunk| chunk["choices"][0]["finish_reason"].is_string());
        assert_eq!(ends.count(), 1);
    }
}

/// `diegosouzapw/OmniRoute` 13964: strict readers of events.
#[tokio::test]
async fn each_event_of_a_response_has_its_number_and_whole_objects() {
    let world = World::new().await;
    for body in [
        json!({"model": "golf", "stream": true, "input": "Hi"}),
        json!({"model": "clerk", "stream": true, "input": "Write fail."}),
    ] {
        let events = world.respond(body).await.events();
        for event in &events {
            assert!(event["sequence_number"].is_u64(), "{event}");
            if let Some(response) = event.get("response") {
                for member in [
                    "id",
                    "output",
                    "status",
                    "background",
                    "error",
                    "usage",
                    "tools",
                    "parallel_tool_calls",
                    "tool_choice",
                    "metadata",
                    "created_at",
                    "model",
                ] {
                    assert!(response.get(member).is_some(), "{member}: {event}");
                }
            }
            let item = event.get("item").filter(|item| item["type"] == "message");
            assert!(item.is_none_or(|item| item["status"].is_string()), "{event}");
        }
    }
}

/// `danny-avila/LibreChat` 9802: the title of a chat is made by the same model, with a prompt of its own.
#[tokio::test]
async fn a_title_is_made_beside_the_thread_of_its_chat() {
    let world = World::new().await;
    let thread = [("x-thread-id", "chat")];
    let said =
        json!({"model": "golf", "messages": [{"role": "user", "content": "One."}]}).to_string();
    world.send_with(ADA, "POST /v1/chat/completions", &thread, &said).await.json();
    let title =
        json!([{"role": "user", "content": "Make a title.\n<chat_history>One.</chat_history>"}]);
    assert_eq!(ask(&world, title).await.0, 200);
    let next = world.send_with(ADA, "POST /v1/chat/completions", &thread, &said).await.json();
    assert_eq!(
        next["choices"][0]["message"]["content"], "3: One.",
        "the chat has no title request"
    );
}

/// `anomalyco/opencode` 42613: messages of the assistant in the input, without id and status.
#[tokio::test]
async fn the_input_of_a_response_may_have_messages_of_the_assistant() {
    let world = World::new().await;
    let input = json!([
        {"role": "user", "content": "A"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "1: A"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "B"}]},
    ]);
    let answer =
        world.respond(json!({"model": "golf", "input": input, "instructions": "Be brief."}));
    let answer = answer.await;
    assert_eq!(answer.headers["x-ignored-input"], "reasoning items");
    assert_eq!(text_of(&answer.json()), "3: B");
    let first = world.requests()[0].messages[1].joined_text();
    assert_eq!(first, "Be brief.\n\nA");
}

/// `open-webui/open-webui` 24906: tools of the front end are sent to every endpoint, with options of models.
#[tokio::test]
async fn options_of_models_and_tools_of_clients_are_ignored_and_named() {
    let world = World::new().await;
    let body = json!({"model": "golf", "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": null,
        "temperature": 0.5, "max_completion_tokens": 9, "user": "u"});
    let answer = world.chat(body).await;
    let named = answer.headers["x-ignored-input"].to_str().expect("text").to_owned();
    assert_eq!(named, "tools, temperature, max_completion_tokens, user");
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "1: Hi");
}
