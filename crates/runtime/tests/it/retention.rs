//! Deletion of old data, and continuation of the threads that are retained.

use crate::support::{Bench, completed, interrupted, on_each_store, store, thread};
use futures_util::StreamExt;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::{CompiledGraph, Ctx, Graph, HistoryFilter, List, NodeResult, START, State};
use weftwork_store::{StoreError, Waiting};
use weftwork_testkit::ManualClock;
use weftwork_types::event::AiEvent;
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::{RunInput, RunStatus};
use weftwork_types::{Principal, ThreadId};

const DAY: Duration = Duration::from_secs(86_400);

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

/// Two supersteps, and a question before the third when the thread is called `asks`.
fn graph() -> CompiledGraph {
    let last = async |log: State<Log>, ctx: Ctx| {
        if ctx.calls().thread.as_str() == "asks" {
            ctx.interrupt(json!("?"))?;
        }
        NodeResult::Ok(LogUpdate::new().log([format!("after {}", log.log().len())]))
    };
    Graph::<Log>::new("chain")
        .node("a", async |_: State<Log>| LogUpdate::new().log(["a"]))
        .node("b", async |_: State<Log>| LogUpdate::new().log(["b"]))
        .node("c", last)
        .edge(START, "a")
        .edge("a", "b")
        .edge("b", "c")
        .build()
        .expect("sound")
}

async fn bench(clock: &ManualClock) -> Bench {
    Bench::with_clock(store(), graph(), Arc::new(clock.clone())).await
}

fn named(name: &str) -> ThreadId {
    ThreadId::new(name).expect("valid id")
}

async fn run_on(bench: &Bench, name: &str) -> weftwork_types::run::RunOutcome {
    let mut request = Bench::request(RunInput::Start { input: json!({}) });
    request.thread = named(name);
    bench.run(request).await.1
}

#[tokio::test]
async fn threads_are_forgotten_that_nothing_changed_for_long() {
    let clock = ManualClock::new();
    let bench = bench(&clock).await;
    completed(run_on(&bench, "old").await);
    interrupted(run_on(&bench, "asks").await);
    clock.advance(20 * DAY);
    completed(run_on(&bench, "young").await);
    clock.advance(20 * DAY);
    let who = Principal::local();
    let forget = async |days, waiting| {
        bench.runtime.delete_untouched_threads(&who, days * DAY, waiting).await.expect("forgets")
    };
    assert_eq!(forget(40, Waiting::Spared).await, []);
    assert_eq!(forget(30, Waiting::Spared).await, [named("old")]);
    assert_eq!(forget(30, Waiting::Included).await, [named("asks")]);
    let left = bench.store.threads(&who, 0, 9).await.expect("reads");
    assert_eq!(left.into_iter().map(|row| row.id).collect::<Vec<_>>(), [named("young")]);
    completed(run_on(&bench, "old").await);
}

#[tokio::test]
async fn a_thread_that_was_thinned_goes_on() {
    let clock = ManualClock::new();
    let bench = bench(&clock).await;
    let who = Principal::local();
    let open = interrupted(run_on(&bench, "asks").await);
    completed(run_on(&bench, "done").await);
    clock.advance(10 * DAY);
    let thinned = bench.runtime.prune_checkpoints(&who, 20 * DAY, 1).await.expect("thins");
    assert_eq!(thinned, []);
    let thinned = bench.runtime.prune_checkpoints(&who, 9 * DAY, 1).await.expect("thins");
    assert_eq!(thinned, [named("asks"), named("done")]);
    for name in ["asks", "done"] {
        let history = bench.runtime.history(&who, &named(name), &HistoryFilter::default()).await;
        assert_eq!(history.expect("reads").len(), 1, "{name}");
    }
    let answers = std::collections::BTreeMap::from([(open[0], json!(true))]);
    let mut request = Bench::request(RunInput::answers(answers));
    request.thread = named("asks");
    let outcome = bench.run(request).await.1;
    assert_eq!(completed(outcome)["log"], json!(["a", "b", "after 2"]));
    let again = completed(run_on(&bench, "done").await);
    assert_eq!(again["log"].as_array().map(Vec::len), Some(6));
}

#[tokio::test]
async fn events_are_dropped_and_outcomes_and_state_stay() {
    let clock = ManualClock::new();
    let bench = bench(&clock).await;
    let who = Principal::local();
    let mut request = Bench::request(RunInput::Start { input: json!({}) });
    request.options.idempotency_key = Some("once".to_owned());
    completed(bench.run(request.clone()).await.1);
    let row = bench.store.runs(&who, &thread()).await.expect("reads").remove(0);
    let log = bench.store.events(&who, &row.new.at, 0, 99).await.expect("reads");
    clock.advance(10 * DAY);
    assert_eq!(bench.runtime.drop_events(&who, 11 * DAY).await, Ok(0));
    assert_eq!(bench.runtime.drop_events(&who, 9 * DAY).await, Ok(1));
    let oldest = log.len() as u64;
    let read = bench.store.events(&who, &row.new.at, 0, 99).await;
    let dropped = StoreError::Dropped { run: row.new.at.run.to_string(), after: 0, oldest };
    assert_eq!(read, Err(dropped.clone()));
    assert_eq!(dropped.code().0, "W0218");
    assert!(dropped.to_string().contains(&format!("read on after {}", oldest - 1)), "{dropped}");
    let state = bench.runtime.state(&who, &thread()).await.expect("reads");
    assert_eq!(state.values["log"], json!(["a", "b", "after 2"]));
    // The same request once more: what is kept of its run.
    let handle = bench.runtime.execute(request).await.expect("the run is accepted");
    let told: Vec<_> = handle.events.collect().await;
    assert_eq!(told.iter().map(|event| event.seq).collect::<Vec<_>>(), [Some(oldest)]);
    assert_eq!(told[0].event, AiEvent::Done { outcome: RunStatus::Completed });
    assert_eq!(completed(handle.outcome.await), state.values);
}

on_each_store![
    threads_are_forgotten_that_nothing_changed_for_long,
    a_thread_that_was_thinned_goes_on,
    events_are_dropped_and_outcomes_and_state_stay,
];
