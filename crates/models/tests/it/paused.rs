//! Answers that Anthropic pauses and continues.

use crate::desk::{Desk, request};
use crate::server::{configured, server};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weftwork_models::{ChatResponse, FinishReason, ModelCallError, ModelCaller};
use weftwork_testkit::{LoopbackServer, ManualClock, Received, Reply};
use weftwork_types::event::AiEvent;
use weftwork_types::message::Part;
use weftwork_types::usage::Tokens;

/// Content of the first answer as it goes back: a tool that the provider runs itself, with input in
/// pieces, is a part of it.
fn first_content() -> Value {
    json!([
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "text", "text": "I search.", "citations": [{"url": "u"}]},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"encrypted_content": "e"}]},
    ])
}

fn events(documents: &[Value], reason: &str) -> Reply {
    let start = json!({"type": "message_start", "message": {"id": "m", "content": [],
        "usage": {"input_tokens": 5, "output_tokens": 1}}});
    let delta = json!({"type": "message_delta", "delta": {"stop_reason": reason},
        "usage": {"output_tokens": 3}});
    let stop = json!({"type": "message_stop"});
    let head = Reply::pieces(200, &[("content-type", "text/event-stream")]);
    let all = [&start].into_iter().chain(documents).chain([&delta, &stop]);
    all.fold(head, |reply, document| reply.piece(format!("data: {document}\n\n"))).end()
}

fn block(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn paused() -> Reply {
    let search = json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}});
    let result = first_content()[3].clone();
    events(
        &[
            block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"thinking": "hm"})),
            delta(0, json!({"signature": "c2ln"})),
            block(1, json!({"type": "text", "text": ""})),
            delta(1, json!({"text": "I "})),
            delta(1, json!({"text": "search."})),
            delta(1, json!({"citation": {"url": "u"}})),
            block(2, search),
            delta(2, json!({"partial_json": "{\"query\":"})),
            delta(2, json!({"partial_json": "\"x\"}"})),
            block(3, result),
            block(4, json!({"type": "text", "text": ""})),
        ],
        "pause_turn",
    )
}

fn ended(text: &str) -> Reply {
    events(&[block(0, json!({"type": "text", "text": text}))], "end_turn")
}

async fn call(server: &LoopbackServer, desk: &Arc<Desk>) -> Result<ChatResponse, ModelCallError> {
    let clock = ManualClock::moved_by_sleeps();
    let model = configured(server, "protocol = \"anthropic\"", 60_000);
    ModelCaller::default().call(&*model, request("hi"), &desk.context(&clock)).await
}

fn bodies(received: &[Received]) -> Vec<Value> {
    received.iter().map(|one| serde_json::from_slice(&one.body).expect("json")).collect()
}

#[tokio::test]
async fn a_paused_answer_is_continued_and_each_request_is_billed_and_recorded() {
    let server = server(|number, _| if number < 2 { paused() } else { ended(" It is so.") }).await;
    let desk = Desk::new();
    let answer = call(&server, &desk).await.expect("an answer");
    assert_eq!(answer.message.joined_text(), "I search.I search. It is so.");
    assert_eq!((answer.finish, answer.tokens), (FinishReason::Stop, Tokens::reported(15, 9)));
    // What the provider needs to continue is no part of the answer.
    let is_turn = |part: &Part| matches!(part, Part::Reasoning { signature: Some(by), .. } if by.contains("turn"));
    assert!(!answer.message.parts.iter().any(is_turn), "{answer:?}");

    let bodies = bodies(&server.received());
    assert_eq!(bodies.len(), 3);
    assert_eq!(bodies[1]["messages"].as_array().map(Vec::len), Some(2));
    let said = json!({"role": "assistant", "content": first_content()});
    assert_eq!(bodies[1]["messages"][1], said);
    let twice: Vec<Value> =
        (0..2).flat_map(|_| first_content().as_array().cloned().unwrap_or_default()).collect();
    assert_eq!(bodies[2]["messages"][1]["content"], json!(twice));

    assert_eq!((desk.facts().len(), desk.booked().len()), (3, 3));
    assert_eq!(desk.settled.lock().expect("a lock").len(), 3);
    // All parts belong to the one message.
    let log = desk.log();
    assert_eq!(log.iter().filter(|line| *line == "reserve 1").count(), 3);

    // A repeated call makes no request.
    let again = call(&server, &desk).await.expect("the recorded answer");
    assert_eq!((again, server.received().len()), (answer, 3));
}

#[tokio::test]
async fn a_resumed_call_does_not_pay_the_paused_part_again() {
    let is_down = Arc::new(AtomicBool::new(true));
    let state = Arc::clone(&is_down);
    let server = server(move |number, _| match number {
        0 => paused(),
        _ if state.load(Ordering::SeqCst) => Reply::full(401, &[], "{}"),
        _ => ended(" Yes."),
    });
    let server = server.await;
    let desk = Desk::new();
    let failed = call(&server, &desk).await.expect_err("it is down");
    assert_eq!((failed.code().0, failed.attempts), ("W0303", 2));
    is_down.store(false, Ordering::SeqCst);
    let answer = call(&server, &desk).await.expect("an answer");
    assert_eq!(answer.message.joined_text(), "I search. Yes.");
    let bodies = bodies(&server.received());
    let firsts =
        bodies.iter().filter(|body| body["messages"].as_array().is_some_and(|all| all.len() == 1));
    assert_eq!((firsts.count(), bodies.len()), (1, 3));
}

#[tokio::test]
async fn an_answer_is_continued_five_times_and_then_refused() {
    let server = server(|_, _| paused()).await;
    let desk = Desk::new();
    let error = call(&server, &desk).await.expect_err("it never ends");
    assert_eq!((error.code().0, server.received().len()), ("W0318", 6));
    assert!(error.to_string().contains("5 times"), "{error}");
    assert!(!error.fault().retriable);
    assert_eq!(desk.booked().len(), 6);
}

#[tokio::test]
async fn another_protocol_cannot_continue_an_answer_and_says_so() {
    let server = server(|_, _| {
        let chunk = json!({"choices": [{"delta": {"content": "I search."}, "finish_reason": "pause_turn"}]});
        Reply::full(200, &[], format!("data: {chunk}\n\n"))
    });
    let server = server.await;
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
    let model = configured(&server, "", 60_000);
    let called = ModelCaller::default().call(&*model, request("hi"), &desk.context(&clock)).await;
    let error = called.expect_err("half an answer");
    assert_eq!((error.code().0, server.received().len()), ("W0318", 1), "{error}");
    assert!(
        desk.events
            .lock()
            .expect("a lock")
            .iter()
            .any(|event| matches!(event, AiEvent::AttemptReset(_)))
    );
}
