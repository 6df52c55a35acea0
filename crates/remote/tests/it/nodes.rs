//! Remote graphs as nodes.

use crate::rig::{There, graph_with_remote, in_memory, last};
use futures_util::TryStreamExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;
use weftwork_graph::{Ctx, DynUpdate, Graph, Input, Modes, NodeResult, START, StreamEvent};
use weftwork_runtime::{FrameContent, Output, Runtime, Selection};
use weftwork_testkit::ManualClock;
use weftwork_types::Principal;
use weftwork_types::event::Position;
use weftwork_types::interrupt::Ask;
use weftwork_types::run::{RunOutcome, RunStatus};

fn failure(outcome: &RunOutcome) -> (&str, &str) {
    match outcome {
        RunOutcome::Failed { fault } => (&fault.code, &fault.message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_node_returns_the_values_of_the_channels_that_its_graph_has() {
    let there = There::start().await;
    let runtime = in_memory(graph_with_remote(there.remote("parent"), &["msg", "out"])).await;
    let thread = runtime.thread("around", "t").expect("valid");
    let ended = thread.start(json!({"msg": "a"})).await.expect("accepted");
    let expected = json!({"msg": "pre-a", "out": "echo:pre-a", "after": "after echo:pre-a"});
    assert_eq!(ended.output().expect("completes"), &expected);
    let only_out = in_memory(graph_with_remote(there.remote("parent"), &["out"])).await;
    let ended = only_out.thread("around", "t").expect("valid").start(json!({})).await;
    let expected = json!({"out": "echo:pre-", "after": "after echo:pre-"});
    assert_eq!(ended.expect("accepted").output().expect("completes"), &expected);
}

/// A namespace without the ids of tasks, a mode, and data.
fn shown(ns: &[String], event: &StreamEvent) -> (String, Modes, Value) {
    let names: Vec<_> = ns.iter().map(|part| part.split(':').next().unwrap_or_default()).collect();
    match event {
        StreamEvent::Data { mode, data } => (names.join("|"), *mode, data.clone()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn frames_of_the_remote_run_are_frames_of_a_subgraph() {
    let there = There::start().await;
    let runtime = in_memory(graph_with_remote(there.remote("parent"), &["msg", "out"])).await;
    let modes = Modes::VALUES | Modes::UPDATES | Modes::CUSTOM;
    let started = runtime.thread("around", "t").expect("valid").start(json!({"msg": "a"}));
    let (sender, mut items) = unbounded_channel();
    let started = started.report_to(modes, sender).begin().await.expect("accepted");
    let run = started.run().clone();
    let mut frames = Vec::new();
    while let Some(item) = items.recv().await {
        if !item.ns.is_empty() {
            frames.push(shown(&item.ns, &item.event));
        }
    }
    let at = |ns: &str, mode, data| (ns.to_owned(), mode, data);
    let echoed = json!({"msg": "pre-a", "out": "echo:pre-a"});
    let expected = [
        at("remote", Modes::VALUES, json!({"msg": "a"})),
        at("remote", Modes::CUSTOM, json!({"progress": 1})),
        at("remote", Modes::UPDATES, json!({"pre": {"msg": "pre-a"}})),
        at("remote", Modes::VALUES, json!({"msg": "pre-a"})),
        at("remote|sub", Modes::VALUES, json!({"msg": "pre-a"})),
        at("remote|sub", Modes::UPDATES, json!({"echo": {"out": "echo:pre-a"}})),
        at("remote|sub", Modes::VALUES, echoed.clone()),
        at("remote", Modes::UPDATES, json!({"sub": echoed})),
        at("remote", Modes::VALUES, echoed),
    ];
    assert_eq!(frames, expected);
    // The log has the same frames, for clients that come later.
    let select = Selection::frames(modes).with_subgraphs();
    let stored = runtime.follow(&Principal::local(), &run, Position::START, select).await;
    let stored: Vec<Output> = stored.expect("reads").try_collect().await.expect("reads");
    let stored: Vec<_> = stored.into_iter().filter_map(Output::into_frame).collect();
    let stored = stored.iter().filter_map(|frame| match &frame.content {
        FrameContent::Item(item) if !item.ns.is_empty() => Some(shown(&item.ns, &item.event)),
        _ => None,
    });
    assert_eq!(stored.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn questions_inside_are_asked_here_and_answered_through_us() {
    let there = There::start().await;
    let remote = there.remote("inter");
    let runtime = in_memory(graph_with_remote(remote, &["q", "answer", "other", "note"])).await;
    let thread = runtime.thread("around", "t").expect("valid");
    let mut ended = thread.start(json!({"q": "x"})).await.expect("accepted");
    for (asked, answer) in
        [(json!({"question": "approve?", "q": "x"}), "yes"), (json!("and you?"), "no")]
    {
        let [question] = ended.questions() else { panic!("{ended:?}") };
        assert_eq!((&question.ask, &*question.node), (&Ask::Value { value: asked }, "remote"));
        ended = thread.answer(json!(answer)).await.expect("accepted");
    }
    let output = ended.output().expect("completes");
    assert_eq!(
        (&output["note"], &output["after"]),
        (&json!("done:yes:no"), &json!("after done:yes:no"))
    );
    assert_eq!(there.runs().await, 2, "one run until the questions, and one with both answers");
}

#[tokio::test]
async fn a_failure_there_is_a_failure_here_and_another_attempt_continues_there() {
    let there = There::start().await;
    let runtime = in_memory(graph_with_remote(there.remote("failing"), &["q"])).await;
    let thread = runtime.thread("around", "t").expect("valid");
    let ended = thread.start(json!({"q": "x"})).await.expect("accepted");
    let (code, message) = failure(ended.outcome());
    assert_eq!(code, "W0656");
    assert!(message.contains("of remote `helper` failed: ValueError: boom!"), "{message}");
    let again = thread.proceed().await.expect("accepted");
    assert_eq!((failure(again.outcome()).0, there.runs().await), ("W0656", 2));
}

#[tokio::test]
async fn an_unknown_assistant_is_refused_with_the_reason_of_the_server() {
    let there = There::start().await;
    let runtime = in_memory(graph_with_remote(there.remote("nobody"), &["q"])).await;
    let thread = runtime.thread("around", "t").expect("valid");
    let ended = thread.start(json!({})).await.expect("accepted");
    let (code, message) = failure(ended.outcome());
    assert_eq!(code, "W0652");
    assert!(message.contains("refused the start of a run with status 422"), "{message}");
}

#[tokio::test]
async fn a_cancelled_run_cancels_the_run_there_and_one_that_goes_on_continues_it() {
    let there = There::start().await;
    let runtime = in_memory(graph_with_remote(there.remote("gated"), &["msg", "out"])).await;
    let thread = runtime.thread("around", "t").expect("valid");
    let handle = thread.start(json!({"msg": "a"})).begin().await.expect("accepted").into_handle();
    there.gate.entered.acquire().await.expect("open").forget();
    assert_eq!(thread.cancel().await.expect("cancels"), 1);
    assert_eq!(handle.outcome.await.status(), RunStatus::Cancelled);
    there.rests().await;
    there.gate.open.add_permits(1);
    let ended = thread.proceed().await.expect("accepted");
    assert_eq!(ended.output().expect("completes")["out"], json!("call 2"));
    assert_eq!(there.gate.calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_run_that_reaches_its_deadline_cancels_the_run_there() {
    let there = There::start().await;
    let clock = ManualClock::new();
    let runtime = Runtime::in_memory().clock(Arc::new(clock.clone()));
    let graph = graph_with_remote(there.remote("gated"), &["msg", "out"]);
    let runtime = runtime.graph("around", graph).open().await.expect("opens");
    let thread = runtime.thread("around", "t").expect("valid");
    let run = thread.start(json!({"msg": "a"})).deadline(Duration::from_secs(60));
    let handle = run.begin().await.expect("accepted").into_handle();
    there.gate.entered.acquire().await.expect("open").forget();
    clock.advance(Duration::from_secs(60));
    assert_ne!(handle.outcome.await.status(), RunStatus::Completed);
    there.rests().await;
    assert_eq!(there.gate.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_graph_without_a_store_runs_remote_nodes_too() {
    let there = There::start().await;
    let graph = graph_with_remote(there.remote("parent"), &["msg", "out"]);
    let outcome = graph.invoke(json!({"msg": "b"})).await.expect("runs");
    assert_eq!(outcome.output().expect("completes")["after"], json!("after echo:pre-b"));
}

#[tokio::test]
async fn tasks_of_a_superstep_have_runs_of_their_own() {
    let there = There::start().await;
    let call = |channel: &'static str| {
        let remote = there.remote("parent");
        move |Input(input): Input, ctx: Ctx| {
            let remote = remote.clone();
            async move {
                let values = remote.call(&ctx, input).await?;
                NodeResult::Ok(DynUpdate::new().write(channel, values["out"].clone()))
            }
        }
    };
    let graph = Graph::dynamic("two", vec![last("msg"), last("one"), last("two")])
        .node("one", call("one"))
        .node("two", call("two"))
        .edge(START, "one")
        .edge(START, "two")
        .build()
        .expect("sound");
    let outcome = graph.invoke(json!({"msg": "b"})).await.expect("runs");
    let expected = json!({"msg": "b", "one": "echo:pre-b", "two": "echo:pre-b"});
    assert_eq!(outcome.output().expect("completes"), &expected);
    assert_eq!(there.runs().await, 2);
}
