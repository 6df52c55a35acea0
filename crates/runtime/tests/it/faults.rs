//! Refused requests and graphs, with their error codes.

use crate::support::{Bench, completed, failed, interrupted, on_each_store, thread};
use serde_json::json;
use std::sync::Arc;
use weftwork_graph::{
    CompiledGraph, Ctx, Graph, List, Next, NodeResult, RuntimeError, START, State,
};
use weftwork_runtime::Runtime;
use weftwork_types::Principal;
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::RunInput;

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

fn chain(node: &str) -> CompiledGraph {
    Graph::<Log>::new("chain")
        .node("first", async |_: State<Log>| LogUpdate::new().log(["first"]))
        .node(node, async |ctx: Ctx| -> NodeResult<LogUpdate> {
            ctx.interrupt(json!("go on?"))?;
            Ok(LogUpdate::new())
        })
        .edge(START, "first")
        .edge("first", node)
        .build()
        .expect("sound")
}

#[tokio::test]
async fn a_route_to_nowhere_is_w0104_and_suggests_a_node() {
    let graph = Graph::<Log>::new("astray")
        .node("work", async |_: State<Log>| LogUpdate::new().log(["work"]))
        .edge(START, "work")
        .route_to("work", [] as [&str; 0], |_: State<Log>| Next::node("wrok"))
        .build()
        .expect("open routes are checked when they are taken");
    let (code, message) = failed(Bench::new(graph).await.start(json!({})).await);
    assert_eq!(code, "W0104");
    assert!(message.contains("`wrok`") && message.contains("did you mean `work`"), "{message}");
}

#[tokio::test]
async fn a_thread_that_waits_at_a_node_that_is_gone_is_w0107_and_stays_as_it_is() {
    let store = crate::support::store();
    let before = Bench::on(store.clone(), chain("ask")).await;
    let open = interrupted(before.start(json!({})).await);
    let changed = Bench::on(store.clone(), chain("question")).await;
    let (code, message) = failed(changed.proceed().await);
    assert_eq!(code, "W0107");
    assert!(message.contains("`ask`"), "{message}");
    let back = Bench::on(store, chain("ask")).await;
    assert_eq!(interrupted(back.proceed().await), open, "bringing the node back is enough");
}

#[tokio::test]
async fn requests_that_fit_nothing_are_refused_before_anything_is_written() {
    let bench = Bench::new(chain("ask")).await;
    let execute = async |request| match bench.runtime.execute(request).await {
        Err(refused) => (refused.fault.code, refused.fault.message),
        Ok(handle) => failed(handle.outcome.await),
    };
    let mut unknown = Bench::request(RunInput::Continue);
    unknown.graph = "test:grahp".to_owned();
    assert_eq!(execute(unknown).await.0, "W0111");
    let (code, message) = execute(Bench::request(RunInput::Continue)).await;
    assert_eq!((code.as_str(), message.contains("thread `t`")), ("W0114", true));
    let missing = bench.store.thread(&Principal::local(), &thread()).await;
    assert!(missing.is_err(), "the thread was not made");

    let other = Runtime::builder(Arc::clone(&bench.store)).graph("test:other", chain("other"));
    let other = other.open().await.expect("opens");
    interrupted(bench.start(json!({})).await);
    let mut request = Bench::request(RunInput::Continue);
    request.graph = "test:other".to_owned();
    let refused = other.execute(request).await.expect_err("another graph's thread");
    assert_eq!(refused.fault.code, "W0113");

    let twice = Runtime::builder(Arc::clone(&bench.store))
        .graph("test:graph", chain("ask"))
        .graph("test:graph", chain("ask"))
        .open()
        .await
        .expect_err("one id, two graphs");
    assert_eq!(twice.code().0, "W0112");
    assert!(matches!(twice, RuntimeError::DuplicateGraph { .. }));
}

#[tokio::test]
async fn an_update_that_could_come_from_two_nodes_is_w0116() {
    let graph = Graph::<Log>::new("two")
        .node("a", async |_: State<Log>| LogUpdate::new().log(["a"]))
        .node("b", async |_: State<Log>| LogUpdate::new().log(["b"]))
        .edge(START, "a")
        .edge(START, "b")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    completed(bench.start(json!({})).await);
    let update = RunInput::Update { writes: json!({"log": ["x"]}), as_node: None };
    assert_eq!(failed(bench.run(Bench::request(update)).await.1).0, "W0116");
}

on_each_store![
    a_route_to_nowhere_is_w0104_and_suggests_a_node,
    a_thread_that_waits_at_a_node_that_is_gone_is_w0107_and_stays_as_it_is,
    requests_that_fit_nothing_are_refused_before_anything_is_written,
    an_update_that_could_come_from_two_nodes_is_w0116,
];
