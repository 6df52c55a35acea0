//! Cost of a task: our runs against the same work written by hand, in the same process.
//!
//! `make bench` prints CPU microseconds per task (user and system, all threads) as medians of
//! interleaved rounds, and the ratios to two loops by hand: the bound, over a typed state
//! (`bench/typed.rs`), and one over maps of JSON values (`bench/inline.rs`). The rows also go to `target/bench/engine.json`. Results are checked, and so are the checkpoints that were
//! kept. `docs/benchmarks.md` has a table.
#![expect(clippy::expect_used, reason = "a benchmark says what it relies on")]
#![expect(clippy::print_stdout, reason = "its output is its purpose")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

mod cases;
#[path = "../../../bench/inline.rs"]
mod inline;
#[path = "../../../bench/typed.rs"]
mod typed;

use cases::journaled::Journaled;
use cases::{Case, TURNS};
use inline::{Inline, Work};
use serde_json::{Value, json};
use std::time::Instant;
use typed::Typed;
use weftwork_graph::run_loop::Host;
use weftwork_sqlite::Durability;

/// Rounds that count; one before them warms up.
const ROUNDS: usize = 9;
/// Runs whose inputs are made together, few enough to stay in the processor's cache.
const BATCH: u32 = 16;
/// Tasks per round of hosted runs.
const HOSTED_TASKS: u32 = 1_000;
/// Commits per round with a store, and as many by hand: enough for the log of either to be moved
/// into the file, and to be written from its beginning again.
const FILED_COMMITS: u32 = 2_000;
/// Maximum cost of a hosted run in memory, as a multiple of a run with the checkpointer in memory,
/// at which the latter has no use of its own.
const HOSTED_MEMORY_RATIO_MAX: f64 = 1.5;
/// The most commits a task of an agent may need, its calls and their bills included.
const COMMITS_MAX: f64 = 1.2;
/// Number of times that a conversation is read from the file again.
const LOADS: usize = 9;
/// Tasks per round and side.
const TASKS: u32 = 20_000;

/// Where checkpoints go.
const SAVERS: [&str; 7] =
    ["none", "memory", "sqlite", "sqlite-full", "hosted-memory", "hosted", "hosted-full"];

/// CPU time of all threads of this process, in nanoseconds.
fn cpu_ns() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// CPU and wall time per task, in microseconds.
#[derive(Clone, Copy)]
struct Cost {
    cpu: f64,
    wall: f64,
}

/// The cost of `run`, whose inputs are made before the time is taken.
async fn cost<T>(tasks: u32, input: impl Fn() -> T, mut run: impl AsyncFnMut(T)) -> Cost {
    cost_on(tasks, || (), input, async |(): &(), input| run(input).await).await
}

/// The same over something that a batch of runs shares, made and dropped beside the time.
async fn cost_on<H, T>(
    tasks: u32,
    shared: impl Fn() -> H,
    input: impl Fn() -> T,
    mut run: impl AsyncFnMut(&H, T),
) -> Cost {
    let batches = (TASKS / tasks / BATCH).max(1);
    let mut cpu = 0.0;
    let mut wall = 0.0;
    for _ in 0..batches {
        let shared = shared();
        let inputs: Vec<T> = (0..BATCH).map(|_| input()).collect();
        let cpu_before = cpu_ns();
        let wall_before = Instant::now();
        for input in inputs {
            run(&shared, input).await;
        }
        wall += wall_before.elapsed().as_nanos() as f64;
        cpu += cpu_ns() - cpu_before;
    }
    let all = f64::from(batches * BATCH * tasks) * 1e3;
    Cost { cpu: cpu / all, wall: wall / all }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn medians(costs: &[Cost]) -> Cost {
    Cost {
        cpu: median(costs.iter().map(|c| c.cpu).collect()),
        wall: median(costs.iter().map(|c| c.wall).collect()),
    }
}

/// Cost of the same work by hand.
#[derive(Clone, Copy)]
struct ByHand {
    typed: Cost,
    json: Cost,
}

/// The loops by hand of one kind of work.
struct Loops {
    typed: Typed,
    json: Inline,
    costs: Vec<(Cost, Cost)>,
}

impl Loops {
    async fn new(work: Work) -> Self {
        let typed = Typed::new(work);
        let json = Inline::new(work);
        let end = typed.run(typed.input()).await;
        assert!(typed.is_right(&end), "by hand: {end:?}");
        Self { typed, json, costs: Vec::new() }
    }

    async fn measure(&mut self, tasks: u32) {
        let Self { typed, json, costs } = self;
        let typed = cost(
            tasks,
            || typed.input(),
            async |input| {
                std::hint::black_box(typed.run(input).await);
            },
        );
        let typed = typed.await;
        let json = cost(
            tasks,
            || json.input(),
            async |input| {
                std::hint::black_box(json.run(input).await);
            },
        );
        costs.push((typed, json.await));
    }

    /// Medians of all rounds but the first, which warms up.
    fn medians(&self) -> ByHand {
        let (typed, json): (Vec<_>, Vec<_>) = self.costs.iter().skip(1).copied().unzip();
        ByHand { typed: medians(&typed), json: medians(&json) }
    }
}

/// Measures a case without and with a checkpointer, interleaved with the loops by hand.
async fn measure(case: &Case, savers: &[&str], rows: &mut Vec<Value>) {
    case.verify().await;
    let mut by_hand = Loops::new(case.work).await;
    let mut none = Vec::new();
    let mut memory = Vec::new();
    for _ in 0..=ROUNDS {
        let run = async |input| case.run(input).await;
        by_hand.measure(case.tasks).await;
        if savers.contains(&"none") {
            none.push(cost(case.tasks, || case.input(), run).await);
        }
        let keeps = async |host: &Host, input| case.run_kept(host, input).await;
        if savers.contains(&"memory") {
            let host = || cases::kept().0;
            let input = || case.thread_input();
            memory.push(cost_on(case.tasks, host, input, keeps).await);
        }
    }
    let hand = by_hand.medians();
    let in_process = memory.get(1..).map(medians);
    for (saver, costs) in [("none", none), ("memory", memory)] {
        // The first round warms up.
        if let Some(costs) = costs.get(1..) {
            print_cost(case, saver, medians(costs), hand, None, rows);
        }
    }
    for (saver, durability) in [("sqlite", Durability::Normal), ("sqlite-full", Durability::Full)] {
        if savers.contains(&saver) {
            let (ours, bar) = filed(case, durability, hand).await;
            print_cost(case, saver, ours, hand, Some(bar), rows);
        }
    }
    if savers.contains(&"hosted-memory") {
        let hosted = hosted(case, &cases::hosted::Hosted::in_memory(case).await).await;
        let ours = medians(&hosted);
        print_cost(case, "hosted-memory", ours, hand, None, rows);
        if let Some(in_process) = in_process {
            tell_ratio(case, ours.cpu / in_process.cpu, rows);
        }
    }
    if savers.contains(&"hosted") {
        let hosted = hosted(case, &cases::hosted::Hosted::open(case).await).await;
        print_cost(case, "hosted", medians(&hosted), hand, None, rows);
    }
}

/// Parts of the bar of a case with a store.
#[derive(Clone, Copy)]
struct Bar {
    commits_per_task: f64,
    commit_us: f64,
    commit_bytes: usize,
    limit_us: f64,
}

fn print_cost(
    case: &Case,
    saver: &str,
    ours: Cost,
    hand: ByHand,
    bar: Option<Bar>,
    rows: &mut Vec<Value>,
) {
    let ratio = ours.cpu / hand.typed.cpu;
    let json_ratio = ours.cpu / hand.json.cpu;
    let limit = bar.map(|bar| format!("{:.2}", bar.limit_us)).unwrap_or_default();
    println!(
        "{:<13} {saver:>13} {:>10.2} {:>10.2} {:>10.3} {ratio:>7.1} {:>10.3} {json_ratio:>7.1} {limit:>10}",
        case.name, ours.cpu, ours.wall, hand.typed.cpu, hand.json.cpu
    );
    let mut row = json!({
        "case": case.name, "saver": saver, "engine": "weftwork",
        "cpu_us_per_task": ours.cpu, "wall_us_per_task": ours.wall,
        "bound_us_per_task": hand.typed.cpu, "bound_ratio": ratio,
        "json_us_per_task": hand.json.cpu, "json_ratio": json_ratio,
    });
    if let Some(bar) = bar {
        row["limit_us"] = json!(bar.limit_us);
        row["commits_per_task"] = json!(bar.commits_per_task);
        row["commit_us"] = json!(bar.commit_us);
        row["commit_bytes"] = json!(bar.commit_bytes);
    }
    rows.push(row);
}

/// Prints and records the cost of a hosted run in memory, as a multiple of a run with the
/// checkpointer in memory.
fn tell_ratio(case: &Case, ratio: f64, rows: &mut [Value]) {
    println!(
        "{:<13} a hosted run in memory costs {ratio:.2} of a run with the checkpointer in memory; the latter stays above {HOSTED_MEMORY_RATIO_MAX}",
        case.name
    );
    if let Some(row) = rows.last_mut() {
        row["checkpointer_ratio"] = json!(ratio);
        row["limit_checkpointer_ratio"] = json!(HOSTED_MEMORY_RATIO_MAX);
    }
}

/// The case with checkpoints in SQLite, interleaved with commits by hand of one row of as many
/// bytes; and the bar that these set: one and a half times as much as the commits by hand, and 3 us; for the fan-out,
/// four times the loop over JSON and its share of the commits.
async fn filed(case: &Case, durability: Durability, hand: ByHand) -> (Cost, Bar) {
    let filed = cases::filed::Filed::open(durability);
    let input = case.thread_input();
    let thread = std::sync::Arc::clone(&input.thread);
    case.run_kept(&filed.host, input).await;
    assert_eq!(filed.checkpoints(&thread).await, case.checkpoints(), "{}", case.name);
    let calls = case.calls_on(&filed.host, &thread).await;
    assert_eq!(calls, if case.journals() { case.tasks as usize } else { 0 }, "{}", case.name);
    let commits_per_task = filed.commits() as f64 / f64::from(case.tasks);
    let bytes = filed.bytes();
    let bare = cases::filed::Bare::open(durability, bytes);
    let mut ours = Vec::new();
    let mut commits = Vec::new();
    let mut id = 0;
    for round in 0..=ROUNDS {
        let commits_a_run = commits_per_task * f64::from(case.tasks);
        let runs = (f64::from(FILED_COMMITS) / commits_a_run) as u32;
        let inputs: Vec<_> = (0..runs).map(|_| case.thread_input()).collect();
        let cpu = cpu_ns();
        let wall = Instant::now();
        for input in inputs {
            case.run_kept(&filed.host, input).await;
        }
        let all = f64::from(runs * case.tasks) * 1e3;
        let wall = wall.elapsed().as_nanos() as f64 / all;
        let cost = Cost { cpu: (cpu_ns() - cpu) / all, wall };
        let cpu = cpu_ns();
        for _ in 0..FILED_COMMITS {
            id += 1;
            bare.commit(id);
        }
        let commit = (cpu_ns() - cpu) / f64::from(FILED_COMMITS) / 1e3;
        if round > 0 {
            ours.push(cost);
            commits.push(commit);
        }
    }
    let commit_us = median(commits);
    let share = commits_per_task * commit_us;
    let fan = case.work == Work::Fan100;
    let limit_us = if fan { 4.0 * hand.json.cpu + share } else { 1.5 * share + 3.0 };
    (medians(&ours), Bar { commits_per_task, commit_us, commit_bytes: bytes, limit_us })
}

/// The case as hosted runs, which cost much more and are measured with fewer tasks.
async fn hosted(case: &Case, hosted: &cases::hosted::Hosted) -> Vec<Cost> {
    let mut thread = 0;
    let mut costs = Vec::new();
    for round in 0..=ROUNDS {
        let runs = (HOSTED_TASKS / case.tasks).max(2);
        let requests: Vec<_> = (0..runs)
            .map(|_| {
                thread += 1;
                hosted.input(thread)
            })
            .collect();
        let cpu = cpu_ns();
        let wall = Instant::now();
        for request in requests {
            hosted.run(request).await;
        }
        let all = f64::from(runs * case.tasks) * 1e3;
        let wall = wall.elapsed().as_nanos() as f64 / all;
        if round > 0 {
            costs.push(Cost { cpu: (cpu_ns() - cpu) / all, wall });
        }
    }
    costs
}

/// The agent's loop with its calls journaled and billed: calls have no commits of their own.
async fn journaled(savers: &[&str], rows: &mut Vec<Value>) {
    for (saver, durability) in [("hosted", Durability::Normal), ("hosted-full", Durability::Full)] {
        if !savers.contains(&saver) {
            continue;
        }
        let mut case = Journaled::open(durability).await;
        // What is committed once for a store and not for each run.
        case.run().await;
        let before = case.commits();
        case.run().await;
        let commits = (case.commits() - before) as f64 / f64::from(Journaled::TASKS);
        case.verify().await;
        let bytes = case.bytes();
        let bare = cases::filed::Bare::open(durability, bytes);
        let mut costs = Vec::new();
        let mut bares = Vec::new();
        let mut id = 0;
        for round in 0..=ROUNDS {
            let runs = HOSTED_TASKS / Journaled::TASKS;
            let cpu = cpu_ns();
            let wall = Instant::now();
            for _ in 0..runs {
                case.run().await;
            }
            let all = f64::from(runs * Journaled::TASKS) * 1e3;
            let wall = wall.elapsed().as_nanos() as f64 / all;
            let cost = Cost { cpu: (cpu_ns() - cpu) / all, wall };
            let cpu = cpu_ns();
            for _ in 0..HOSTED_TASKS {
                id += 1;
                bare.commit(id);
            }
            if round > 0 {
                costs.push(cost);
                bares.push((cpu_ns() - cpu) / f64::from(HOSTED_TASKS) / 1e3);
            }
        }
        let ours = medians(&costs);
        let commit_us = median(bares);
        let limit_us = 1.5 * commits * commit_us + 3.0;
        println!(
            "react50 with calls, {saver}: {:.2} us a task, limit {limit_us:.2} ({:.2} wall, a commit of {bytes} bytes by hand {commit_us:.2}); {commits:.3} commits a task, limit {COMMITS_MAX}",
            ours.cpu, ours.wall
        );
        rows.push(json!({
            "case": "react50-calls", "saver": saver, "engine": "weftwork",
            "cpu_us_per_task": ours.cpu, "wall_us_per_task": ours.wall, "commit_us": commit_us, "commit_bytes": bytes,
            "limit_us": limit_us,
            "commits_per_task": commits, "limit_commits_per_task": COMMITS_MAX,
        }));
    }
}

/// The agent's loop must not cost more the longer it goes: the last of 500 turns against the
/// first 50.
async fn flat(rows: &mut Vec<Value>) {
    let short = Case::react(50);
    let long = Case::react(500);
    let mut ratios = Vec::new();
    for round in 0..=ROUNDS {
        let short_cost =
            cost(short.tasks, || short.input(), async |input| short.run(input).await).await;
        let long_cost =
            cost(long.tasks, || long.input(), async |input| long.run(input).await).await;
        if round > 0 {
            // What turns 51 to 500 cost each, against one of the first 50.
            let all = long_cost.cpu * f64::from(long.tasks);
            let first = short_cost.cpu * f64::from(short.tasks);
            let later = (all - first) / f64::from(long.tasks - short.tasks);
            ratios.push(later / short_cost.cpu);
        }
    }
    let ratio = median(ratios);
    println!("react: turns 51 to 500 cost {ratio:.2} of turns 1 to 50");
    rows.push(json!({"case": "react-flat", "saver": "none", "engine": "weftwork", "ratio": ratio}));
}

/// A step of a thread with a long list against one with an empty list.
async fn long_list(rows: &mut Vec<Value>) {
    let mut ratios = Vec::new();
    for round in 0..=ROUNDS {
        let empty = cases::with_list(0).await;
        let full = cases::with_list(100_000).await;
        let empty = cost(10, || (), async |()| empty.run().await).await;
        let full = cost(10, || (), async |()| full.run().await).await;
        if round > 0 {
            ratios.push(full.cpu / empty.cpu);
        }
    }
    let ratio = median(ratios);
    println!("list of 100,000: a step costs {ratio:.2} of one with an empty list");
    rows.push(json!({"case": "list100k", "saver": "none", "engine": "weftwork", "ratio": ratio}));
}

/// Ten thousand tasks that wait for 100 ms each, against one such wait.
async fn waits(rows: &mut Vec<Value>) {
    let case = cases::Waits::new();
    let wall = Instant::now();
    case.run().await;
    let ratio = wall.elapsed().as_secs_f64() / 0.1;
    println!("10,000 tasks that wait 100 ms: {ratio:.1} times the wait");
    rows.push(json!({"case": "wait10k", "saver": "none", "engine": "weftwork", "ratio": ratio}));
}

/// A conversation of 2,000 turns: what a turn costs early and late, how the file grows, and what
/// it takes to read the thread after a restart.
async fn growth(rows: &mut Vec<Value>) {
    let mut growth = cases::growth::Growth::open().await;
    let mut turn = 0;
    for (upto, window) in [(10, 10), (100, 20), (1_000, 20), (2_000, 20)] {
        while turn < upto - window {
            growth.turn().await;
            turn += 1;
        }
        let cpu = cpu_ns();
        for _ in 0..window {
            growth.turn().await;
            turn += 1;
        }
        let cpu_ms_per_turn = (cpu_ns() - cpu) / f64::from(window) / 1e6;
        let db_bytes = growth.bytes();
        let mut loads = Vec::new();
        for _ in 0..=LOADS {
            let cpu = cpu_ns();
            let loaded = growth.load().await;
            loads.push((cpu_ns() - cpu) / 1e3 / f64::from(2 * turn));
            drop(loaded);
        }
        // The first finds nothing of the list in the processor's cache.
        let first = loads.remove(0);
        let again = median(loads);
        let cpu = cpu_ns();
        growth.page().await;
        let page_ms = (cpu_ns() - cpu) / 1e6;
        println!(
            "growth: turn {turn}: {cpu_ms_per_turn:.3} ms a turn, {db_bytes} bytes, load {first:.2} us a message and {again:.2} again, page of 10 {page_ms:.2} ms"
        );
        rows.push(json!({
            "case": "growth", "engine": "weftwork", "turn": turn,
            "cpu_ms_per_turn": cpu_ms_per_turn, "db_bytes": db_bytes,
            "load_us_per_message": first, "load_again_us_per_message": again,
            "page_ms": page_ms,
        }));
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    // Names of cases and of savers; none: all of them.
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let (savers, cases): (Vec<&str>, Vec<&str>) =
        named.iter().map(String::as_str).partition(|name| SAVERS.contains(name));
    let savers = if savers.is_empty() { SAVERS.to_vec() } else { savers };
    let wanted = |name: &str| cases.is_empty() || cases.contains(&name);
    let mut rows: Vec<Value> = Vec::new();
    println!(
        "{:<13} {:>13} {:>10} {:>10} {:>10} {:>7} {:>10} {:>7} {:>10}",
        "case", "saver", "cpu us", "wall us", "bound us", "ratio", "json us", "ratio", "limit us"
    );
    runtime.block_on(async {
        // First, while no other case has left memory to the process.
        if named.is_empty() || named.iter().any(|name| name == "parked") {
            cases::parked::measure(&mut rows).await;
        }
        for work in [Work::Seq10, Work::Fan100, Work::React50, Work::Wide100] {
            let case = Case::new(work);
            if wanted(case.name) {
                measure(&case, &savers, &mut rows).await;
            }
        }
        if wanted("react50-calls") {
            let kept = savers.iter().copied().filter(|saver| !saver.starts_with("hosted"));
            measure(&Case::calls(), &kept.collect::<Vec<_>>(), &mut rows).await;
            journaled(&savers, &mut rows).await;
        }
        if named.iter().any(|name| name == "growth") {
            growth(&mut rows).await;
        }
        if named.iter().any(|name| name == "apart") {
            cases::apart::measure(&Case::new(Work::Fan100), &mut rows).await;
        }
        if named.iter().any(|name| name == "followers") {
            cases::followers::measure(&mut rows).await;
        }
        if named.iter().any(|name| name == "history") {
            cases::history::measure(&mut rows).await;
        }
        if named.iter().any(|name| name == "resumed") {
            cases::resumed::measure(&mut rows).await;
        }
        if named.iter().any(|name| name == "threads") {
            cases::threads::measure(1_000_000, &mut rows).await;
        }
        if !named.is_empty() {
            return;
        }
        assert_eq!(TURNS, 50, "the case is named for it");
        flat(&mut rows).await;
        long_list(&mut rows).await;
        waits(&mut rows).await;
        growth(&mut rows).await;
        cases::apart::measure(&Case::new(Work::Fan100), &mut rows).await;
        cases::followers::measure(&mut rows).await;
        cases::history::measure(&mut rows).await;
        cases::resumed::measure(&mut rows).await;
        cases::threads::measure(100_000, &mut rows).await;
    });
    if named.is_empty() || named.iter().any(|name| name == "cores") {
        cases::cores::measure(&mut rows);
    }
    let file = match named.as_slice() {
        [] => "engine.json",
        [one] if one == "threads" => "scale.json",
        _ => return,
    };
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target");
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| root.to_owned());
    let dir = std::path::Path::new(&target).join("bench");
    std::fs::create_dir_all(&dir).expect("the target directory can be written");
    let text = serde_json::to_string_pretty(&rows).expect("plain JSON");
    std::fs::write(dir.join(file), text).expect("the target directory can be written");
}
