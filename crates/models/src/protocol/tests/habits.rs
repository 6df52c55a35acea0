//! Habits of servers: answers in shapes that public reports describe.

use super::decode;
use crate::ModelError;
use crate::call::ChatResponse;
use crate::chat::{ChatEvent, ChatRequest, ModelInfo};
use crate::collect::{Collector, message_id};
use crate::protocol::Protocol;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;
use weftwork_types::canonical;
use weftwork_types::message::Part;
use weftwork_types::port::{CallKey, EgressError};

/// An answer as a server sends it, and what is read of it. `WEFT_WRITE=1` writes the latter.
#[derive(Serialize, Deserialize)]
struct Row {
    name: String,
    protocol: Protocol,
    /// Report or server that has the habit; empty for a shape that follows from another row's.
    source: String,
    body: String,
    #[serde(default)]
    read: String,
}

/// Returns the answer that events make.
fn collected(events: Vec<ChatEvent>) -> Result<ChatResponse, ModelError> {
    let mut collector = Collector::default();
    events.into_iter().for_each(|event| collector.push(event));
    let info = ModelInfo { provider: "p".to_owned(), model: "m".to_owned(), label: None };
    let key = CallKey(canonical::hash(&json!("key")));
    let tokens = collector.tokens().unwrap_or_default();
    collector.response(&info, key, message_id(key), &ChatRequest::default(), tokens)
}

pub(super) fn answer<'a>(
    protocol: Protocol,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<ChatResponse, ModelError> {
    let (events, result) = decode(protocol, pieces, None);
    result.and_then(|()| collected(events))
}

/// Describes an answer on one line.
fn line(answer: Result<ChatResponse, ModelError>) -> String {
    match answer {
        Err(error) => {
            let again = if error.is_retriable() { ", tried again" } else { "" };
            format!("{}{again}: {error}", error.code())
        }
        Ok(ChatResponse { message, finish, tokens, .. }) => {
            let parts = message.parts.iter().map(|part| match part {
                Part::Text { text } if text.len() > 200 => format!("text of {} bytes", text.len()),
                Part::Text { text } => format!("text {text:?}"),
                Part::Reasoning { text, signature: None } => format!("reasoning {text:?}"),
                Part::Reasoning { text, signature: Some(by) } => format!("reasoning {text:?} {by}"),
                Part::ToolCall(call) => format!("{} {}({})", call.id, call.name, call.args),
                other => format!("{other:?}"),
            });
            let parts = parts.collect::<Vec<_>>().join(" + ");
            format!("{parts} ({finish:?}, {} + {})", tokens.input, tokens.output)
        }
    }
}

#[test]
fn answers_in_the_shapes_of_the_field_are_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/habits.jsonl");
    let text = std::fs::read_to_string(&path).expect("the rows");
    let rows = text.lines().map(|line| serde_json::from_str(line).expect("a row"));
    let mut rows: Vec<Row> = rows.collect();
    assert!(rows.len() >= 400, "{} rows", rows.len());
    let mut wrong = Vec::new();
    for row in &mut rows {
        let body = row.body.as_bytes();
        let found = line(answer(row.protocol, [body]));
        // However the bytes arrive.
        let halves = body.split_at(body.len() / 2);
        assert_eq!(line(answer(row.protocol, [halves.0, halves.1])), found, "{}", row.name);
        assert_eq!(line(answer(row.protocol, body.chunks(7))), found, "{}", row.name);
        if row.read != found {
            wrong.push(format!("{}: {found}\n  and not {}", row.name, row.read));
            row.read = found;
        }
    }
    if std::env::var_os("WEFT_WRITE").is_some() {
        let lines = rows.iter().map(|row| serde_json::to_string(row).expect("JSON") + "\n");
        std::fs::write(&path, lines.collect::<String>()).expect("writes");
        return;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_answer_that_was_cut_within_a_call_is_not_carried_out() {
    let chunk = |call: Value| json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
    let begun =
        chunk(json!({"index": 0, "id": "a", "function": {"name": "refund", "arguments": ""}}));
    let odd = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "whatever"}]});
    for end in ["[DONE]".to_owned(), odd.to_string()] {
        let body = format!("data: {begun}\n\ndata: {end}\n\n");
        let error = answer(Protocol::Openai, [body.as_bytes()]).expect_err("cut");
        assert_eq!(error.code().0, "W0307", "{error}");
        // Half of the arguments is no object, which no tool accepts.
        let half = chunk(json!({"index": 0, "function": {"arguments": "{\"amount\": 2"}}));
        let body = format!("data: {begun}\n\ndata: {half}\n\ndata: {end}\n\n");
        let message = answer(Protocol::Openai, [body.as_bytes()]).expect("for repair").message;
        assert!(message.tool_calls().all(|call| call.args.is_string()), "{message:?}");
    }
}

#[test]
fn calls_of_a_second_answer_and_inputs_of_the_provider_are_no_calls() {
    let call = json!([{"index": 0, "id": "a", "function": {"name": "refund", "arguments": "{}"}}]);
    let choices = [0, 1].map(|index| {
        json!({"index": index, "message": {"tool_calls": call}, "finish_reason": "tool_calls"})
    });
    let body = json!({"choices": choices}).to_string();
    let message = answer(Protocol::Openai, [body.as_bytes()]).expect("an answer").message;
    assert_eq!(message.tool_calls().count(), 1);

    let documents = [
        json!({"type": "message_start", "message": {"id": "m"}}),
        json!({"type": "content_block_start", "index": 0, "content_block":
            {"type": "tool_use", "id": "a", "name": "refund", "input": {}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"partial_json": "{\"n\":1}"}}),
        json!({"type": "content_block_start", "index": 1, "content_block":
            {"type": "server_tool_use", "id": "b", "name": "web_search", "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"partial_json": "{\"q\":2}"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ];
    let body: String = documents.iter().map(|one| format!("data: {one}\n\n")).collect();
    let message = answer(Protocol::Anthropic, [body.as_bytes()]).expect("an answer").message;
    let args: Vec<_> = message.tool_calls().map(|call| call.args.clone()).collect();
    assert_eq!(args, [json!({"n": 1})]);
}

/// Reads chat completions with these documents.
fn chat(documents: &[Value]) -> Result<ChatResponse, ModelError> {
    let body: String = documents.iter().map(|one| format!("data: {one}\n\n")).collect();
    answer(Protocol::Openai, [body.as_bytes()])
}

fn choice(delta: Value, word: Option<&str>) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": word}]})
}

/// Returns the names and arguments of the calls.
fn made(answer: Result<ChatResponse, ModelError>) -> Vec<(String, Value)> {
    let message = answer.expect("an answer").message;
    message.tool_calls().map(|call| (call.name.clone(), call.args.clone())).collect()
}

#[test]
fn no_call_of_an_answer_that_was_ended_before_its_time_is_made() {
    let whole =
        json!({"index": 0, "id": "a", "function": {"name": "refund", "arguments": "{\"n\":1}"}});
    let begun = json!({"index": 1, "id": "b", "function": {"name": "purge", "arguments": ""}});
    for word in [
        "content_filter",
        "canceled",
        "aborted",
        "timeout",
        "incomplete",
        "max_length",
        "max_new_tokens",
        "budget_exceeded",
        "safety_stop",
        "length",
        "whatever",
    ] {
        let calls = choice(json!({"tool_calls": [whole, begun]}), None);
        for rest in [vec![], vec![choice(json!({}), Some("stop"))]] {
            let end = choice(json!({}), Some(word));
            let documents: Vec<Value> =
                [calls.clone(), end].into_iter().chain(rest.clone()).collect();
            // A word that means nothing is replaced by one that does.
            if word == "whatever" && !rest.is_empty() {
                continue;
            }
            let error = chat(&documents).expect_err(word);
            assert!(["W0306", "W0307", "W0315"].contains(&error.code().0), "{word}: {error}");
        }
    }
    // The same for text: half an answer is none.
    for word in ["canceled", "aborted", "timed_out"] {
        let text = choice(json!({"content": "Your refund is not"}), None);
        let error = chat(&[text, choice(json!({}), Some(word))]).expect_err(word);
        assert_eq!(error.code().0, "W0307");
    }
    for document in [
        json!({"type": "response.incomplete"}),
        json!({"type": "response.failed"}),
        json!({"type": "response.cancelled"}),
    ] {
        let text = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "not"});
        let body = format!("data: {text}\n\ndata: {document}\n\n");
        let error = answer(Protocol::OpenaiResponses, [body.as_bytes()]).expect_err("cut");
        assert_eq!(error.code().0, "W0307", "{document}: {error}");
    }
}

#[test]
fn a_call_that_is_told_twice_is_made_once() {
    let function = json!({"name": "refund", "arguments": "{\"id\": 1}"});
    let refund = vec![("refund".to_owned(), json!({"id": 1}))];
    let list = json!([{"type": "function", "function": function}]);
    let end = choice(json!({}), Some("tool_calls"));
    let both = json!({"choices": [{"message": {"function_call": function, "tool_calls": list}}]});
    assert_eq!(made(chat(&[both, end.clone()])), refund);
    let streamed = choice(json!({"tool_calls": list}), None);
    let message = json!({"choices": [{"message": {"tool_calls": list}, "finish_reason": "stop"}]});
    assert_eq!(made(chat(&[streamed.clone(), message])), refund);
    let again = json!([{"index": 0, "function": {"name": "refund", "arguments": "{\"id\":1}"}}]);
    let indexed = choice(json!({"tool_calls": [{"index": 0, "function": function}]}), None);
    assert_eq!(
        made(chat(&[indexed, choice(json!({"tool_calls": again}), None), end.clone()])),
        refund
    );
    let two = [0, 1].map(|_| {
        json!({"content": {"parts": [
        {"functionCall": {"name": "refund", "args": {"id": 1}}}]}, "finishReason": "STOP"})
    });
    let body = json!({"candidates": two}).to_string();
    assert_eq!(made(answer(Protocol::Gemini, [body.as_bytes()])), refund);

    // Two calls stay two.
    let purge = json!([{"index": 0, "function": {"name": "purge", "arguments": "{}"}}]);
    let get = json!([{"index": 0, "function": {"name": "get", "arguments": "{\"id\":7}"}}]);
    let calls = [purge, get].map(|calls| choice(json!({"tool_calls": calls}), None));
    let found = made(chat(&[calls[0].clone(), calls[1].clone(), end]));
    assert_eq!(found, [("purge".to_owned(), json!({})), ("get".to_owned(), json!({"id": 7}))]);
}

#[test]
fn parts_of_responses_are_told_once() {
    let item = |id: &str, text: &str| json!({"type": "message", "id": id, "content": [{"type": "output_text", "text": text}]});
    let reasoning = json!({"type": "reasoning", "id": "rs", "summary": [{"text": "hm"}], "encrypted_content": "x"});
    let call = json!({"type": "function_call", "id": "f", "call_id": "c", "name": "refund", "arguments": "{}"});
    let done = |part: u64, text: &str| json!({"type": "response.output_text.done", "output_index": 1, "content_index": part, "text": text});
    let documents = [
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hm"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": reasoning}),
        done(0, "One. "),
        json!({"type": "response.refusal.done", "output_index": 1, "content_index": 1, "refusal": "Two."}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": item("m", "One. Two.")}),
        json!({"type": "response.completed", "response": {"status": "completed",
            "output": [reasoning, item("m", "One. Two."), call]}}),
    ];
    let body: String = documents.iter().map(|one| format!("data: {one}\n\n")).collect();
    let message = answer(Protocol::OpenaiResponses, [body.as_bytes()]).expect("an answer").message;
    assert_eq!(message.joined_text(), "One. Two.");
    assert_eq!(message.tool_calls().count(), 1);
    let reasoning = |part: &&Part| matches!(part, Part::Reasoning { .. });
    assert_eq!(message.parts.iter().filter(reasoning).count(), 1, "{message:?}");
}

#[test]
fn a_call_whose_arguments_did_not_come_is_cut() {
    let item = json!({"type": "function_call", "id": "f", "call_id": "c", "name": "purge"});
    for status in ["completed", "in_progress"] {
        let documents = [
            json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
            json!({"type": "response.completed", "response": {"status": status, "output": []}}),
        ];
        let body: String = documents.iter().map(|one| format!("data: {one}\n\n")).collect();
        let error = answer(Protocol::OpenaiResponses, [body.as_bytes()]).expect_err("cut");
        assert_eq!(error.code().0, "W0307", "{error}");
    }
    // The connection breaks within a call that began after the reason for the end.
    let call = |index: u64, args: &str| {
        let function = json!({"name": "purge", "arguments": args});
        let call = json!({"index": index, "id": format!("c{index}"), "function": function});
        choice(json!({"tool_calls": [call]}), Some("tool_calls").filter(|_| index == 0))
    };
    let body = format!("data: {}\n\ndata: {}\n\n", call(0, "{\"id\":1}"), call(1, ""));
    let broken = EgressError::Broken { host: "p".to_owned(), reason: "gone".to_owned() };
    let (_, result) = decode(Protocol::Openai, [body.as_bytes()], Some(broken));
    assert_eq!(result.expect_err("cut").code().0, "W0307");
}
