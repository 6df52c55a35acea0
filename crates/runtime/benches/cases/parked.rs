//! Threads that wait for an answer: the memory of each, and the time until an answered one ends.

use super::hosted::GRAPH;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;
use weftwork_graph::{CompiledGraph, Ctx, Graph, List, NodeResult, RunOutcome, START};
use weftwork_runtime::Runtime;
use weftwork_sqlite::{Durability, Options, SqliteStore};

const THREADS: usize = 10_000;
/// Threads before those that count, so that buffers of the process have their size.
const WARM: usize = 500;
/// Threads that are answered one after the other, and as many that are answered together.
const ANSWERED: usize = 1_000;
/// Answers at once.
const AT_ONCE: usize = 64;
const BYTES_MAX: f64 = 1_024.0;
const P99_MS_MAX: f64 = 200.0;

#[derive(weftwork_graph::State)]
struct Asked {
    #[channel(append)]
    log: List<String>,
}

fn graph() -> CompiledGraph {
    let asks = async |ctx: Ctx| {
        NodeResult::Ok(AskedUpdate::new().log([ctx.interrupt(json!("?"))?.to_string()]))
    };
    Graph::<Asked>::new("asks").node("asks", asks).edge(START, "asks").build().expect("sound")
}

/// Resident memory of the process, in bytes.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a Linux process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("is there");
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    kib * 1_024.0
}

async fn park(runtime: &Runtime, threads: std::ops::Range<usize>) {
    for n in threads {
        let thread = runtime.thread(GRAPH, format!("t{n}")).expect("hosted");
        let ended = thread.start(json!({})).await.expect("runs");
        assert!(matches!(ended.outcome(), RunOutcome::Interrupted { .. }), "{:?}", ended.outcome());
    }
}

/// Answers a thread, and returns the milliseconds until its run has ended.
async fn answer(runtime: Runtime, n: usize) -> f64 {
    let began = Instant::now();
    let thread = runtime.thread(GRAPH, format!("t{n}")).expect("hosted");
    let ended = thread.answer(json!("yes")).await.expect("runs");
    let ms = began.elapsed().as_secs_f64() * 1e3;
    assert_eq!(ended.output().expect("completes")["log"], json!(["\"yes\""]));
    ms
}

pub(crate) async fn measure(rows: &mut Vec<Value>) {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options { durability: Durability::Full, ..Options::default() };
    let store = SqliteStore::open(dir.path().join("bench.db"), &options).expect("opens");
    let builder = Runtime::builder(Arc::new(store)).graph(GRAPH, graph());
    let runtime = builder.open().await.expect("opens");
    park(&runtime, 0..WARM).await;
    let before = resident();
    park(&runtime, WARM..WARM + THREADS).await;
    let bytes = (resident() - before) / THREADS as f64;
    println!("parked: {THREADS} threads: {bytes:.0} bytes of memory each (limit {BYTES_MAX})");
    rows.push(json!({
        "case": "parked", "engine": "weftwork", "saver": "sqlite-full", "threads": THREADS,
        "what": "rss", "bytes": bytes, "limit_bytes": BYTES_MAX,
    }));
    for (what, at_once) in [("one at a time", 1), ("64 at once", AT_ONCE)] {
        let first = if at_once == 1 { WARM } else { WARM + ANSWERED };
        let mut took = Vec::new();
        let all: Vec<usize> = (first..first + ANSWERED).collect();
        for some in all.chunks(at_once) {
            let answers: Vec<_> =
                some.iter().map(|n| tokio::spawn(answer(runtime.clone(), *n))).collect();
            for answer in answers {
                took.push(answer.await.expect("no panic"));
            }
        }
        took.sort_by(f64::total_cmp);
        let half = took[took.len() / 2];
        let p99 = took[took.len() * 99 / 100];
        println!(
            "parked: answered {what}: half within {half:.2} ms, p99 {p99:.2} ms (limit {P99_MS_MAX})"
        );
        rows.push(json!({
            "case": "parked", "engine": "weftwork", "saver": "sqlite-full", "threads": THREADS,
            "what": what, "p50_ms": half, "p99_ms": p99, "limit_ms": P99_MS_MAX,
        }));
    }
}
