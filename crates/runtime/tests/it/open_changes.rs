//! Changes by commands while a question is open: they are in order, and one that cannot be applied
//! is refused before it is stored.

use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_graph::channel::{Append, LastValue};
use weftwork_graph::run_loop::HistoryFilter;
use weftwork_graph::{
    ChannelDef, CompiledGraph, Ctx, DynUpdate, Dynamic, Graph, NodeResult, START, Semantics, State,
};
use weftwork_runtime::{Runtime, Thread};
use weftwork_store::memory::MemoryStore;
use weftwork_types::run::{RunCommand, RunInput, RunOutcome};

fn channels() -> Vec<ChannelDef> {
    vec![
        ChannelDef::new("log", Append::<Value>::new()),
        ChannelDef::new("price", LastValue::<u32>::new()),
    ]
}

async fn ask(state: State<Dynamic>, ctx: Ctx) -> NodeResult<DynUpdate> {
    let answer = ctx.interrupt(json!("pay?"))?;
    let price = state.get("price").unwrap_or_default();
    Ok(DynUpdate::new().write("log", json!([format!("{price}: {answer}")])))
}

fn graph(semantics: Semantics) -> CompiledGraph {
    let graph = Graph::dynamic("shop", channels()).semantics(semantics);
    graph.node("ask", ask).edge(START, "ask").build().expect("sound")
}

async fn opened(graph: CompiledGraph) -> Thread {
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).graph("test:shop", graph);
    let runtime = runtime.open().await.expect("opens");
    runtime.thread("test:shop", "t").expect("valid names")
}

async fn waiting(graph: CompiledGraph) -> Thread {
    let thread = opened(graph).await;
    let asked = thread.start(json!({"price": 1})).await.expect("accepted");
    assert_eq!(asked.questions().len(), 1);
    thread
}

fn change(writes: &[(&str, Value)]) -> RunInput {
    let update = writes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    RunInput::Command(RunCommand { update, ..RunCommand::default() })
}

async fn price(thread: &Thread) -> Value {
    let all = thread.history(&HistoryFilter::default()).await.expect("the history is readable");
    assert!(!all.is_empty());
    thread.state().await.expect("the state is readable").values["price"].clone()
}

#[tokio::test]
async fn the_later_of_two_changes_of_an_open_superstep_counts() {
    for semantics in [Semantics::weft(), Semantics::langgraph()] {
        let thread = waiting(graph(semantics)).await;
        for value in [5, 6] {
            let changes = [("price", json!(value)), ("log", json!([value]))];
            thread.start(change(&changes)).await.expect("accepted");
        }
        assert_eq!(price(&thread).await, 6, "{semantics:?}");
        let ended = thread.answer(json!("yes")).await.expect("accepted");
        let log = ended.output().expect("completed")["log"].clone();
        assert_eq!(log, json!([5, 6, "6: \"yes\""]), "{semantics:?}");
        assert_eq!(price(&thread).await, 6, "{semantics:?}");
    }
}

#[tokio::test]
async fn a_change_that_cannot_be_applied_is_refused_and_leaves_the_thread_as_it_was() {
    for semantics in [Semantics::weft(), Semantics::langgraph()] {
        let thread = waiting(graph(semantics)).await;
        let twice = change(&[("price", json!(5)), ("price", json!(6))]);
        let refused = failure(&thread, twice).await;
        assert!(refused.starts_with("W0102"), "{refused}");
        let text = change(&[("price", json!("a text"))]);
        let refused = failure(&thread, text).await;
        assert!(refused.starts_with("W0103"), "{refused}");
        assert_eq!(price(&thread).await, 1, "{semantics:?}");
        let ended = thread.answer(json!("yes")).await.expect("accepted");
        assert_eq!(ended.output().expect("completed")["log"], json!(["1: \"yes\""]));
    }
}

/// The code and the message of a request that fails.
async fn failure(thread: &Thread, input: RunInput) -> String {
    match thread.start(input).await {
        Err(error) => format!("{} {error}", error.code().0),
        Ok(ended) => match ended.outcome() {
            RunOutcome::Failed { fault } => format!("{} {}", fault.code, fault.message),
            other => panic!("it is accepted: {other:?}"),
        },
    }
}

/// Two nodes whose results cannot be applied together, beside one that asks.
#[tokio::test]
async fn finished_tasks_that_conflict_leave_the_thread_readable() {
    let sets = |value: u32| {
        move |_: State<Dynamic>| async move { DynUpdate::new().write("price", json!(value)) }
    };
    let graph = Graph::dynamic("shop", channels()).node("ask", ask);
    let graph = graph.node("five", sets(5)).node("six", sets(6));
    let graph = graph.edge(START, "ask").edge(START, "five").edge(START, "six");
    let thread = opened(graph.build().expect("sound")).await;
    let refused = failure(&thread, RunInput::Start { input: json!({"price": 1}) }).await;
    assert!(refused.starts_with("W0102"), "{refused}");
    assert_eq!(price(&thread).await, 1);
}
