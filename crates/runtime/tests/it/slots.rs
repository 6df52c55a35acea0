//! Runs beyond the number that a process executes at once.

use crate::support::{completed, on_each_store, options, store};
use futures_util::future::join_all;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use weftwork_graph::{CompiledGraph, Ctx, Deps, Graph, List, NodeResult, START, State};
use weftwork_runtime::{LeaseConfig, Recovery, Runtime, RuntimeBuilder};
use weftwork_store::Store;
use weftwork_types::caller::Caller;
use weftwork_types::port::{GraphExecutor, RunHandle};
use weftwork_types::run::{
    Multitask, RunInput, RunOptions, RunOutcome, RunRef, RunRequest, RunStatus,
};
use weftwork_types::{OrgId, Principal, ThreadId};

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

/// Runs that began, and the permits by which they end.
#[derive(Debug)]
struct Gate {
    begun: Mutex<Vec<String>>,
    open: Semaphore,
}

impl Gate {
    fn new() -> Arc<Self> {
        Arc::new(Self { begun: Mutex::default(), open: Semaphore::new(0) })
    }

    fn begun(&self) -> Vec<String> {
        self.begun.lock().expect("sound").clone()
    }

    async fn until_begun(&self, runs: usize) {
        while self.begun().len() < runs {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn pass(ctx: Ctx, gate: Deps<Arc<Gate>>) -> NodeResult<LogUpdate> {
    let thread = ctx.calls().thread.to_string();
    gate.begun.lock().expect("sound").push(thread.clone());
    gate.open.acquire().await.expect("stays open").forget();
    Ok(LogUpdate::new().log([thread]))
}

fn graph(gate: &Arc<Gate>) -> CompiledGraph {
    let graph = Graph::<Log>::new("pass").with(Arc::clone(gate)).node("pass", pass);
    graph.edge(START, "pass").build().expect("sound")
}

fn runtime(store: &Arc<dyn Store>, gate: &Arc<Gate>) -> RuntimeBuilder {
    Runtime::builder(Arc::clone(store)).graph("test:graph", graph(gate))
}

fn org(name: &str) -> Principal {
    Principal { org: OrgId::new(name).expect("valid id"), ..Principal::local() }
}

/// Requests a run on a thread of an organisation; the first letter of its name is the organisation.
async fn start(runtime: &Runtime, thread: &str, multitask: Multitask) -> RunHandle {
    let request = RunRequest {
        principal: org(&thread[..1]),
        caller: Caller::local("request").expect("valid id"),
        graph: "test:graph".to_owned(),
        thread: ThreadId::new(thread).expect("valid id"),
        input: RunInput::Start { input: json!({}) },
        options: RunOptions { multitask, ..options() },
    };
    runtime.execute(request).await.expect("accepted")
}

async fn status(store: &Arc<dyn Store>, run: &RunRef) -> RunStatus {
    store.run(&org(&run.thread.as_str()[..1]), run).await.expect("reads").status
}

async fn all_completed(handles: Vec<RunHandle>) {
    for outcome in join_all(handles.into_iter().map(|handle| handle.outcome)).await {
        completed(outcome);
    }
}

#[tokio::test]
async fn runs_beyond_the_limit_begin_in_order_and_organisations_take_turns() {
    let store = store();
    let gate = Gate::new();
    let runtime = runtime(&store, &gate).runs_max(1).open().await.expect("opens");
    let mut handles = vec![start(&runtime, "a0", Multitask::Reject).await];
    gate.until_begun(1).await;
    for thread in ["a1", "a2", "a3", "b1", "b2", "c1"] {
        let handle = start(&runtime, thread, Multitask::Reject).await;
        assert_eq!(status(&store, &handle.run).await, RunStatus::Pending);
        handles.push(handle);
    }
    assert_eq!(gate.begun(), ["a0"], "one run at a time");
    gate.open.add_permits(100);
    all_completed(handles).await;
    assert_eq!(gate.begun(), ["a0", "a1", "b1", "c1", "a2", "b2", "a3"]);
}

#[tokio::test]
async fn a_queued_run_waits_for_its_thread_and_then_for_a_slot() {
    let store = store();
    let gate = Gate::new();
    let runtime = runtime(&store, &gate).runs_max(1).open().await.expect("opens");
    let first = start(&runtime, "a0", Multitask::Reject).await;
    gate.until_begun(1).await;
    let queued = start(&runtime, "a0", Multitask::Enqueue).await;
    let other = start(&runtime, "a1", Multitask::Reject).await;
    assert_eq!(status(&store, &queued.run).await, RunStatus::Queued);
    gate.open.add_permits(100);
    all_completed(vec![first, queued, other]).await;
    let mut begun = gate.begun();
    begun.sort();
    assert_eq!(begun, ["a0", "a0", "a1"]);
}

#[tokio::test]
async fn a_waiting_run_begins_in_another_process_that_recovers() {
    let store = store();
    let gate = Gate::new();
    let open = Gate::new();
    let full = runtime(&store, &gate).runs_max(1).open().await.expect("opens");
    let first = start(&full, "a0", Multitask::Reject).await;
    gate.until_begun(1).await;
    let waiting = start(&full, "a1", Multitask::Reject).await;
    let lease = LeaseConfig { look_every: Duration::from_millis(20), ..LeaseConfig::default() };
    open.open.add_permits(100);
    let other = runtime(&store, &open).recovery(Recovery::Automatic).lease(lease);
    let other = other.open().await.expect("opens");
    completed(waiting.outcome.await);
    assert_eq!((gate.begun(), open.begun()), (vec!["a0".to_owned()], vec!["a1".to_owned()]));
    gate.open.add_permits(100);
    completed(first.outcome.await);
    drop(other);
    // The run that is not here any more does not hold up others.
    completed(start(&full, "a2", Multitask::Reject).await.outcome.await);
}

#[tokio::test]
async fn a_cancelled_run_ends_in_its_turn_and_a_shutdown_leaves_the_others() {
    let store = store();
    let gate = Gate::new();
    let runtime = runtime(&store, &gate).runs_max(1).open().await.expect("opens");
    let first = start(&runtime, "a0", Multitask::Reject).await;
    gate.until_begun(1).await;
    let cancelled = start(&runtime, "a1", Multitask::Reject).await;
    let second = start(&runtime, "a2", Multitask::Reject).await;
    let third = start(&runtime, "a3", Multitask::Reject).await;
    runtime.cancel(&org("a"), &cancelled.run).await.expect("requested");
    gate.open.add_permits(1);
    completed(first.outcome.await);
    assert!(matches!(cancelled.outcome.await, RunOutcome::Cancelled { .. }));
    gate.until_begun(2).await;
    let left = runtime.shutdown(Duration::from_millis(10)).await.expect("ends");
    assert!(left.is_empty());
    assert_eq!(gate.begun(), ["a0", "a2"]);
    for run in [&second.run, &third.run] {
        assert_eq!(status(&store, run).await, RunStatus::Pending);
    }
    assert!(matches!(third.outcome.await, RunOutcome::Failed { fault } if fault.retriable));
    gate.open.add_permits(100);
    let next = self::runtime(&store, &gate).runs_max(1).open().await.expect("opens");
    let handles = next.recover().await.expect("reads");
    let runs: BTreeSet<_> = handles.iter().map(|handle| handle.run.run.clone()).collect();
    assert_eq!(runs, [second.run.run, third.run.run].into());
    all_completed(handles).await;
}

on_each_store![
    runs_beyond_the_limit_begin_in_order_and_organisations_take_turns,
    a_queued_run_waits_for_its_thread_and_then_for_a_slot,
    a_waiting_run_begins_in_another_process_that_recovers,
    a_cancelled_run_ends_in_its_turn_and_a_shutdown_leaves_the_others,
];
