//! Calls of what runs again in other ways than after a question: in another attempt, as an error
//! handler, in a graph within, on its own thread.

use super::calls::{EACH, call, cut_off, hosts, on_record, one_call, only, outcome};
use super::support::{Count, answer, empty, graph, log, logged};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Semaphore;
use weftwork_graph::run_loop::{AsNode, StateUpdate};
use weftwork_graph::run_loop::{Start, StateQuery};
use weftwork_graph::{
    CompiledGraph, Ctx, Durability, DynUpdate, Finish, Input, NodeError, NodeResult, Once, Retry,
    RunOutcome, START, SubgraphState, TaskDef,
};
use weftwork_types::ThreadId;
use weftwork_types::port::{CallRecord, CallState, IdempotencyKey};
use weftwork_types::tool::Effect;

fn retry() -> Retry {
    Retry::new(3).backoff(std::time::Duration::ZERO, 1.0).without_jitter()
}

#[tokio::test]
async fn another_attempt_has_no_effect_of_a_graph_within_twice() {
    for keep in [SubgraphState::Stateless, SubgraphState::PerTask, SubgraphState::PerThread] {
        for durability in EACH {
            let dir = tempfile::tempdir().expect("a folder");
            for (name, host, _) in hosts(&dir) {
                let made = Count::default();
                let inner = one_call("pay", Effect::ExternalSideEffect, &made);
                let node = move |_: Input, ctx: Ctx| {
                    let inner = inner.clone();
                    async move {
                        ctx.call(&inner, keep, json!({"log": []})).await?;
                        if ctx.attempt() < 3 {
                            return Err(NodeError::message("boom").retriable());
                        }
                        Ok(log("paid"))
                    }
                };
                let graph = graph("retries").node("a", node).retry("a", retry());
                let graph = graph.edge(START, "a").build().expect("sound");
                let ended = outcome(&graph, &host, empty(), durability).await;
                assert_eq!(logged(ended), ["paid"], "{name}, {keep:?}, {durability:?}");
                assert_eq!(made.get(), 1, "{name}, {keep:?}, {durability:?}");
            }
        }
    }
}

#[tokio::test]
async fn another_attempt_takes_what_its_tasks_returned() {
    let made = Count::default();
    let counted = made.clone();
    let double = TaskDef::new("double", move |Input(n): Input, ctx: Ctx| {
        let made = counted.clone();
        async move {
            call(&ctx, "pay", Effect::ExternalSideEffect, &made).await?;
            NodeResult::Ok(Finish::value(n))
        }
    });
    let fails = Count::default();
    let node = move |_: Input, ctx: Ctx| {
        let double = double.clone();
        let first = fails.up() == 1;
        async move {
            let two = ctx.task(&double, json!(2)).await?;
            if first {
                return Err(NodeError::message("boom").retriable());
            }
            NodeResult::Ok(DynUpdate::new().write("s", two))
        }
    };
    let graph = graph("retries").node("a", node).retry("a", retry());
    let graph = graph.edge(START, "a").build().expect("sound");
    let run = graph.run(&super::support::kept(), empty()).thread("t").outcome().await;
    assert_eq!(run.expect("runs").output().map(|output| output["s"].clone()), Some(json!(2)));
    assert_eq!(made.get(), 1);
}

#[tokio::test]
async fn what_a_graph_within_that_ended_did_is_not_done_again_after_a_question() {
    for (outer, inner) in [
        (None, SubgraphState::PerTask),
        (None, SubgraphState::Stateless),
        (None, SubgraphState::PerThread),
        (Some(SubgraphState::Stateless), SubgraphState::PerTask),
        (Some(SubgraphState::PerTask), SubgraphState::Stateless),
    ] {
        for durability in EACH {
            let dir = tempfile::tempdir().expect("a folder");
            for (name, host, other) in hosts(&dir) {
                let made = Count::default();
                let innermost = one_call("pay", Effect::ExternalSideEffect, &made);
                let (within, keep) = match outer {
                    None => (innermost, inner),
                    Some(keep) => {
                        let middle = only(move |ctx| {
                            let innermost = innermost.clone();
                            async move {
                                ctx.call(&innermost, inner, json!({"log": []})).await?;
                                Ok(log("called"))
                            }
                        });
                        (middle, keep)
                    }
                };
                let graph = only(move |ctx| {
                    let within = within.clone();
                    async move {
                        ctx.call(&within, keep, json!({"log": []})).await?;
                        ctx.interrupt(json!("?"))?;
                        Ok(log("done"))
                    }
                });
                let asked = outcome(&graph, &host, empty(), durability).await;
                assert!(matches!(asked, RunOutcome::Interrupted { .. }), "{name}: {asked:?}");
                let ended = outcome(&graph, &other, answer(json!(1)), durability).await;
                let at = format!("{name}, {outer:?}, {inner:?}, {durability:?}");
                assert_eq!(logged(ended), ["done"], "{at}");
                assert_eq!(made.get(), 1, "{at}");
            }
        }
    }
}

#[tokio::test]
async fn an_error_handler_that_a_process_died_in_finds_what_it_did() {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, host, other) in hosts(&dir) {
        let made = Count::default();
        let gate = Arc::new(Semaphore::new(0));
        let counted = made.clone();
        let waits = Arc::clone(&gate);
        let fails = async |_: Input| Err::<DynUpdate, _>(NodeError::message("boom"));
        let handles = move |_: Input, ctx: Ctx| {
            let made = counted.clone();
            let gate = Arc::clone(&waits);
            async move {
                let said = call(&ctx, "refund", Effect::ExternalSideEffect, &made).await?;
                gate.acquire().await.expect("never closed").forget();
                NodeResult::Ok(log(&said))
            }
        };
        let graph = graph("handles").node("a", fails).on_error("a", handles);
        let graph = graph.edge(START, "a").build().expect("sound");
        let run = graph.run(&host, empty()).thread("t").outcome();
        let settled = |call: &CallRecord| call.state == CallState::Settled;
        cut_off(Box::pin(run), async || on_record(&graph, &other).await.iter().any(settled)).await;
        gate.add_permits(1);
        let ended = outcome(&graph, &other, Start::Continue, Durability::Sync).await;
        assert_eq!(logged(ended), ["known \"answer 1\""], "{name}");
        assert_eq!(made.get(), 1, "{name}");
    }
}

/// Runs what is due after a change from outside, twice from there: what it calls is called once.
async fn replays(
    graph: &CompiledGraph,
    host: &weftwork_graph::run_loop::Host,
    made: &Count,
    name: &str,
) {
    let values = Some(vec![("log".to_owned(), json!(["outside"]))]);
    let change = StateUpdate { values, as_node: AsNode::Node("__start__".to_owned()) };
    let at = StateQuery::thread("t");
    let changed = graph.update(host, &at, vec![vec![change]]).await.expect("changes");
    for _ in 0..2 {
        let run = graph.run(host, Start::Continue).thread("t").from(&changed);
        let asked = run.outcome().await.expect("runs");
        assert!(matches!(asked, RunOutcome::Interrupted { .. }), "{name}: {asked:?}");
        assert_eq!(made.get(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_replay_on_the_same_branch_finds_what_it_did() {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, host, _) in hosts(&dir) {
        let made = Count::default();
        let counted = made.clone();
        let graph = only(move |ctx| {
            let made = counted.clone();
            async move {
                let said = call(&ctx, "pay", Effect::ExternalSideEffect, &made).await?;
                ctx.interrupt(json!("?"))?;
                Ok(log(&said))
            }
        });
        replays(&graph, &host, &made, name).await;
    }
}

#[tokio::test]
async fn an_error_handler_of_a_task_that_fails_in_a_replay_finds_what_it_did() {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, host, _) in hosts(&dir) {
        let made = Count::default();
        let counted = made.clone();
        let fails = async |_: Input| Err::<DynUpdate, _>(NodeError::message("boom"));
        let handles = move |_: Input, ctx: Ctx| {
            let made = counted.clone();
            async move {
                let said = call(&ctx, "pay", Effect::ExternalSideEffect, &made).await?;
                ctx.interrupt(json!("?"))?;
                NodeResult::Ok(log(&said))
            }
        };
        let graph = graph("handles").node("a", fails).on_error("a", handles);
        let graph = graph.edge(START, "a").build().expect("sound");
        replays(&graph, &host, &made, name).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_on_a_thread_of_its_own_is_made_when_its_intent_is_kept() {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, host, other) in hosts(&dir) {
        let made = Count::default();
        let looks = other.clone();
        let counted = made.clone();
        let slot = Arc::new(std::sync::OnceLock::<CompiledGraph>::new());
        let known = Arc::clone(&slot);
        let node = move |_: Input, ctx: Ctx| {
            let made = counted.clone();
            let known = Arc::clone(&known);
            let looks = looks.clone();
            async move {
                for n in 0..20 {
                    call(&ctx, &format!("read {n}"), Effect::ReadOnly, &made).await?;
                    let pay = Once::new("pay").with(json!(n));
                    let kept: usize = ctx
                        .once(pay, async |key| {
                            let graph = known.get().expect("it runs");
                            let calls = on_record(graph, &looks).await;
                            let thread = ThreadId::new("t").expect("a name");
                            let sent = |call: &CallRecord| IdempotencyKey::of(&thread, call.key);
                            Ok(calls.iter().filter(|call| sent(call) == key).count())
                        })
                        .await?;
                    assert_eq!(kept, 1, "effect {n} is on record before it is made");
                }
                NodeResult::Ok(log("paid"))
            }
        };
        let graph = graph("parallel").node("a", node).parallel("a").edge(START, "a");
        let graph = slot.get_or_init(|| graph.build().expect("sound"));
        let ended = outcome(graph, &host, empty(), Durability::Sync).await;
        assert_eq!(logged(ended), ["paid"], "{name}");
        assert_eq!(on_record(graph, &other).await.len(), 40, "{name}");
    }
}

#[tokio::test]
async fn another_attempt_finds_what_a_graph_did_that_keeps_its_state_from_run_to_run() {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, host, _) in hosts(&dir) {
        let made = Count::default();
        let runs = Count::default();
        let inner = one_call("pay", Effect::ExternalSideEffect, &made);
        let node = move |_: Input, ctx: Ctx| {
            let inner = inner.clone();
            let nth = runs.up();
            async move {
                ctx.call(&inner, SubgraphState::PerThread, json!({"log": []})).await?;
                // Not in the first run of the thread, so that the graph has a history then.
                if nth == 2 {
                    return Err(NodeError::message("boom").retriable());
                }
                NodeResult::Ok(log("paid"))
            }
        };
        let graph = graph("retries").node("a", node).retry("a", retry());
        let graph = graph.edge(START, "a").build().expect("sound");
        for paid in 1..=2 {
            outcome(&graph, &host, empty(), Durability::Sync).await;
            assert_eq!(made.get(), paid, "{name}");
        }
    }
}
