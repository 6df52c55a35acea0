//! Remote graphs as agents of their own.

use crate::rig::There;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc::unbounded_channel;
use weftwork_graph::{MessagePart, Modes, StreamEvent};
use weftwork_runtime::Runtime;
use weftwork_store::memory::MemoryStore;
use weftwork_types::event::AiEvent;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::Limits;
use weftwork_types::run::{RunOptions, RunOutcome};
use weftwork_types::{MessageId, Principal, ThreadId};

fn said(id: &str, text: &str) -> Value {
    let id = MessageId::new(id).expect("valid");
    json!({"messages": [Message::text(id, Role::User, text)]})
}

async fn runtime(there: &There, assistant: &str, channels: &[String]) -> Runtime {
    let graph = there.remote(assistant).agent(channels).expect("sound");
    let builder = Runtime::builder(Arc::new(MemoryStore::new()));
    builder.graph("remote:helper", graph).open().await.expect("opens")
}

fn texts(state: &Value) -> Vec<String> {
    let messages: Vec<Message> =
        serde_json::from_value(state["messages"].clone()).expect("messages");
    messages.iter().map(Message::joined_text).collect()
}

#[tokio::test]
async fn turns_of_a_thread_share_a_thread_there() {
    let there = There::start().await;
    let runtime = runtime(&there, "talk", &[]).await;
    let thread = runtime.thread("remote:helper", "t").expect("valid");
    let first = thread.start(said("m1", "Hello")).await.expect("accepted");
    assert_eq!(texts(first.output().expect("completes")), ["Hello", "messages: 1"]);
    let second = thread.start(said("m2", "Again")).await.expect("accepted");
    let all = ["Hello", "messages: 1", "Again", "messages: 3"];
    assert_eq!(texts(second.output().expect("completes")), all);
    let other = runtime.thread("remote:helper", "other").expect("valid");
    let other = other.start(said("m1", "Hello")).await.expect("accepted");
    assert_eq!(texts(other.output().expect("completes")), ["Hello", "messages: 1"]);
    assert_eq!((there.runs().await, there.threads().await), (3, 2));
}

#[tokio::test]
async fn partial_text_and_the_final_message_arrive() {
    let there = There::start().await;
    let runtime = runtime(&there, "talk", &[]).await;
    let thread = runtime.thread("remote:helper", "t").expect("valid");
    let (sender, mut items) = unbounded_channel();
    let run = thread.start(said("m1", "wait")).report_to(Modes::MESSAGES, sender);
    let run = run.begin().await.expect("accepted").run().clone();
    let mut text = String::new();
    while let Some(item) = items.recv().await {
        let StreamEvent::Message { part, .. } = item.event else { panic!("{item:?}") };
        let MessagePart::Chunk { text: more, .. } = part else {
            panic!("a message that was streamed is not emitted again: {part:?}")
        };
        assert!(item.ns[0].starts_with("remote:"), "{:?}", item.ns);
        text.push_str(&more);
        if text == "messages: 1" {
            there.gate.open.add_permits(1);
        }
    }
    assert_eq!(text, "messages: 1");
    let events = runtime.store().events(&Principal::local(), &run, 0, 100).await.expect("reads");
    let last = events.iter().rev().find_map(|told| match &told.event {
        AiEvent::MessageFinal { message } => Some(message.joined_text()),
        _ => None,
    });
    assert_eq!(last.as_deref(), Some("messages: 1"));
}

#[tokio::test]
async fn other_channels_are_those_that_are_named() {
    let there = There::start().await;
    let channels = ["msg".to_owned(), "out".to_owned()];
    let runtime = runtime(&there, "parent", &channels).await;
    let thread = runtime.thread("remote:helper", "t").expect("valid");
    let ended = thread.start(json!({"msg": "a"})).await.expect("accepted");
    let output = ended.output().expect("completes");
    assert_eq!((&output["msg"], &output["out"]), (&json!("pre-a"), &json!("echo:pre-a")));
    let refused = thread.start(json!({"other": 1})).await.expect("accepted");
    assert!(refused.output().is_err(), "{refused:?}");
}

/// Runs a turn of a conversation, and returns the texts of its state.
async fn turn(runtime: &Runtime, thread: &str, text: &str) -> Vec<String> {
    let thread = runtime.thread("remote:helper", thread).expect("valid");
    let ended = thread.start(said(&format!("m-{text}"), text)).await.expect("accepted");
    texts(ended.output().expect("completes"))
}

#[tokio::test]
async fn threads_of_the_same_name_in_two_stores_share_nothing_there() {
    let there = There::start().await;
    let ours = runtime(&there, "talk", &[]).await;
    assert_eq!(turn(&ours, "support-1", "secret").await, ["secret", "messages: 1"]);
    let theirs = runtime(&there, "talk", &[]).await;
    assert_eq!(turn(&theirs, "support-1", "hello").await, ["hello", "messages: 1"]);
    assert_eq!(there.threads().await, 2);
}

#[tokio::test]
async fn a_thread_with_the_name_of_a_deleted_one_begins_anew_there() {
    let there = There::start().await;
    let runtime = runtime(&there, "talk", &[]).await;
    turn(&runtime, "t", "secret").await;
    runtime.threads().delete(&ThreadId::new("t").expect("valid")).await.expect("deletes");
    assert_eq!(turn(&runtime, "t", "hello").await, ["hello", "messages: 1"]);
}

#[tokio::test]
async fn a_budget_that_cannot_count_a_run_refuses_it_before_it_starts() {
    let there = There::start().await;
    let limits = Limits { tool_calls: Some(5), ..Limits::default() };
    let options = || RunOptions { budget: Some(limits), ..RunOptions::default() };
    let runtime = runtime(&there, "talk", &[]).await;
    let thread = runtime.thread("remote:helper", "t").expect("valid");
    let refused = thread.start(said("m1", "Hello")).options(options()).await.expect("accepted");
    let RunOutcome::Failed { fault } = refused.outcome() else { panic!("{refused:?}") };
    assert_eq!(fault.code, "W0659", "{}", fault.message);
    assert_eq!(there.runs().await, 0, "nothing was started");

    let graph = there.remote("talk").uncounted().agent(&[]).expect("sound");
    let builder = Runtime::builder(Arc::new(MemoryStore::new())).thread_budget(limits);
    let runtime = builder.graph("remote:helper", graph).open().await.expect("opens");
    let thread = runtime.thread("remote:helper", "t").expect("valid");
    let ended = thread.start(said("m1", "Hello")).options(options()).await.expect("accepted");
    assert_eq!(texts(ended.output().expect("completes")), ["Hello", "messages: 1"]);
}

#[tokio::test]
async fn the_step_limit_of_a_run_is_that_of_the_run_there() {
    let there = There::start().await;
    let runtime = runtime(&there, "talk", &[]).await;
    let thread = runtime.thread("remote:helper", "t").expect("valid");
    let ended = thread.start(said("m1", "Hello")).step_limit(7).await.expect("accepted");
    ended.output().expect("completes");
    thread.start(said("m2", "Again")).await.expect("accepted");
    let mut limits = there.step_limits().await;
    limits.sort();
    // The server has a limit of its own for runs without one.
    assert!(limits.contains(&Some(7)), "{limits:?}");
    assert_eq!(limits.iter().filter(|limit| **limit == Some(7)).count(), 1, "{limits:?}");
}
