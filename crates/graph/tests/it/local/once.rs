//! What nodes do once is done once.

use super::{Count, answer, empty, graph, log, logged};
use serde_json::{Value, json};
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::Semaphore;
use weftwork_graph::{
    CompiledGraph, Ctx, Durability, DynUpdate, Host, Input, MemorySaver, NodeError, NodeResult,
    Once, Outcome, RuntimeError, START, Start,
};

fn host() -> Host {
    Host::new().with_saver(MemorySaver::new())
}

fn only<F: Future<Output = NodeResult<DynUpdate>> + Send + 'static>(
    node: impl Fn(Ctx) -> F + Send + Sync + 'static,
) -> CompiledGraph {
    let node = move |_: Input, ctx: Ctx| node(ctx);
    graph("once").node("a", node).edge(START, "a").build().expect("sound")
}

async fn run(graph: &CompiledGraph, host: &Host, start: Start) -> Result<Outcome, RuntimeError> {
    graph.run(host, start).thread("t").durability(Durability::Sync).outcome().await
}

/// Starts a run and cuts it off where it waits.
async fn dies(graph: &CompiledGraph, host: &Host, start: Start) {
    let mut run = Box::pin(run(graph, host, start));
    for _ in 0..20 {
        let polled = std::future::poll_fn(|cx| Poll::Ready(run.as_mut().poll(cx))).await;
        assert!(polled.is_pending(), "it waits: {polled:?}");
        tokio::task::yield_now().await;
    }
}

fn question(outcome: Result<Outcome, RuntimeError>) -> Value {
    let Ok(Outcome::Interrupted { interrupts }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(interrupts.len(), 1);
    serde_json::to_value(&interrupts[0].ask).expect("JSON")["value"].clone()
}

#[tokio::test]
async fn it_is_done_once_whatever_else_the_node_stops_for() {
    let (done, fails) = (Count::default(), Count::default());
    let (counted, failed) = (done.clone(), fails.clone());
    let graph = only(move |ctx| {
        let (done, fails) = (counted.clone(), failed.clone());
        async move {
            let one: u32 = ctx.once("charge", async |_| Ok(done.up())).await?;
            let other: u32 =
                ctx.once(Once::new("charge").with(json!(2)), async |_| Ok(done.up())).await?;
            let read: u32 = ctx.once(Once::new("look").reads(), async |_| Ok(done.up())).await?;
            ctx.interrupt(json!("?"))?;
            if fails.up() == 1 {
                return Err(NodeError::message("boom"));
            }
            let known: u32 = ctx.once(Once::new("charge").id("7"), async |_| Ok(done.up())).await?;
            Ok(log(&format!("{one} {other} {read} {known}")))
        }
    });
    let host = host();
    assert_eq!(question(run(&graph, &host, empty()).await), json!("?"));
    run(&graph, &host, answer(json!(1))).await.expect_err("it fails");
    let ended = run(&graph, &host, Start::Continue).await.expect("runs");
    assert_eq!(logged(ended), ["1 2 3 4"]);
    assert_eq!(done.get(), 4);
}

/// A node that charges, where the work waits for a gate, and asks something else after it.
fn charges(done: &Count, gate: &Arc<Semaphore>, what: Once) -> CompiledGraph {
    let (done, gate) = (done.clone(), Arc::clone(gate));
    only(move |ctx| {
        let (done, gate, what) = (done.clone(), Arc::clone(&gate), what.clone());
        async move {
            let charged: String = ctx
                .once(what, async |key| {
                    let nth = done.up();
                    gate.acquire().await.expect("never closed").forget();
                    Ok(format!("charge {nth} by {}", &key.0.to_string()[..1]))
                })
                .await?;
            let after = ctx.interrupt(json!("ship?"))?;
            Ok(log(&format!("{charged}, {after}")))
        }
    })
}

#[tokio::test]
async fn when_nobody_knows_a_person_is_asked_once_for_each_time_it_was_begun() {
    let (done, gate) = (Count::default(), Arc::new(Semaphore::new(0)));
    let graph = charges(&done, &gate, Once::new("charge").with(json!({"cents": 42})));
    let host = host();
    dies(&graph, &host, empty()).await;
    let asked = question(run(&graph, &host, Start::Continue).await);
    assert_eq!(asked["kind"], "once_outcome_unknown");
    assert_eq!((&asked["name"], &asked["input"]), (&json!("charge"), &json!({"cents": 42})));
    let wrong = run(&graph, &host, answer(json!("yes"))).await.expect_err("no such answer");
    assert_eq!(wrong.code().0, "W0127");
    assert_eq!(done.get(), 1, "asking does nothing");
    // It is begun again and dies there again: the answer was about the first time.
    dies(&graph, &host, answer(json!({"answer": "call_again"}))).await;
    assert_eq!(done.get(), 2);
    let again = question(run(&graph, &host, Start::Continue).await);
    assert_eq!(again["idempotency_key"], asked["idempotency_key"]);
    assert_eq!(done.get(), 2, "nothing is done before somebody said so");
    gate.add_permits(1);
    let shipping = run(&graph, &host, answer(json!({"answer": "call_again"}))).await;
    assert_eq!(question(shipping), json!("ship?"));
    let ended = run(&graph, &host, answer(json!("yes"))).await.expect("runs");
    let first = asked["idempotency_key"].as_str().expect("a text")[..1].to_owned();
    assert_eq!(
        logged(ended),
        [format!("charge 3 by {first}, \"yes\"")],
        "each answer has its question"
    );
}

#[tokio::test]
async fn a_person_may_say_what_came_of_it_or_give_it_up() {
    for (said, expected) in [
        (json!({"answer": "happened", "value": "by phone"}), Ok(["by phone, 1"])),
        (json!({"answer": "happened", "value": 7}), Err("W0133")),
        (json!({"answer": "give_up"}), Err("W0132")),
    ] {
        let (done, gate) = (Count::default(), Arc::new(Semaphore::new(0)));
        let graph = charges(&done, &gate, "charge".into());
        let host = host();
        dies(&graph, &host, empty()).await;
        question(run(&graph, &host, Start::Continue).await);
        let after = run(&graph, &host, answer(said)).await;
        match expected {
            Ok(log) => {
                assert_eq!(question(after), json!("ship?"));
                let ended = run(&graph, &host, answer(json!(1))).await;
                assert_eq!(logged(ended.expect("runs")), log);
            }
            Err(code) => assert_eq!(after.expect_err("fails").fault().code, code),
        }
        assert_eq!(done.get(), 1);
    }
}

#[tokio::test]
async fn what_the_other_side_knows_again_is_done_again_with_the_same_key() {
    let (done, gate) = (Count::default(), Arc::new(Semaphore::new(0)));
    let graph = charges(&done, &gate, Once::new("charge").idempotent());
    let host = host();
    dies(&graph, &host, empty()).await;
    gate.add_permits(1);
    assert_eq!(question(run(&graph, &host, Start::Continue).await), json!("ship?"));
    assert_eq!(done.get(), 2);
}

#[tokio::test]
async fn work_that_failed_leaves_open_what_came_of_it() {
    let fails = Count::default();
    let counted = fails.clone();
    let graph = only(move |ctx| {
        let fails = counted.clone();
        async move {
            let said = ctx.once("charge", async |_| match fails.up() {
                1 => Err(NodeError::message("the line broke")),
                nth => Ok(format!("charge {nth}")),
            });
            Ok(log(&said.await?))
        }
    });
    let host = host();
    run(&graph, &host, empty()).await.expect_err("it fails");
    let asked = question(run(&graph, &host, Start::Continue).await);
    assert_eq!(asked["name"], "charge");
    let ended = run(&graph, &host, answer(json!({"answer": "call_again"}))).await;
    assert_eq!(logged(ended.expect("runs")), ["charge 2"]);
}
