//! Processes that stop in order.

use crate::recovery::{created, dies};
use crate::support::{check_stream, completed, failed, on_each_store, store, thread};
use futures_util::StreamExt;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, Graph, List, NodeResult, START, State, SubgraphState,
};
use weftwork_runtime::Runtime;
use weftwork_store::Store;
use weftwork_types::Principal;
use weftwork_types::caller::Caller;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::port::{GraphExecutor, RunHandle};
use weftwork_types::run::{RunInput, RunOutcome, RunRef, RunRequest, RunStatus};

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

/// Holds a node until somebody lets it go.
#[derive(Debug, Default)]
struct Gate {
    came: Notify,
    open: Notify,
    runs: AtomicU32,
}

async fn waits(gate: Deps<Arc<Gate>>) -> LogUpdate {
    gate.runs.fetch_add(1, Ordering::SeqCst);
    gate.came.notify_one();
    gate.open.notified().await;
    LogUpdate::new().log(["waited"])
}

fn graph(gate: &Arc<Gate>) -> CompiledGraph {
    Graph::<Log>::new("gate")
        .with(Arc::clone(gate))
        .node("waits", waits)
        .node("after", async |_: State<Log>| LogUpdate::new().log(["after"]))
        .edge(START, "waits")
        .edge("waits", "after")
        .build()
        .expect("sound")
}

async fn runtime(store: &Arc<dyn Store>, gate: &Arc<Gate>) -> Runtime {
    let builder = Runtime::builder(Arc::clone(store)).graph("test:graph", graph(gate));
    builder.open().await.expect("opens")
}

fn request() -> RunRequest {
    RunRequest {
        principal: Principal::local(),
        caller: Caller::local("request").expect("valid id"),
        graph: "test:graph".to_owned(),
        thread: thread(),
        input: RunInput::Start { input: json!({}) },
        options: crate::support::options(),
    }
}

async fn begun(runtime: &Runtime, gate: &Gate) -> RunHandle {
    let handle = runtime.execute(request()).await.expect("the run is accepted");
    gate.came.notified().await;
    handle
}

/// Checks that a run whose worker stopped was requeued, and that its watchers were told; returns
/// the run.
async fn put_back(store: &Arc<dyn Store>, handle: RunHandle) -> RunRef {
    let told: Vec<_> = handle.events.collect().await;
    let last = told.last().expect("events");
    assert_eq!(last.event, AiEvent::Released { claim: 1 }, "{told:?}");
    let (_, message) = failed(handle.outcome.await);
    assert!(message.contains("another worker goes on with it"), "{message}");
    let row = store.run(&Principal::local(), &handle.run).await.expect("reads");
    assert_eq!((row.status, row.worker), (RunStatus::Pending, None));
    handle.run
}

async fn log_of(store: &Arc<dyn Store>, at: &RunRef) -> Vec<RunEvent> {
    let events = store.events(&Principal::local(), at, 0, 99).await.expect("reads");
    events.into_iter().map(|e| RunEvent::durable(e.seq, e.at, e.event)).collect()
}

/// Stops a process in order while the node holds, and then lets the node go.
async fn stopped_at_the_gate(runtime: &Runtime, gate: &Gate) {
    let stopping = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.shutdown(Duration::from_secs(60)).await }
    });
    while runtime.execute(request()).await.err().is_none_or(|refused| refused.fault.code != "W0131")
    {
        tokio::task::yield_now().await;
    }
    gate.open.notify_one();
    assert_eq!(stopping.await.expect("no panic"), Ok(Vec::new()));
}

#[tokio::test]
async fn runs_are_put_back_after_their_superstep_and_others_go_on_at_once() {
    let store = store();
    let gate = Arc::new(Gate::default());
    let one = runtime(&store, &gate).await;
    let two = runtime(&store, &gate).await;
    let handle = begun(&one, &gate).await;
    stopped_at_the_gate(&one, &gate).await;
    let at = put_back(&store, handle).await;
    // The lease of the first has not run out, and need not.
    let handle = two.recover().await.expect("nobody has it").remove(0);
    assert_eq!(completed(handle.outcome.await)["log"], json!(["waited", "after"]));
    assert_eq!(gate.runs.load(Ordering::SeqCst), 1, "what was done is done");
    check_stream(&log_of(&store, &at).await);
    assert_eq!(one.recover().await.map(|taken| taken.len()), Ok(0));
}

#[tokio::test]
async fn a_followed_run_that_ended_before_the_process_stopped_has_its_end() {
    let store = store();
    let gate = Arc::new(Gate::default());
    let open = async || {
        let graph = Graph::<Log>::new("last").with(Arc::clone(&gate)).node("waits", waits);
        let graph = graph.edge(START, "waits").build().expect("sound");
        let builder = Runtime::builder(Arc::clone(&store)).graph("test:graph", graph);
        builder.open().await.expect("opens")
    };
    let one = open().await;
    let two = open().await;
    let handle = begun(&one, &gate).await;
    let who = Principal::local();
    let mut followed = two.follow_run(&who, &handle.run).await.expect("follows").into_handle();
    // The follower in the other process has read the log, and waits until it reads it again.
    assert!(futures_util::poll!(&mut followed.outcome).is_pending());
    gate.open.notify_one();
    completed(handle.outcome.await);
    assert_eq!(two.shutdown(Duration::ZERO).await, Ok(Vec::new()));
    assert_eq!(completed(followed.outcome.await)["log"], json!(["waited"]));
    let told: Vec<_> = followed.events.collect().await;
    let last = told.last().map(|told| &told.event);
    assert_eq!(last, Some(&AiEvent::Done { outcome: RunStatus::Completed }), "{told:?}");
}

async fn calls(inner: Deps<CompiledGraph>, ctx: Ctx) -> NodeResult<LogUpdate> {
    let called = ctx.call(&inner, SubgraphState::PerTask, json!({"log": []})).await?;
    Ok(LogUpdate::new().log([called["log"].to_string()]))
}

#[tokio::test]
async fn a_called_graph_stops_after_its_superstep_and_the_run_is_put_back() {
    let store = store();
    let gate = Arc::new(Gate::default());
    let around = || {
        let built = Graph::<Log>::new("around").with(graph(&gate)).node("calls", calls);
        let built = built.edge(START, "calls").build().expect("sound");
        Runtime::builder(Arc::clone(&store)).graph("test:graph", built)
    };
    let one = around().open().await.expect("opens");
    let two = around().open().await.expect("opens");
    let handle = begun(&one, &gate).await;
    stopped_at_the_gate(&one, &gate).await;
    put_back(&store, handle).await;
    let handle = two.recover().await.expect("nobody has it").remove(0);
    let log = json!([json!(["waited", "after"]).to_string()]);
    assert_eq!(completed(handle.outcome.await)["log"], log);
    assert_eq!(gate.runs.load(Ordering::SeqCst), 1, "what was done is done");
}

#[tokio::test]
async fn a_node_that_quotes_the_reason_of_a_shutdown_ends_its_own_run() {
    let store = store();
    for reason in ["its process stops", "the process shuts down"] {
        let built = Graph::<Log>::new("drains")
            .with(reason)
            .node("drains", async |ctx: Ctx, reason: Deps<&'static str>| ctx.drain(*reason))
            .node("after", async |_: State<Log>| LogUpdate::new().log(["after"]))
            .edge(START, "drains")
            .edge("drains", "after");
        let graph = built.build().expect("sound");
        let builder = Runtime::builder(Arc::clone(&store)).graph("test:graph", graph);
        let runtime = builder.open().await.expect("opens");
        let handle = runtime.execute(request()).await.expect("accepted");
        let outcome = RunOutcome::Cancelled { reason: Some(reason.to_owned()) };
        assert_eq!(handle.outcome.await, outcome);
    }
}

#[tokio::test]
async fn a_run_that_does_not_come_to_the_end_of_its_superstep_is_cut_off() {
    let store = store();
    let gate = Arc::new(Gate::default());
    let one = runtime(&store, &gate).await;
    let two = runtime(&store, &gate).await;
    let handle = begun(&one, &gate).await;
    assert_eq!(one.shutdown(Duration::ZERO).await, Ok(Vec::new()));
    put_back(&store, handle).await;
    gate.open.notify_one();
    let handle = two.recover().await.expect("nobody has it").remove(0);
    assert_eq!(completed(handle.outcome.await)["log"], json!(["waited", "after"]));
    assert_eq!(gate.runs.load(Ordering::SeqCst), 2, "what was not done is done again");
}

#[tokio::test]
async fn stopping_in_order_is_no_attempt_however_often() {
    let store = store();
    let gate = Arc::new(Gate::default());
    let first = runtime(&store, &gate).await;
    drop(begun(&first, &gate).await);
    first.shutdown(Duration::ZERO).await.expect("stops");
    for _ in 0..6 {
        let next = runtime(&store, &gate).await;
        assert_eq!(next.recover().await.expect("nobody has it").len(), 1);
        gate.came.notified().await;
        next.shutdown(Duration::ZERO).await.expect("stops");
    }
    gate.open.notify_one();
    let last = runtime(&store, &gate).await;
    let handle = last.recover().await.expect("nobody has it").remove(0);
    assert_eq!(completed(handle.outcome.await)["log"], json!(["waited", "after"]));
}

#[tokio::test]
async fn deaths_still_count_beside_it() {
    let store = store();
    let gate = Arc::new(Gate::default());
    let at = created(&store).await;
    dies(&store, &at, 2, None).await;
    let third = runtime(&store, &gate).await;
    assert_eq!(third.recover().await.expect("nobody has it").len(), 1);
    gate.came.notified().await;
    third.shutdown(Duration::ZERO).await.expect("stops");
    dies(&store, &at, 1, None).await;
    let last = runtime(&store, &gate).await;
    let handle = last.recover().await.expect("nobody has it").remove(0);
    assert_eq!(failed(handle.outcome.await).0, "W0130", "three died, and one stopped in order");
}

#[tokio::test]
async fn a_process_without_runs_stops_at_once_and_twice() {
    let store = store();
    let gate = Arc::new(Gate::default());
    let one = runtime(&store, &gate).await;
    assert_eq!(one.shutdown(Duration::from_secs(60)).await, Ok(Vec::new()));
    assert_eq!(one.shutdown(Duration::from_secs(60)).await, Ok(Vec::new()));
    let refused = one.execute(request()).await.err().map(|refused| refused.fault.code);
    assert_eq!(refused.as_deref(), Some("W0131"));
}

on_each_store![
    runs_are_put_back_after_their_superstep_and_others_go_on_at_once,
    a_followed_run_that_ended_before_the_process_stopped_has_its_end,
    a_run_that_does_not_come_to_the_end_of_its_superstep_is_cut_off,
    stopping_in_order_is_no_attempt_however_often,
    deaths_still_count_beside_it,
    a_process_without_runs_stops_at_once_and_twice,
];
