//! Policies that refer to earlier calls of a run, and results stored by reference, on any store.

use crate::stores::{Place, on_three_stores};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weftwork::agents::ReactAgent;
use weftwork::graph::{CompiledGraph, RunOutcome, SystemClock};
use weftwork::runtime::{Runtime, Thread};
use weftwork::store::artifact::{artifact, artifacts, delete_lapsed};
use weftwork::store::{Store, StoreError};
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::tools::{FnTool, Policy, ToolBox, ToolContext};
use weftwork::types::port::Clock;
use weftwork::types::tool::Effect;
use weftwork::types::{Principal, ThreadId, Timestamp};

const END: &str = "END OF THE FILE";

fn agent(model: &Arc<ScriptedModel>) -> CompiledGraph {
    type Args = BTreeMap<String, String>;
    let read = |args: Args, _: ToolContext| async move { Ok::<_, String>(args["path"].clone()) };
    let write = |_: Args, _: ToolContext| async { Ok::<_, String>("written") };
    let dump = |_: Args, _: ToolContext| async {
        Ok::<_, String>(format!("\"BEGINNING\"{}{END}", "x".repeat(400_000)))
    };
    let tools = ToolBox::new()
        .with(FnTool::new("read_file", "Reads a file.", read))
        .with(FnTool::new("write_file", "Writes a file.", write).effect(Effect::StateChange))
        .with(FnTool::new("dump", "Returns much.", dump))
        .with_ask_human();
    let policy: Policy = serde_json::from_value(json!({"version": 1, "rules": [
        {"tool": "write_file", "decision": "allow", "calls_per_run": 2, "at_once": 1,
            "after": [{"tool": "read_file", "same": ["path"]}]},
    ]}))
    .expect("a policy");
    let agent = ReactAgent::new("desk", Arc::clone(model)).tools(tools).policy(policy);
    agent.build().expect("a sound agent")
}

async fn opened(store: &Arc<dyn Store>, model: &Arc<ScriptedModel>) -> (Runtime, Thread) {
    let runtime = Runtime::builder(Arc::clone(store)).graph("test:desk", agent(model));
    let runtime = runtime.open().await.expect("opens");
    let thread = runtime.thread("desk", "t").expect("an id");
    (runtime, thread)
}

fn said(id: &str) -> Value {
    let part = json!({"type": "text", "text": "Do it."});
    json!({"messages": [{"id": id, "role": "user", "parts": [part]}]})
}

/// Results of tools in the conversation since the last call of this function.
async fn results(thread: &Thread, seen: &mut usize) -> Vec<String> {
    let state = thread.clone().whole_state().state().await.expect("reads");
    let messages = state.values["messages"].as_array().expect("messages").clone();
    let parts = messages.iter().skip(*seen).flat_map(|message| message["parts"].as_array());
    let results = parts.flatten().filter(|part| part["type"] == "tool_result");
    let found = results.map(|part| part["value"].to_string()).collect();
    *seen = messages.len();
    found
}

async fn earlier_calls_count(place: Place) {
    let store = place.open();
    let file = |tool: &str, path: &str| Step::call(tool, json!({"path": path}));
    let ask = Step::call("ask_human", json!({"question": "Shall I?"}));
    let model = Arc::new(ScriptedModel::from_steps(vec![
        file("write_file", "a"),
        file("read_file", "a"),
        file("write_file", "b"),
        ask,
        file("write_file", "a"),
        file("write_file", "a"),
        file("write_file", "a"),
        Step::text("Done."),
        file("write_file", "a"),
        Step::text("Not again."),
    ]));
    let (runtime, thread) = opened(&store, &model).await;
    let outcome = thread.start(said("u1")).await.expect("runs");
    assert!(matches!(outcome.outcome(), RunOutcome::Interrupted { .. }), "it asks");
    let mut seen = 0;
    let found = results(&thread, &mut seen).await;
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].contains("`read_file` must have succeeded before"), "{found:?}");
    assert_eq!(found[1], "\"a\"");
    assert!(found[2].contains("with the same `path`"), "{found:?}");
    drop((runtime, thread));

    // Another process continues, and has nothing but the store.
    let (_runtime, thread) = opened(&store, &model).await;
    thread.answer(json!("yes")).await.expect("runs");
    let found = results(&thread, &mut seen).await;
    let expected = ["\"yes\"", "\"written\"", "\"written\""];
    assert_eq!(found[..3], expected, "{found:?}");
    assert!(found[3].contains("a run may call it 2 times"), "{found:?}");
    thread.start(said("u2")).await.expect("runs");
    let found = results(&thread, &mut seen).await;
    assert!(found[0].contains("must have succeeded before"), "another run: {found:?}");
}

async fn large_results_are_stored(place: Place) {
    let store = place.open();
    let steps = vec![Step::call("dump", json!({})), Step::text("Read.")];
    let model = Arc::new(ScriptedModel::from_steps(steps));
    let (_runtime, thread) = opened(&store, &model).await;
    thread.start(said("u1")).await.expect("runs");
    let shown = thread.state().await.expect("reads").values.to_string();
    assert!(!shown.contains("BEGINNING") && !shown.contains(END));
    let whole = thread.clone().whole_state().state().await.expect("reads").values;
    let messages = whole["messages"].as_array().expect("messages");
    let part = messages.iter().find_map(|message| {
        message["parts"].as_array()?.iter().find(|part| part["type"] == "tool_result")
    });
    let part = part.expect("a result");
    let cut = &part["value"];
    let shown = &part["shown"];
    assert!(cut["beginning"].as_str().expect("a text").contains("BEGINNING"));
    assert!(!cut.to_string().contains(END) && cut.to_string().len() < 256 * 1024);
    assert_eq!((&cut["cut"]["of"], &shown["bytes"]), (&json!(400_030), &json!(400_030)));
    assert_eq!(shown["status"], "stored");

    let who = Principal::local();
    let now = SystemClock::new().now();
    let id = cut["cut"]["reference"].as_str().expect("a reference");
    let found = artifact(store.as_ref(), &who, id, now).await.expect("is there");
    assert!(found.value.as_str().expect("a text").ends_with(END));
    assert_eq!((found.tool.as_str(), found.bytes), ("dump", 400_030));
    let t = ThreadId::new("t").expect("an id");
    let listed = artifacts(store.as_ref(), &who, &t, now).await.expect("reads");
    assert_eq!(listed, std::slice::from_ref(&found));

    let bob = Principal { subject: "bob".to_owned(), ..who.clone() };
    let elsewhere =
        Principal { org: weftwork::types::OrgId::new("other").expect("an id"), ..who.clone() };
    for (who, at) in [(&bob, now), (&elsewhere, now), (&who, found.expires_at)] {
        let refused = artifact(store.as_ref(), who, id, at).await.expect_err("refused");
        assert!(matches!(refused, StoreError::NotFound { kind: "artifact", .. }), "{refused}");
        assert_eq!(artifacts(store.as_ref(), who, &t, at).await, Ok(Vec::new()));
    }

    let lapsed = |at: Timestamp| {
        let store = Arc::clone(&store);
        let who = who.clone();
        async move { delete_lapsed(store.as_ref(), &who, at).await.expect("deletes") }
    };
    assert_eq!(lapsed(now.plus(Duration::from_secs(60))).await, 0);
    store.delete_thread(&who, &t).await.expect("deletes");
    let gone = artifact(store.as_ref(), &who, id, now).await;
    assert!(matches!(gone, Err(StoreError::NotFound { .. })), "{gone:?}");
    assert_eq!(lapsed(found.expires_at).await, 1);
    assert_eq!(lapsed(found.expires_at).await, 0);
}

on_three_stores![earlier_calls_count, large_results_are_stored];
