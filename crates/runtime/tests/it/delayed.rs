//! Runs that begin at a later time.

use crate::support::{Bench, completed, moving, store, thread};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::{CompiledGraph, Graph, List, START, State};
use weftwork_runtime::Runtime;
use weftwork_testkit::ManualClock;
use weftwork_types::Principal;
use weftwork_types::port::{Clock, GraphExecutor};
use weftwork_types::run::{Multitask, RunInput, RunOutcome, RunRequest, RunStatus};

const HOUR: Duration = Duration::from_secs(3_600);

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

fn graph() -> CompiledGraph {
    let says = async |_: State<Log>| LogUpdate::new().log(["said".to_owned()]);
    Graph::<Log>::new("log").node("says", says).edge(START, "says").build().expect("sound")
}

async fn bench(clock: &ManualClock) -> Bench {
    Bench::with_clock(store(), graph(), Arc::new(clock.clone())).await
}

fn in_an_hour(clock: &ManualClock) -> RunRequest {
    let mut request = Bench::request(RunInput::Start { input: json!({}) });
    request.options.not_before = Some(clock.now().plus(HOUR));
    request
}

async fn status(bench: &Bench) -> Vec<RunStatus> {
    let runs = bench.store.runs(&Principal::local(), &thread()).await.expect("reads");
    runs.iter().map(|run| run.status).collect()
}

#[tokio::test]
async fn a_run_begins_at_its_time_and_later_ones_wait_for_it() {
    let clock = ManualClock::new();
    let bench = bench(&clock).await;
    let first = bench.runtime.execute(in_an_hour(&clock)).await.expect("accepts");
    let mut second = Bench::request(RunInput::Start { input: json!({}) });
    second.options.multitask = Multitask::Enqueue;
    let second = bench.runtime.execute(second).await.expect("accepts");
    clock.advance(HOUR / 2);
    assert!(bench.runtime.recover().await.expect("reads").is_empty(), "it is not its time");
    assert_eq!(status(&bench).await, [RunStatus::Pending, RunStatus::Queued]);
    clock.advance(HOUR / 2);
    moving(&clock, first.outcome).await;
    let log = completed(second.outcome.await)["log"].clone();
    assert_eq!(log, json!(["said", "said"]), "the one before ended first");
}

#[tokio::test]
async fn a_run_whose_process_is_gone_begins_in_another_at_its_time() {
    let clock = ManualClock::new();
    let bench = bench(&clock).await;
    let handle = bench.runtime.execute(in_an_hour(&clock)).await.expect("accepts");
    let run = handle.run.clone();
    let store = Arc::clone(&bench.store);
    drop((handle, bench));
    let builder = Runtime::builder(Arc::clone(&store)).graph("test:graph", graph());
    let next = builder.clock(Arc::new(clock.clone())).open().await.expect("opens");
    assert!(next.recover().await.expect("reads").is_empty(), "it is not its time");
    clock.advance(HOUR);
    let handle = next.recover().await.expect("reads").remove(0);
    assert_eq!(handle.run, run);
    assert_eq!(completed(handle.outcome.await)["log"], json!(["said"]));
}

#[tokio::test]
async fn a_run_is_cancelled_before_its_time() {
    let clock = ManualClock::new();
    let bench = bench(&clock).await;
    let handle = bench.runtime.execute(in_an_hour(&clock)).await.expect("accepts");
    let who = Principal::local();
    bench.runtime.cancel_run(&who, &handle.run, Default::default()).await.expect("cancels");
    assert!(matches!(handle.outcome.await, RunOutcome::Cancelled { .. }));
    clock.advance(2 * HOUR);
    tokio::task::yield_now().await;
    assert_eq!(status(&bench).await, [RunStatus::Cancelled]);
}
