//! Programs that run a graph by themselves, over a saver in a file, and are killed.

use crate::check::repeated;
use crate::worker::{FORGETS, Memory};
use crate::{full, report, seed};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::run_loop::{Host, Start, StateQuery};
use weftwork_graph::{CompiledGraph, Ctx, Deps, Graph, List, Next, NodeResult, Once, START, State};
use weftwork_runtime::StoreCheckpointer;
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_testkit::sim::Draw;
use weftwork_types::canonical::hash;
use weftwork_types::port::{
    Attempts, CallKind, CallRecord, CallResult, CallState, IdempotencyKey, Intent, Opened,
};
use weftwork_types::tool::Effect;
use weftwork_types::{Principal, ThreadId};

/// The folder of the program, which tells it what it is.
const FOLDER: &str = "WEFT_CHAOS_ALONE";
const ARGS: [&str; 3] = ["--exact", "alone::program", "--nocapture"];
const STEPS: u64 = 40;
const THREAD: &str = "alone";

#[derive(State)]
struct Work {
    #[channel(default)]
    n: u64,
    #[channel(append)]
    log: List<u64>,
}

/// Where each call leaves a line when it is made.
#[derive(Debug, Clone)]
struct Outside(Arc<Path>);

impl Outside {
    fn note(&self, key: impl std::fmt::Display) {
        let file = OpenOptions::new().append(true).create(true).open(self.0.join("made"));
        file.expect("opens").write_all(format!("{key}\n").as_bytes()).expect("writes");
    }

    fn made(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.0.join("made")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// Calls a model, waits, does something outside, and waits again.
async fn step(state: State<Work>, ctx: Ctx, outside: Deps<Outside>) -> NodeResult<WorkUpdate> {
    let n = state.n() + 1;
    let intent = Intent {
        kind: CallKind::Model,
        name: "model".to_owned(),
        input: hash(&json!(n)),
        call_id: None,
        effect: Effect::ReadOnly,
        attempts: Attempts::Each,
    };
    match ctx.calls().journal.open(intent).await? {
        Opened::New { key } => {
            outside.note(format_args!("read {}", key.0));
            ctx.calls().journal.settle(key, CallResult { value: json!(n) }).await?;
        }
        // Makes it again, for the test that sees whether this is found.
        Opened::Settled { key, .. } if std::env::var_os(FORGETS).is_some() => {
            outside.note(format_args!("read {}", key.0));
        }
        Opened::Settled { .. } | Opened::Unknown { .. } => {}
    }
    ctx.clock().sleep(Duration::from_millis(1)).await;
    let charge = Once::new("charge").with(json!(n)).idempotent();
    let charged: u64 = ctx
        .once(charge, async |key| {
            outside.note(format_args!("charge {key}"));
            Ok(n)
        })
        .await?;
    ctx.clock().sleep(Duration::from_millis(1)).await;
    Ok(WorkUpdate::new().n(n).log([charged]))
}

fn graph(folder: &Path) -> CompiledGraph {
    Graph::<Work>::new("alone")
        .with(Outside(folder.into()))
        .node("step", step)
        .edge(START, "step")
        .route_to("step", ["step"], |state: State<Work>| {
            if *state.n() < STEPS { vec![Next::node("step")] } else { Vec::new() }
        })
        .build()
        .expect("sound")
}

fn host(folder: &Path) -> Host {
    let options = Options { durability: Durability::Normal, ..Options::default() };
    let store = SqliteStore::open(folder.join("alone.db"), &options).expect("opens");
    Host::new().with_checkpointer(StoreCheckpointer::new(Arc::new(store), Principal::local()))
}

/// A program of these: goes on with the thread, or begins it.
#[tokio::test]
async fn program() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let graph = graph(&folder);
    let host = host(&folder);
    let state = graph.state(&host, &StateQuery::thread(THREAD), false).await.expect("reads");
    let start = match state.metadata {
        Some(_) => Start::Continue,
        None => Start::Input(json!({})),
    };
    let ended = graph.run(&host, start).thread(THREAD).outcome().await.expect("runs");
    let output = ended.output().expect("it ends");
    // At once: it may be killed here as well.
    std::fs::write(folder.join("ends"), output.to_string()).expect("writes");
    std::fs::rename(folder.join("ends"), folder.join("ended")).expect("moves");
}

/// Returns the calls with a recorded result, in the notation used when they are made.
async fn settled(folder: &Path) -> BTreeSet<String> {
    let graph = graph(folder);
    let host = host(folder);
    let calls = graph.calls(&host, &StateQuery::thread(THREAD)).await.expect("reads");
    let settled = calls.iter().filter(|call| call.state == CallState::Settled);
    let thread = ThreadId::new(THREAD).expect("a name");
    let noted = |call: &CallRecord| match call.kind {
        CallKind::Once => format!("charge {}", IdempotencyKey::of(&thread, call.key)),
        CallKind::Tool | CallKind::Model => format!("read {}", call.key.0),
    };
    settled.map(noted).collect()
}

/// Counts over all kills.
#[derive(Debug, Default)]
struct Tally {
    threads: u64,
    kills: u32,
    /// Calls that a kill found on record.
    recorded: usize,
    /// The recorded calls that were made again after the kill.
    repeated: Vec<String>,
    /// Number of repeated calls that were not on record.
    unknown: usize,
}

/// Runs a thread to its end, however often its program is killed.
async fn one_thread(draw: &mut Draw, memory: Memory, tally: &mut Tally) {
    let folder = tempfile::tempdir().expect("a folder");
    let outside = Outside(folder.path().into());
    let mut recorded = BTreeMap::new();
    let mut found = 0;
    while !folder.path().join("ended").exists() {
        let before = outside.made().len();
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(ARGS).env(FOLDER, folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        memory.tell(&mut command);
        let mut child = command.spawn().expect("starts");
        let upto = before + draw.below(12);
        let mut ended = false;
        while !ended && outside.made().len() <= upto {
            ended = child.try_wait().expect("is ours").is_some();
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        child.kill().expect("kills");
        child.wait().expect("ends");
        tally.kills += u32::from(!ended);
        let place = outside.made().len() as u64;
        for call in settled(folder.path()).await {
            recorded.entry(call).or_insert(place);
        }
        if !ended {
            found = recorded.len();
        }
    }
    let output = std::fs::read_to_string(folder.path().join("ended")).expect("reads");
    let output: serde_json::Value = serde_json::from_str(&output).expect("JSON");
    let expected: Vec<u64> = (1..=STEPS).collect();
    assert_eq!(output["log"], json!(expected), "nothing lost, doubled or out of order");
    assert_eq!(recorded.len() as u64, STEPS * 2, "each call is on record");
    let made: Vec<_> = (0..).zip(outside.made()).collect();
    let different: BTreeSet<_> = made.iter().map(|(_, call)| call).collect();
    let charged = different.iter().filter(|call| call.starts_with("charge")).count();
    assert_eq!(charged as u64, STEPS, "no charge got another key");
    let repeated = repeated(&made, &recorded);
    tally.threads += 1;
    tally.recorded += found;
    tally.unknown += made.len() - different.len() - repeated.len();
    tally.repeated.extend(repeated);
}

#[tokio::test]
async fn a_program_that_is_killed_calls_nothing_again_that_is_on_record() {
    let kills_min = if full() { 1_000 } else { 25 };
    let mut draw = Draw::new(seed());
    let mut tally = Tally::default();
    while tally.kills < kills_min {
        one_thread(&mut draw, Memory::Sound, &mut tally).await;
    }
    let Tally { threads, kills, recorded, repeated, unknown } = tally;
    report(
        "alone",
        &format!(
            "{kills} kills of programs that run a graph by themselves: {threads} threads with {} \
             calls, 0 lost, 0 doubled, 0 out of order, {} of {recorded} calls that a kill found on \
             record made again, {unknown} made again without a record",
            threads * STEPS * 2,
            repeated.len(),
        ),
    );
    assert!(repeated.is_empty(), "on record, and made again: {repeated:?}");
}

#[tokio::test]
async fn a_program_that_makes_recorded_calls_again_is_found() {
    let mut draw = Draw::new(seed());
    let mut tally = Tally::default();
    while tally.kills < 25 && tally.repeated.is_empty() {
        one_thread(&mut draw, Memory::Forgets, &mut tally).await;
    }
    assert!(!tally.repeated.is_empty(), "not found: {tally:?}");
}
