//! Spans of runs: the whole tree, the same one over each store, and in a run of this program.

mod recorder;

use crate::stores::Place;
use recorder::Recorder;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use weftwork::graph::{NodeError, Retry, SubgraphState};
use weftwork::models::{ChatModel, ChatRequest, ModelCaller, ModelError};
use weftwork::prelude::*;
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::types::MessageId;
use weftwork::types::usage::Tokens;

/// Text that stands for everything that no span may have.
const SECRET: &str = "quince-7719";

/// Runs a test over the stores, and compares its spans with one snapshot.
macro_rules! snapshot_on_stores {
    ($name:literal, $test:ident) => {
        for place in [Place::memory($name), Place::sqlite($name)] {
            let recorder = Recorder::default();
            recorder.block_on($test(&place));
            insta::assert_snapshot!($name, recorder.tree());
            for (field, value) in recorder.values() {
                assert!(!value.contains(SECRET), "{field}: {value}");
            }
        }
    };
}

/// Looks up an order.
#[tool]
fn lookup(order: String) -> String {
    format!("{order} is on its way, {SECRET}")
}

/// Fails.
#[tool]
fn fail(order: String) -> Result<String, ToolError> {
    Err(ToolError::failed(format!("no {order}, {SECRET}")))
}

async fn host(place: &Place, graph: CompiledGraph) -> Runtime {
    Runtime::builder(place.open()).graph("desk", graph).open().await.expect("opens")
}

async fn close(runtime: Runtime) {
    runtime.shutdown(Duration::from_secs(5)).await.expect("ends");
}

async fn agent_with_two_tools(place: &Place) {
    let args = json!({"order": SECRET});
    let steps = vec![
        Step::calls(vec![("lookup".to_owned(), args.clone()), ("fail".to_owned(), args)])
            .using(Tokens::reported(20, 8)),
        Step::text(SECRET).using(Tokens::reported(30, 4)),
    ];
    let model = Arc::new(ScriptedModel::from_steps(steps));
    let agent = ReactAgent::new("desk", model).tools(ToolBox::new().with(lookup).with(fail));
    let runtime = host(place, agent.build().expect("sound")).await;
    let thread = runtime.thread("desk", "t").expect("an id");
    let ended = thread.say(format!("Where is {SECRET}?")).await.expect("ends");
    assert_eq!(ended.text(), SECRET);
    close(runtime).await;
}

#[test]
fn an_agent_has_a_span_for_each_call_within_its_task() {
    snapshot_on_stores!("agent", agent_with_two_tools);
}

#[derive(State)]
struct Work {
    #[channel(append)]
    log: List<String>,
}

/// The model of the nodes, with the number of calls that it answers.
fn model(answers: usize) -> Arc<dyn ChatModel> {
    let step = || Step::text(SECRET).using(Tokens::reported(5, 1));
    Arc::new(ScriptedModel::from_steps((0..answers).map(|_| step())))
}

/// Asks the model, on a thread or another.
async fn ask(ctx: Ctx, model: Deps<Arc<dyn ChatModel>>) -> NodeResult<WorkUpdate> {
    tokio::task::yield_now().await;
    let id = MessageId::new("m1").expect("an id");
    let messages = vec![Message::text(id, Role::User, SECRET)];
    let request = ChatRequest { messages, ..ChatRequest::default() };
    ModelCaller::default().call(&**model, request, ctx.calls()).await?;
    Ok(WorkUpdate::new().log(["asked"]))
}

/// A subgraph whose nodes run beside each other, two of them on threads of their own.
async fn subgraph_on_threads(place: &Place) {
    let inner = Graph::<Work>::new("inner").with(model(3));
    let inner = inner.node("here", ask).node("parallel", ask).node("blocking", ask);
    let inner = inner.edge(START, "here").edge(START, "parallel").edge(START, "blocking");
    let inner = inner.parallel("parallel").blocking("blocking").build().expect("sound");
    let outer = Graph::<Work>::new("outer")
        .node("first", async |_: State<Work>| WorkUpdate::new().log(["a"]));
    let outer = outer.subgraph("inner", inner, SubgraphState::PerTask);
    let outer = outer.edge(START, "first").edge("first", "inner").build().expect("sound");
    let runtime = host(place, outer).await;
    let thread = runtime.thread("desk", "t").expect("an id");
    let ended = thread.start(json!({})).await.expect("ends");
    assert_eq!(ended.output().expect("one")["log"].as_array().map(Vec::len), Some(5));
    close(runtime).await;
}

#[test]
fn a_subgraph_is_within_the_task_that_runs_it_on_whatever_thread() {
    snapshot_on_stores!("subgraph", subgraph_on_threads);
}

/// A task that succeeds at its second attempt, and then a model and a node that fail.
async fn failures(place: &Place) {
    let tries = Arc::new(AtomicU32::new(0));
    let flaky = async |tries: Deps<Arc<AtomicU32>>| match tries.fetch_add(1, Ordering::SeqCst) {
        0 => Err(NodeError::message(SECRET).retriable()),
        _ => Ok(WorkUpdate::new().log(["done"])),
    };
    let error = ModelError::Unsupported { model: "m".to_owned(), what: SECRET.to_owned() };
    let model: Arc<dyn ChatModel> = Arc::new(ScriptedModel::from_steps(vec![Step::fails(error)]));
    let retry = Retry::new(2).backoff(Duration::ZERO, 1.0).without_jitter();
    let graph = Graph::<Work>::new("fails").with(tries).with(model);
    let graph = graph.node("flaky", flaky).retry("flaky", retry).node("ask", ask);
    let graph = graph.edge(START, "flaky").edge("flaky", "ask").build().expect("sound");
    let runtime = host(place, graph).await;
    let thread = runtime.thread("desk", "t").expect("an id");
    let ended = thread.start(json!({})).await.expect("ends");
    assert!(matches!(ended.outcome(), RunOutcome::Failed { .. }), "{:?}", ended.outcome());
    close(runtime).await;
}

#[test]
fn what_fails_has_the_code_of_its_error() {
    snapshot_on_stores!("failures", failures);
}

/// A run that is cancelled while a tool of it waits.
async fn cancelled(place: &Place) {
    let waits = Arc::new(Notify::new());
    let steps = vec![Step::call("wait_for_ever", json!({}))];
    let model = Arc::new(ScriptedModel::from_steps(steps));
    let tools = ToolBox::new().with(wait_for_ever).provide(Arc::clone(&waits));
    let agent = ReactAgent::new("desk", model).tools(tools).build().expect("sound");
    let runtime = host(place, agent).await;
    let thread = runtime.thread("desk", "t").expect("an id");
    let handle = thread.say("Wait.").begin().await.expect("accepted").into_handle();
    waits.notified().await;
    thread.cancel().await.expect("active");
    assert!(matches!(handle.outcome.await, RunOutcome::Cancelled { .. }));
    close(runtime).await;
}

/// Waits for ever.
#[tool]
async fn wait_for_ever(waits: weftwork::tools::Deps<Arc<Notify>>) -> String {
    waits.0.notify_one();
    std::future::pending().await
}

#[test]
fn what_a_cancelled_run_cuts_off_has_no_outcome() {
    snapshot_on_stores!("cancelled", cancelled);
}

/// A run that asks after a call, and one that answers; the node calls again what is recorded.
async fn resumed(place: &Place) {
    let node = async |ctx: Ctx, model: Deps<Arc<dyn ChatModel>>| -> NodeResult<WorkUpdate> {
        let request = || {
            let id = MessageId::new("m1").expect("an id");
            let messages = vec![Message::text(id, Role::User, SECRET)];
            ChatRequest { messages, ..ChatRequest::default() }
        };
        ModelCaller::default().call(&**model, request(), ctx.calls()).await?;
        let answer: Value = ctx.interrupt(json!(SECRET))?;
        Ok(WorkUpdate::new().log([answer.to_string()]))
    };
    let graph = Graph::<Work>::new("asks").with(model(1)).node("ask", node);
    let graph = graph.edge(START, "ask").build().expect("sound");
    let runtime = host(place, graph).await;
    let thread = runtime.thread("desk", "t").expect("an id");
    let asked = thread.start(json!({})).await.expect("ends");
    assert_eq!(asked.questions().len(), 1);
    thread.answer(json!(SECRET)).await.expect("ends").output().expect("completes");
    close(runtime).await;
}

#[test]
fn a_replayed_call_is_marked_and_has_no_usage() {
    snapshot_on_stores!("resumed", resumed);
}

/// A run that a runtime releases as it stops, and another one continues.
async fn released(place: &Place) {
    let reached = Arc::new(Notify::new());
    let graph = || {
        let wait = async |reached: Deps<Arc<Notify>>| {
            reached.notify_one();
            tokio::time::sleep(Duration::from_millis(50)).await;
            WorkUpdate::new().log(["waited"])
        };
        let graph = Graph::<Work>::new("waits").with(Arc::clone(&reached)).node("wait", wait);
        let graph = graph.node("last", async |_: State<Work>| WorkUpdate::new().log(["last"]));
        graph.edge(START, "wait").edge("wait", "last").build().expect("sound")
    };
    let first = host(place, graph()).await;
    let thread = first.thread("desk", "t").expect("an id");
    let run = thread.start(json!({})).begin().await.expect("accepted").run().clone();
    reached.notified().await;
    close(first).await;
    let second = host(place, graph()).await;
    let thread = second.thread("desk", "t").expect("an id");
    let ended = thread.resume().await.expect("continues").await;
    assert_eq!(ended.run(), &run);
    assert_eq!(ended.output().expect("completes")["log"], json!(["waited", "last"]));
    let again = thread.wait_through(&run).await.expect("reads");
    assert!(matches!(again.outcome(), RunOutcome::Completed { .. }));
    close(second).await;
}

#[test]
fn each_claim_of_a_run_has_a_span() {
    snapshot_on_stores!("released", released);
}

#[test]
fn a_run_of_this_program_is_within_the_span_of_its_caller() {
    let recorder = Recorder::default();
    recorder.block_on(async {
        let graph = Graph::<Work>::new("plain")
            .node("a", async |_: State<Work>| WorkUpdate::new().log(["a"]));
        let graph = graph.edge(START, "a").build().expect("sound");
        let span = tracing::info_span!(target: weftwork::types::telemetry::TARGET, "request");
        let outcome = tracing::Instrument::instrument(graph.invoke(json!({})), span).await;
        assert!(outcome.is_ok_and(|ended| ended.output().is_ok()));
    });
    insta::assert_snapshot!("in_process", recorder.tree());
}
