//! Trying again, limits of time, and handlers of errors, on a clock of our own.

use crate::support::{Bench, completed, failed, moving, on_each_store, thread};
use serde_json::json;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weftwork_graph::{
    Command, CompiledGraph, Ctx, Deps, Failure, Graph, List, NodeError, NodeResult, Retry, START,
    State, Timeout,
};
use weftwork_testkit::ManualClock;
use weftwork_types::code::{Fault, Phase};
use weftwork_types::event::AiEvent;
use weftwork_types::run::{RunInput, RunOutcome};
use weftwork_types::{ErrorCode, Principal};

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

type Count = Arc<AtomicU32>;

fn say(text: impl Into<String>) -> LogUpdate {
    LogUpdate::new().log([text.into()])
}

/// Fails until its third attempt.
async fn third_time(ctx: Ctx, runs: Deps<Count>) -> NodeResult<LogUpdate> {
    runs.fetch_add(1, Ordering::SeqCst);
    match ctx.attempt() {
        3 => Ok(say("third")),
        n => Err(NodeError::message(format!("attempt {n}")).retriable()),
    }
}

async fn bench(graph: CompiledGraph) -> Bench {
    let clock = Arc::new(ManualClock::moved_by_sleeps());
    Bench::with_clock(crate::support::store(), graph, clock).await
}

fn flaky(runs: &Count, attempts_max: u32) -> CompiledGraph {
    Graph::<Log>::new("flaky")
        .with(Arc::clone(runs))
        .node("flaky", third_time)
        .node("after", async |_: State<Log>| say("after"))
        .retry("flaky", Retry::new(attempts_max))
        .edge(START, "flaky")
        .edge("flaky", "after")
        .build()
        .expect("sound")
}

#[tokio::test]
async fn a_node_is_tried_as_often_as_its_policy_says() {
    let runs = Count::default();
    let bench_ = bench(flaky(&runs, 3)).await;
    let input = RunInput::Start { input: json!({}) };
    let (events, outcome) = bench_.run(Bench::request(input)).await;
    assert_eq!(completed(outcome)["log"], json!(["third", "after"]));
    let resets = events.iter().filter(|e| matches!(e.event, AiEvent::AttemptReset(_))).count();
    assert_eq!((runs.load(Ordering::SeqCst), resets), (3, 2));

    let runs = Count::default();
    let outcome = bench(flaky(&runs, 2)).await.start(json!({})).await;
    let RunOutcome::Failed { fault } = &outcome else { panic!("expected a failed run") };
    let details = fault.details.as_deref().expect("it was tried again");
    assert_eq!((details.phase, details.attempt), (Some(Phase::Node), Some(2)));
    let (code, message) = failed(outcome);
    assert_eq!((code.as_str(), message.as_str()), ("W0109", "attempt 2"));
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

/// An error with a source.
#[derive(Debug)]
struct NotStored(Fault);

impl fmt::Display for NotStored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the order was not stored")
    }
}

impl std::error::Error for NotStored {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[tokio::test]
async fn a_failed_run_stores_the_causes_of_its_error() {
    async fn fails(_: State<Log>) -> NodeResult<LogUpdate> {
        Err(NotStored(Fault::new(ErrorCode("W0204"), "the disk is full")).into())
    }
    let graph = Graph::<Log>::new("fails").node("fails", fails).edge(START, "fails");
    let store = crate::support::store();
    let bench = Bench::on(Arc::clone(&store), graph.build().expect("sound")).await;
    let outcome = bench.start(json!({})).await;
    let rows = store.runs(&Principal::local(), &thread()).await.expect("reads");
    assert_eq!(rows[0].outcome.as_ref(), Some(&outcome), "as it is stored");
    let RunOutcome::Failed { fault } = outcome else { panic!("expected a failed run") };
    let causes: Vec<_> = fault.causes().map(|cause| (cause.code.clone(), &cause.message)).collect();
    assert_eq!(fault.message, "the order was not stored");
    assert_eq!(causes, [(Some("W0204".to_owned()), &"the disk is full".to_owned())]);
    assert_eq!(fault.details, None);
}

#[tokio::test]
async fn limits_cut_a_node_that_takes_too_long_and_a_heartbeat_keeps_it_alive() {
    async fn beats(ctx: Ctx) -> LogUpdate {
        for _ in 0..5 {
            ctx.clock().sleep(Duration::from_millis(80)).await;
            ctx.heartbeat();
        }
        say("done")
    }
    let build = |timeout: Timeout| {
        let graph = Graph::<Log>::new("slow").node("slow", beats).timeout("slow", timeout);
        graph.edge(START, "slow").build().expect("sound")
    };
    for (timeout, expected) in [
        (Timeout::idle(Duration::from_millis(100)), None),
        (Timeout::run(Duration::from_millis(1_000)), None),
        (Timeout::run(Duration::MAX).and_idle(Duration::MAX), None),
        (Timeout::idle(Duration::from_millis(50)), Some("without a sign of life for 50 ms")),
        (Timeout::run(Duration::from_millis(200)), Some("without an end for 200 ms")),
    ] {
        let clock = Arc::new(ManualClock::new());
        let store = crate::support::store();
        let bench = Bench::with_clock(store, build(timeout), clock.clone()).await;
        let outcome = moving(&clock, bench.start(json!({}))).await;
        match expected {
            None => assert_eq!(completed(outcome)["log"], json!(["done"])),
            Some(text) => {
                let (code, message) = failed(outcome);
                assert_eq!(code, "W0117");
                assert!(message.contains(text), "{message}");
            }
        }
    }
}

#[tokio::test]
async fn an_error_handler_takes_over_in_the_same_superstep() {
    async fn fails(_: State<Log>) -> NodeResult<LogUpdate> {
        Err(NodeError::message("no luck"))
    }
    async fn rescue(Failure(fault): Failure) -> Command<Log> {
        Command::update(say(format!("handled: {}", fault.message))).goto("end")
    }
    let graph = Graph::<Log>::new("handled")
        .node("fails", fails)
        .on_error("fails", rescue)
        .node("sibling", async |_: State<Log>| say("sibling"))
        .node("never", async |_: State<Log>| say("never"))
        .node("end", async |_: State<Log>| say("end"))
        .edge(START, "fails")
        .edge(START, "sibling")
        .edge("fails", "never")
        .ends("fails", ["end"])
        .build()
        .expect("sound");
    let output = completed(Bench::new(graph).await.start(json!({})).await);
    assert_eq!(output["log"], json!(["handled: no luck", "sibling", "end"]));
}

on_each_store![
    a_failed_run_stores_the_causes_of_its_error,
    a_node_is_tried_as_often_as_its_policy_says,
    an_error_handler_takes_over_in_the_same_superstep,
];
