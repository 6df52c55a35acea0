use crate::support::{answer, chain, empty, graph, kept, log, logged, note};
use serde_json::json;
use weftwork_graph::run_loop::{AsNode, Host, Start, StateQuery, StateUpdate};
use weftwork_graph::{
    Command, Ctx, DynUpdate, Dynamic, Input, Modes, NodeResult, RunOutcome, START, SubgraphState,
};

#[tokio::test]
async fn a_graph_is_a_node() {
    let inner = chain(&["x", "y"]).build().expect("sound");
    let outer = graph("outer").subgraph("p", inner, SubgraphState::PerTask).node("b", note("b"));
    let outer = outer.edge(START, "p").edge("p", "b").build().expect("sound");
    let outcome = outer.invoke(json!({"log": ["0"]})).await.expect("runs");
    assert_eq!(logged(outcome.outcome().clone()), ["0", "0", "x", "y", "b"]);
}

#[tokio::test]
async fn own_state_lasts_and_inherited_state_does_not() {
    for (keep, expected) in
        [(SubgraphState::PerTask, 1), (SubgraphState::PerThread, 2), (SubgraphState::Stateless, 1)]
    {
        let inner = chain(&["x"]).build().expect("sound");
        let outer = graph("outer").node("p", move |_: Input, ctx: Ctx| {
            let inner = inner.clone();
            async move {
                let output = ctx.call(&inner, keep, json!({})).await?;
                NodeResult::Ok(DynUpdate::new().write("s", output["log"].clone()))
            }
        });
        let outer = outer.edge(START, "p").build().expect("sound");
        let host = kept();
        for _ in 0..2 {
            outer.run(&host, empty()).thread("t").outcome().await.expect("runs");
        }
        let state = outer.state(&host, &StateQuery::thread("t"), false).await.expect("is kept");
        assert_eq!(state.values["s"].as_array().map(Vec::len), Some(expected), "{keep:?}");
    }
}

#[tokio::test]
async fn a_question_within_stops_the_whole_and_goes_on_within() {
    let ask = async |_: Input, ctx: Ctx| {
        let answer = ctx.interrupt(json!("?"))?;
        NodeResult::Ok(log(answer.as_str().unwrap_or_default()))
    };
    let inner = graph("inner").node("x", note("x")).node("ask", ask);
    let inner = inner.edge(START, "x").edge("x", "ask").build().expect("sound");
    let outer = graph("outer").subgraph("p", inner, SubgraphState::PerTask).edge(START, "p");
    let outer = outer.build().expect("sound");
    let host = kept();
    let asked = outer.run(&host, empty()).thread("t").outcome().await.expect("asks");
    assert!(
        matches!(asked, RunOutcome::Interrupted { questions: interrupts, .. } if interrupts.len() == 1)
    );
    let outcome = outer.run(&host, answer(json!("yes"))).thread("t").outcome().await;
    assert_eq!(logged(outcome.expect("ends")), ["x", "yes"], "x ran once");
}

#[tokio::test]
async fn a_command_for_the_graph_around() {
    let commands = async |_: Input| Command::<Dynamic>::parent(log("from within")).goto("c");
    let inner = graph("inner").node("x", commands).edge(START, "x").build().expect("sound");
    let outer = graph("outer").subgraph("p", inner, SubgraphState::PerTask).node("c", note("c"));
    let outer = outer.ends("p", ["c"]).edge(START, "p").build().expect("sound");
    let outcome = outer.invoke(json!({})).await.expect("runs");
    assert_eq!(logged(outcome.outcome().clone()), ["from within", "c"]);
}

#[tokio::test]
async fn a_stream_tells_the_graphs_within() {
    let inner = chain(&["x"]).build().expect("sound");
    let outer = graph("outer").subgraph("p", inner, SubgraphState::PerTask).edge(START, "p");
    let outer = outer.build().expect("sound");
    let mut stream = outer.run(&Host::new(), empty()).modes(Modes::UPDATES).stream();
    let mut told = Vec::new();
    while let Some(item) = stream.next().await {
        told.push((item.ns.len(), format!("{:?}", item.event)));
    }
    assert_eq!(told.iter().map(|(depth, _)| *depth).collect::<Vec<_>>(), [1, 0], "{told:?}");
    assert!(matches!(stream.outcome(), Some(Ok(RunOutcome::Completed { .. }))));
}

#[tokio::test]
async fn the_name_of_a_node_may_consist_of_digits() {
    let keep = SubgraphState::PerThread;
    for name in ["p", "1"] {
        let ask = async |_: Input, ctx: Ctx| {
            let answer = ctx.interrupt(json!("?"))?;
            NodeResult::Ok(log(answer.as_str().unwrap_or_default()))
        };
        let inner = graph("inner").node("x", note("x")).node("ask", ask);
        let inner = inner.edge(START, "x").edge("x", "ask").build().expect("sound");
        let middle = graph("middle").subgraph(name, inner, keep).edge(START, name);
        let middle = middle.build().expect("sound");
        let outer = graph("outer").subgraph(name, middle, keep).edge(START, name);
        let outer = outer.build().expect("sound");
        let host = kept();
        let asked = outer.run(&host, empty()).thread("t").outcome().await.expect("asks");
        assert!(matches!(asked, RunOutcome::Interrupted { .. }), "{asked:?}");

        let within = StateQuery::thread("t").within(format!("{name}|{name}"));
        let state = outer.state(&host, &within, false).await.expect("is kept");
        assert_eq!((state.values["log"].clone(), state.next.len()), (json!(["x"]), 1), "{name}");
        // A change of the state within answers in place of its node.
        let values = Some(vec![("log".to_owned(), json!(["from outside"]))]);
        let change = StateUpdate { values, as_node: AsNode::Node("ask".to_owned()) };
        outer.update(&host, &within, vec![vec![change]]).await.expect("changes");
        let outcome = outer.run(&host, Start::Continue).thread("t").outcome().await;
        assert_eq!(logged(outcome.expect("ends")), ["x", "from outside"], "{name}");
    }
}
