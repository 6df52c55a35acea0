use crate::support::{answer, chain, empty, graph, kept, note};
use serde_json::json;
use std::time::Duration;
use weftwork_graph::run_loop::{AsNode, Host, Start, StartCommand, StateQuery, StateUpdate};
use weftwork_graph::{Command, Ctx, DynUpdate, Dynamic, Input, RuntimeError, START};

fn code(error: &RuntimeError) -> &'static str {
    error.code().0
}

#[tokio::test]
async fn nothing_to_start_with() {
    let graph = chain(&["a"]).build().expect("sound");
    let ended = graph.run(&kept(), Start::Continue).thread("t").outcome().await;
    assert_eq!(code(&ended.expect_err("no input")), "W0118");
    let command = Start::Command(StartCommand::default());
    let ended = graph.run(&kept(), command).thread("t").outcome().await;
    assert_eq!(code(&ended.expect_err("no command")), "W0118");
}

#[tokio::test]
async fn answers_and_looks_need_a_saver() {
    let graph = chain(&["a"]).build().expect("sound");
    let ended = graph.run(&Host::new(), answer(json!(1))).outcome().await;
    assert_eq!(code(&ended.expect_err("no saver")), "W0119");
    let state = graph.state(&Host::new(), &StateQuery::thread("t"), false).await;
    assert_eq!(code(&state.expect_err("no saver")), "W0119");
}

#[tokio::test]
async fn one_answer_for_two_questions() {
    let ask = async |_: Input, ctx: Ctx| ctx.interrupt(json!("?")).map(|_| DynUpdate::new());
    let graph = graph("two").node("a", ask).node("b", ask).edge(START, "a").edge(START, "b");
    let graph = graph.build().expect("sound");
    let host = kept();
    graph.run(&host, empty()).thread("t").outcome().await.expect("asks");
    let ended = graph.run(&host, answer(json!(1))).thread("t").outcome().await;
    let error = ended.expect_err("which one?");
    assert_eq!(code(&error), "W0120");
    assert!(error.to_string().contains("2 questions"), "{error}");
}

#[tokio::test]
async fn a_way_to_no_graph() {
    let graph = chain(&["a"]).build().expect("sound");
    for ns in ["zz:1", "a:1"] {
        let state = graph.state(&kept(), &StateQuery::thread("t").within(ns), false).await;
        assert_eq!(code(&state.expect_err("no graph")), "W0121", "{ns}");
    }
}

#[tokio::test]
async fn changes_that_cannot_be_made() {
    let graph = chain(&["a", "b"]).build().expect("sound");
    let host = kept();
    graph.run(&host, empty()).thread("t").outcome().await.expect("runs");
    let update = |as_node| StateUpdate { values: None, as_node };
    let tried = [
        vec![],
        vec![vec![]],
        vec![vec![update(AsNode::End), update(AsNode::End)]],
        vec![vec![update(AsNode::Copy), update(AsNode::Copy)]],
        vec![vec![update(AsNode::Beside), update(AsNode::Beside)]],
        vec![vec![update(AsNode::Infer), update(AsNode::Infer)]],
        vec![vec![update(AsNode::Input)]],
    ];
    for supersteps in tried {
        let shown = format!("{supersteps:?}");
        let changed = graph.update(&host, &StateQuery::thread("t"), supersteps).await;
        assert_eq!(code(&changed.expect_err("cannot be made")), "W0122", "{shown}");
    }
    let unknown = vec![vec![update(AsNode::Node("bb".to_owned()))]];
    let error =
        graph.update(&host, &StateQuery::thread("t"), unknown).await.expect_err("no such node");
    assert!(error.to_string().contains("did you mean `b`?"), "{error}");
    let nothing = vec![vec![update(AsNode::Copy)]];
    let copied = graph.update(&host, &StateQuery::thread("fresh"), nothing).await;
    assert_eq!(code(&copied.expect_err("nothing to copy")), "W0122");
}

#[tokio::test]
async fn a_command_for_a_parent_that_is_not_there() {
    let commands = async |_: Input| Command::<Dynamic>::parent(DynUpdate::new());
    let graph = graph("alone").node("a", commands).edge(START, "a").build().expect("sound");
    let ended = graph.invoke(json!({})).await;
    assert_eq!(code(&ended.expect_err("no parent")), "W0123");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_cuts_a_node() {
    let waits = async |_: Input, ctx: Ctx| {
        ctx.clock().sleep(Duration::from_secs(3_600)).await;
        DynUpdate::new()
    };
    let graph = graph("slow").node("a", waits).edge(START, "a").build().expect("sound");
    let run = graph.run(&Host::new(), empty()).deadline(Duration::from_millis(250));
    let error = run.outcome().await.expect_err("it takes an hour");
    assert_eq!(code(&error), "W0124");
    assert!(error.to_string().contains("250 ms"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_cuts_what_still_runs() {
    let waits = async |_: Input, ctx: Ctx| {
        ctx.clock().sleep(Duration::from_secs(3_600)).await;
        DynUpdate::new()
    };
    let fails = async |_: Input| Err::<DynUpdate, _>(std::io::Error::other("boom"));
    let graph = graph("cut").node("slow", waits).node("bad", fails).node("good", note("good"));
    let graph = graph.edge(START, "slow").edge(START, "bad").edge(START, "good");
    let graph = graph.build().expect("sound");
    let host = kept();
    let error = graph.run(&host, empty()).thread("t").outcome().await.expect_err("it fails");
    assert!(error.to_string().contains("boom"), "{error}");
    let state = graph.state(&host, &StateQuery::thread("t"), false).await.expect("is kept");
    assert_eq!(state.next, ["slow", "bad"], "what finished is kept");
    assert_eq!(state.values["log"], json!(["good"]));
    let fault = state.tasks[0].error.as_ref().expect("it was cut");
    assert_eq!((fault.code.as_str(), fault.kind.as_deref()), ("W0125", Some("CancelledError")));
}

#[tokio::test]
async fn names_the_graph_does_not_have_are_refused() {
    let graph = chain(&["a"]).build().expect("sound");
    let ended = graph.invoke(json!({"lgo": []})).await;
    let error = ended.expect_err("no such channel").to_string();
    assert!(error.contains("did you mean `log`?"), "{error}");
    let ended = graph.invoke(json!([1])).await;
    assert!(ended.expect_err("no object").to_string().contains("must be an object"));
}
