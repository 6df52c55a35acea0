//! Parts of answers that go back in the next request as they came.

use super::habits::answer;
use super::{config, sse};
use crate::chat::ChatRequest;
use crate::protocol::{Protocol, ServerConfig};
use serde_json::{Value, json};
use weftwork_types::MessageId;
use weftwork_types::message::{Message, Role};

/// Reads an answer of the model `tiny`, and returns the next request to a model at an address.
fn next(protocol: Protocol, documents: &[Value], model: &str, base_url: &str) -> Value {
    let documents: Vec<String> = documents.iter().map(Value::to_string).collect();
    let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
    let answered = answer(protocol, [sse(&documents).as_bytes()]).expect("an answer").message;
    let asked = Message::text(MessageId::new("u").expect("an id"), Role::User, "And now?");
    let request = ChatRequest { messages: vec![answered, asked], ..ChatRequest::default() };
    let config = ServerConfig { base_url: base_url.to_owned(), ..config(protocol) };
    protocol.write(model, true, &request, &config).expect("a request").body
}

const URL: &str = "https://p.example/v1";

#[test]
fn thinking_of_mistral_goes_back_as_a_part_of_the_content() {
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let thinking = |text: &str| json!({"type": "thinking", "thinking": [{"type": "text", "text": text}], "closed": true});
    let documents = [
        delta(json!({"content": [thinking("17 times ")]})),
        delta(json!({"content": [thinking("23")]})),
        delta(json!({"content": "391"})),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
    ];
    let body = next(Protocol::Openai, &documents, "tiny", URL);
    let content = json!([thinking("17 times 23"), {"type": "text", "text": "391"}]);
    assert_eq!(body["messages"][0], json!({"role": "assistant", "content": content}));
    // Another model may not take it.
    let body = next(Protocol::Openai, &documents, "small", URL);
    assert_eq!(body["messages"][0], json!({"role": "assistant", "content": "391"}));
    // With a call and without a text.
    let call = json!([{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]);
    let documents = [
        delta(json!({"content": [thinking("I look")]})),
        delta(json!({"tool_calls": call})),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
    ];
    let body = next(Protocol::Openai, &documents, "tiny", URL);
    assert_eq!(body["messages"][0]["content"], json!([thinking("I look")]));
    assert_eq!(body["messages"][0]["tool_calls"][0]["id"], "c");
}

#[test]
fn phases_and_parts_of_a_summary_go_back_to_responses() {
    let text = |text: &str| json!([{"type": "output_text", "text": text}]);
    let summary = json!([{"type": "summary_text", "text": "First.\n\nA list."}, {"type": "summary_text", "text": "Then."}]);
    let reasoning =
        json!({"type": "reasoning", "id": "rs", "summary": summary, "encrypted_content": "x"});
    let message = |id: &str, phase: &str, words: &str| {
        let content = text(words);
        json!({"type": "message", "id": id, "role": "assistant", "phase": phase, "content": content})
    };
    let first = message("m1", "commentary", "I look.");
    let second = message("m2", "final_answer", "It is sent.");
    let started = |item: &Value| {
        let mut item = item.clone();
        item["content"] = json!([]);
        item
    };
    let item = |kind: &str, index: u64, item: &Value| json!({"type": format!("response.output_item.{kind}"), "output_index": index, "item": item});
    let delta = |index: u64, delta: &str| json!({"type": "response.output_text.delta", "output_index": index, "content_index": 0, "delta": delta});
    let streamed = [
        item("done", 0, &reasoning),
        item("added", 1, &started(&first)),
        delta(1, "I "),
        delta(1, "look."),
        item("done", 1, &first),
        item("added", 2, &started(&second)),
        delta(2, "It is sent."),
        item("done", 2, &second),
        json!({"type": "response.completed", "response": {"status": "completed"}}),
    ];
    let output = [reasoning.clone(), first.clone(), second.clone()];
    let whole = [json!({"object": "response", "status": "completed", "output": output})];
    for documents in [&streamed[..], &whole[..]] {
        let body = next(Protocol::OpenaiResponses, documents, "tiny", URL);
        let without_id = |item: &Value| {
            let mut item = item.clone();
            item.as_object_mut().expect("an item").remove("id");
            item
        };
        let expected = [reasoning.clone(), without_id(&first), without_id(&second)];
        let found = body["input"].as_array().expect("items");
        assert_eq!(found[..3], expected, "{documents:?}");
    }
}

#[test]
fn thinking_without_a_signature_goes_back_where_it_is_taken() {
    let block =
        |block: Value| json!({"type": "content_block_start", "index": 0, "content_block": block});
    let delta = |delta: Value| json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let call = json!({"type": "tool_use", "id": "c", "name": "f", "input": {}});
    let ended = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}});
    let started = [
        block(json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(json!({"type": "thinking_delta", "thinking": "I "})),
        json!({"type": "ping"}),
        delta(json!({"type": "thinking_delta", "thinking": "look"})),
        json!({"type": "content_block_stop", "index": 0}),
        block(call.clone()),
        ended.clone(),
    ];
    // Without the ends and beginnings of blocks.
    let bare = [delta(json!({"thinking": "I look"})), block(call), ended];
    let unsigned = json!({"type": "thinking", "thinking": "I look", "signature": ""});
    for documents in [&started[..], &bare[..]] {
        let body = next(Protocol::Anthropic, documents, "kimi-k2", URL);
        let content = body["messages"][0]["content"].as_array().expect("blocks");
        assert_eq!((content.len(), &content[0]), (2, &unsigned));
        // Anthropic refuses a conversation with it.
        for (model, url) in [
            ("claude-sonnet-4-5", URL),
            ("anthropic/Claude-Opus", URL),
            ("kimi-k2", "https://api.anthropic.com/v1"),
        ] {
            let body = next(Protocol::Anthropic, documents, model, url);
            let content = body["messages"][0]["content"].as_array().expect("blocks");
            assert_eq!((content.len(), &content[0]["type"]), (1, &json!("tool_use")), "{model}");
        }
    }
}
