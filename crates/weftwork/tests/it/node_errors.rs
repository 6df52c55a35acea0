//! Errors of nodes that repeat a hidden result: it is in no event, outcome or row.

use crate::redaction::{CANARY, all, events, has};
use crate::stores::{Place, on_three_stores};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::mpsc::unbounded_channel;
use weftwork::agents::Chat;
use weftwork::graph::{CompiledGraph, NodeError};
use weftwork::prelude::*;
use weftwork::types::Principal;

/// A graph that fails with the text of the last result that it reads, or panics with it.
fn graph(panics: bool) -> CompiledGraph {
    let fails = async |chat: State<Chat>, panics: Deps<bool>| -> NodeResult<ChatUpdate> {
        let result = chat.messages().iter().flat_map(Message::tool_results).last().cloned();
        let text = format!("cannot use {}", result.expect("a result").value);
        if *panics {
            panic!("{text}");
        }
        Err(NodeError::message(text))
    };
    Graph::<Chat>::new("fails")
        .with(panics)
        .node("a", fails)
        .edge(START, "a")
        .build()
        .expect("sound")
}

async fn an_error_of_a_node_does_not_show_what_a_result_hides(place: Place) {
    let store = place.open();
    for panics in [false, true] {
        let builder = Runtime::builder(Arc::clone(&store)).graph("test:fails", graph(panics));
        let runtime = builder.open().await.expect("opens");
        let thread = runtime.thread("test:fails", format!("t-{panics}")).expect("an id");
        let input = json!({"messages": [
            {"id": "m1", "role": "assistant", "parts": [{"type": "tool_call", "id": "c",
             "name": "find", "args": {"pin": CANARY}, "shown": {"pin": "[secret]"}}]},
            {"id": "m2", "role": "tool", "parts": [{"type": "tool_result", "tool_call_id": "c",
             "name": "find", "value": {"card": CANARY, "id": "A-1"}, "shown": {"id": "A-1"}}]},
        ]});
        let (sender, mut items) = unbounded_channel();
        let started = thread.start(input).report_to(all(), sender).begin().await;
        let started = started.expect("accepted");
        let run = started.run().clone();
        while let Some(item) = items.recv().await {
            assert!(!has(&item), "{item:?}");
        }
        let ended = started.await;
        let text = format!("{:?}", ended.outcome());
        assert!(text.contains("[secret]") && !text.contains(CANARY), "{text}");
        let who = Principal::local();
        let handle = runtime.follow_run(&who, &run).await.expect("watches").into_handle();
        let events = events(handle).await;
        assert!(!has(&events), "{events:?}");
    }
    // The row of a run has its input, which is whole.
    let rows = place.rows("log").await.unwrap_or_default();
    assert!(!rows.contains(CANARY));
}

on_three_stores![an_error_of_a_node_does_not_show_what_a_result_hides];
