//! Tests with recorded responses of real servers.
//!
//! `llamacpp-*`: llama.cpp's own server (2026-10) with SmolLM2-135M-Instruct, which ignores
//! `tools`. Only the file name of the model was shortened.

use crate::desk::{Desk, request};
use crate::openai::weather;
use crate::server::{model, server};
use serde_json::json;
use weftwork_models::{ChatRequest, ChatResponse, FinishReason, ModelCaller};
use weftwork_testkit::{ManualClock, Reply};
use weftwork_types::message::Part;
use weftwork_types::usage::Tokens;

async fn answer(wire: &'static [u8], request: ChatRequest, quirks: &str) -> ChatResponse {
    let server = server(move |_, _| {
        // Chunks end at arbitrary bytes.
        let head = Reply::pieces(200, &[("content-type", "text/event-stream")]);
        wire.chunks(97).fold(head, Reply::piece).end()
    });
    let server = server.await;
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
    let model = model(&server, quirks);
    let answer = ModelCaller::default().call(&*model, request, &desk.context(&clock)).await;
    answer.expect("an answer")
}

#[tokio::test]
async fn llamacpp_chooses_by_schema() {
    let request = ChatRequest { tools: vec![weather()], ..request("Refund 25 for order A1001") };
    let wire = include_bytes!("../wire/llamacpp-choice.sse");
    let answer = answer(wire, request, "\"tools_as_schema\"").await;
    let [Part::ToolCall(call)] = answer.message.parts.as_slice() else { panic!("{answer:?}") };
    assert_eq!(call.name, "refund_order");
    assert_eq!(call.args, json!({"order_id": "A1001", "amount": 25}));
    assert_eq!(answer.finish, FinishReason::ToolCalls);
    assert!(answer.provider_call_id.is_some_and(|id| id.starts_with("chatcmpl-")));
    assert!(answer.tokens.input > 100 && !answer.tokens.estimated);
}

#[tokio::test]
async fn llamacpp_tells_and_is_cut_at_its_limit() {
    let wire = include_bytes!("../wire/llamacpp-told.sse");
    let told = answer(wire, request("x"), "").await;
    assert_eq!(told.finish, FinishReason::Stop);
    assert!(told.message.joined_text().contains("391"));

    let wire = include_bytes!("../wire/llamacpp-length.sse");
    let cut = answer(wire, request("x"), "").await;
    assert_eq!(cut.finish, FinishReason::Length);
    assert_eq!(cut.tokens, Tokens::reported(cut.tokens.input, 6).cached(3));
}
