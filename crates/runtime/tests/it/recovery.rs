//! Runs that no living worker has.

use crate::support::{Bench, check_stream, completed, failed, on_each_store, store, thread};
use futures_util::StreamExt;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::{CompiledGraph, Graph, List, START, State};
use weftwork_runtime::{LeaseConfig, Recovery, Runtime};
use weftwork_store::{Commit, NewRun, Store};
use weftwork_types::caller::Caller;
use weftwork_types::event::AiEvent;
use weftwork_types::run::{RunInput, RunRef, RunStatus};
use weftwork_types::{Principal, RunId, Timestamp, WorkerId};

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

pub(crate) fn chain() -> CompiledGraph {
    Graph::<Log>::new("chain")
        .node("a", async |_: State<Log>| LogUpdate::new().log(["a".to_owned()]))
        .edge(START, "a")
        .build()
        .expect("sound")
}

pub(crate) async fn created(store: &Arc<dyn Store>) -> RunRef {
    let at = RunRef { thread: thread(), run: RunId::new("r").expect("valid id") };
    let run = NewRun {
        at: at.clone(),
        graph: "test:graph".to_owned(),
        caller: Caller::local("request").expect("valid id"),
        input: RunInput::Start { input: json!({}) },
        options: crate::support::options(),
        created_at: Timestamp(1),
    };
    store.create_run(&Principal::local(), run, [].into()).await.expect("a run");
    at
}

/// Workers that take the run over, say so, and die; each tells this before it does.
pub(crate) async fn dies(store: &Arc<dyn Store>, at: &RunRef, times: u64, told: Option<AiEvent>) {
    let who = Principal::local();
    for _ in 0..times {
        let worker = WorkerId::new("gone").expect("valid id");
        let claim = store.claim(&who, at, &worker, Timestamp(1)).await.expect("free").0;
        let taken = (claim.fence > 1).then_some(AiEvent::TakenOver { claim: claim.fence });
        let events = taken.into_iter().chain(told.clone()).collect();
        let commit = Commit { events, ..Commit::default() };
        store.commit(&who, &claim, commit).await.expect("commits");
    }
}

#[tokio::test]
async fn a_run_that_ends_its_workers_is_not_begun_a_fourth_time() {
    let bench = Bench::new(chain()).await;
    let at = created(&bench.store).await;
    dies(&bench.store, &at, 3, None).await;
    let handle = bench.runtime.recover().await.expect("nobody has it").remove(0);
    let (code, message) = failed(handle.outcome.await);
    assert_eq!(code, "W0130");
    assert!(message.contains("ended 3 processes"), "{message}");
    let who = Principal::local();
    let row = bench.store.run(&who, &at).await.expect("reads");
    assert_eq!(row.status, RunStatus::Failed);
    assert_eq!(completed(bench.start(json!({})).await)["log"], json!(["a"]), "the thread is free");
}

#[tokio::test]
async fn whoever_asks_for_a_run_gets_it_however_often_it_ended_its_workers() {
    let bench = Bench::new(chain()).await;
    let at = created(&bench.store).await;
    dies(&bench.store, &at, 9, None).await;
    let handle = bench.runtime.take_over(&Principal::local(), &at).await.expect("nobody has it");
    assert_eq!(completed(handle.outcome.await)["log"], json!(["a"]));
}

#[tokio::test]
async fn a_run_that_gets_further_outlives_any_number_of_workers() {
    let bench = Bench::new(chain()).await;
    let at = created(&bench.store).await;
    dies(&bench.store, &at, 9, Some(AiEvent::Step { step: 1, nodes: Vec::new() })).await;
    dies(&bench.store, &at, 1, None).await;
    let handle = bench.runtime.take_over(&Principal::local(), &at).await.expect("nobody has it");
    let told: Vec<_> = handle.events.collect().await;
    assert_eq!(told.first().map(|e| &e.event), Some(&AiEvent::TakenOver { claim: 11 }));
    assert_eq!(completed(handle.outcome.await)["log"], json!(["a"]));
}

async fn ended(store: &Arc<dyn Store>, at: &RunRef) -> RunStatus {
    loop {
        let row = store.run(&Principal::local(), at).await.expect("reads");
        if row.status.is_final() {
            return row.status;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Time goes by only while nothing can go on.
#[tokio::test(start_paused = true)]
async fn a_runtime_that_stays_looks_for_runs_that_nobody_has() {
    let store = store();
    let at = created(&store).await;
    dies(&store, &at, 1, None).await;
    let builder = Runtime::builder(Arc::clone(&store)).graph("test:graph", chain());
    let runtime = builder.recovery(Recovery::Automatic).lease(LeaseConfig::default()).open().await;
    let runtime = runtime.expect("opens");
    assert_eq!(ended(&store, &at).await, RunStatus::Completed);
    drop(runtime);
    let events = store.events(&Principal::local(), &at, 0, 99).await.expect("reads");
    let events = events
        .into_iter()
        .map(|told| weftwork_types::event::RunEvent::durable(told.seq, told.at, told.event));
    check_stream(&events.collect::<Vec<_>>());
}

on_each_store![
    a_run_that_ends_its_workers_is_not_begun_a_fourth_time,
    a_run_that_gets_further_outlives_any_number_of_workers,
];
