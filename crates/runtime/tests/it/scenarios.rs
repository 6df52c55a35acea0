//! Requests on threads in each state, against the table of expected results in `scenarios.md`.

use futures_util::FutureExt;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::watch;
use weftwork_graph::run_loop::Source;
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, Graph, HistoryFilter, List, NodeError, NodeResult, START, Snapshot,
    State, SystemClock,
};
use weftwork_postgres::PostgresStore;
use weftwork_runtime::Runtime;
use weftwork_sqlite::SqliteStore;
use weftwork_store::Store;
use weftwork_store::memory::MemoryStore;
use weftwork_store::rows::{MemoryRows, RowStore};
use weftwork_types::caller::Caller;
use weftwork_types::port::{GraphExecutor, RunHandle};
use weftwork_types::run::{
    Answers, Multitask, RunCommand, RunInput, RunOptions, RunRef, RunRequest, Target,
};
use weftwork_types::{CheckpointId, InterruptId, Principal, ThreadId};

const TABLE: &str = include_str!("scenarios.md");
const HOUR: Duration = Duration::from_secs(3_600);

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

fn said(text: impl Into<String>) -> LogUpdate {
    LogUpdate::new().log([text.into()])
}

/// Behaviour of the second node, which brings the thread into the state of the scenario.
#[derive(Debug)]
struct Stage {
    thread: &'static str,
    reached: watch::Sender<bool>,
    open: watch::Sender<bool>,
    failed: AtomicBool,
}

async fn second(ctx: Ctx, stage: Deps<Arc<Stage>>) -> NodeResult<LogUpdate> {
    match stage.thread {
        "busy" => {
            stage.reached.send_replace(true);
            let mut open = stage.open.subscribe();
            open.wait_for(|open| *open).await.map_err(|_| NodeError::message("closed"))?;
        }
        "asking" => return Ok(said(format!("b {}", ctx.interrupt(json!("go on?"))?))),
        "waiting" => ctx.sleep(HOUR).await?,
        "failed" if !stage.failed.swap(true, Ordering::SeqCst) => {
            return Err(NodeError::message("once"));
        }
        _ => {}
    }
    Ok(said("b"))
}

fn graph(stage: &Arc<Stage>) -> CompiledGraph {
    Graph::<Log>::new("scenes")
        .with(Arc::clone(stage))
        .node("a", async |_: State<Log>| said("a"))
        .node("b", second)
        .edge(START, "a")
        .edge("a", "b")
        .build()
        .expect("sound")
}

/// A row of the table.
#[derive(Debug, Clone)]
struct Row {
    thread: &'static str,
    input: &'static str,
    strategies: Vec<(Multitask, &'static str)>,
    expected: &'static str,
}

/// The scenarios.
fn rows(text: &'static str) -> Vec<Row> {
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| thread |");
    let read = |line: &'static str| {
        let cells: Vec<_> = line.trim_matches('|').splitn(4, '|').map(str::trim).collect();
        let [thread, input, strategy, expected] = cells[..] else { panic!("{line}") };
        let is = |(_, name): &(Multitask, &str)| strategy == "each" || strategy == *name;
        let strategies = Multitask::ALL.into_iter().filter(is).collect();
        Row { thread, input, strategies, expected }
    };
    text.lines().filter(is_row).map(read).collect()
}

/// A thread with a worker that brings it into its state, and one that gets the request.
struct Scene {
    stage: Arc<Stage>,
    first: Runtime,
    second: Runtime,
    thread: ThreadId,
}

impl Scene {
    async fn new(store: &Arc<dyn Store>, workers: usize, row: &Row, name: &str) -> Self {
        let reached = watch::Sender::new(false);
        let open = watch::Sender::new(false);
        let stage = Stage { thread: row.thread, reached, open, failed: AtomicBool::new(false) };
        let stage = Arc::new(stage);
        let opened = async || {
            let builder = Runtime::builder(Arc::clone(store)).graph("test:scenes", graph(&stage));
            builder.open().await.expect("opens")
        };
        let first = opened().await;
        let second = if workers == 2 { opened().await } else { first.clone() };
        let name = format!("{}-{}-{name}", row.thread, row.input.replace(' ', "-"));
        let thread = ThreadId::new(name).expect("an id");
        Self { stage, first, second, thread }
    }

    fn request(&self, input: RunInput, options: RunOptions) -> RunRequest {
        RunRequest {
            principal: Principal::local(),
            caller: Caller::local("request").expect("an id"),
            graph: "test:scenes".to_owned(),
            thread: self.thread.clone(),
            input,
            options,
        }
    }

    /// Brings the thread into its state.
    async fn prepare(&self) -> Option<RunHandle> {
        if self.stage.thread == "new" {
            return None;
        }
        let input = RunInput::Start { input: json!({"log": ["old"]}) };
        let request = self.request(input, RunOptions::default());
        let mut handle = self.first.execute(request).await.expect("accepted");
        if self.stage.thread == "busy" {
            let mut reached = self.stage.reached.subscribe();
            reached.wait_for(|reached| *reached).await.expect("we have the sender");
        } else {
            let outcome = handle.outcome.await;
            handle.outcome = async move { outcome }.boxed();
        }
        Some(handle)
    }

    async fn history(&self) -> Vec<Snapshot> {
        if self.second.store().thread(&Principal::local(), &self.thread).await.is_err() {
            return Vec::new();
        }
        let all = HistoryFilter::default();
        self.second.history(&Principal::local(), &self.thread, &all).await.expect("reads")
    }

    async fn input(&self, input: &str) -> (RunInput, Option<CheckpointId>) {
        let command = |command: RunCommand| (RunInput::Command(command), None);
        let start = RunInput::Start { input: json!({"log": ["in"]}) };
        match input {
            "start" => (start, None),
            "continue" => (RunInput::Continue, None),
            "update as a" => {
                let as_node = Some("a".to_owned());
                (RunInput::Update { writes: json!({"log": ["up"]}), as_node }, None)
            }
            "goto a" => command(RunCommand {
                goto: vec![Target::Node("a".to_owned())],
                ..RunCommand::default()
            }),
            "update" => command(RunCommand {
                update: vec![("log".to_owned(), json!(["up"]))],
                ..RunCommand::default()
            }),
            "answer" => (RunInput::answers(Answers::One(json!("yes"))), None),
            "answer by id" => {
                let asked = self.second.store().interrupts(&Principal::local(), &self.thread).await;
                let asked = asked.unwrap_or_default().first().map(|row| row.interrupt.id);
                let id = asked.unwrap_or(InterruptId(7));
                (RunInput::answers(BTreeMap::from([(id, json!("yes"))])), None)
            }
            "fork" => {
                let history = self.history().await;
                let older = history.iter().find(|one| one.next == ["a"]);
                let id = older.and_then(|one| one.checkpoint());
                (start, Some(id.unwrap_or(CheckpointId(7))))
            }
            other => panic!("{other} is no input"),
        }
    }

    async fn status(&self, run: Option<&RunRef>) -> String {
        let Some(run) = run else { return "-".to_owned() };
        let row = self.second.store().run(&Principal::local(), run).await.expect("is there");
        let rolled_back = if row.rolled_back_by.is_some() { ", rolled back" } else { "" };
        let status = json!(row.status);
        format!("{}{rolled_back}", status.as_str().expect("a name"))
    }

    /// Plays the scenario, and returns the cells with its result.
    async fn result(&self, input: &str, multitask: Multitask) -> String {
        let earlier = self.prepare().await;
        let (input, at) = self.input(input).await;
        let options = RunOptions { at, multitask, ..RunOptions::default() };
        let asked = self.second.execute(self.request(input, options)).await;
        let before = earlier.as_ref().map(|handle| handle.run.clone());
        if asked.is_err() || !multitask.cancels() {
            self.stage.open.send_replace(true);
        }
        if let Some(earlier) = earlier {
            earlier.outcome.await;
        }
        self.stage.open.send_replace(true);
        let (request, run) = match asked {
            Err(error) => (error.fault.code, None),
            Ok(handle) => {
                handle.outcome.await;
                ("accepted".to_owned(), Some(handle.run))
            }
        };
        let history = self.history().await;
        let log = match history.is_empty() {
            true => json!(null),
            false => {
                let state = self.second.state(&Principal::local(), &self.thread).await;
                state.expect("reads").values["log"].clone()
            }
        };
        let log: Vec<String> = serde_json::from_value(log).unwrap_or_default();
        let made: String = history.iter().rev().map(letter).collect();
        let before = self.status(before.as_ref()).await;
        let run = self.status(run.as_ref()).await;
        let cells = [request, before, run, log.join(" "), made];
        cells.map(|cell| if cell.is_empty() { "-".to_owned() } else { cell }).join(" | ")
    }
}

fn letter(state: &Snapshot) -> char {
    match state.metadata.as_ref().map(|metadata| metadata.source) {
        Some(Source::Input) => 'I',
        Some(Source::Loop) => 'L',
        Some(Source::Update) => 'U',
        Some(Source::Fork) => 'F',
        Some(Source::Nothing) | None => '?',
    }
}

/// Plays all scenarios of the table, and reports those with another result.
async fn plays(store: Arc<dyn Store>, workers: usize) {
    let mut played = 0;
    let mut differ = Vec::new();
    for row in rows(TABLE) {
        for (strategy, name) in &row.strategies {
            let scene = Scene::new(&store, workers, &row, name).await;
            let result = tokio::time::timeout(HOUR / 60, scene.result(row.input, *strategy)).await;
            let result = result.unwrap_or_else(|_| "no end".to_owned());
            played += 1;
            if result != row.expected {
                differ.push(format!("| {} | {} | {name} | {result}", row.thread, row.input));
            }
        }
    }
    assert!(differ.is_empty(), "other results:\n{}", differ.join("\n"));
    assert_eq!(played, 8 * 4 * 6, "inputs, strategies, states of the thread");
}

#[tokio::test]
async fn scenarios_in_memory() {
    plays(Arc::new(MemoryStore::new()), 1).await;
}

#[tokio::test]
async fn scenarios_on_sqlite() {
    let folder = TempDir::new().expect("a folder");
    let options = weftwork_sqlite::Options::default();
    let store = SqliteStore::open(folder.path().join("weft.db"), &options).expect("opens");
    plays(Arc::new(store), 1).await;
}

#[tokio::test]
async fn scenarios_of_two_workers_in_memory() {
    plays(Arc::new(MemoryStore::new()), 2).await;
}

#[tokio::test]
async fn scenarios_of_two_workers_over_rows() {
    plays(Arc::new(RowStore::new(MemoryRows::default())), 2).await;
}

#[tokio::test]
async fn scenarios_of_two_workers_on_postgres() {
    let Ok(address) = std::env::var("WEFT_TEST_POSTGRES") else {
        println!("SKIPPED(no WEFT_TEST_POSTGRES): scenarios_of_two_workers_on_postgres");
        return;
    };
    let options = weftwork_postgres::Options {
        schema: format!("scenarios_{}", std::process::id()),
        ..weftwork_postgres::Options::new(Arc::new(SystemClock::new()))
    };
    plays(Arc::new(PostgresStore::open(&address, &options).expect("opens")), 2).await;
}
