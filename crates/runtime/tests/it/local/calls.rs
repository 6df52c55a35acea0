//! Calls of runs in this process are on record with what became of their tasks.

use super::support::{Count, answer, empty, graph, log, logged};
use serde_json::json;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::Semaphore;
use weftwork_graph::run_loop::{Host, InMemoryCheckpointer, Start, StateQuery};
use weftwork_graph::{
    CompiledGraph, Ctx, Durability, DynUpdate, Finish, Input, NodeError, NodeResult, Retry,
    RunOutcome, START, SubgraphState, TaskDef,
};
use weftwork_runtime::StoreCheckpointer;
use weftwork_sqlite::{Options, SqliteStore};
use weftwork_store::MemoryStore;
use weftwork_types::Principal;
use weftwork_types::canonical::hash;
use weftwork_types::port::{Attempts, CallKind, CallRecord, CallResult, CallState, Intent, Opened};
use weftwork_types::tool::Effect;

/// Makes a call, unless it is on record; says whether it was made.
pub(super) async fn call(
    ctx: &Ctx,
    name: &str,
    effect: Effect,
    made: &Count,
) -> NodeResult<String> {
    let attempts = if effect == Effect::ReadOnly { Attempts::Each } else { Attempts::Shared };
    let kind = CallKind::Model;
    let input = hash(&json!(name));
    let intent = Intent { kind, name: name.to_owned(), input, call_id: None, effect, attempts };
    match ctx.calls().journal.open(intent).await? {
        Opened::New { key } => {
            let value = json!(format!("answer {}", made.up()));
            ctx.calls().journal.settle(key, CallResult { value }).await?;
            Ok("made".to_owned())
        }
        Opened::Settled { result, .. } => Ok(format!("known {}", result.value)),
        Opened::Unknown { .. } => Ok("unknown".to_owned()),
    }
}

/// A host, and one of another process that goes on with what the first left.
pub(super) type Hosts = (&'static str, Host, Host);

pub(super) fn hosts(dir: &tempfile::TempDir) -> Vec<Hosts> {
    let memory = Host::new().with_checkpointer(InMemoryCheckpointer::new());
    let of = |store: Arc<dyn weftwork_store::CheckpointStore>| {
        Host::new().with_checkpointer(StoreCheckpointer::new(store, Principal::local()))
    };
    let store = Arc::new(MemoryStore::new());
    let file = dir.path().join("weft.db");
    let opened = || Arc::new(SqliteStore::open(&file, &Options::default()).expect("opens"));
    vec![
        ("memory", memory.clone(), memory),
        ("store", of(Arc::clone(&store) as _), of(store)),
        ("sqlite", of(opened()), of(opened()).rebuilding()),
    ]
}

pub(super) async fn outcome(
    graph: &CompiledGraph,
    host: &Host,
    start: Start,
    how: Durability,
) -> RunOutcome {
    let run = graph.run(host, start).thread("t").durability(how);
    run.outcome().await.expect("runs")
}

pub(super) async fn on_record(graph: &CompiledGraph, host: &Host) -> Vec<CallRecord> {
    graph.calls(host, &StateQuery::thread("t")).await.expect("reads")
}

/// A graph of one node.
pub(super) fn only<F: Future<Output = NodeResult<DynUpdate>> + Send + 'static>(
    node: impl Fn(Ctx) -> F + Send + Sync + 'static,
) -> CompiledGraph {
    let node = move |_: Input, ctx: Ctx| node(ctx);
    graph("only").node("a", node).edge(START, "a").build().expect("sound")
}

/// A graph of one node that makes one call.
pub(super) fn one_call(name: &'static str, effect: Effect, made: &Count) -> CompiledGraph {
    let counted = made.clone();
    only(move |ctx| {
        let made = counted.clone();
        async move { Ok(log(&call(&ctx, name, effect, &made).await?)) }
    })
}

pub(super) const EACH: [Durability; 3] = [Durability::Sync, Durability::Async, Durability::Exit];

#[tokio::test]
async fn what_was_called_before_a_question_is_not_called_again_after_it() {
    for durability in EACH {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, host, other) in hosts(&dir) {
            let made = Count::default();
            let counted = made.clone();
            let graph = only(move |ctx| {
                let made = counted.clone();
                async move {
                    let first = call(&ctx, "model", Effect::ReadOnly, &made).await?;
                    let again = call(&ctx, "model", Effect::ReadOnly, &made).await?;
                    let pays = call(&ctx, "pay", Effect::ExternalSideEffect, &made).await?;
                    ctx.interrupt(json!("?"))?;
                    let last = call(&ctx, "last", Effect::ReadOnly, &made).await?;
                    let all = json!([first, again, pays, last]);
                    Ok(DynUpdate::new().write("log", all))
                }
            });
            let asked = outcome(&graph, &host, empty(), durability).await;
            assert!(matches!(asked, RunOutcome::Interrupted { .. }), "{name}: {asked:?}");
            assert_eq!(on_record(&graph, &other).await.len(), 3, "{name}, {durability:?}");
            let ended = outcome(&graph, &other, answer(json!(1)), durability).await;
            let known = |n| format!("known \"answer {n}\"");
            let expected = [known(1), known(2), known(3), "made".to_owned()];
            assert_eq!(logged(ended), expected, "{name}, {durability:?}");
            assert_eq!(made.get(), 4);
            if durability == Durability::Exit {
                continue;
            }
            let found = on_record(&graph, &host).await;
            let counts = |call: &CallRecord| (call.name.clone(), call.made, call.reused);
            let counts: Vec<_> = found.iter().map(counts).collect();
            let one = |name: &str, reused| (name.to_owned(), 1, reused);
            let expected = [one("model", 1), one("model", 1), one("pay", 1), one("last", 0)];
            assert_eq!(counts, expected, "{name}, {durability:?}");
            assert!(found.iter().all(|call| call.state == CallState::Settled && call.step == 1));
            assert!(found.iter().all(|call| call.node == "a" && call.settled_at.is_some()));
        }
    }
}

#[tokio::test]
async fn what_was_called_before_a_failure_is_not_called_again_when_the_run_goes_on() {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, host, other) in hosts(&dir) {
        let made = Count::default();
        let runs = Count::default();
        let counted = made.clone();
        let ran = runs.clone();
        let graph = only(move |ctx| {
            let made = counted.clone();
            let ran = ran.clone();
            async move {
                let said = call(&ctx, "model", Effect::ReadOnly, &made).await?;
                if ran.up() == 1 {
                    return Err(NodeError::message("boom"));
                }
                Ok(log(&said))
            }
        });
        let failed = graph.run(&host, empty()).thread("t").outcome().await;
        failed.expect_err("it fails");
        let ended = outcome(&graph, &other, Start::Continue, Durability::Sync).await;
        assert_eq!(logged(ended), ["known \"answer 1\""], "{name}");
        assert_eq!((made.get(), runs.get()), (1, 2), "{name}");
    }
}

#[tokio::test]
async fn another_attempt_reads_again_and_has_no_effect_twice() {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, host, _) in hosts(&dir) {
        let made = Count::default();
        let counted = made.clone();
        let node = move |_: Input, ctx: Ctx| {
            let made = counted.clone();
            async move {
                let read = call(&ctx, "read", Effect::ReadOnly, &made).await?;
                let pays = call(&ctx, "pay", Effect::StateChange, &made).await?;
                if ctx.attempt() == 1 {
                    return Err(NodeError::message("boom").retriable());
                }
                Ok(DynUpdate::new().write("log", json!([read, pays])))
            }
        };
        let tries = Retry::new(2).backoff(std::time::Duration::ZERO, 1.0).without_jitter();
        let graph = graph("retries").node("a", node).retry("a", tries).edge(START, "a");
        let graph = graph.build().expect("sound");
        let ended = outcome(&graph, &host, empty(), Durability::Sync).await;
        assert_eq!(logged(ended), ["made", "known \"answer 2\""], "{name}");
        assert_eq!(made.get(), 3, "{name}");
    }
}

/// Polls a run as often as it may want, without letting it end.
pub(super) async fn cut_off<F: Future>(mut run: Pin<Box<F>>, until: impl AsyncFn() -> bool) {
    for _ in 0..1_000 {
        let polled = std::future::poll_fn(|cx| Poll::Ready(run.as_mut().poll(cx))).await;
        assert!(polled.is_pending(), "it waits");
        if until().await {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("nothing came on record");
}

#[tokio::test]
async fn what_a_waiting_task_called_is_on_record_when_the_process_ends() {
    for durability in [Durability::Sync, Durability::Async] {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, host, other) in hosts(&dir) {
            let made = Count::default();
            let gate = Arc::new(Semaphore::new(0));
            let counted = made.clone();
            let waits = Arc::clone(&gate);
            let graph = only(move |ctx| {
                let made = counted.clone();
                let gate = Arc::clone(&waits);
                async move {
                    tokio::task::yield_now().await;
                    let said = call(&ctx, "model", Effect::ReadOnly, &made).await?;
                    gate.acquire().await.expect("never closed").forget();
                    Ok(log(&said))
                }
            });
            let run = graph.run(&host, empty()).thread("t").durability(durability).outcome();
            cut_off(Box::pin(run), async || on_record(&graph, &other).await.len() == 1).await;
            gate.add_permits(1);
            let ended = outcome(&graph, &other, Start::Continue, durability).await;
            assert_eq!(logged(ended), ["known \"answer 1\""], "{name}, {durability:?}");
            assert_eq!(made.get(), 1, "{name}, {durability:?}");
        }
    }
}

#[tokio::test]
async fn an_effect_that_was_cut_off_is_on_record_before_it_is_made() {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, host, other) in hosts(&dir) {
        let gate = Arc::new(Semaphore::new(0));
        let waits = Arc::clone(&gate);
        let graph = only(move |ctx| {
            let gate = Arc::clone(&waits);
            async move {
                let kind = CallKind::Tool;
                let effect = Effect::ExternalSideEffect;
                let input = hash(&json!(1));
                let attempts = Attempts::Shared;
                let name = "pay".to_owned();
                let call_id = None;
                let intent = Intent { kind, name, input, call_id, effect, attempts };
                Ok(match ctx.calls().journal.open(intent).await? {
                    Opened::New { .. } => {
                        gate.acquire().await.expect("never closed").forget();
                        log("paid")
                    }
                    Opened::Unknown { .. } => log("unknown"),
                    Opened::Settled { .. } => log("settled"),
                })
            }
        });
        let run = graph.run(&host, empty()).thread("t").outcome();
        cut_off(Box::pin(run), async || on_record(&graph, &other).await.len() == 1).await;
        let found = on_record(&graph, &other).await;
        assert_eq!((found[0].state, found[0].possibly_paid), (CallState::Intent, 0), "{name}");
        let ended = outcome(&graph, &other, Start::Continue, Durability::Sync).await;
        assert_eq!(logged(ended), ["unknown"], "{name}");
        assert_eq!(on_record(&graph, &other).await[0].possibly_paid, 1, "{name}");
    }
}

#[tokio::test]
async fn calls_of_a_task_that_another_one_cut_off_are_on_record() {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, host, other) in hosts(&dir) {
        let made = Count::default();
        let slows = Count::default();
        let fails = Count::default();
        let counted = made.clone();
        let slow = move |_: Input, ctx: Ctx| {
            let made = counted.clone();
            let first = slows.up() == 1;
            async move {
                let said = call(&ctx, "model", Effect::ReadOnly, &made).await?;
                if first {
                    std::future::pending::<()>().await;
                }
                NodeResult::Ok(log(&said))
            }
        };
        let fails = move |_: Input| {
            let first = fails.up() == 1;
            async move {
                tokio::task::yield_now().await;
                if first { Err(NodeError::message("boom")) } else { Ok(log("well")) }
            }
        };
        let graph = graph("two").node("slow", slow).node("fails", fails);
        let graph = graph.edge(START, "slow").edge(START, "fails").build().expect("sound");
        graph.run(&host, empty()).thread("t").outcome().await.expect_err("it fails");
        let ended = outcome(&graph, &other, Start::Continue, Durability::Sync).await;
        let mut log = logged(ended);
        log.sort();
        assert_eq!(log, ["known \"answer 1\"", "well"], "{name}");
        assert_eq!(made.get(), 1, "{name}");
    }
}

#[tokio::test]
async fn calls_of_graphs_and_tasks_within_a_node_are_told_apart_and_found_again() {
    for keep in [SubgraphState::Stateless, SubgraphState::PerTask, SubgraphState::PerThread] {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, host, other) in hosts(&dir) {
            let made = Count::default();
            let inner = one_call("model", Effect::ReadOnly, &made);
            let counted = made.clone();
            let double = TaskDef::new("double", move |Input(n): Input, ctx: Ctx| {
                let made = counted.clone();
                async move {
                    let said = call(&ctx, "model", Effect::ReadOnly, &made).await?;
                    // It runs again after the question, not having finished.
                    ctx.interrupt(json!("?"))?;
                    NodeResult::Ok(Finish::value(json!([n, said])))
                }
            });
            let graph = only(move |ctx| {
                let inner = inner.clone();
                let double = double.clone();
                async move {
                    let within = ctx.call(&inner, keep, json!({"log": []})).await?;
                    let again = match keep {
                        SubgraphState::Stateless => {
                            ctx.call(&inner, keep, json!({"log": []})).await?
                        }
                        SubgraphState::PerTask | SubgraphState::PerThread => json!({"log": []}),
                    };
                    let task = ctx.task(&double, json!(1)).await?;
                    let said = [&within["log"][0], &again["log"][0], &task[1]].map(Clone::clone);
                    Ok(DynUpdate::new().write("s", json!(said)))
                }
            });
            let asked = outcome(&graph, &host, empty(), Durability::Sync).await;
            assert!(matches!(asked, RunOutcome::Interrupted { .. }), "{name}, {keep:?}: {asked:?}");
            let before = made.get();
            let ended = outcome(&graph, &other, answer(json!(1)), Durability::Sync).await;
            let RunOutcome::Completed { output } = ended else { panic!("{name}: {ended:?}") };
            let known = |n: u32| json!(format!("known \"answer {n}\""));
            let expected = match keep {
                SubgraphState::Stateless => json!([known(1), known(2), known(3)]),
                // The graph itself is not run again.
                SubgraphState::PerTask | SubgraphState::PerThread => {
                    json!(["made", null, known(2)])
                }
            };
            assert_eq!(output["s"], expected, "{name}, {keep:?}");
            assert_eq!(made.get(), before, "{name}, {keep:?}: nothing was made again");
        }
    }
}

#[tokio::test]
async fn a_replay_makes_its_calls_again() {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, host, _) in hosts(&dir) {
        let made = Count::default();
        let graph = one_call("model", Effect::ReadOnly, &made);
        outcome(&graph, &host, empty(), Durability::Sync).await;
        let history = graph.history(&host, &StateQuery::thread("t")).await.expect("reads");
        let before = history[1].checkpoint().expect("kept");
        let again = graph.run(&host, Start::Continue).thread("t").at(before).outcome().await;
        assert_eq!(logged(again.expect("runs")), ["made"], "{name}");
        assert_eq!(made.get(), 2, "{name}");
        assert_eq!(on_record(&graph, &host).await.len(), 2, "{name}: of each branch");
    }
}

#[tokio::test]
async fn equal_calls_of_the_next_input_are_made_again() {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, host, _) in hosts(&dir) {
        let made = Count::default();
        let graph = one_call("model", Effect::ReadOnly, &made);
        for run in 1..=3 {
            outcome(&graph, &host, empty(), Durability::Sync).await;
            assert_eq!(made.get(), run, "{name}");
        }
        assert_eq!(on_record(&graph, &host).await.len(), 3, "{name}");
    }
}

#[tokio::test]
async fn without_a_saver_there_is_no_record() {
    let made = Count::default();
    let graph = one_call("model", Effect::ReadOnly, &made);
    let ended = graph.run(&Host::new(), empty()).outcome().await.expect("runs");
    assert_eq!(logged(ended), ["made"]);
    let error =
        graph.calls(&Host::new(), &StateQuery::thread("t")).await.expect_err("no checkpointer");
    assert!(error.to_string().contains("checkpointer"), "{error}");
}
