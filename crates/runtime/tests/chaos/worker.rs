//! The processes that work, and what their graphs do.

use crate::clocks::Skewed;
use crate::place::Place;
use crate::points;
use crate::seed;
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, Graph, List, Next, NodeResult, START, State, SubgraphState,
};
use weftwork_runtime::{LeaseConfig, Recovery, Runtime};
use weftwork_store::{NewRun, Store};
use weftwork_types::caller::Caller;
use weftwork_types::canonical::hash;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::{Attempts, CallKind, CallResult, Clock, Intent, Opened};
use weftwork_types::run::{Durability, RunInput, RunOptions, RunRef};
use weftwork_types::tool::Effect;
use weftwork_types::{Principal, RunId, ThreadId, WorkerId};

/// Number of supersteps of each run.
pub(crate) const STEPS: u32 = 10;
pub(crate) const CHAIN: &str = "chaos:chain";
/// As the chain, with another node beside each step, which reads.
pub(crate) const PAIR: &str = "chaos:pair";
pub(crate) const POISON: &str = "chaos:poison";
/// As the poison, by a stack that is full.
pub(crate) const OVERFLOW: &str = "chaos:overflow";
/// As the poison, by memory that is not there.
pub(crate) const HUNGRY: &str = "chaos:hungry";
/// Says some words, one after the other.
pub(crate) const SPEAKS: &str = "chaos:speaks";
/// Runs the chain as a subgraph, and then returns a message whose text it emits before.
pub(crate) const NESTED: &str = "chaos:nested";
/// Sleeps until the time in its input, in milliseconds.
pub(crate) const NAPS: &str = "chaos:naps";
/// Number of words.
const WORDS: u32 = 200;

const PLACE: &str = "WEFT_CHAOS_PLACE";
const FOLDER: &str = "WEFT_CHAOS_FOLDER";
const PACE_MS: &str = "WEFT_CHAOS_PACE_MS";
const ATTEMPTS_MAX: &str = "WEFT_CHAOS_ATTEMPTS_MAX";
const STEP_MS: &str = "WEFT_CHAOS_STEP_MS";
/// Where the worker is to end its process.
pub(crate) const POINT: &str = "WEFT_CHAOS_POINT";
/// Set where processes are to make calls again that are on record.
pub(crate) const FORGETS: &str = "WEFT_CHAOS_FORGETS";
/// The file that says what time it is for the worker.
pub(crate) const CLOCK: &str = "WEFT_CHAOS_CLOCK";

/// Data that the worker processes of a test share.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) database: Place,
    pub(crate) folder: PathBuf,
    /// A fourth of a lease.
    pub(crate) pace_ms: u64,
    /// Duration of each step.
    pub(crate) step_ms: u64,
    /// Number of workers that a run may end. A test that kills without mercy ends more than three
    /// workers that had the same run.
    pub(crate) attempts_max: u32,
}

impl Site {
    fn lease(&self) -> LeaseConfig {
        let beat = Duration::from_millis(self.pace_ms);
        LeaseConfig { renew_every: beat, lease: beat * 4, look_every: beat }
    }

    /// The site of a process that a test started; `None` in other processes.
    pub(crate) fn of_process() -> Option<Self> {
        let place = std::env::var(PLACE).ok()?;
        let number = |name| std::env::var(name).expect("is set").parse().expect("a number");
        let folder = PathBuf::from(std::env::var(FOLDER).expect("is set"));
        let pace_ms = number(PACE_MS);
        let step_ms = number(STEP_MS);
        let attempts_max = std::env::var(ATTEMPTS_MAX).expect("is set").parse().expect("a number");
        Some(Self { database: Place::of(&place), folder, pace_ms, step_ms, attempts_max })
    }

    /// Returns a line for each external effect, by any process.
    pub(crate) fn effects(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.join("effects")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The calls that were made outside, with the place of each in the log that is kept there.
    pub(crate) fn made(&self) -> Vec<(u64, String)> {
        let mut place = 0;
        let mut made = Vec::new();
        for line in self.effects() {
            let words: Vec<&str> = line.split(' ').collect();
            if let ["made", name, key, _] = words.as_slice() {
                made.push((place, format!("{name} {key}")));
            }
            place += line.len() as u64 + 1;
        }
        made
    }

    /// The place in that log of what is done next.
    pub(crate) fn next_place(&self) -> u64 {
        std::fs::metadata(self.folder.join("effects")).map_or(0, |file| file.len())
    }
}

/// Where nodes leave traces.
#[derive(Debug, Clone)]
struct Outside {
    folder: Arc<Path>,
    step_ms: u64,
}

impl Outside {
    fn note(&self, line: &str) {
        let file = OpenOptions::new().append(true).create(true).open(self.folder.join("effects"));
        let line = format!("{line} {}\n", std::process::id());
        file.expect("opens").write_all(line.as_bytes()).expect("writes");
    }
}

#[derive(State)]
struct Work {
    tag: String,
    n: u32,
    #[channel(append)]
    log: List<String>,
}

async fn step(state: State<Work>, ctx: Ctx, outside: Deps<Outside>) -> NodeResult<WorkUpdate> {
    let n = state.n().copied().unwrap_or_default() + 1;
    let name = format!("{}:{n}", state.tag().map_or("", String::as_str));
    if outside.step_ms > 0 {
        ctx.calls().clock.sleep(Duration::from_millis(outside.step_ms)).await;
    }
    outside.note(&format!("woke {name}"));
    let intent = Intent {
        kind: CallKind::Once,
        name: name.clone(),
        input: hash(&json!(name)),
        call_id: None,
        effect: Effect::ExternalSideEffect,
        attempts: Attempts::Shared,
    };
    match ctx.calls().journal.open(intent).await? {
        Opened::Settled { .. } => {}
        // The outside takes a call again whose outcome nobody knows.
        Opened::New { key } | Opened::Unknown { key, .. } => {
            // The key tells the outside that it is the same call.
            outside.note(&format!("made {name} {}", key.0));
            ctx.calls().journal.settle(key, CallResult { value: json!(n) }).await?;
        }
    }
    Ok(WorkUpdate::new().n(n).log([name]))
}

/// Reads something outside.
async fn beside(state: State<Work>, ctx: Ctx, outside: Deps<Outside>) -> NodeResult<WorkUpdate> {
    let n = state.n().copied().unwrap_or_default() + 1;
    let name = format!("read.{}:{n}", state.tag().map_or("", String::as_str));
    let intent = Intent {
        kind: CallKind::Once,
        name: name.clone(),
        input: hash(&json!(name)),
        call_id: None,
        effect: Effect::ReadOnly,
        attempts: Attempts::Each,
    };
    if let Opened::New { key } = ctx.calls().journal.open(intent).await? {
        outside.note(&format!("made {name} {}", key.0));
        ctx.calls().journal.settle(key, CallResult { value: json!(n) }).await?;
    }
    Ok(WorkUpdate::new())
}

fn chain(outside: &Outside) -> CompiledGraph {
    Graph::<Work>::new("chain")
        .with(outside.clone())
        .node("step", step)
        .edge(START, "step")
        .route_to("step", ["step"], |state: State<Work>| {
            if state.n().is_some_and(|n| *n < STEPS) { Next::node("step") } else { Next::End }
        })
        .build()
        .expect("sound")
}

fn pair(outside: &Outside) -> CompiledGraph {
    Graph::<Work>::new("pair")
        .with(outside.clone())
        .node("step", step)
        .node("beside", beside)
        .edge(START, "step")
        .edge(START, "beside")
        .route_to("step", ["step", "beside"], |state: State<Work>| {
            let goes_on = state.n().is_some_and(|n| *n < STEPS);
            if goes_on { vec![Next::node("step"), Next::node("beside")] } else { vec![Next::End] }
        })
        .build()
        .expect("sound")
}

/// All that is said.
pub(crate) fn words() -> &'static str {
    static WHOLE: LazyLock<String> = LazyLock::new(|| (0..WORDS).map(spoken).collect());
    &WHOLE
}

fn spoken(n: u32) -> String {
    format!("wörd {n} ")
}

fn speaks(outside: &Outside) -> CompiledGraph {
    Graph::<Work>::new("speaks")
        .with(outside.clone())
        .node("speaks", async |ctx: Ctx, outside: Deps<Outside>| {
            let id = ctx.message_id();
            for n in 0..WORDS {
                ctx.token(&id, &spoken(n));
                if n % 20 == 19 {
                    ctx.emit(json!(n));
                }
                ctx.calls().clock.sleep(Duration::from_millis(outside.step_ms)).await;
            }
            WorkUpdate::new().log(["spoke".to_owned()])
        })
        .edge(START, "speaks")
        .build()
        .expect("sound")
}

#[derive(State)]
struct Nested {
    tag: String,
    n: u32,
    #[channel(messages)]
    messages: List<Message>,
}

async fn summarizes(ctx: Ctx, outside: Deps<Outside>) -> NestedUpdate {
    let id = ctx.message_id();
    for n in 0..5 {
        ctx.token(&id, &spoken(n));
        ctx.emit(json!(n));
        ctx.calls().clock.sleep(Duration::from_millis(outside.step_ms)).await;
    }
    let text: String = (0..5).map(spoken).collect();
    NestedUpdate::new().messages([Message::text(id, Role::Assistant, text)])
}

fn nested(outside: &Outside) -> CompiledGraph {
    Graph::<Nested>::new("nested")
        .with(outside.clone())
        .subgraph("within", chain(outside), SubgraphState::PerTask)
        .node("summarizes", summarizes)
        .edge(START, "within")
        .edge("within", "summarizes")
        .build()
        .expect("sound")
}

fn naps() -> CompiledGraph {
    Graph::<Work>::new("naps")
        .node("naps", async |state: State<Work>, ctx: Ctx| {
            let until = state.tag().and_then(|tag| tag.rsplit('.').next()?.parse::<i64>().ok());
            let left = until.expect("a time").saturating_sub(ctx.clock().now().0);
            ctx.sleep(Duration::from_millis(u64::try_from(left).unwrap_or(0))).await?;
            NodeResult::Ok(WorkUpdate::new().log(["up".to_owned()]))
        })
        .edge(START, "naps")
        .build()
        .expect("sound")
}

/// Ends the process in the way of a graph.
fn ends(graph: &str) {
    fn deeper(levels: u64) -> u64 {
        let room = std::hint::black_box([levels; 512]);
        if levels == u64::MAX { 0 } else { deeper(levels + 1) + room[usize::from(levels == 7)] }
    }
    match graph {
        OVERFLOW => {
            std::hint::black_box(deeper(0));
        }
        HUNGRY => {
            std::hint::black_box(Vec::<u8>::with_capacity(1 << 46));
        }
        _ => {}
    }
    std::process::abort();
}

/// A graph whose second node ends the process, unless it is cured.
fn poison(outside: &Outside, graph: &'static str) -> CompiledGraph {
    Graph::<Work>::new("poison")
        .with(outside.clone())
        .node("well", async |_: State<Work>| WorkUpdate::new().log(["well".to_owned()]))
        .node("abort", move |outside: Deps<Outside>| async move {
            if !outside.folder.join("cured").exists() {
                outside.note("aborts");
                ends(graph);
            }
            WorkUpdate::new().log(["cured".to_owned()])
        })
        .edge(START, "well")
        .edge("well", "abort")
        .build()
        .expect("sound")
}

/// Entry point of a worker process; a test that passes at once in other processes.
#[test]
fn worker_process() {
    let Some(site) = Site::of_process() else { return };
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    tokio.expect("a runtime").block_on(async {
        let outside = Outside { folder: site.folder.as_path().into(), step_ms: site.step_ms };
        let clock = Skewed::of_this_worker();
        let store = points::planted(site.database.open_by(clock.clone()));
        let runtime = Runtime::builder(store)
            .clock(clock)
            .graph(CHAIN, chain(&outside))
            .graph(PAIR, pair(&outside))
            .graph(POISON, poison(&outside, POISON))
            .graph(OVERFLOW, poison(&outside, OVERFLOW))
            .graph(HUNGRY, poison(&outside, HUNGRY))
            .graph(SPEAKS, speaks(&outside))
            .graph(NESTED, nested(&outside))
            .graph(NAPS, naps())
            .runs_max(64)
            .recovery(Recovery::Automatic)
            .attempts_max(site.attempts_max)
            .lease(site.lease());
        let runtime = runtime.open().await.expect("opens");
        println!("worker {}", runtime.worker());
        until_left().await;
    });
    std::process::exit(0);
}

/// Waits until the process that started this one is gone.
pub(crate) async fn until_left() {
    let input = std::thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
    while !input.is_finished() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Treatment of recorded calls by worker processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    Sound,
    /// They do not: for the tests that see whether this is found.
    Forgets,
}

impl Memory {
    pub(crate) fn tell(self, command: &mut Command) {
        if self == Self::Forgets {
            command.env(FORGETS, "1");
        }
    }
}

/// Arguments that make this program a worker.
pub(crate) const ARGS: [&str; 3] = ["--exact", "worker::worker_process", "--nocapture"];

/// A worker process. Dies with the test.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    pub(crate) id: WorkerId,
    _stdin: ChildStdin,
    /// Open as long as it lives: after a minute the test harness says there that it is slow.
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(crate) fn start(site: &Site) -> Self {
        Self::start_with(Memory::Sound, site)
    }

    pub(crate) fn start_with(memory: Memory, site: &Site) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        memory.tell(command.args(ARGS));
        Self::start_by(command, site)
    }

    /// Starts it by a command of the test's, which passes [`ARGS`] to this program.
    pub(crate) fn start_by(mut command: Command, site: &Site) -> Self {
        command.env(PLACE, site.database.word()).env(FOLDER, &site.folder);
        command.env(PACE_MS, site.pace_ms.to_string()).env(STEP_MS, site.step_ms.to_string());
        command.env(ATTEMPTS_MAX, site.attempts_max.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("starts");
        let stdin = child.stdin.take().expect("a pipe");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let id = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let at = line.find("worker ")?;
            WorkerId::new(line.get(at + "worker ".len()..)?.trim()).ok()
        });
        Self { child, id: id.expect("it says who it is"), _stdin: stdin, _lines: lines }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(mut self) -> WorkerId {
        self.child.kill().expect("kills");
        self.child.wait().expect("ends");
        self.id.clone()
    }

    pub(crate) fn is_dead(&mut self) -> bool {
        self.child.try_wait().expect("is ours").is_some()
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().expect("runs");
        assert!(sent.success(), "{name} to {pid}");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may be dead, and stopped processes die of this too.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

/// When the supersteps of a run are stored: drawn by the seed.
pub(crate) fn drawn(thread: &str, tag: &str) -> Durability {
    match hash(&json!([seed(), thread, tag])).0[0] % 3 {
        0 => Durability::Sync,
        1 => Durability::Async,
        _ => Durability::Exit,
    }
}

/// The same as a word.
pub(crate) fn word(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "sync",
        Durability::Async => "async",
        Durability::Exit => "exit",
    }
}

/// Makes a run whose durability is drawn, and leaves it to the workers.
pub(crate) async fn accept(store: &Arc<dyn Store>, graph: &str, thread: &str, tag: &str) -> RunRef {
    accept_as(store, graph, thread, tag, drawn(thread, tag)).await
}

/// Makes a run and leaves it to the workers.
pub(crate) async fn accept_as(
    store: &Arc<dyn Store>,
    graph: &str,
    thread: &str,
    tag: &str,
    durability: Durability,
) -> RunRef {
    let thread = ThreadId::new(thread).expect("valid id");
    let run = RunId::new(format!("{thread}-{tag}")).expect("valid id");
    let at = RunRef { thread, run };
    let new = NewRun {
        at: at.clone(),
        graph: graph.to_owned(),
        caller: Caller::local("request").expect("valid id"),
        input: RunInput::Start { input: json!({"tag": format!("{}.{tag}", at.thread), "n": 0}) },
        options: RunOptions { durability, ..RunOptions::default() },
        created_at: weftwork_graph::SystemClock::new().now(),
    };
    store.create_run(&Principal::local(), new, [].into()).await.expect("accepted");
    at
}

/// A runtime in this process that hosts the chain.
pub(crate) async fn runtime(site: &Site) -> Runtime {
    let outside = Outside { folder: site.folder.as_path().into(), step_ms: site.step_ms };
    let runtime = Runtime::builder(site.database.open()).graph(CHAIN, chain(&outside));
    runtime.lease(site.lease()).open().await.expect("opens")
}

/// A runtime in this process that follows the frames of runs.
pub(crate) async fn reader(site: &Site) -> Runtime {
    let outside = Outside { folder: site.folder.as_path().into(), step_ms: 0 };
    let runtime = Runtime::builder(site.database.open()).graph(CHAIN, chain(&outside));
    let runtime = runtime.graph(SPEAKS, speaks(&outside)).graph(NESTED, nested(&outside));
    runtime.lease(site.lease()).open().await.expect("opens")
}

/// A runtime in this process that follows speeches.
pub(crate) async fn speech(site: &Site) -> Runtime {
    let outside = Outside { folder: site.folder.as_path().into(), step_ms: 0 };
    let runtime = Runtime::builder(site.database.open()).graph(SPEAKS, speaks(&outside));
    runtime.lease(site.lease()).open().await.expect("opens")
}

/// The state of a thread, read by a runtime that does nothing else.
pub(crate) async fn state(site: &Site, graph: &str, thread: &str) -> Value {
    let outside = Outside { folder: site.folder.as_path().into(), step_ms: 0 };
    let built = match graph {
        CHAIN => chain(&outside),
        PAIR => pair(&outside),
        OVERFLOW => poison(&outside, OVERFLOW),
        HUNGRY => poison(&outside, HUNGRY),
        _ => poison(&outside, POISON),
    };
    let runtime = Runtime::builder(site.database.open()).graph(graph, built).open().await;
    let thread = ThreadId::new(thread).expect("valid id");
    runtime.expect("opens").state(&Principal::local(), &thread).await.expect("reads").values
}
