//! Operations that run once are performed once.

use crate::support::{Count, answer, empty, graph, log, logged};
use serde_json::{Value, json};
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::Semaphore;
use weftwork_graph::run_loop::{Host, InMemoryCheckpointer, Start, StateQuery};
use weftwork_graph::{
    CompiledGraph, Ctx, Durability, DynUpdate, Input, NodeError, NodeResult, Once, RunOutcome,
    RuntimeError, START, SubgraphState,
};
use weftwork_types::{InterruptId, Timestamp};

fn host() -> Host {
    Host::new().with_checkpointer(InMemoryCheckpointer::new())
}

fn only<F: Future<Output = NodeResult<DynUpdate>> + Send + 'static>(
    node: impl Fn(Ctx) -> F + Send + Sync + 'static,
) -> CompiledGraph {
    let node = move |_: Input, ctx: Ctx| node(ctx);
    graph("once").node("a", node).edge(START, "a").build().expect("sound")
}

async fn run(graph: &CompiledGraph, host: &Host, start: Start) -> Result<RunOutcome, RuntimeError> {
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

fn id(outcome: &Result<RunOutcome, RuntimeError>) -> InterruptId {
    let Ok(RunOutcome::Interrupted { questions: interrupts, .. }) = outcome else {
        panic!("{outcome:?}")
    };
    interrupts[0].id
}

fn question(outcome: Result<RunOutcome, RuntimeError>) -> Value {
    let Ok(RunOutcome::Interrupted { questions: interrupts, .. }) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(interrupts.len(), 1);
    serde_json::to_value(&interrupts[0].ask).expect("JSON")["value"].clone()
}

#[tokio::test]
async fn it_is_done_once_whatever_else_the_node_stops_for() {
    let done = Count::default();
    let fails = Count::default();
    let counted = done.clone();
    let failed = fails.clone();
    let graph = only(move |ctx| {
        let done = counted.clone();
        let fails = failed.clone();
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
    let done = done.clone();
    let gate = Arc::clone(gate);
    only(move |ctx| {
        let done = done.clone();
        let gate = Arc::clone(&gate);
        let what = what.clone();
        async move {
            let charged: String = ctx
                .once(what, async |key| {
                    let nth = done.up();
                    gate.acquire().await.expect("never closed").forget();
                    Ok(format!("charge {nth} by {}", &key.to_string()[..1]))
                })
                .await?;
            let after = ctx.interrupt(json!("ship?"))?;
            Ok(log(&format!("{charged}, {after}")))
        }
    })
}

#[tokio::test]
async fn when_nobody_knows_a_person_is_asked_once_for_each_time_it_was_begun() {
    let done = Count::default();
    let gate = Arc::new(Semaphore::new(0));
    let graph = charges(&done, &gate, Once::new("charge").with(json!({"cents": 42})));
    let host = host();
    dies(&graph, &host, empty()).await;
    let open = run(&graph, &host, Start::Continue).await;
    let first = id(&open);
    let asked = question(open);
    assert_eq!(asked["kind"], "once_outcome_unknown");
    assert_eq!((&asked["name"], &asked["input"]), (&json!("charge"), &json!({"cents": 42})));
    let wrong = run(&graph, &host, answer(json!("yes"))).await.expect_err("no such answer");
    assert_eq!(wrong.code().0, "W0127");
    assert_eq!(done.get(), 1, "asking does nothing");
    // It is begun again and dies there again: the answer was about the first time.
    dies(&graph, &host, answer(json!({"answer": "call_again"}))).await;
    assert_eq!(done.get(), 2);
    let open = run(&graph, &host, Start::Continue).await;
    assert_ne!(id(&open), first, "it is another question");
    let again = question(open);
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
    for gives_up in [false, true] {
        let done = Count::default();
        let gate = Arc::new(Semaphore::new(0));
        let graph = charges(&done, &gate, "charge".into());
        let host = host();
        dies(&graph, &host, empty()).await;
        question(run(&graph, &host, Start::Continue).await);
        // What cannot be a result is no answer.
        let wrong = answer(json!({"answer": "happened", "value": 7}));
        let asked = question(run(&graph, &host, wrong).await);
        assert_eq!(asked["kind"], "once_outcome_unknown");
        let reason = asked["reason"].as_str().expect("a text");
        assert!(reason.contains("cannot be its result: invalid type"), "{reason}");
        if gives_up {
            let ended = run(&graph, &host, answer(json!({"answer": "give_up"}))).await;
            assert_eq!(ended.expect_err("fails").fault().code, "W0132");
        } else {
            let said = answer(json!({"answer": "happened", "value": "by phone"}));
            assert_eq!(question(run(&graph, &host, said).await), json!("ship?"));
            let ended = run(&graph, &host, answer(json!(1))).await;
            assert_eq!(logged(ended.expect("runs")), ["by phone, 1"]);
        }
        assert_eq!(done.get(), 1);
    }
}

#[tokio::test]
async fn an_answer_that_led_to_what_a_process_died_in_is_no_answer_to_something_else() {
    let done = Count::default();
    let gate = Arc::new(Semaphore::new(0));
    let counted = done.clone();
    let waits = Arc::clone(&gate);
    let graph = only(move |ctx| {
        let done = counted.clone();
        let gate = Arc::clone(&waits);
        async move {
            let first = ctx.interrupt(json!("may I?"))?;
            let charge = Once::new("charge").idempotent();
            let charged: u32 = ctx
                .once(charge, async |_| {
                    let nth = done.up();
                    gate.acquire().await.expect("never closed").forget();
                    Ok(nth)
                })
                .await?;
            let amount = ctx.interrupt(json!("how much?"))?;
            Ok(log(&format!("{first} {charged} {amount}")))
        }
    });
    let host = host();
    assert_eq!(question(run(&graph, &host, empty()).await), json!("may I?"));
    dies(&graph, &host, answer(json!("yes"))).await;
    gate.add_permits(1);
    // The first question is over, and nobody is asked it again.
    let state = graph.state(&host, &StateQuery::thread("t"), false).await.expect("reads");
    assert_eq!(state.interrupts.len(), 0);
    assert_eq!(question(run(&graph, &host, Start::Continue).await), json!("how much?"));
    let ended = run(&graph, &host, answer(json!(7))).await.expect("runs");
    assert_eq!(logged(ended), ["\"yes\" 2 7"]);
}

#[tokio::test]
async fn a_question_within_the_work_is_refused() {
    let graph = only(async |ctx| {
        let work = async |_| Ok(ctx.interrupt(json!("?"))?.to_string());
        Ok(log(&ctx.once(Once::new("charge").idempotent(), work).await?))
    });
    let error = run(&graph, &host(), empty()).await.expect_err("it asks");
    assert_eq!(error.fault().code, "W0134");
}

#[tokio::test]
async fn what_the_other_side_knows_again_is_done_again_with_the_same_key() {
    let done = Count::default();
    let gate = Arc::new(Semaphore::new(0));
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

#[tokio::test]
async fn what_another_build_did_is_not_done_again_when_it_has_another_form() {
    let done = Count::default();
    let first = done.clone();
    let second = done.clone();
    let before = only(move |ctx| {
        let done = first.clone();
        async move {
            let nth: u32 = ctx.once("charge", async |_| Ok(done.up())).await?;
            ctx.interrupt(json!("?"))?;
            Ok(log(&nth.to_string()))
        }
    });
    let after = only(move |ctx| {
        let done = second.clone();
        async move {
            let text: String = ctx.once("charge", async |_| Ok(done.up().to_string())).await?;
            ctx.interrupt(json!("?"))?;
            Ok(log(&text))
        }
    });
    let host = host();
    question(run(&before, &host, empty()).await);
    let error = run(&after, &host, answer(json!(1))).await.expect_err("it has another form");
    assert_eq!(error.fault().code, "W0133");
    assert!(error.to_string().contains("`charge`"), "{error}");
    assert_eq!(done.get(), 1);
}

#[tokio::test]
async fn a_question_in_a_graph_within_whose_process_died_is_asked_again_and_then_the_next() {
    for keep in [SubgraphState::PerTask, SubgraphState::PerThread] {
        let done = Count::default();
        let gate = Arc::new(Semaphore::new(0));
        let inner = charges(&done, &gate, "charge".into());
        let graph = only(move |ctx| {
            let inner = inner.clone();
            async move {
                let said = ctx.call(&inner, keep, json!({"log": []})).await?;
                Ok(DynUpdate::new().write("log", said["log"].clone()))
            }
        });
        let host = host();
        dies(&graph, &host, empty()).await;
        let again = || answer(json!({"answer": "call_again"}));
        question(run(&graph, &host, Start::Continue).await);
        dies(&graph, &host, again()).await;
        // The graph around knows the question, and not that it was answered when its process died.
        let mut asked = question(run(&graph, &host, Start::Continue).await);
        gate.add_permits(1);
        let mut asked_again = 0;
        while asked["kind"] == "once_outcome_unknown" {
            asked_again += 1;
            asked = question(run(&graph, &host, again()).await);
        }
        assert_eq!(asked_again, 2, "{keep:?}");
        assert_eq!(asked, json!("ship?"), "{keep:?}");
        let ended = run(&graph, &host, answer(json!("yes"))).await.expect("runs");
        let log = logged(ended).pop().expect("one");
        assert!(log.starts_with("charge 3 by ") && log.ends_with(", \"yes\""), "{keep:?}: {log}");
        assert_eq!(done.get(), 3, "{keep:?}");
    }
}

#[tokio::test]
async fn a_time_that_has_passed_within_the_work_moves_no_later_question() {
    let done = Count::default();
    let counted = done.clone();
    let graph = only(move |ctx| {
        let done = counted.clone();
        async move {
            let nth: u32 = ctx
                .once("charge", async |_| {
                    ctx.sleep_until(Timestamp(1)).await?;
                    Ok(done.up())
                })
                .await?;
            let first = ctx.interrupt(json!("first?"))?;
            let second = ctx.interrupt(json!("second?"))?;
            Ok(log(&format!("{nth} {first} {second}")))
        }
    });
    let host = host();
    assert_eq!(question(run(&graph, &host, empty()).await), json!("first?"));
    assert_eq!(question(run(&graph, &host, answer(json!(1))).await), json!("second?"));
    let ended = run(&graph, &host, answer(json!(2))).await.expect("runs");
    assert_eq!(logged(ended), ["1 1 2"]);
}
