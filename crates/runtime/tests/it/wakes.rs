//! Threads that go on by themselves: timers, and questions that expire.

use crate::support::{Bench, completed, failed, interrupted, on_each_store, store, thread};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::{
    CompiledGraph, Ctx, Graph, List, NodeResult, NotResumable, RuntimeError, START, State,
};
use weftwork_runtime::{Recovery, Runtime};
use weftwork_store::{RunRow, Store};
use weftwork_testkit::ManualClock;
use weftwork_types::interrupt::Ask;
use weftwork_types::port::Clock;
use weftwork_types::run::{RunInput, RunStatus};
use weftwork_types::{Principal, Timestamp};

const HOUR: Duration = Duration::from_secs(3_600);

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

fn said(text: impl Into<String>) -> LogUpdate {
    LogUpdate::new().log([text.into()])
}

async fn naps(ctx: Ctx) -> NodeResult<LogUpdate> {
    ctx.sleep(HOUR).await?;
    ctx.sleep(HOUR).await?;
    Ok(said("up"))
}

fn nap() -> CompiledGraph {
    Graph::<Log>::new("nap").node("naps", naps).edge(START, "naps").build().expect("sound")
}

/// A question with a default after two hours, and one that only an answer ends.
fn mixed() -> CompiledGraph {
    let expires = async |ctx: Ctx| {
        let until = ctx.clock().now().plus(2 * HOUR);
        let ask = Ask::Value { value: json!("?") };
        let answer = ctx.ask_until(ask, None, until, json!("none"))?;
        NodeResult::Ok(said(format!("{} by {}", answer.value, answer.answered_by)))
    };
    let asks = async |ctx: Ctx| NodeResult::Ok(said(ctx.interrupt(json!("sure?"))?.to_string()));
    Graph::<Log>::new("mixed")
        .node("expires", expires)
        .node("asks", asks)
        .edge(START, "expires")
        .edge(START, "asks")
        .build()
        .expect("sound")
}

async fn bench(graph: CompiledGraph, clock: &ManualClock) -> Bench {
    Bench::with_clock(store(), graph, Arc::new(clock.clone())).await
}

async fn runtime(store: &Arc<dyn Store>, graph: CompiledGraph, clock: &ManualClock) -> Runtime {
    let builder = Runtime::builder(Arc::clone(store)).graph("test:graph", graph);
    builder.clock(Arc::new(clock.clone())).open().await.expect("opens")
}

async fn runs(store: &Arc<dyn Store>) -> Vec<RunRow> {
    store.runs(&Principal::local(), &thread()).await.expect("reads")
}

async fn wakes_at(store: &Arc<dyn Store>) -> Option<Timestamp> {
    store.thread(&Principal::local(), &thread()).await.expect("reads").wakes_at
}

#[tokio::test]
async fn a_thread_sleeps_through_its_processes_and_wakes_at_its_times() {
    let clock = ManualClock::new();
    let first = bench(nap(), &clock).await;
    let started = first.start(json!({})).await;
    assert_eq!(interrupted(started).len(), 1);
    assert_eq!(wakes_at(&first.store).await, Some(clock.now().plus(HOUR)));
    let store = Arc::clone(&first.store);
    drop(first);
    for woken in 1..=2 {
        let next = runtime(&store, nap(), &clock).await;
        clock.advance(HOUR / 2);
        assert!(next.wake().await.expect("reads").is_empty(), "it is not its time");
        clock.advance(HOUR / 2);
        let handle = next.wake().await.expect("reads").remove(0);
        let outcome = handle.outcome.await;
        match woken {
            1 => assert_eq!(interrupted(outcome).len(), 1, "it sleeps once more"),
            _ => assert_eq!(completed(outcome)["log"], json!(["up"])),
        }
        assert!(next.wake().await.expect("reads").is_empty(), "once is enough");
    }
    assert_eq!(wakes_at(&store).await, None);
    let runs = runs(&store).await;
    assert_eq!(runs.len(), 3);
    assert!(runs[1..].iter().all(|run| run.new.input == RunInput::Continue));
    assert!(runs.iter().all(|run| run.new.caller == runs[0].new.caller));
}

#[tokio::test]
async fn what_is_not_resumed_says_why() {
    let clock = ManualClock::new();
    let why = async |bench: &Bench| {
        let resumed = bench.runtime.resume(&Principal::local(), &thread()).await.map(drop);
        let Err(RuntimeError::NothingToResume { reason, .. }) = resumed else {
            panic!("{resumed:?}")
        };
        reason
    };
    let sleeps = bench(nap(), &clock).await;
    interrupted(sleeps.start(json!({})).await);
    assert_eq!(why(&sleeps).await, NotResumable::Sleeps);
    let asks = bench(mixed(), &clock).await;
    let open = interrupted(asks.start(json!({})).await);
    let NotResumable::Asks(named) = why(&asks).await else { panic!("it asks") };
    assert_eq!(BTreeSet::from_iter(named), BTreeSet::from_iter(open.clone()));
    completed(asks.resume(open.iter().map(|id| (*id, json!("yes"))).collect()).await);
    assert_eq!(why(&asks).await, NotResumable::Completed);
}

#[tokio::test]
async fn a_question_takes_its_default_while_another_still_waits() {
    let clock = ManualClock::new();
    let bench = bench(mixed(), &clock).await;
    assert_eq!(interrupted(bench.start(json!({})).await).len(), 2);
    clock.advance(2 * HOUR);
    let handle = bench.runtime.wake().await.expect("reads").remove(0);
    let left = interrupted(handle.outcome.await);
    assert_eq!(left.len(), 1);
    assert_eq!(wakes_at(&bench.store).await, None, "only an answer ends this one");
    failed(bench.start(json!({"lgo": []})).await);
    assert_eq!(wakes_at(&bench.store).await, None, "nothing has changed");
    clock.advance(9 * HOUR);
    assert!(bench.runtime.wake().await.expect("reads").is_empty());
    let ended = bench.resume([(left[0], json!("yes"))].into()).await;
    assert_eq!(completed(ended)["log"], json!([r#""yes""#, r#""none" by local"#]));
}

#[tokio::test]
async fn an_answer_in_time_is_taken_and_nothing_wakes() {
    let clock = ManualClock::new();
    let bench = bench(mixed(), &clock).await;
    let open = interrupted(bench.start(json!({})).await);
    let rows = bench.store.interrupts(&Principal::local(), &thread()).await.expect("reads");
    let expires = rows.iter().find(|row| row.interrupt.expires_at.is_some()).expect("one does");
    let answers = open.iter().map(|id| (*id, json!(*id == expires.interrupt.id))).collect();
    let ended = bench.resume(answers).await;
    let me = Principal::local().subject;
    assert_eq!(completed(ended)["log"], json!(["false", format!("true by {me}")]));
    clock.advance(9 * HOUR);
    assert!(bench.runtime.wake().await.expect("reads").is_empty());
}

#[tokio::test]
async fn of_many_workers_one_wakes_a_thread() {
    let clock = ManualClock::new();
    let bench = bench(nap(), &clock).await;
    interrupted(bench.start(json!({})).await);
    clock.advance(HOUR);
    let others = [
        runtime(&bench.store, nap(), &clock).await,
        runtime(&bench.store, nap(), &clock).await,
        runtime(&bench.store, nap(), &clock).await,
    ];
    let woken = futures_util::future::join_all(others.iter().map(Runtime::wake)).await;
    let mut woken: Vec<_> = woken.into_iter().flat_map(|handles| handles.expect("reads")).collect();
    assert_eq!(woken.len(), 1);
    interrupted(woken.remove(0).outcome.await);
    assert_eq!(runs(&bench.store).await.len(), 2);
    // A worker that hosts no such graph lets it sleep.
    clock.advance(HOUR);
    let other = Runtime::builder(Arc::clone(&bench.store)).graph("test:other", nap());
    let other = other.clock(Arc::new(clock.clone())).open().await.expect("opens");
    assert!(other.wake().await.expect("reads").is_empty());
}

#[tokio::test]
async fn a_thread_whose_run_failed_or_was_cancelled_does_not_wake() {
    let fails = async |ctx: Ctx| -> NodeResult<LogUpdate> {
        match ctx.interrupt(json!("?"))?.as_bool() {
            Some(true) => Err(weftwork_graph::NodeError::message("no luck")),
            _ => Ok(said("well")),
        }
    };
    let graph = Graph::<Log>::new("fails")
        .node("naps", naps)
        .node("fails", fails)
        .edge(START, "naps")
        .edge(START, "fails")
        .build()
        .expect("sound");
    let clock = ManualClock::new();
    let bench = bench(graph, &clock).await;
    let open = interrupted(bench.start(json!({})).await);
    let rows = bench.store.interrupts(&Principal::local(), &thread()).await.expect("reads");
    let asked = rows.iter().find(|row| row.interrupt.expires_at.is_none()).expect("one does not");
    assert!(open.contains(&asked.interrupt.id));
    failed(bench.resume([(asked.interrupt.id, json!(true))].into()).await);
    clock.advance(9 * HOUR);
    assert_eq!(wakes_at(&bench.store).await, None);
    failed(bench.start(json!({"lgo": []})).await);
    assert_eq!(wakes_at(&bench.store).await, None, "it is as it was");
    assert!(bench.runtime.wake().await.expect("reads").is_empty(), "somebody must look at it");
}

#[tokio::test]
async fn an_input_that_cannot_be_taken_does_not_keep_a_thread_from_waking() {
    let clock = ManualClock::new();
    let bench = bench(nap(), &clock).await;
    interrupted(bench.start(json!({})).await);
    let wakes = Some(clock.now().plus(HOUR));
    let update = RunInput::Update { writes: json!({"lgo": []}), as_node: None };
    for wrong in [RunInput::Start { input: json!({"lgo": []}) }, update] {
        failed(bench.run(Bench::request(wrong)).await.1);
        assert_eq!(wakes_at(&bench.store).await, wakes);
    }
    clock.advance(HOUR);
    let handle = bench.runtime.wake().await.expect("reads").remove(0);
    assert_eq!(interrupted(handle.outcome.await).len(), 1, "it sleeps once more");
    // A run that only was to go on is not tried again and again.
    let other = Graph::<Log>::new("nap").node("other", naps).edge(START, "other").build();
    let other = runtime(&bench.store, other.expect("sound"), &clock).await;
    clock.advance(HOUR);
    failed(other.wake().await.expect("reads").remove(0).outcome.await);
    assert_eq!(wakes_at(&bench.store).await, None);
}

/// Time goes by only while nothing can go on.
#[tokio::test(start_paused = true)]
async fn a_runtime_that_stays_wakes_threads_by_itself() {
    let store = store();
    let clock = ManualClock::new();
    let builder = Runtime::builder(Arc::clone(&store)).graph("test:graph", nap());
    let builder = builder.clock(Arc::new(clock.clone())).recovery(Recovery::Automatic);
    let runtime = builder.open().await.expect("opens");
    let request = Bench::request(RunInput::Start { input: json!({}) });
    let handle = weftwork_types::port::GraphExecutor::execute(&runtime, request).await;
    interrupted(handle.expect("the run is accepted").outcome.await);
    loop {
        clock.advance(HOUR / 4);
        tokio::time::sleep(Duration::from_secs(3)).await;
        if runs(&store).await.iter().any(|run| run.status == RunStatus::Completed) {
            break;
        }
    }
    assert_eq!(runs(&store).await.len(), 3);
}

/// Waits until this number of threads has completed.
async fn until_all_completed(store: &Arc<dyn Store>, threads: usize) {
    loop {
        let rows = store.threads(&Principal::local(), 0, threads).await.expect("reads");
        if rows.iter().filter(|row| row.status == Some(RunStatus::Completed)).count() == threads {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn short_nap() -> CompiledGraph {
    let naps = async |ctx: Ctx| {
        ctx.sleep(HOUR).await?;
        NodeResult::Ok(said("up"))
    };
    Graph::<Log>::new("nap").node("naps", naps).edge(START, "naps").build().expect("sound")
}

async fn park(runtime: &Runtime, threads: usize) {
    for n in 0..threads {
        let thread = weftwork_types::ThreadId::new(format!("t{n}")).expect("valid id");
        let mut request = Bench::request(RunInput::Start { input: json!({}) });
        request.thread = thread;
        let handle = weftwork_types::port::GraphExecutor::execute(runtime, request).await;
        interrupted(handle.expect("the run is accepted").outcome.await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_begins_at_its_time_and_many_at_once() {
    let store = store();
    let clock = ManualClock::new();
    let builder = Runtime::builder(Arc::clone(&store)).graph("test:graph", short_nap());
    let builder = builder.clock(Arc::new(clock.clone())).recovery(Recovery::Automatic).runs_max(8);
    let runtime = builder.open().await.expect("opens");
    let many = 350;
    park(&runtime, many).await;
    clock.advance(HOUR - Duration::from_millis(1));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let rows = store.threads(&Principal::local(), 0, many).await.expect("reads");
    assert!(rows.iter().all(|row| row.status == Some(RunStatus::Interrupted)), "not before");
    let due = tokio::time::Instant::now();
    clock.advance(Duration::from_millis(1));
    until_all_completed(&store, many).await;
    assert!(due.elapsed() < Duration::from_millis(250), "{:?}", due.elapsed());
    for row in rows {
        let runs = store.runs(&Principal::local(), &row.id).await.expect("reads");
        assert_eq!(runs.len(), 2, "each once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_of_another_process_is_found_by_those_that_stay() {
    let store = store();
    let clock = ManualClock::new();
    let builder = || {
        let builder = Runtime::builder(Arc::clone(&store)).graph("test:graph", short_nap());
        builder.clock(Arc::new(clock.clone()))
    };
    let stays = builder().recovery(Recovery::Automatic).open().await.expect("opens");
    let other = builder().open().await.expect("opens");
    park(&other, 3).await;
    drop(other);
    // It reads the store every two seconds.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let due = tokio::time::Instant::now();
    clock.advance(HOUR);
    until_all_completed(&store, 3).await;
    assert!(due.elapsed() < Duration::from_millis(250), "{:?}", due.elapsed());
    drop(stays);
}

on_each_store![
    a_thread_sleeps_through_its_processes_and_wakes_at_its_times,
    a_question_takes_its_default_while_another_still_waits,
    an_answer_in_time_is_taken_and_nothing_wakes,
    of_many_workers_one_wakes_a_thread,
    a_thread_whose_run_failed_or_was_cancelled_does_not_wake,
];
