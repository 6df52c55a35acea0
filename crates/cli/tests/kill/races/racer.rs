//! A process that takes part in races.

use super::log::{NodeLog, What};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use weftwork::graph::{CompiledGraph, SystemClock};
use weftwork::graph::{Host, RunOutcome, Start};
use weftwork::prelude::*;
use weftwork::runtime::{EndedRun, Recovery, StoreCheckpointer, Thread};
use weftwork::sqlite::{Options, SqliteStore};
use weftwork::types::Principal;
use weftwork::types::port::Clock;

/// Tells a process where to race.
const PLACE: &str = "WEFT_RACE_PLACE";
/// Marks the lines that are meant for the other side.
const MARK: &str = "race> ";
/// Time that the nodes take.
const WORK: Duration = Duration::from_millis(2);

/// Action of a process on a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Act {
    Start,
    Answer,
    Update,
    Cancel,
}

impl Act {
    pub(super) const ALL: [Self; 4] = [Self::Start, Self::Answer, Self::Update, Self::Cancel];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Answer => "answer",
            Self::Update => "update",
            Self::Cancel => "cancel",
        }
    }
}

/// Where the threads are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Place {
    Sqlite(PathBuf),
    Postgres(String),
}

/// Claiming of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Claims {
    On,
    /// Runs of the program over the same store, without a runtime.
    Off,
}

#[derive(Debug, Serialize, Deserialize)]
struct Setup {
    database: Place,
    log: PathBuf,
    claims: Claims,
}

#[derive(Debug, Serialize, Deserialize)]
struct Request {
    thread: String,
    act: Act,
    /// When to act, in milliseconds.
    start: i64,
}

/// The result of an act: the end of its run, or the code of its refusal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) result: Result<String, String>,
}

/// The other side of a process.
#[derive(Debug)]
pub(super) struct Racer {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Racer {
    pub(super) fn start(place: &Place, log: &Path, claims: Claims) -> Self {
        let setup = Setup { database: place.clone(), log: log.to_owned(), claims };
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "races::racer::racer_process", "--nocapture"]);
        command.env(PLACE, json!(setup).to_string());
        // The process ends when the pipe to it closes.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("starts");
        let requests = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut racer = Self { child, requests, answers };
        assert_eq!(racer.line(), "ready");
        racer
    }

    pub(super) fn ask(&mut self, thread: &str, act: Act, start: i64) {
        let request = Request { thread: thread.to_owned(), act, start };
        writeln!(self.requests, "{}", json!(request)).expect("the process reads");
    }

    pub(super) fn answer(&mut self) -> Answer {
        serde_json::from_str(&self.line()).expect("an answer")
    }

    fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = self.answers.read_line(&mut line).expect("the process writes");
            assert!(read > 0, "the process ended");
            // The harness of tests may print on the same line before.
            if let Some((_, told)) = line.trim_end().split_once(MARK) {
                return told.to_owned();
            }
        }
    }
}

impl Drop for Racer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[derive(State)]
struct Order {
    #[channel(append)]
    log: List<String>,
}

fn entry(text: String) -> OrderUpdate {
    OrderUpdate::new().log([text])
}

async fn work(log: NodeLog, ctx: Ctx) -> OrderUpdate {
    let thread = thread_of(&ctx);
    let _stay = log.stay(&thread, "work");
    ctx.clock().sleep(WORK).await;
    entry("worked".to_owned())
}

async fn pay(log: NodeLog, ctx: Ctx) -> NodeResult<OrderUpdate> {
    let answer = ctx.interrupt(json!("may this be paid?"))?;
    let thread = thread_of(&ctx);
    let _stay = log.stay(&thread, "pay");
    ctx.clock().sleep(WORK).await;
    log.add(What::Paid, &thread, "pay");
    Ok(entry(format!("paid: {answer}")))
}

fn graph(log: &NodeLog) -> CompiledGraph {
    let logs = (log.clone(), log.clone());
    let built = Graph::<Order>::new("order")
        .node("work", move |ctx: Ctx| work(logs.0.clone(), ctx))
        .node("pay", move |ctx: Ctx| pay(logs.1.clone(), ctx))
        .edge(START, "work")
        .edge("work", "pay");
    built.build().expect("sound")
}

/// The thread, which the context of each run names.
fn thread_of(ctx: &Ctx) -> String {
    ctx.context().as_str().unwrap_or_default().to_owned()
}

fn input(process: u32) -> Json {
    json!({ "log": [format!("from {process}")] })
}

async fn act(thread: &Thread, act: Act) -> Answer {
    let context = json!(thread.id().as_str());
    let process = std::process::id();
    let ended = match act {
        Act::Start => thread.start(input(process)).context(context).await,
        Act::Answer => thread.answer(json!(process)).context(context).await,
        Act::Update => thread.update_as("work", input(process)).context(context).await,
        Act::Cancel => {
            let cancelled = thread.cancel().await;
            let result = cancelled.map(|runs| format!("{runs} runs"));
            return Answer { result: result.map_err(|error| error.fault().code) };
        }
    };
    Answer { result: ended.map(|end| name(&end)).map_err(|error| error.fault().code) }
}

fn name(end: &EndedRun) -> String {
    match end.outcome() {
        RunOutcome::Failed { fault } => format!("failed {}", fault.code),
        outcome => json!(outcome.status()).as_str().unwrap_or_default().to_owned(),
    }
}

/// A start without a claim.
async fn start_unclaimed(graph: &CompiledGraph, host: &Host, thread: &str) -> Answer {
    let run = graph.run(host, Start::Input(input(std::process::id())));
    let outcome = run.thread(thread).context(json!(thread)).outcome().await;
    let result = outcome.map(|outcome| match outcome {
        RunOutcome::Interrupted { .. } => "interrupted".to_owned(),
        _ => "ended".to_owned(),
    });
    Answer { result: result.map_err(|error| error.fault().code) }
}

/// Says something to the other side.
fn say(text: &str) {
    println!("{MARK}{text}");
}

/// Acts on the threads that the other side names, when it says so.
async fn race(Setup { database, log, claims }: Setup) {
    let graph = graph(&NodeLog::new(log));
    let builder = match &database {
        Place::Sqlite(file) => Runtime::sqlite(file).expect("opens"),
        Place::Postgres(url) => Runtime::postgres(url).expect("opens"),
    };
    // Only requests of the test take runs over.
    let builder = builder.recovery(Recovery::Manual);
    let runtime = builder.graph("order", graph.clone()).open().await.expect("opens");
    let host = match &database {
        Place::Sqlite(file) if claims == Claims::Off => {
            let store = SqliteStore::open(file, &Options::default()).expect("opens");
            let saver = StoreCheckpointer::new(Arc::new(store), Principal::local());
            Some(Host::new().with_checkpointer(saver))
        }
        _ => None,
    };
    say("ready");
    let clock = SystemClock::new();
    for line in std::io::stdin().lines() {
        let Ok(line) = line else { return };
        let request: Request = serde_json::from_str(&line).expect("a request");
        while clock.now().0 < request.start {
            std::hint::spin_loop();
        }
        let answer = match &host {
            Some(host) => start_unclaimed(&graph, host, &request.thread).await,
            None => {
                let thread = runtime.thread("order", &request.thread).expect("valid names");
                act(&thread, request.act).await
            }
        };
        say(&json!(answer).to_string());
    }
}

#[test]
fn racer_process() {
    let Ok(setup) = std::env::var(PLACE) else { return };
    let setup = serde_json::from_str(&setup).expect("a setup");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(race(setup));
}
