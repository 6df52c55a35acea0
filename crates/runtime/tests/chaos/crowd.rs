//! A thousand followers that do not read: what they cost in memory, and what they cost the run.

use crate::place::Place;
use crate::report;
use futures_util::StreamExt;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use weftwork_graph::{CompiledGraph, Ctx, Deps, Graph, NodeResult, START, State};
use weftwork_runtime::Runtime;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::run::RunOutcome;
use weftwork_types::{BoxStream, Principal};

const FOLLOWERS: usize = 1_000;
/// Number of events of a run, and the size of each: 4 MiB in all.
const EVENTS: u32 = 4_096;
const EVENT_BYTES: usize = 1 << 10;
/// Number of runs that are measured with and without followers.
const ROUNDS: usize = 5;
/// Limit of the memory of a follower.
const HELD_MAX: usize = 64 << 10;

#[derive(State)]
struct Work {
    n: u32,
}

async fn emits(ctx: Ctx, gate: Deps<Arc<Notify>>) -> NodeResult<WorkUpdate> {
    gate.0.notified().await;
    for n in 0..EVENTS {
        ctx.emit(json!("x".repeat(EVENT_BYTES)));
        if n % 16 == 0 {
            tokio::task::yield_now().await;
        }
    }
    Ok(WorkUpdate::new().n(EVENTS))
}

fn graph(gate: Arc<Notify>) -> CompiledGraph {
    let graph = Graph::<Work>::new("emits").with(gate).node("emits", emits);
    graph.edge(START, "emits").build().expect("sound")
}

/// Bytes of memory of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("reads");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("is there");
    let kib = line.trim().trim_end_matches(" kB").parse::<usize>();
    kib.expect("a number") << 10
}

#[expect(clippy::disallowed_methods, reason = "the time of this machine is what is measured")]
fn now() -> Instant {
    Instant::now()
}

struct Crowd {
    runtime: Runtime,
    gate: Arc<Notify>,
    runs: usize,
}

impl Crowd {
    /// Executes a run with so many followers. Returns its duration and the memory that grew.
    async fn run(
        &mut self,
        followers: usize,
    ) -> (Duration, usize, Vec<BoxStream<'static, RunEvent>>) {
        self.runs += 1;
        let thread = self.runtime.thread("emits", format!("t{}", self.runs)).expect("hosted");
        let handle = thread.start(json!({})).begin().await.expect("accepted").into_handle();
        drop(handle.events);
        let before = resident();
        let who = Principal::local();
        let mut crowd = Vec::new();
        for _ in 0..followers {
            let watched = self.runtime.follow_run(&who, &handle.run).await;
            let mut events = watched.expect("there is such a run").into_handle().events;
            let first = events.next().await.expect("it has started");
            assert!(matches!(first.event, AiEvent::RunStarted { .. }));
            crowd.push(events);
        }
        let began = now();
        self.gate.notify_one();
        let outcome = handle.outcome.await;
        assert!(matches!(outcome, RunOutcome::Completed { .. }), "{outcome:?}");
        (began.elapsed(), resident().saturating_sub(before), crowd)
    }
}

#[tokio::test]
async fn followers_that_do_not_read_cost_little() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Place::sqlite(folder.path()).open();
    let gate = Arc::new(Notify::new());
    let runtime = Runtime::builder(store).graph("emits", graph(Arc::clone(&gate)));
    let runtime = runtime.open().await.expect("opens");
    let mut crowd = Crowd { runtime, gate, runs: 0 };
    crowd.run(0).await;
    let mut alone = Duration::MAX;
    let mut followed = Duration::MAX;
    let mut held = 0;
    let mut last = Vec::new();
    for _ in 0..ROUNDS {
        alone = alone.min(crowd.run(0).await.0);
        let (time, grown, events) = crowd.run(FOLLOWERS).await;
        (followed, held) = (followed.min(time), held.max(grown));
        last = events;
    }
    // Those that go on get everything all the same.
    for events in last.iter_mut().take(3) {
        let rest: Vec<_> = events.collect().await;
        let seqs: Vec<_> = rest.iter().filter_map(|event| event.seq).collect();
        assert_eq!(seqs, (2..2 + seqs.len() as u64).collect::<Vec<_>>());
        assert!(seqs.len() > EVENTS as usize);
    }
    let each = held / FOLLOWERS;
    // A figure only: the machine may be busy with other tests.
    let ratio = followed.as_secs_f64() / alone.as_secs_f64();
    report(
        "crowd",
        &format!(
            "{FOLLOWERS} followers that do not read: {each} bytes each, at most {HELD_MAX}; \
             the run takes {followed:?}, {alone:?} without them: {ratio:.3}"
        ),
    );
    assert!(each <= HELD_MAX, "{each} bytes each");
}
