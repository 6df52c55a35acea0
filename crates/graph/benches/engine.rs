//! What a task costs: our runs against the same work written by hand, in the same process.
//!
//! `cargo bench -p weftwork-graph` prints CPU microseconds per task (user and system, all threads)
//! as medians of interleaved rounds, and the ratio to the hand-written loop; the rows also go to
//! `target/bench/engine.json`. The saver `memory` is a whole runtime over the memory store:
//! accepted, claimed, committed, journaled runs with their event log.
#![expect(clippy::expect_used, reason = "a benchmark says what it relies on")]
#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use serde_json::{Value, json};
use std::hint::black_box;
use std::sync::Arc;
use weftwork_graph::{Arg, CompiledGraph, Graph, List, Next, Routes, Runtime, START, Send, State};
use weftwork_store::memory::MemoryStore;
use weftwork_types::caller::Caller;
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::{RunFinal, RunInput, RunOptions, RunRequest};
use weftwork_types::{Principal, ThreadId};

const ROUNDS: usize = 9;

#[derive(State)]
struct Bench {
    #[channel(default)]
    n: u64,
    #[channel(append)]
    items: List<u64>,
    #[channel(append)]
    messages: List<String>,
}

#[derive(Routes)]
enum Turn {
    Tool,
    End,
}

fn chain() -> CompiledGraph {
    let mut graph = Graph::<Bench>::new("chain").edge(START, "n0");
    for i in 0..10 {
        graph = graph
            .node(format!("n{i}"), async |state: State<Bench>| BenchUpdate::new().n(state.n() + 1));
        if i > 0 {
            graph = graph.edge(format!("n{}", i - 1), format!("n{i}"));
        }
    }
    graph.build().expect("sound")
}

fn fan() -> CompiledGraph {
    Graph::<Bench>::new("fan")
        .node("start", async |_: State<Bench>| BenchUpdate::new().n(1))
        .node("work", async |Arg(i): Arg<u64>| BenchUpdate::new().items([i]))
        .node("join", async |state: State<Bench>| BenchUpdate::new().n(state.items().len() as u64))
        .edge(START, "start")
        .route_to("start", ["work"], |_: State<Bench>| {
            (0..100u64).map(|i| Next::from(Send::to("work", i))).collect::<Vec<_>>()
        })
        .edge("work", "join")
        .build()
        .expect("sound")
}

fn react(turns: usize) -> CompiledGraph {
    Graph::<Bench>::new("react")
        .node("agent", async |state: State<Bench>| {
            BenchUpdate::new().messages([format!("answer {}", state.messages().len())])
        })
        .node("tool", async |state: State<Bench>| {
            BenchUpdate::new().messages([format!("result {}", state.messages().len())])
        })
        .edge(START, "agent")
        .route(
            "agent",
            move |state: State<Bench>| {
                if state.messages().len() > turns * 2 { Turn::End } else { Turn::Tool }
            },
        )
        .edge("tool", "agent")
        .build()
        .expect("sound")
}

/// A case: its name, its graph, how many tasks a run has, and the same work by hand.
struct Case {
    name: &'static str,
    graph: fn() -> CompiledGraph,
    tasks: u32,
    by_hand: fn(),
}

const CASES: &[Case] = &[
    Case { name: "seq10", graph: chain, tasks: 10, by_hand: chain_by_hand },
    Case { name: "fan100", graph: fan, tasks: 102, by_hand: fan_by_hand },
    Case { name: "react50", graph: || react(50), tasks: 101, by_hand: react_by_hand },
];

type Boxed<T> = std::pin::Pin<Box<dyn Future<Output = T> + std::marker::Send>>;

/// Awaits boxed futures in place, as the loop of a graph without any engine would.
fn now<T>(future: Boxed<T>) -> T {
    futures_util::FutureExt::now_or_never(black_box(future)).expect("it is ready at once")
}

fn chain_by_hand() {
    let mut n = 0u64;
    for _ in 0..10 {
        let before = n;
        n = black_box(now(Box::pin(async move { black_box(before) + 1 })));
    }
    black_box(n);
}

fn fan_by_hand() {
    let parts: Vec<Vec<u64>> = (0..100u64).map(|i| now(Box::pin(async move { vec![i] }))).collect();
    let all: Vec<u64> = parts.into_iter().flatten().collect();
    black_box(all.len());
}

fn react_by_hand() {
    let mut messages: Vec<String> = Vec::new();
    for _ in 0..101 {
        let len = messages.len();
        messages.push(now(Box::pin(async move { format!("answer {}", black_box(len)) })));
    }
    black_box(messages);
}

/// CPU time of all threads of this process, in nanoseconds.
fn cpu_ns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
        .filter_map(|text| text.split(' ').next()?.parse::<u64>().ok())
        .sum()
}

fn request(thread: u64) -> RunRequest {
    RunRequest {
        principal: Principal::local(),
        caller: Caller::local("bench").expect("valid id"),
        graph: "bench:case".to_owned(),
        thread: ThreadId::new(format!("t{thread}")).expect("valid id"),
        input: RunInput::Start { input: json!({}) },
        options: RunOptions::default(),
    }
}

async fn rounds(case: &Case) -> (f64, f64) {
    let store = Arc::new(MemoryStore::new());
    let builder = Runtime::builder(store).graph("bench:case", (case.graph)());
    let runtime = builder.open().await.expect("opens");
    let (mut ours, mut by_hand) = (Vec::new(), Vec::new());
    let mut thread = 0;
    for round in 0..=ROUNDS {
        let runs = 200;
        let before = cpu_ns();
        for _ in 0..runs {
            thread += 1;
            let handle = runtime.execute(request(thread)).await.expect("accepted");
            drop(handle.events);
            let outcome = handle.outcome.await;
            assert!(matches!(outcome, RunFinal::Completed { .. }), "{outcome:?}");
        }
        let middle = cpu_ns();
        let hands = runs * 500;
        for _ in 0..hands {
            (case.by_hand)();
        }
        let after = cpu_ns();
        // The first round warms up.
        if round > 0 {
            ours.push((middle - before) as f64 / f64::from(runs * case.tasks) / 1e3);
            by_hand.push((after - middle) as f64 / f64::from(hands * case.tasks) / 1e3);
        }
    }
    (median(ours), median(by_hand))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let mut rows: Vec<Value> = Vec::new();
    println!("{:<10} {:>8} {:>12} {:>12} {:>8}", "case", "saver", "us/task", "by hand", "ratio");
    for case in CASES {
        let (ours, by_hand) = runtime.block_on(rounds(case));
        let ratio = ours / by_hand;
        println!("{:<10} {:>8} {ours:>12.2} {by_hand:>12.3} {ratio:>8.1}", case.name, "memory");
        rows.push(json!({
            "case": case.name, "saver": "memory", "engine": "weftwork",
            "cpu_us_per_task": ours, "by_hand_us_per_task": by_hand, "bound_ratio": ratio,
        }));
    }
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let dir = std::path::Path::new(&target).join("bench");
    std::fs::create_dir_all(&dir).expect("the target directory can be written");
    let text = serde_json::to_string_pretty(&rows).expect("plain JSON");
    std::fs::write(dir.join("engine.json"), text).expect("the target directory can be written");
}
