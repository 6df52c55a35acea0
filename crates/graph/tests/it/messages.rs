//! Streams of messages.

use crate::support::{empty, graph};
use serde_json::{Value, json};
use std::time::Duration;
use weftwork_graph::channel::{MessageWrite, Messages};
use weftwork_graph::run_loop::Host;
use weftwork_graph::{
    ChannelDef, CompiledGraph, Ctx, DynUpdate, Dynamic, Graph, Input, MessagePart, Modes,
    NodeError, NodeResult, Retry, RunOutcome, START, StreamEvent, Timeout,
};
use weftwork_types::MessageId;
use weftwork_types::message::{Message, Role};

fn id(text: &str) -> MessageId {
    MessageId::new(text).expect("a valid id")
}

fn said(text: &str) -> Value {
    json!(Message::text(id(text), Role::Assistant, text))
}

fn talk(name: &str) -> Graph<Dynamic> {
    Graph::dynamic(name, vec![ChannelDef::new("talk", Messages)])
}

fn says(change: Value) -> DynUpdate {
    DynUpdate::new().write("talk", change)
}

/// The parts of messages that a run emits, each with its node.
async fn emitted(graph: &CompiledGraph) -> Vec<String> {
    let run = graph.run(&Host::new(), empty()).modes(Modes::MESSAGES);
    let mut stream = run.stream();
    let mut found = Vec::new();
    while let Some(item) = stream.next().await {
        let StreamEvent::Message { part, node, step } = item.event else { panic!("{item:?}") };
        found.push(match part {
            MessagePart::Chunk { id, text } => format!("{node} {step}: {id}+{text}"),
            MessagePart::Reset { id } => format!("{node} {step}: reset {id}"),
            MessagePart::Returned(MessageWrite::Put(message)) => {
                format!("{node} {step}: {}", message.id)
            }
            MessagePart::Returned(MessageWrite::Remove { remove }) => {
                format!("{node} {step}: -{remove}")
            }
        });
    }
    assert!(matches!(stream.outcome(), Some(Ok(RunOutcome::Completed { .. }))));
    found
}

#[tokio::test]
async fn a_message_is_emitted_once_and_not_when_it_is_passed_on() {
    let first = async |_: Input| says(json!([said("a"), said("b"), said("a")]));
    let again = async |_: Input| says(json!([{"remove": "b"}, said("a"), said("c")]));
    let clears = async |_: Input| says(json!([{"remove": "__remove_all__"}, said("d")]));
    let graph = talk("once").node("first", first).node("again", again).node("clears", clears);
    let graph = graph.edge(START, "first").edge("first", "again").edge("again", "clears");
    let found = emitted(&graph.build().expect("sound")).await;
    let expected = ["first 1: a", "first 1: b", "again 2: c"];
    let cleared = ["clears 3: -__remove_all__", "clears 3: d"];
    assert_eq!(found, [&expected[..], &cleared].concat());
}

#[tokio::test]
async fn chunks_of_an_attempt_that_failed_are_void() {
    let node = async |_: Input, ctx: Ctx| {
        ctx.token(&id("m"), "half");
        if ctx.attempt() == 1 {
            return Err(NodeError::message("no luck").retriable());
        }
        NodeResult::Ok(says(json!([said("m"), said("n")])))
    };
    let retry = Retry::new(2).backoff(Duration::ZERO, 1.0).without_jitter();
    let graph = talk("again").node("a", node).retry("a", retry).edge(START, "a");
    let found = emitted(&graph.build().expect("sound")).await;
    assert_eq!(found, ["a 1: m+half", "a 1: reset m", "a 1: m+half", "a 1: n"]);
}

#[tokio::test]
async fn a_node_keeps_what_it_returns_out_of_the_stream() {
    let node = async |_: Input, ctx: Ctx| {
        ctx.mute_messages();
        ctx.token(&id("a"), "word");
        says(json!([said("a"), said("b")]))
    };
    let graph = talk("muted").node("a", node).edge(START, "a").build().expect("sound");
    assert_eq!(emitted(&graph).await, ["a 1: a+word"]);
}

#[test]
fn a_limit_of_no_time_is_refused() {
    let node = async |_: Input| DynUpdate::new();
    for timeout in [Timeout::run(Duration::ZERO), Timeout::idle(Duration::ZERO)] {
        let graph = graph("hasty").node("a", node).timeout("a", timeout).edge(START, "a");
        let error = graph.build().expect_err("no attempt can end").to_string();
        assert!(error.contains("the timeout of node `a` is 0"), "{error}");
    }
}
