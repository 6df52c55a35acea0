//! Values that are nested so deeply that JSON readers refuse them must not get into a thread.

use crate::support::{Bench, completed, failed, on_each_store, thread};
use serde_json::{Value, json};
use weftwork_graph::{Arg, CompiledGraph, Ctx, Graph, NodeResult, START, SendTo, State};
use weftwork_types::Principal;
use weftwork_types::canonical::{DEPTH_MAX, hash};
use weftwork_types::port::{Attempts, CallKind, CallResult, GraphExecutor, Intent, Opened};
use weftwork_types::run::{RunInput, RunOutcome};
use weftwork_types::tool::Effect;

#[derive(State)]
struct Any {
    any: Value,
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

fn keeps() -> CompiledGraph {
    Graph::<Any>::new("keeps")
        .node("keep", async |_: State<Any>| AnyUpdate::new())
        .edge(START, "keep")
        .build()
        .expect("sound")
}

#[tokio::test]
async fn input_is_taken_as_deep_as_it_can_be_read_back_and_no_deeper() {
    let bench = Bench::new(keeps()).await;
    // The input is one level more than its channel's value.
    let input = json!({"any": nested(DEPTH_MAX - 1)});
    assert_eq!(completed(bench.start(input.clone()).await), input);
    for levels in [DEPTH_MAX, DEPTH_MAX + 15, DEPTH_MAX + 24, 2 * DEPTH_MAX] {
        let input = RunInput::Start { input: json!({"any": nested(levels)}) };
        let refused = bench.runtime.execute(Bench::request(input)).await.expect_err("too deep");
        assert_eq!(refused.fault.code, "W0103");
    }
    assert_eq!(completed(bench.start(json!({})).await), input);
}

/// Does something with a deep value by the name of the node.
async fn deep(ctx: Ctx) -> NodeResult<AnyUpdate> {
    let deep = nested(2 * DEPTH_MAX);
    match ctx.node() {
        "write" => return Ok(AnyUpdate::new().any(deep)),
        "ask" => drop(ctx.interrupt(deep)?),
        "tell" => ctx.emit(deep),
        _ => {
            let intent = Intent {
                kind: CallKind::Once,
                name: "deep".to_owned(),
                input: hash(&json!(1)),
                call_id: None,
                effect: Effect::ReadOnly,
                attempts: Attempts::Each,
            };
            if let Opened::New { key } = ctx.calls().journal.open(intent).await? {
                ctx.calls().journal.settle(key, CallResult { value: deep }).await?;
            }
        }
    }
    Ok(AnyUpdate::new())
}

#[tokio::test]
async fn what_a_node_makes_is_refused_before_it_spoils_its_thread() {
    for node in ["write", "ask", "tell", "call"] {
        let graph = Graph::<Any>::new("deep").node(node, deep).edge(START, node).build();
        let bench = Bench::new(graph.expect("sound")).await;
        let outcome = bench.start(json!({})).await;
        match node {
            "tell" => assert!(matches!(outcome, RunOutcome::Completed { .. }), "{outcome:?}"),
            _ => assert!(failed(outcome).1.contains("nested"), "{node}"),
        }
        let who = Principal::local();
        let runs = thread();
        let runs = bench.store.runs(&who, &runs).await.expect("reads");
        bench.store.events(&who, &runs[0].new.at, 0, 99).await.expect("the log can be read");
        bench.store.calls(&who, &thread()).await.expect("the journal can be read");
        bench.store.interrupts(&who, &thread()).await.expect("the questions can be read");
        bench.runtime.state(&who, &thread()).await.expect("the thread can be read");
    }
}

#[tokio::test]
async fn what_is_sent_is_refused_too() {
    let graph = Graph::<Any>::new("send")
        .node("send", async |_: State<Any>| AnyUpdate::new())
        .node("take", async |_: Arg<Value>| AnyUpdate::new())
        .edge(START, "send")
        .route_to("send", ["take"], |_: State<Any>| {
            weftwork_graph::Next::Send(SendTo::to("take", nested(2 * DEPTH_MAX)))
        })
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    assert!(failed(bench.start(json!({})).await).1.contains("nested"));
    bench.runtime.state(&Principal::local(), &thread()).await.expect("the thread can be read");
}

on_each_store![
    input_is_taken_as_deep_as_it_can_be_read_back_and_no_deeper,
    what_a_node_makes_is_refused_before_it_spoils_its_thread,
    what_is_sent_is_refused_too,
];
