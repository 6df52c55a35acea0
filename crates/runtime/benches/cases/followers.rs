//! Followers of the frames of a hosted run over SQLite: what slow ones cost the run and the process.

use crate::{cpu_ns, median};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use weftwork_graph::run_loop::Modes;
use weftwork_graph::{CompiledGraph, Ctx, Deps, Graph, List, Next, START, State};
use weftwork_runtime::{Runtime, Selection};
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_types::Principal;
use weftwork_types::event::Position;
use weftwork_types::message::{Message, Role};
use weftwork_types::run::{RunOutcome, RunRef};

const FOLLOWERS: usize = 1_000;
/// Followers that read each frame at once: each receives several hundred frames of whole states.
const FAST: usize = 50;
/// Rounds that count; one before them warms up.
const ROUNDS: usize = 3;
/// Supersteps of a run, each with a message.
const STEPS: usize = 100;
/// Bytes of the text of each message.
const TEXT: usize = 215;
/// Maximum cost of a run with slow followers, as a multiple of its cost without them.
const RATIO_MAX: f64 = 1.05;
/// Maximum resident memory of a slow follower, in KiB.
const KIB_MAX: f64 = 64.0;

#[derive(State)]
struct Talk {
    #[channel(messages)]
    messages: List<Message>,
}

async fn answer(ctx: Ctx, begins: Deps<Arc<Semaphore>>) -> TalkUpdate {
    begins.acquire().await.expect("open").forget();
    begins.add_permits(1);
    let id = ctx.message_id();
    ctx.token(&id, "y");
    TalkUpdate::new().messages([Message::text(id, Role::Assistant, "y".repeat(TEXT))])
}

fn graph(begins: &Arc<Semaphore>) -> CompiledGraph {
    let goes_on = |state: State<Talk>| {
        if state.messages().len() < STEPS { Next::node("answer") } else { Next::End }
    };
    let graph = Graph::<Talk>::new("talk").with(Arc::clone(begins)).node("answer", answer);
    let graph = graph.edge(START, "answer").route_to("answer", ["answer"], goes_on);
    graph.step_limit(1_000).build().expect("sound")
}

/// The behaviour of followers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Follower {
    /// Reads a byte a second.
    Slow,
    /// Reads each frame at once.
    Fast,
}

struct Case {
    runtime: Runtime,
    begins: Arc<Semaphore>,
    runs: u32,
    _dir: tempfile::TempDir,
}

/// Costs of a run.
struct Found {
    cpu_ms: f64,
    /// Resident memory for each follower, in KiB.
    kib: f64,
    frames: usize,
}

impl Case {
    async fn open() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options { durability: Durability::Normal, ..Options::default() };
        let store = SqliteStore::open(dir.path().join("bench.db"), &options).expect("opens");
        let begins = Arc::new(Semaphore::new(0));
        let runtime = Runtime::builder(Arc::new(store)).graph("talk", graph(&begins));
        Self { runtime: runtime.open().await.expect("opens"), begins, runs: 0, _dir: dir }
    }

    /// Measures a run from the time at which its first node begins to its end, with followers that
    /// attached before, or in their absence.
    async fn run(&mut self, followers: Option<(Follower, usize)>) -> Found {
        self.runs += 1;
        let thread = self.runtime.thread("talk", format!("t{}", self.runs)).expect("an id");
        let run = thread.start(json!({})).begin().await.expect("accepted").into_handle();
        let mut following = JoinSet::new();
        let before = resident_kib();
        let (arrived, mut waiting) = tokio::sync::mpsc::unbounded_channel();
        let (follower, many) = followers.unwrap_or((Follower::Slow, 0));
        for _ in 0..many {
            let frames = follow(self.runtime.clone(), run.run.clone(), follower, arrived.clone());
            following.spawn(frames);
        }
        for _ in 0..many {
            waiting.recv().await.expect("each receives a frame");
        }
        let cpu = cpu_ns();
        self.begins.add_permits(1);
        let outcome = run.outcome.await;
        assert!(matches!(outcome, RunOutcome::Completed { .. }), "{outcome:?}");
        let mut frames = 0;
        while follower == Follower::Fast
            && let Some(received) = following.join_next().await
        {
            frames += received.expect("ends");
        }
        let cpu_ms = (cpu_ns() - cpu) / 1e6;
        let kib = (resident_kib() - before) / many.max(1) as f64;
        following.shutdown().await;
        self.begins.forget_permits(1);
        Found { cpu_ms, kib, frames }
    }
}

/// Reads the frames of a run in all modes, and returns their number.
async fn follow(
    runtime: Runtime,
    run: RunRef,
    follower: Follower,
    arrived: tokio::sync::mpsc::UnboundedSender<()>,
) -> usize {
    let names = ["values", "updates", "messages", "custom", "tasks", "checkpoints", "debug"];
    let modes = names.iter().filter_map(|name| Modes::parse(name));
    let modes = modes.fold(Modes::NONE, |all, mode| all | mode);
    let select = Selection::frames(modes).with_subgraphs();
    let stream = runtime.follow(&Principal::local(), &run, Position::START, select).await;
    let mut stream = stream.expect("is there");
    let mut frames = 0;
    while let Some(frame) = stream.next().await {
        let frame = frame.expect("reads");
        frames += 1;
        if frames == 1 {
            arrived.send(()).expect("waits");
        }
        if follower == Follower::Slow {
            let bytes = format!("{frame:?}").len() as u64;
            tokio::time::sleep(Duration::from_secs(bytes)).await;
        }
    }
    frames
}

/// Resident memory of this process, in KiB.
fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("has one");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

/// Measures runs without followers, with slow ones, and with fast ones, in turns.
pub(crate) async fn measure(rows: &mut Vec<Value>) {
    let mut case = Case::open().await;
    let mut alone = vec![];
    let mut slow = vec![];
    let mut fast = vec![];
    let mut kib = 0.0_f64;
    let mut frames = 0;
    for round in 0..=ROUNDS {
        let without = case.run(None).await;
        let with = case.run(Some((Follower::Slow, FOLLOWERS))).await;
        // Memory that is free after a round is used again in the next one.
        kib = kib.max(with.kib);
        let all = case.run(Some((Follower::Fast, FAST))).await;
        frames = all.frames;
        if round > 0 {
            alone.push(without.cpu_ms);
            slow.push(with.cpu_ms);
            fast.push(all.cpu_ms);
        }
    }
    let alone = median(alone);
    let slow = median(slow);
    let fast = median(fast);
    let ratio = slow / alone;
    let each_us = (fast - alone) * 1e3 / frames as f64;
    println!(
        "followers: {STEPS} supersteps {alone:.1} ms of CPU; with {FOLLOWERS} that read a byte a second {slow:.1} ms, {ratio:.3} times as much (limit {RATIO_MAX}), {kib:.1} KiB each (limit {KIB_MAX}); with {FAST} that keep up {fast:.1} ms, {each_us:.2} us a frame of {frames}"
    );
    rows.push(json!({
        "case": "followers", "saver": "hosted", "engine": "weftwork", "followers": FOLLOWERS,
        "fast_followers": FAST, "cpu_ms": alone, "slow_cpu_ms": slow, "ratio": ratio, "limit": RATIO_MAX,
        "slow_kib": kib, "limit_kib": KIB_MAX, "fast_cpu_ms": fast, "fast_us_per_frame": each_us,
    }));
}
