//! Ends of runs and of their work: outputs of runs that others followed, rollback, runs that wait
//! for a time, copies with open questions, threads of several graphs, and runs in histories.

use crate::support::{on_each_store, store};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::run_loop::HistoryFilter;
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, Graph, List, NodeResult, RuntimeError, START, State,
};
use weftwork_runtime::{RolledBack, Runtime, Thread};
use weftwork_store::{Base, Store, StoreError};
use weftwork_testkit::ManualClock;
use weftwork_types::port::Clock;
use weftwork_types::run::{CancelAction, Multitask, RunOptions, RunOutcome, RunRef, RunStatus};
use weftwork_types::{Principal, RunId};

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

/// A graph with another channel, and one that it shares with [`Log`].
#[derive(State)]
struct Wide {
    #[channel(append)]
    log: List<String>,
    other: String,
}

fn said(text: impl Into<String>) -> LogUpdate {
    LogUpdate::new().log([text.into()])
}

/// Says `node`, and asks first if the graph is `asking`.
fn talk() -> CompiledGraph {
    Graph::<Log>::new("talk")
        .node("say", async |_: State<Log>| said("said"))
        .edge(START, "say")
        .build()
        .expect("sound")
}

fn asking() -> CompiledGraph {
    let ask = async |ctx: Ctx| -> NodeResult<LogUpdate> {
        Ok(said(ctx.interrupt(json!("go on?"))?.to_string()))
    };
    Graph::<Log>::new("asking")
        .node("say", async |_: State<Log>| said("said"))
        .node("ask", ask)
        .edge(START, "say")
        .edge("say", "ask")
        .build()
        .expect("sound")
}

fn wide() -> CompiledGraph {
    Graph::<Wide>::new("wide")
        .node("say", async |_: State<Wide>| {
            WideUpdate::new().log(["wide".to_owned()]).other("kept".to_owned())
        })
        .edge(START, "say")
        .build()
        .expect("sound")
}

/// Says something, then waits until the dependency lets it pass.
fn slow(pass: &tokio::sync::watch::Sender<bool>) -> CompiledGraph {
    async fn waits(pass: Deps<tokio::sync::watch::Sender<bool>>) -> LogUpdate {
        let mut pass = pass.subscribe();
        pass.wait_for(|pass| *pass).await.expect("we have the sender");
        said("late")
    }
    Graph::<Log>::new("slow")
        .with(pass.clone())
        .node("say", async |_: State<Log>| said("early"))
        .node("waits", waits)
        .edge(START, "say")
        .edge("say", "waits")
        .build()
        .expect("sound")
}

async fn runtime(store: &Arc<dyn Store>) -> Runtime {
    let pass = tokio::sync::watch::Sender::new(false);
    let builder = Runtime::builder(Arc::clone(store)).graph("test:talk", talk());
    let builder = builder.graph("test:asking", asking()).graph("test:wide", wide());
    let builder = builder.graph("test:like", asking());
    builder.graph("test:slow", slow(&pass)).open().await.expect("opens")
}

/// Options of a run that may be on the thread of another graph.
fn on_any() -> RunOptions {
    RunOptions { other_graph: true, ..RunOptions::default() }
}

async fn log(thread: &Thread) -> Value {
    thread.state().await.expect("a state").values["log"].clone()
}

async fn back(thread: &Thread, run: &RunRef) -> RunStatus {
    let rollback = thread.cancel_run(run, CancelAction::Rollback).await.expect("accepted");
    rollback.expect("a run").await.outcome().status()
}

async fn ids(thread: &Thread, which: RolledBack) -> Vec<RunId> {
    let runs = thread.runs(which).await.expect("reads");
    runs.into_iter().map(|row| row.new.at.run).collect()
}

#[tokio::test]
async fn the_output_of_a_run_is_had_when_later_runs_went_on() {
    let store = store();
    let runtime = runtime(&store).await;
    let thread = runtime.thread("talk", "t").expect("a name");
    let first = thread.start(LogUpdate::new()).await.expect("runs");
    let second = thread.start(LogUpdate::new()).await.expect("runs");
    let other = self::runtime(&store).await;
    let thread = other.thread("talk", "t").expect("a name");
    for (run, expected) in [(first, json!(["said"])), (second, json!(["said", "said"]))] {
        let output = run.output().expect("completed").clone();
        let read = thread.wait_through(run.run()).await.expect("reads").outcome().clone();
        assert_eq!(read, RunOutcome::Completed { output: output.clone() });
        assert_eq!(output["log"], expected);
    }
}

#[tokio::test]
async fn a_run_that_ended_is_rolled_back_with_the_later_ones() {
    let runtime = runtime(&store()).await;
    let thread = runtime.thread("talk", "t").expect("a name");
    let first = thread.start(LogUpdate::new()).await.expect("runs").run().clone();
    let second = thread.start(LogUpdate::new()).await.expect("runs").run().clone();
    let third = thread.start(LogUpdate::new()).await.expect("runs").run().clone();
    assert_eq!(back(&thread, &second).await, RunStatus::Completed);
    assert_eq!(log(&thread).await, json!(["said"]));
    let shown = ids(&thread, RolledBack::Omitted).await;
    assert_eq!(shown.len(), 2, "the first, and the one that rolled back");
    assert_eq!(shown[0], first.run);
    assert!(!shown.contains(&second.run) && !shown.contains(&third.run));
    assert_eq!(ids(&thread, RolledBack::Included).await.len(), 4);
    // Once more has the effect of once.
    assert_eq!(back(&thread, &second).await, RunStatus::Completed);
    assert_eq!(ids(&thread, RolledBack::Included).await.len(), 4);
    let fourth = thread.start(LogUpdate::new()).await.expect("runs");
    assert_eq!(fourth.output().expect("completed")["log"], json!(["said", "said"]));
    // Nothing was before the first.
    assert_eq!(back(&thread, &first).await, RunStatus::Completed);
    assert_eq!(thread.state().await.expect("a state").values, json!({}));
    let fifth = thread.start(LogUpdate::new()).await.expect("runs");
    assert_eq!(fifth.output().expect("completed")["log"], json!(["said"]));
}

#[tokio::test]
async fn a_run_that_goes_is_cancelled_and_rolled_back() {
    let runtime = runtime(&store()).await;
    runtime.thread("talk", "t").expect("a name").start(LogUpdate::new()).await.expect("runs");
    let thread = runtime.thread("slow", "t").expect("a name");
    let start = || thread.start(LogUpdate::new()).options(on_any());
    let running = start().begin().await.expect("begins").into_handle();
    let queued = start().multitask(Multitask::Enqueue).begin().await;
    let queued = queued.expect("begins").into_handle();
    assert_eq!(back(&thread, &running.run).await, RunStatus::Completed);
    assert_eq!(running.outcome.await.status(), RunStatus::Cancelled);
    assert_eq!(queued.outcome.await.status(), RunStatus::Cancelled);
    assert_eq!(log(&thread).await, json!(["said"]));
    assert_eq!(ids(&thread, RolledBack::Omitted).await.len(), 2);
}

#[tokio::test]
async fn a_queued_run_is_only_cancelled() {
    let runtime = runtime(&store()).await;
    let thread = runtime.thread("slow", "t").expect("a name");
    let running = thread.start(LogUpdate::new()).begin().await.expect("begins").into_handle();
    let queued = thread.start(LogUpdate::new()).multitask(Multitask::Enqueue).begin().await;
    let queued = queued.expect("begins").into_handle();
    let none = thread.cancel_run(&queued.run, CancelAction::Rollback).await.expect("cancels");
    assert!(none.is_none(), "it did nothing");
    let stopped = thread.cancel_run(&running.run, CancelAction::Interrupt).await;
    assert!(stopped.expect("cancels").is_none());
    assert_eq!(running.outcome.await.status(), RunStatus::Cancelled);
    assert_eq!(queued.outcome.await.status(), RunStatus::Cancelled);
    assert_eq!(ids(&thread, RolledBack::Omitted).await.len(), 2);
    let missing = RunRef { run: RunId::new("none").expect("an id"), ..running.run };
    let missing = thread.cancel_run(&missing, CancelAction::Rollback).await;
    assert!(matches!(missing, Err(RuntimeError::Store(StoreError::NotFound { .. }))));
}

#[tokio::test]
async fn an_answer_is_rolled_back_and_names_the_run_that_asked() {
    let store = store();
    let runtime = runtime(&store).await;
    let thread = runtime.thread("asking", "t").expect("a name");
    let asked = thread.start(LogUpdate::new()).await.expect("runs");
    let answered = thread.answer(json!("yes")).await.expect("runs");
    let row = store.run(&Principal::local(), answered.run()).await.expect("reads");
    assert_eq!(row.answers.as_ref(), Some(&asked.run().run));
    assert_eq!(back(&thread, answered.run()).await, RunStatus::Completed);
    let state = thread.state().await.expect("a state");
    assert_eq!((state.next, &state.values["log"]), (vec!["ask".to_owned()], &json!(["said"])));
    let again = thread.proceed().await.expect("runs");
    assert_eq!(again.questions().len(), 1, "it asks anew");
    let answered = thread.answer(json!("no")).await.expect("runs");
    assert_eq!(answered.output().expect("completed")["log"], json!(["said", "\"no\""]));
}

#[tokio::test]
async fn a_copy_has_the_open_questions() {
    let store = store();
    let runtime = runtime(&store).await;
    let thread = runtime.thread("asking", "t").expect("a name");
    let asked = thread.start(LogUpdate::new()).await.expect("runs");
    let copy = thread.copy("copy").await.expect("copies");
    assert_eq!(copy.questions().await.expect("reads"), asked.questions());
    let answered = copy.answer(json!("yes")).await.expect("runs");
    assert_eq!(answered.output().expect("completed")["log"], json!(["said", "\"yes\""]));
    let runs = ids(&copy, RolledBack::Included).await;
    let row = store.run(&Principal::local(), answered.run()).await.expect("reads");
    assert_eq!(row.answers.as_ref(), runs.first());
    assert_eq!(thread.questions().await.expect("reads").len(), 1, "it still waits");
    let refused = thread.copy("copy").await;
    assert!(matches!(refused, Err(RuntimeError::Store(StoreError::Conflict { .. }))));
    let answered = thread.answer(json!("no")).await.expect("runs");
    assert_eq!(answered.output().expect("completed")["log"], json!(["said", "\"no\""]));
}

#[tokio::test]
async fn another_graph_runs_on_a_thread_at_rest() {
    let store = store();
    let runtime = runtime(&store).await;
    let talks = runtime.thread("talk", "t").expect("a name");
    let first = talks.start(LogUpdate::new()).await.expect("runs");
    let wide = runtime.thread("wide", "t").expect("a name");
    let ended = wide.start(WideUpdate::new()).options(on_any()).await.expect("runs");
    let expected = json!({"log": ["said", "wide"], "other": "kept"});
    assert_eq!(ended.output().expect("completed"), &expected);
    assert_eq!(talks.state().await.expect("a state").values, expected, "the graph that ran last");
    // A channel that the graph does not have is dropped; older checkpoints have it.
    let ended = talks.start(LogUpdate::new()).options(on_any()).await.expect("runs");
    assert_eq!(ended.output().expect("completed"), &json!({"log": ["said", "wide", "said"]}));
    let back = thread_back(&wide, ended.run()).await;
    assert_eq!(back, expected, "a rollback restores the state of the graph before");
    let row = store.thread(&Principal::local(), wide.id()).await.expect("reads");
    assert_eq!(row.graph.as_deref(), Some("test:wide"));
    let read = talks.wait_through(first.run()).await.expect("reads");
    assert_eq!(read.output().expect("completed"), &json!({"log": ["said"]}));
}

async fn thread_back(thread: &Thread, run: &RunRef) -> Value {
    assert_eq!(back(thread, run).await, RunStatus::Completed);
    thread.state().await.expect("a state").values
}

#[tokio::test]
async fn a_graph_without_the_nodes_that_are_due_is_refused() {
    let runtime = runtime(&store()).await;
    let asks = runtime.thread("asking", "t").expect("a name");
    let asked = asks.start(LogUpdate::new()).await.expect("runs");
    let question = asked.questions()[0].id;
    let talks = runtime.thread("talk", "t").expect("a name");
    let refused = talks.answer(std::collections::BTreeMap::from([(question, json!(1))])).await;
    assert!(matches!(refused, Err(RuntimeError::OtherGraph { .. })), "{refused:?}");
    let refused = talks.start(LogUpdate::new()).options(on_any()).await;
    assert!(matches!(refused, Err(RuntimeError::OtherGraph { .. })), "{refused:?}");
    asks.answer(json!("yes")).await.expect("the question is still open");
    let refused = talks.start(LogUpdate::new()).await;
    assert!(matches!(refused, Err(RuntimeError::OtherGraph { .. })), "{refused:?}");
    talks.start(LogUpdate::new()).options(on_any()).await.expect("at rest");
}

#[tokio::test]
async fn a_graph_with_the_node_that_asks_is_refused_too() {
    let runtime = runtime(&store()).await;
    let asks = runtime.thread("asking", "t").expect("a name");
    let asked = asks.start(LogUpdate::new()).await.expect("runs");
    let like = runtime.thread("like", "t").expect("a name");
    let refused = like.start(LogUpdate::new()).options(on_any()).await;
    let text = refused.expect_err("a question is open").to_string();
    assert!(text.contains(&asked.questions()[0].id.to_string()), "{text}");
    assert_eq!(asks.questions().await.expect("reads"), asked.questions(), "it is kept");
    asks.answer(json!("yes")).await.expect("it is answered");
    like.start(LogUpdate::new()).options(on_any()).await.expect("at rest");
}

fn nap() -> CompiledGraph {
    let naps = async |ctx: Ctx| -> NodeResult<LogUpdate> {
        ctx.sleep(Duration::from_secs(60)).await?;
        ctx.sleep(Duration::from_secs(60)).await?;
        Ok(said("up"))
    };
    Graph::<Log>::new("nap").node("naps", naps).edge(START, "naps").build().expect("sound")
}

async fn napping(store: &Arc<dyn Store>, clock: &ManualClock) -> Runtime {
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    let builder = Runtime::builder(Arc::clone(store)).clock(clock);
    builder.graph("test:nap", nap()).open().await.expect("opens")
}

#[tokio::test]
async fn a_run_and_those_that_wake_after_it_are_waited_for_as_one() {
    let store = store();
    let clock = ManualClock::new();
    let runtime = napping(&store, &clock).await;
    let thread = runtime.thread("nap", "t").expect("a name");
    let first = thread.start(LogUpdate::new()).await.expect("runs");
    assert!(first.waits_for_time());
    // Another process waits for the end.
    let other = napping(&store, &clock).await.thread("nap", "t").expect("a name");
    let run = first.run().clone();
    let mut waits = std::pin::pin!(other.wait_through(&run));
    let ended = loop {
        tokio::select! {
            ended = &mut waits => break ended.expect("waits"),
            () = tokio::task::yield_now() => {
                clock.advance(Duration::from_secs(30));
                for handle in runtime.wake().await.expect("wakes") {
                    handle.outcome.await;
                }
            }
        }
    };
    assert_eq!(ended.output().expect("completed")["log"], json!(["up"]));
    assert_ne!(ended.run(), &run);
    let runs = ids(&thread, RolledBack::Included).await;
    assert_eq!(runs.last(), Some(&ended.run().run));
    assert!(runs.len() == 3, "{runs:?}");
}

#[tokio::test]
async fn histories_name_runs_and_are_filtered_by_them() {
    let runtime = runtime(&store()).await;
    let thread = runtime.thread("talk", "t").expect("a name");
    let metadata = |n: u32| json!({"n": n, "user": "ada"}).as_object().cloned().expect("an object");
    let mut runs = Vec::new();
    for n in 1..=3 {
        let ended = thread.start(LogUpdate::new()).metadata(metadata(n)).await.expect("runs");
        runs.push(ended.run().run.clone());
    }
    let all = thread.history(&HistoryFilter::default()).await.expect("reads");
    let made = |found: &[weftwork_graph::run_loop::Snapshot]| -> Vec<RunId> {
        found.iter().filter_map(|found| found.run.as_ref().map(|run| run.id.clone())).collect()
    };
    let each = all.len() / 3;
    assert_eq!(made(&all).len(), all.len(), "each has a run");
    for (n, run) in (1..).zip(&runs) {
        let by_run = HistoryFilter { run: Some(run.clone()), ..HistoryFilter::default() };
        let found = thread.history(&by_run).await.expect("reads");
        assert_eq!(made(&found), vec![run.clone(); each]);
        let some = json!({"n": n}).as_object().cloned().expect("an object");
        let by_metadata = HistoryFilter { metadata: some, ..HistoryFilter::default() };
        assert_eq!(thread.history(&by_metadata).await.expect("reads"), found);
        let one = HistoryFilter { limit: 1, ..by_metadata };
        assert_eq!(thread.view().history(&one).await.expect("reads"), found[..1]);
        let run = found[0].run.clone().expect("a run");
        assert_eq!(run.metadata, metadata(n));
        assert!(run.committed_at.is_some());
    }
    let state = thread.state().await.expect("a state");
    assert_eq!(state.run.map(|run| run.id).as_ref(), runs.last());
    let rows = thread.runs(RolledBack::Included).await.expect("reads");
    assert!(matches!(rows[1].base, Some(Base::At(_))));
}

on_each_store![
    the_output_of_a_run_is_had_when_later_runs_went_on,
    a_run_that_ended_is_rolled_back_with_the_later_ones,
    a_run_that_goes_is_cancelled_and_rolled_back,
    a_queued_run_is_only_cancelled,
    an_answer_is_rolled_back_and_names_the_run_that_asked,
    a_copy_has_the_open_questions,
    another_graph_runs_on_a_thread_at_rest,
    a_graph_without_the_nodes_that_are_due_is_refused,
    a_graph_with_the_node_that_asks_is_refused_too,
    a_run_and_those_that_wake_after_it_are_waited_for_as_one,
    histories_name_runs_and_are_filtered_by_them,
];
