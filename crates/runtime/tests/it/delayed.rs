//! Runs that begin at a later time.

use crate::support::{Bench, completed, moving, store, thread};
use futures_util::StreamExt;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::run_loop::HistoryFilter;
use weftwork_graph::{CompiledGraph, Ctx, Graph, List, NodeResult, START, State};
use weftwork_runtime::{FollowFrom, Runtime, Selection};
use weftwork_store::asking_threads;
use weftwork_testkit::ManualClock;
use weftwork_types::Principal;
use weftwork_types::port::{Clock, GraphExecutor};
use weftwork_types::run::{Multitask, RunInput, RunOutcome, RunRef, RunRequest, RunStatus};

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
    assert_eq!(status(&bench).await, [RunStatus::Queued, RunStatus::Queued]);
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

fn asking() -> CompiledGraph {
    let asks = async |state: State<Log>, ctx: Ctx| {
        let number = state.log().len();
        let answer = ctx.interrupt(json!(format!("question {number}?")))?;
        NodeResult::Ok(LogUpdate::new().log([format!("{number}: {answer}")]))
    };
    Graph::<Log>::new("asking").node("asks", asks).edge(START, "asks").build().expect("sound")
}

#[tokio::test]
async fn an_answer_comes_before_a_run_that_has_not_begun() {
    let clock = ManualClock::new();
    let bench = Bench::with_clock(store(), asking(), Arc::new(clock.clone())).await;
    let thread = bench.runtime.thread("test:graph", "t").expect("an id");
    let select = Selection::default().until_rest();
    let mut events = thread.follow(FollowFrom::Start, select).await.expect("follows");
    let asked = thread.start(json!({})).await.expect("runs");
    let later = bench.runtime.execute(in_an_hour(&clock)).await.expect("accepts");
    let state = thread.view().state().await.expect("reads");
    assert_eq!(state.interrupts.len(), 1);
    assert_eq!(thread.questions().await.expect("reads"), state.interrupts);
    let inbox = asking_threads(bench.store.as_ref(), &Principal::local()).await.expect("reads");
    assert_eq!(inbox[0].open.len(), 1);

    let answered = thread.answer(json!("yes")).await.expect("the question is open");
    let answered = answered.run().clone();
    clock.advance(HOUR);
    let asked_again = moving(&clock, later.outcome).await;
    assert!(matches!(asked_again, RunOutcome::Interrupted { .. }), "{asked_again:?}");
    let last = thread.answer(json!("no")).await.expect("the question is open");
    assert_eq!(last.state::<Log>().expect("completed").log().len(), 2);
    // Followers and the history have the runs as they were executed.
    let mut order: Vec<RunRef> = Vec::new();
    while let Some(event) = events.next().await {
        let run = event.expect("reads").run;
        if order.last() != Some(&run) {
            order.push(run);
        }
    }
    assert_eq!(order, [asked.run().clone(), answered, later.run, last.run().clone()]);
    let history = thread.history(&HistoryFilter::default()).await.expect("reads");
    let mut made: Vec<_> = history.iter().filter_map(|at| at.run.as_ref()).collect();
    made.dedup_by_key(|run| run.id.clone());
    let made: Vec<_> = made.iter().rev().map(|run| run.id.clone()).collect();
    assert_eq!(made, order.into_iter().map(|run| run.run).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_run_that_is_cancelled_before_its_time_leaves_the_question_open() {
    let clock = ManualClock::new();
    let bench = Bench::with_clock(store(), asking(), Arc::new(clock.clone())).await;
    let thread = bench.runtime.thread("test:graph", "t").expect("an id");
    thread.start(json!({})).await.expect("runs");
    let later = bench.runtime.execute(in_an_hour(&clock)).await.expect("accepts");
    bench
        .runtime
        .cancel_run(&Principal::local(), &later.run, Default::default())
        .await
        .expect("waits");
    assert!(matches!(later.outcome.await, RunOutcome::Cancelled { .. }));
    assert_eq!(thread.questions().await.expect("reads").len(), 1);
    let answered = thread.answer(json!("yes")).await.expect("the question is open");
    assert_eq!(answered.state::<Log>().expect("completed").log().len(), 1);
}

#[tokio::test]
async fn a_timer_comes_before_a_run_that_has_not_begun() {
    let clock = ManualClock::new();
    let naps = async |ctx: Ctx| {
        ctx.sleep(HOUR / 2).await?;
        NodeResult::Ok(LogUpdate::new().log(["slept".to_owned()]))
    };
    let naps = Graph::<Log>::new("naps").node("naps", naps).edge(START, "naps");
    let naps = naps.build().expect("sound");
    let bench = Bench::with_clock(store(), naps, Arc::new(clock.clone())).await;
    let thread = bench.runtime.thread("test:graph", "t").expect("an id");
    let begun = thread.start(json!({})).await.expect("runs");
    assert!(begun.waits_for_time());
    let later = bench.runtime.execute(in_an_hour(&clock)).await.expect("accepts");
    clock.advance(HOUR / 2);
    let woken = bench.runtime.wake().await.expect("reads").remove(0);
    assert_eq!(completed(woken.outcome.await)["log"], json!(["slept"]));
    let slept = thread.wait_through(begun.run()).await.expect("reads");
    assert_eq!(slept.run(), &woken.run);
    clock.advance(HOUR);
    assert!(matches!(moving(&clock, later.outcome).await, RunOutcome::Interrupted { .. }));
}
