//! Calls that nodes make of tools themselves: each is made once, whatever becomes of its run.

use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use weftwork_agents::Tools;
use weftwork_graph::run_loop::HistoryFilter;
use weftwork_graph::{
    Arg, CompiledGraph, Ctx, Deps, Graph, List, Next, NodeResult, START, SendTo, State,
    SubgraphState,
};
use weftwork_runtime::{RolledBack, Runtime, Thread};
use weftwork_store::Store;
use weftwork_store::memory::MemoryStore;
use weftwork_tools::{Policy, ToolBox, ToolContext, ToolRunner, tool};
use weftwork_types::Principal;
use weftwork_types::run::{CancelAction, Durability, RunOptions, RunOutcome, RunRef};

const GRAPH: &str = "test:pay";

/// The payments that reached the tool: amount and id of the call.
#[derive(Debug, Default)]
struct Paid(Mutex<Vec<(u32, String)>>);

impl Paid {
    fn add(&self, amount: u32, context: &ToolContext) {
        let call = (amount, context.tool_call_id.to_string());
        self.0.lock().expect("not poisoned").push(call);
    }

    fn amounts(&self) -> Vec<u32> {
        let mut amounts: Vec<u32> =
            self.0.lock().expect("not poisoned").iter().map(|(amount, _)| *amount).collect();
        amounts.sort_unstable();
        amounts
    }
}

/// Pays an amount.
#[tool(effect = external_side_effect)]
fn pay(amount: u32, paid: weftwork_tools::Deps<Paid>, context: ToolContext) -> String {
    paid.add(amount, &context);
    format!("paid {amount}")
}

/// Pays an amount if a person approves it.
#[tool(effect = external_side_effect)]
fn pay_much(amount: u32, paid: weftwork_tools::Deps<Paid>, context: ToolContext) -> String {
    paid.add(amount, &context);
    format!("paid {amount}")
}

fn runner(paid: &Arc<Paid>) -> ToolRunner {
    let tools = ToolBox::new().with(pay).with(pay_much).provide_shared(Arc::clone(paid));
    let policy = Policy::new().allow("pay").expect("a name");
    let policy = policy.ask_human("pay_much", "it is much").expect("a name");
    ToolRunner::new(tools, policy).expect("valid tools")
}

#[derive(Debug, State)]
struct Log {
    #[channel(append)]
    lines: List<Value>,
}

/// Deaths of the process of a test: it waits here, so many times.
#[derive(Debug, Clone, Default)]
struct Deaths {
    reached: Arc<Notify>,
    left: Arc<AtomicU32>,
}

/// Where the payments are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pays {
    Itself,
    InSubgraph,
    InTasks,
    InSubgraphs,
}

impl Pays {
    fn amounts(self) -> Vec<u32> {
        match self {
            Self::Itself | Self::InSubgraph => vec![5, 5],
            Self::InTasks => vec![0, 1, 2],
            Self::InSubgraphs => vec![5; 6],
        }
    }
}

async fn pay_twice(tools: Tools) -> NodeResult<LogUpdate> {
    let mut lines = Vec::new();
    for amount in [5, 5] {
        lines.push(tools.call("pay", json!({"amount": amount})).await?.value);
    }
    Ok(LogUpdate::new().lines(lines))
}

async fn pay_part(Arg(amount): Arg<u32>, tools: Tools) -> NodeResult<LogUpdate> {
    let paid = tools.call("pay", json!({"amount": amount})).await?;
    Ok(LogUpdate::new().lines([paid.value]))
}

async fn wait(deaths: Deps<Deaths>) -> LogUpdate {
    let left =
        deaths.left.try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    if left.is_ok() {
        deaths.reached.notify_one();
        std::future::pending::<()>().await;
    }
    LogUpdate::new().lines([json!("end")])
}

/// Says something, pays, and waits.
fn paying(pays: Pays, paid: &Arc<Paid>, deaths: &Deaths) -> CompiledGraph {
    let inner = || {
        let graph = Graph::<Log>::new("inner").with(runner(paid));
        let graph = graph.node("first", async |_: State<Log>| LogUpdate::new());
        let graph = graph.node("pay", pay_twice).edge(START, "first").edge("first", "pay");
        graph.build().expect("sound")
    };
    let graph = Graph::<Log>::new("pay").with(runner(paid)).with(deaths.clone());
    let graph = graph.node("say", async |_: State<Log>| LogUpdate::new().lines([json!("say")]));
    let graph = graph.node("wait", wait).edge(START, "say");
    let fan_out = |_: State<Log>| -> Vec<Next> {
        (0..3).map(|part| Next::from(SendTo::to("pay", part))).collect()
    };
    let graph = match pays {
        Pays::Itself => graph.node("pay", pay_twice).edge("say", "pay"),
        Pays::InSubgraph => {
            graph.subgraph("pay", inner(), SubgraphState::default()).edge("say", "pay")
        }
        Pays::InTasks => graph.node("pay", pay_part).route_to("say", ["pay"], fan_out),
        Pays::InSubgraphs => graph
            .subgraph("pay", inner(), SubgraphState::default())
            .subgraph("pay2", inner(), SubgraphState::default())
            .subgraph("pay3", inner(), SubgraphState::default())
            .edge("say", "pay")
            .edge("say", "pay2")
            .edge("say", "pay3"),
    };
    graph.edge("pay", "wait").build().expect("sound")
}

/// History of a thread before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Run,
    /// A run, at whose first checkpoint the next one begins.
    Fork,
}

async fn open(store: &Arc<dyn Store>, graph: &CompiledGraph) -> Runtime {
    let builder = Runtime::builder(Arc::clone(store)).graph(GRAPH, graph.clone());
    builder.open().await.expect("opens")
}

fn thread(runtime: &Runtime) -> Thread {
    runtime.thread(GRAPH, "t").expect("valid names")
}

/// Begins or continues a run in a process that dies after the payments.
async fn die<Began>(
    store: &Arc<dyn Store>,
    graph: &CompiledGraph,
    deaths: &Deaths,
    begin: impl FnOnce(Runtime) -> Began,
) -> RunRef
where
    Began: Future<Output = (RunRef, Runtime)> + Send + 'static,
{
    deaths.left.store(1, Ordering::SeqCst);
    let mut process = tokio::runtime::Builder::new_multi_thread();
    let process = process.worker_threads(1).enable_all().build().expect("a runtime");
    let ours = Arc::clone(store);
    let graph = graph.clone();
    let opened = process.spawn(async move { open(&ours, &graph).await });
    let runtime = opened.await.expect("opens");
    let (run, runtime) = process.spawn(begin(runtime)).await.expect("begins");
    deaths.reached.notified().await;
    let worker = runtime.worker().clone();
    let end = move || {
        drop(runtime);
        process.shutdown_timeout(Duration::from_secs(5));
    };
    tokio::task::spawn_blocking(end).await.expect("ends");
    store.retire(&worker).await.expect("it is dead");
    run
}

#[tokio::test]
async fn calls_of_nodes_are_made_once_by_runs_whose_processes_die() {
    for pays in [Pays::Itself, Pays::InSubgraph, Pays::InTasks, Pays::InSubgraphs] {
        for before in [Before::Nothing, Before::Run, Before::Fork] {
            for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
                dies_twice(pays, before, durability).await;
            }
        }
    }
}

async fn dies_twice(pays: Pays, before: Before, durability: Durability) {
    let case = format!("{pays:?}, {before:?}, {durability:?}");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let paid = Arc::<Paid>::default();
    let deaths = Deaths::default();
    let graph = paying(pays, &paid, &deaths);
    let mut at = None;
    if before != Before::Nothing {
        let runtime = open(&store, &graph).await;
        thread(&runtime).start(json!({})).await.expect("runs");
        if before == Before::Fork {
            let history = thread(&runtime).history(&HistoryFilter::default()).await.expect("reads");
            at = history.last().and_then(|state| state.checkpoint());
        }
        paid.0.lock().expect("not poisoned").clear();
    }
    let run = die(&store, &graph, &deaths, async move |runtime: Runtime| {
        let mut thread =
            thread(&runtime).with_options(RunOptions { durability, ..RunOptions::default() });
        if let Some(at) = at {
            thread = thread.at(at);
        }
        let started = thread.start(json!({})).begin().await.expect("accepted");
        (started.into_handle().run, runtime)
    })
    .await;
    let again = run.clone();
    die(&store, &graph, &deaths, async move |runtime: Runtime| {
        let handle = runtime.take_over(&Principal::local(), &again).await.expect("nobody has it");
        (handle.run, runtime)
    })
    .await;
    let runtime = open(&store, &graph).await;
    let handle = runtime.take_over(&Principal::local(), &run).await.expect("nobody has it");
    let outcome = handle.outcome.await;
    assert!(matches!(outcome, RunOutcome::Completed { .. }), "{case}: {outcome:?}");
    assert_eq!(paid.amounts(), pays.amounts(), "{case}");
}

/// Pays, asks, and pays again.
async fn pay_and_ask(tools: Tools, ctx: Ctx) -> NodeResult<LogUpdate> {
    let first = tools.call("pay", json!({"amount": 5})).await?.value;
    ctx.interrupt(json!("more?"))?;
    let second = tools.call("pay", json!({"amount": 7})).await?.value;
    let last = tools.call("pay_much", json!({"amount": 900})).await?.value;
    Ok(LogUpdate::new().lines([first, second, last]))
}

/// Answers the question of the node, and approves what it asks for after that.
async fn answer_all(thread: &Thread) -> RunOutcome {
    let mut ended = thread.answer(json!("yes")).await.expect("accepted").outcome().clone();
    while let RunOutcome::Interrupted { questions, .. } = &ended {
        let binding = json!(questions)[0]["ask"]["binding"].clone();
        let approved = json!({"approved": true, "binding": binding, "args": {"amount": 800}});
        ended = thread.answer(approved).await.expect("accepted").outcome().clone();
    }
    ended
}

/// Takes back all runs with answers of a thread.
async fn roll_back_answers(thread: &Thread) {
    loop {
        let runs = thread.runs(RolledBack::Omitted).await.expect("reads");
        let Some(last) = runs.iter().rfind(|row| row.answers.is_some()) else { return };
        let back = thread.cancel_run(&last.new.at, CancelAction::Rollback).await;
        back.expect("accepted").expect("a run").await;
    }
}

#[tokio::test]
async fn calls_of_nodes_are_made_once_when_answers_are_rolled_back() {
    for nested in [false, true] {
        let paid = Arc::<Paid>::default();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let graph = Graph::<Log>::new("pay").with(runner(&paid));
        let mut graph = graph.node("pay", pay_and_ask).edge(START, "pay").build().expect("sound");
        if nested {
            let outer = Graph::<Log>::new("outer");
            let outer = outer.subgraph("inner", graph, SubgraphState::default());
            graph = outer.edge(START, "inner").build().expect("sound");
        }
        let runtime = open(&store, &graph).await;
        let thread = thread(&runtime);
        thread.start(json!({})).await.expect("runs");
        for time in 0..3 {
            if time > 0 {
                roll_back_answers(&thread).await;
                thread.proceed().await.expect("runs");
            }
            let done = answer_all(&thread).await;
            assert!(matches!(done, RunOutcome::Completed { .. }), "{done:?}");
            assert_eq!(paid.amounts(), [5, 7, 800], "nested: {nested}, time {time}");
        }
    }
}

/// Pays only after a lesser payment.
async fn pay_in_order(tools: Tools) -> NodeResult<LogUpdate> {
    let refused = tools.call("pay_much", json!({"amount": 900})).await;
    assert!(refused.is_err(), "nothing was paid before");
    tools.call("pay", json!({"amount": 5})).await?;
    let paid = tools.call("pay_much", json!({"amount": 900})).await?;
    Ok(LogUpdate::new().lines([paid.value]))
}

/// A rule about earlier calls counts those that nodes make.
#[tokio::test]
async fn a_rule_about_earlier_calls_counts_those_of_nodes() {
    let paid = Arc::<Paid>::default();
    let tools = ToolBox::new().with(pay).with(pay_much).provide_shared(Arc::clone(&paid));
    let policy = Policy::builder().allow("pay").allow("pay_much").after("pay").build();
    let runner = ToolRunner::new(tools, policy.expect("sound")).expect("valid tools");
    let graph = Graph::<Log>::new("pay").with(runner).node("pay", pay_in_order).edge(START, "pay");
    let graph = graph.build().expect("sound");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let ended = thread(&open(&store, &graph).await).start(json!({})).await.expect("runs");
    assert!(matches!(ended.outcome(), RunOutcome::Completed { .. }), "{:?}", ended.outcome());
    assert_eq!(paid.amounts(), [5, 900]);
}
