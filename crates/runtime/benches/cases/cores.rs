//! Work that computes: tasks of one superstep, and runs, on one thread and on two.

use super::hosted::GRAPH;
use crate::median;
use serde_json::{Value, json};
use std::time::Instant;
use weftwork_graph::{Arg, CompiledGraph, Graph, List, Next, START, SendTo, State};
use weftwork_runtime::Runtime;

/// Tasks of the superstep, and runs.
const COUNT: u64 = 64;
/// Rounds of measurement, each on one thread and on two.
const ROUNDS: usize = 5;
/// Rounds of the arithmetic of a task: some milliseconds.
const WORK: u64 = 4_000_000;
/// The least gain of a second thread.
const GAIN_MIN: f64 = 1.7;

#[derive(State)]
struct Sums {
    #[channel(append)]
    sums: List<u64>,
}

/// Occupies its thread.
async fn computes(Arg(n): Arg<u64>) -> SumsUpdate {
    let sum = (0..WORK).fold(n, |sum, i| {
        std::hint::black_box(sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i))
    });
    SumsUpdate::new().sums([sum])
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Inline,
    Parallel,
    Blocking,
}

/// A superstep with this many tasks.
fn graph(tasks: u64, kind: Kind) -> CompiledGraph {
    let graph = Graph::<Sums>::new("computes").node("work", computes).route_to(
        START,
        ["work"],
        move |_: State<Sums>| {
            (0..tasks).map(|n| Next::from(SendTo::to("work", n))).collect::<Vec<_>>()
        },
    );
    let graph = match kind {
        Kind::Inline => graph,
        Kind::Parallel => graph.parallel("work"),
        Kind::Blocking => graph.blocking("work"),
    };
    graph.build().expect("sound")
}

/// Runs threads of a graph at once, and returns the seconds that it took.
fn seconds(workers: usize, graph: CompiledGraph, runs: u64, tasks: u64) -> f64 {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(workers).max_blocking_threads(workers).enable_all();
    builder.build().expect("a runtime").block_on(async {
        let runtime = Runtime::in_memory().graph(GRAPH, graph).open().await.expect("opens");
        let began = Instant::now();
        let mut handles = Vec::new();
        for run in 0..runs {
            let thread = runtime.thread(GRAPH, format!("t{run}")).expect("hosted");
            handles.push(thread.start(json!({})).begin().await.expect("accepted").into_handle());
        }
        for handle in handles {
            let outcome = handle.outcome.await;
            let output = json!(outcome)["output"]["sums"].clone();
            assert_eq!(output.as_array().map(Vec::len), Some(tasks as usize), "{outcome:?}");
        }
        began.elapsed().as_secs_f64()
    })
}

/// Measures on one thread and on two, in turns. Without a runtime around it.
pub(crate) fn measure(rows: &mut Vec<Value>) {
    for (what, kind, runs, tasks) in [
        ("64 parallel tasks of a superstep", Kind::Parallel, 1, COUNT),
        ("64 blocking tasks of a superstep", Kind::Blocking, 1, COUNT),
        ("64 runs of one task", Kind::Inline, COUNT, 1),
    ] {
        let mut one = Vec::new();
        let mut two = Vec::new();
        for _ in 0..ROUNDS {
            one.push(seconds(1, graph(tasks, kind), runs, tasks));
            two.push(seconds(2, graph(tasks, kind), runs, tasks));
        }
        let ratios = one.iter().zip(&two).map(|(one, two)| one / two).collect();
        let one = median(one);
        let two = median(two);
        let gain = median(ratios);
        println!(
            "cores: {what}: {one:.3} s on one thread, {two:.3} s on two, {gain:.2} times (at least {GAIN_MIN})"
        );
        rows.push(json!({
            "case": "cores", "engine": "weftwork", "what": what, "wall_s_one": one,
            "wall_s_two": two, "gain": gain, "gain_min": GAIN_MIN,
        }));
    }
}
