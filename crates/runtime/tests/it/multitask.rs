//! Runs for a thread that has one which goes: each strategy in each state of the thread, against a
//! model that knows what should come of it.

use crate::support::{Bench, completed, on_each_store, options, store, thread};
use futures_util::future::Shared;
use futures_util::{FutureExt, StreamExt};
use proptest::prelude::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::watch;
use weftwork_graph::{CompiledGraph, Deps, Graph, List, START, State};
use weftwork_runtime::Runtime;
use weftwork_store::NewRun;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::port::{ExecuteError, GraphExecutor, RunHandle};
use weftwork_types::run::{
    Multitask, RunInput, RunOptions, RunOutcome, RunRef, RunRequest, RunStatus,
};
use weftwork_types::{BoxFuture, BoxStream, Principal, RunId, Timestamp};

#[derive(State)]
struct Log {
    who: String,
    #[channel(append)]
    log: List<String>,
}

/// Which runs may pass, and which wait to.
#[derive(Debug, Clone)]
struct Gate {
    open: watch::Sender<BTreeSet<String>>,
    waiting: watch::Sender<BTreeSet<String>>,
}

impl Gate {
    fn new() -> Self {
        Self { open: watch::Sender::default(), waiting: watch::Sender::default() }
    }

    fn let_pass(&self, who: &str) {
        self.open.send_modify(|open| {
            open.insert(who.to_owned());
        });
    }

    /// Waits until just these wait.
    async fn waits(&self, who: &BTreeSet<String>) {
        let mut waiting = self.waiting.subscribe();
        waiting.wait_for(|waiting| waiting == who).await.expect("we have the sender");
    }

    async fn pass(&self, who: &str) {
        let _waits = Waits::of(self, who);
        let mut open = self.open.subscribe();
        open.wait_for(|open| open.contains(who)).await.expect("we have the sender");
    }
}

/// Registration of a run that waits at the gate, until it passed or was cancelled.
struct Waits<'a>(&'a Gate, String);

impl<'a> Waits<'a> {
    fn of(gate: &'a Gate, who: &str) -> Self {
        gate.waiting.send_modify(|waiting| {
            waiting.insert(who.to_owned());
        });
        Self(gate, who.to_owned())
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.send_modify(|waiting| {
            waiting.remove(&self.1);
        });
    }
}

/// Says who it is, says so again, and once more when it may pass.
fn graph(gate: &Gate) -> CompiledGraph {
    fn who(state: &State<Log>) -> &str {
        state.who().expect("the input says who")
    }
    async fn second(state: State<Log>, gate: Deps<Gate>) -> LogUpdate {
        let who = who(&state);
        gate.pass(who).await;
        LogUpdate::new().log([format!("{who} passed")])
    }
    Graph::<Log>::new("gate")
        .with(gate.clone())
        .node("first", async |state: State<Log>| {
            LogUpdate::new().log([format!("{} first", who(&state))])
        })
        .node("second", second)
        .edge(START, "first")
        .edge("first", "second")
        .build()
        .expect("sound")
}

fn request(who: &str, multitask: Multitask) -> RunRequest {
    let input = json!({"who": who, "log": [who]});
    let options = RunOptions { multitask, ..options() };
    RunRequest { options, ..Bench::request(RunInput::Start { input }) }
}

/// Operations on the thread.
#[derive(Debug, Clone)]
enum Op {
    Start(Multitask),
    /// Lets one of the runs so far pass.
    Pass(prop::sample::Index),
    Cancel(prop::sample::Index),
}

fn op() -> impl Strategy<Value = Op> {
    let how = prop::sample::select(Multitask::ALL.map(|(how, _)| how).to_vec());
    prop_oneof![
        3 => how.prop_map(Op::Start),
        2 => any::<prop::sample::Index>().prop_map(Op::Pass),
        1 => any::<prop::sample::Index>().prop_map(Op::Cancel),
    ]
}

/// A run as it should be.
#[derive(Debug, Clone)]
struct Expected {
    who: String,
    status: RunStatus,
    cancelled: bool,
    may_pass: bool,
    /// The thread's log when the run began; for a run that takes others back, when the first of
    /// them began.
    base: Option<Vec<String>>,
}

impl Expected {
    fn ended(&self) -> bool {
        self.status.is_final()
    }
}

/// The thread as it should be.
#[derive(Debug, Clone, Default)]
struct Model {
    runs: Vec<Expected>,
    log: Vec<String>,
}

impl Model {
    fn oldest(&self) -> Option<&Expected> {
        self.runs.iter().find(|run| !run.ended())
    }

    /// Returns `true` if a run was accepted.
    fn start(&mut self, how: Multitask) -> bool {
        let who = format!("run {}", self.runs.len());
        let oldest = self.oldest().cloned();
        if oldest.is_some() && how == Multitask::Reject {
            return false;
        }
        if how.cancels() {
            self.runs.iter_mut().for_each(|run| run.cancelled |= !run.ended());
        }
        let base = oldest.filter(|_| how == Multitask::Rollback).and_then(|oldest| oldest.base);
        let status = RunStatus::Queued;
        let cancelled = false;
        let may_pass = false;
        self.runs.push(Expected { who, status, cancelled, may_pass, base });
        self.go_on();
        true
    }

    fn pass(&mut self, n: usize) {
        self.runs[n].may_pass = true;
        self.go_on();
    }

    /// Returns `true` if there was something to cancel.
    fn cancel(&mut self, n: usize) -> bool {
        let open = !self.runs[n].ended();
        self.runs[n].cancelled |= open;
        self.go_on();
        open
    }

    /// Everything that happens by itself.
    fn go_on(&mut self) {
        while let Some(run) = self.runs.iter_mut().find(|run| !run.ended()) {
            if run.status == RunStatus::Queued {
                run.status = RunStatus::Running;
                if let Some(base) = run.base.as_ref().filter(|_| !run.cancelled) {
                    self.log.clone_from(base);
                }
                run.base.get_or_insert_with(|| self.log.clone());
                if !run.cancelled {
                    self.log.extend([run.who.clone(), format!("{} first", run.who)]);
                }
            }
            if run.cancelled {
                run.status = RunStatus::Cancelled;
            } else if run.may_pass {
                self.log.push(format!("{} passed", run.who));
                run.status = RunStatus::Completed;
            } else {
                return;
            }
        }
    }
}

/// The thread as it is.
struct Real {
    gate: Gate,
    runtime: Runtime,
    runs: Vec<Told>,
}

/// A run as those know it who hold its handle.
struct Told {
    at: RunRef,
    events: BoxStream<'static, RunEvent>,
    outcome: Shared<BoxFuture<'static, RunOutcome>>,
}

impl Real {
    async fn statuses(&self) -> Vec<RunStatus> {
        if self.runs.is_empty() {
            return Vec::new();
        }
        let runs = self.runtime.store().runs(&Principal::local(), &thread()).await;
        runs.expect("reads").iter().map(|run| run.status).collect()
    }

    async fn log(&self) -> Vec<String> {
        let state = self.runtime.state(&Principal::local(), &thread()).await.expect("reads");
        serde_json::from_value(state.values["log"].clone()).unwrap_or_default()
    }

    /// Waits until the thread is as it should be.
    async fn settles(&self, model: &Model) {
        for (run, real) in model.runs.iter().zip(&self.runs) {
            if run.ended() {
                assert_eq!(real.outcome.clone().await.status(), run.status, "{run:?}");
            }
        }
        let waits = model.oldest().map(|run| run.who.clone());
        self.gate.waits(&waits.into_iter().collect()).await;
        let expected: Vec<_> = model.runs.iter().map(|run| run.status).collect();
        assert_eq!(self.statuses().await, expected);
        // What a run that goes has written is known for sure when it has ended.
        if model.oldest().is_none() && !model.runs.is_empty() {
            assert_eq!(self.log().await, model.log);
        }
    }

    async fn start(&mut self, n: usize, how: Multitask) -> Result<(), ExecuteError> {
        let request = request(&format!("run {n}"), how);
        let RunHandle { run, events, outcome } = self.runtime.execute(request).await?;
        self.runs.push(Told { at: run, events, outcome: outcome.shared() });
        Ok(())
    }
}

async fn plays(ops: Vec<Op>) {
    let gate = Gate::new();
    let runtime = Bench::new(graph(&gate)).await.runtime;
    let mut model = Model::default();
    let mut real = Real { gate, runtime, runs: Vec::new() };
    for op in ops {
        match op {
            Op::Start(how) => {
                let n = model.runs.len();
                let accepted = model.start(how);
                let started = real.start(n, how).await;
                assert_eq!(started.is_ok(), accepted, "{how:?}: {started:?}");
            }
            Op::Pass(_) | Op::Cancel(_) if model.runs.is_empty() => continue,
            Op::Pass(n) => {
                let n = n.index(model.runs.len());
                model.pass(n);
                real.gate.let_pass(&model.runs[n].who);
            }
            Op::Cancel(n) => {
                let n = n.index(model.runs.len());
                let open = model.cancel(n);
                let at = real.runs[n].at.clone();
                let asked = real.runtime.cancel(&Principal::local(), &at).await;
                assert_eq!(asked.is_ok(), open, "{asked:?}");
            }
        }
        real.settles(&model).await;
    }
    // All come to their ends, and all who hold handles hear of it.
    for n in 0..model.runs.len() {
        model.pass(n);
        real.gate.let_pass(&model.runs[n].who);
    }
    real.settles(&model).await;
    for (run, real) in model.runs.iter().zip(real.runs) {
        let told: Vec<_> = real.events.map(|told| told.event).collect().await;
        assert_eq!(told.last(), Some(&AiEvent::Done { outcome: run.status }), "{run:?}");
    }
}

#[test]
fn strategies_do_as_the_model_says() {
    let config =
        ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(ops in prop::collection::vec(op(), 1..12))| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(plays(ops));
    });
}

/// A run that waits begins when one in another process has ended.
#[tokio::test]
async fn a_run_waits_for_one_of_another_process() {
    let gate = Gate::new();
    let store = store();
    let ours = Bench::on(Arc::clone(&store), graph(&gate)).await;
    let theirs = Bench::on(store, graph(&gate)).await;
    let first = ours.runtime.execute(request("one", Multitask::Reject)).await.expect("accepted");
    let second = theirs.runtime.execute(request("two", Multitask::Enqueue)).await;
    let second = second.expect("accepted");
    let refused = theirs.runtime.execute(request("three", Multitask::Reject)).await;
    assert!(refused.is_err(), "{refused:?}");
    gate.let_pass("two");
    gate.let_pass("one");
    completed(first.outcome.await);
    let log = completed(second.outcome.await)["log"].clone();
    assert_eq!(log, json!(["one", "one first", "one passed", "two", "two first", "two passed"]));
}

/// A run in another process is stopped while its node waits for something.
#[tokio::test]
async fn a_run_stops_one_of_another_process() {
    let gate = Gate::new();
    let store = store();
    let ours = Bench::on(Arc::clone(&store), graph(&gate)).await;
    let theirs = Bench::on(store, graph(&gate)).await;
    let first = ours.runtime.execute(request("one", Multitask::Reject)).await.expect("accepted");
    gate.waits(&BTreeSet::from(["one".to_owned()])).await;
    let second = theirs.runtime.execute(request("two", Multitask::Rollback)).await;
    gate.let_pass("two");
    assert_eq!(first.outcome.await, RunOutcome::cancelled());
    let log = completed(second.expect("accepted").outcome.await)["log"].clone();
    assert_eq!(log, json!(["two", "two first", "two passed"]));
}

/// Dropping the future of a request stops nothing: the run begins although nobody holds its handle.
#[tokio::test]
async fn a_run_waits_although_nobody_waits_for_it() {
    let gate = Gate::new();
    let bench = Bench::new(graph(&gate)).await;
    let first = bench.runtime.execute(request("one", Multitask::Reject)).await.expect("accepted");
    let waits = bench.runtime.execute(request("two", Multitask::Enqueue)).await.expect("accepted");
    let at = waits.run.clone();
    drop(waits);
    gate.let_pass("one");
    gate.let_pass("two");
    completed(first.outcome.await);
    let who = Principal::local();
    let handle = bench.runtime.follow_run(&who, &at).await.expect("is there").into_handle();
    completed(handle.outcome.await);
}

/// A process that takes over finds what waits, in its order.
#[tokio::test]
async fn what_waits_outlives_its_process() {
    let gate = Gate::new();
    let store = store();
    for who in ["one", "two", "three"] {
        let request = request(who, Multitask::Enqueue);
        let new = NewRun {
            at: RunRef { thread: thread(), run: RunId::new(who).expect("an id") },
            graph: request.graph,
            caller: request.caller,
            input: request.input,
            options: request.options,
            created_at: Timestamp(0),
        };
        let made = store.create_run(&Principal::local(), new, BTreeMap::new()).await;
        made.expect("a run");
        gate.let_pass(who);
    }
    let bench = Bench::on(store, graph(&gate)).await;
    let mut ended = Vec::new();
    for _ in 0..3 {
        for handle in bench.runtime.recover().await.expect("looks") {
            ended.push(handle.run.run.to_string());
            completed(handle.outcome.await);
        }
    }
    assert_eq!(ended, ["one", "two", "three"]);
}

on_each_store![
    strategies_do_as_the_model_says,
    a_run_waits_for_one_of_another_process,
    a_run_stops_one_of_another_process,
    a_run_waits_although_nobody_waits_for_it,
    what_waits_outlives_its_process,
];
