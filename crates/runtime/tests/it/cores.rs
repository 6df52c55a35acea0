//! Runs and tasks that compute at the same time.

use serde_json::json;
use std::sync::{Arc, Barrier};
use weftwork_graph::{CompiledGraph, Deps, Graph, List, START, State};
use weftwork_runtime::Runtime;

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

/// Occupies its thread until another node is here too.
async fn meet(both: Deps<Arc<Barrier>>) -> LogUpdate {
    both.wait();
    LogUpdate::new().log(["met"])
}

fn barrier() -> Arc<Barrier> {
    Arc::new(Barrier::new(2))
}

async fn open(graph: CompiledGraph) -> Runtime {
    Runtime::in_memory().graph("test:graph", graph).open().await.expect("opens")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn two_runs_compute_on_two_threads() {
    let graph = Graph::<Log>::new("meet").with(barrier()).node("meet", meet);
    let runtime = open(graph.edge(START, "meet").build().expect("sound")).await;
    let run = |thread| runtime.thread("test:graph", thread).expect("hosted").start(json!({}));
    let (one, two) = tokio::join!(run("a").into_future(), run("b").into_future());
    assert_eq!(one.expect("runs").output().expect("completes")["log"], json!(["met"]));
    assert_eq!(two.expect("runs").output().expect("completes")["log"], json!(["met"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn parallel_and_blocking_tasks_of_a_superstep_compute_on_two_threads() {
    for blocking in [false, true] {
        let graph = Graph::<Log>::new("meet").with(barrier()).node("one", meet).node("two", meet);
        let graph = graph.edge(START, "one").edge(START, "two");
        let graph = match blocking {
            false => graph.parallel("one").parallel("two"),
            true => graph.blocking("one").blocking("two"),
        };
        let runtime = open(graph.build().expect("sound")).await;
        let ended = runtime.thread("test:graph", "t").expect("hosted").start(json!({})).await;
        let ended = ended.expect("runs");
        assert_eq!(ended.output().expect("completes")["log"], json!(["met", "met"]));
    }
}
