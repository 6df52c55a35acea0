//! Bits that flip in a store, and requests that come fifty at once.

use crate::support::{Bench, completed, interrupted, on_each_store, thread};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use weftwork_graph::run_loop::HistoryFilter;
use weftwork_graph::{CompiledGraph, Ctx, Graph, List, NodeResult, RuntimeError, START, State};
use weftwork_runtime::Runtime;
use weftwork_sqlite::{Options, SqliteStore};
use weftwork_store::{CheckpointNamespace, Store};
use weftwork_testkit::fuzz::Random;
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::{RunInput, RunOutcome};
use weftwork_types::{CheckpointId, Principal};

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
    last: String,
}

fn pair() -> CompiledGraph {
    async fn say(state: State<Log>) -> LogUpdate {
        let said = format!("said {}", state.log().len());
        LogUpdate::new().log([said.clone()]).last(said)
    }
    let graph = Graph::<Log>::new("pair").node("a", say).node("b", say);
    graph.edge(START, "a").edge("a", "b").build().expect("sound")
}

fn opened(path: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(path, &Options::default()).expect("opens"))
}

/// Returns the state of a thread now and at each of its checkpoints.
async fn looked(bench: &Bench, ids: &[CheckpointId]) -> Vec<Result<Value, RuntimeError>> {
    let who = Principal::local();
    let mut seen = vec![bench.runtime.state(&who, &thread()).await.map(|found| found.values)];
    for id in ids {
        let found = bench.runtime.state_at(&who, &thread(), *id).await;
        seen.push(found.map(|found| found.values));
    }
    seen
}

/// Where the bodies of the thread's checkpoints lie in the file.
async fn places(file: &[u8], store: &Arc<dyn Store>, ids: &[CheckpointId]) -> Vec<(usize, usize)> {
    let at = CheckpointNamespace { thread: thread(), ns: String::new() };
    let bodies =
        store.checkpoint_bytes(&Principal::local(), &at, ids.to_vec()).await.expect("reads");
    let place = |body: &[u8]| {
        let at = file.windows(body.len()).position(|window| window == body);
        (at.expect("a row lies in one piece"), body.len())
    };
    bodies.iter().map(|body| place(&body.1)).collect()
}

/// A bit in a row flips: the thread says that it is damaged, or is what it was.
#[tokio::test]
async fn a_flipped_bit_never_gives_another_state() {
    let full = std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full");
    let seeds = if full { 1_000 } else { 50 };
    let folder = tempfile::tempdir().expect("a folder");
    let sound = folder.path().join("sound.db");
    {
        let bench = Bench::on(opened(&sound), pair()).await;
        for _ in 0..3 {
            completed(bench.start(json!({})).await);
        }
    }
    let copy = folder.path().join("copy.db");
    SqliteStore::open(&sound, &Options::default()).expect("opens").backup(&copy).expect("copies");
    let bench = Bench::on(opened(&sound), pair()).await;
    let ids: Vec<_> = bench.checkpoints().await.into_iter().map(|found| found.id).collect();
    let expected: Vec<_> =
        looked(&bench, &ids).await.into_iter().map(|s| s.expect("sound")).collect();
    let file = std::fs::read(&copy).expect("reads");
    let places = places(&file, &bench.store, &ids).await;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut detected = 0;
    let mut harmless = 0;
    for seed in 0..seeds {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let draw = usize::try_from(random >> 1).expect("63 bits");
        let (start, length) = places[draw % places.len()];
        let mut flipped = file.clone();
        flipped[start + draw / 8 % length] ^= 1 << (draw % 8);
        let path = folder.path().join(format!("{seed}.db"));
        std::fs::write(&path, flipped).expect("writes");
        let bench = Bench::on(opened(&path), pair()).await;
        let mut found = false;
        for (seen, expected) in looked(&bench, &ids).await.into_iter().zip(&expected) {
            match seen {
                Ok(values) => assert_eq!(&values, expected, "seed {seed}"),
                Err(error) => {
                    assert_eq!(error.code().0, "W0210", "seed {seed}: {error}");
                    assert!(error.to_string().contains("checkpoint"), "seed {seed}: {error}");
                    found = true;
                }
            }
        }
        // A run that needs the damaged row ends as failed; it never starts afresh.
        match bench.start(json!({})).await {
            RunOutcome::Completed { output } => {
                assert_eq!(output["log"].as_array().map(Vec::len), Some(8), "seed {seed}");
            }
            RunOutcome::Failed { fault } => assert_eq!(fault.code, "W0210", "seed {seed}"),
            other => panic!("seed {seed}: {other:?}"),
        }
        detected += usize::from(found);
        harmless += usize::from(!found);
    }
    println!("{seeds} flipped bits: {detected} detected, {harmless} harmless, 0 wrong states");
    assert!(detected > 0);
}

/// Results of reading a file that was damaged anywhere, or truncated.
#[derive(Debug, Default)]
struct Came {
    reported: usize,
    unharmed: usize,
    /// Number of truncated logs that gave the state of an earlier commit.
    earlier: usize,
}

impl Came {
    /// Reads a damaged store. It is refused, or the thread says that it is damaged, or it is one
    /// of the states it had: the last one unless the log lost its end.
    async fn look(&mut self, path: &Path, states: &[Value], log_is_harmed: bool, what: &str) {
        let Ok(store) = SqliteStore::open(path, &Options::default()) else {
            self.reported += 1;
            return;
        };
        let store: Arc<dyn Store> = Arc::new(store);
        let runtime = Runtime::builder(Arc::clone(&store)).graph("test:graph", pair()).open().await;
        let Ok(runtime) = runtime else {
            self.reported += 1;
            return;
        };
        match runtime.state(&Principal::local(), &thread()).await {
            Err(error) => {
                assert!(error.code().0.starts_with("W02"), "{what}: {error}");
                self.reported += 1;
            }
            Ok(found) if states.last() == Some(&found.values) => self.unharmed += 1,
            Ok(found) => {
                // At first there was a run and nothing else.
                let was = states.contains(&found.values) || found.values == json!({});
                assert!(was && log_is_harmed, "{what}: {}", found.values);
                self.earlier += 1;
            }
        }
    }
}

/// Bits that flip anywhere in the file or in its log, and files whose end is missing.
#[tokio::test]
async fn damage_anywhere_in_the_files_never_gives_a_state_that_never_was() {
    let full = std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full");
    let seeds = if full { 1_000 } else { 60 };
    let folder = tempfile::tempdir().expect("a folder");
    let sound = folder.path().join("sound.db");
    let log = folder.path().join("sound.db-wal");
    let copy = folder.path().join("copy.db");
    let (states, file, log) = {
        let bench = Bench::on(opened(&sound), pair()).await;
        for _ in 0..6 {
            completed(bench.start(json!({})).await);
        }
        let who = Principal::local();
        let thread = thread();
        let filter = HistoryFilter::default();
        let history = bench.runtime.history(&who, &thread, &filter).await.expect("sound");
        let states: Vec<_> = history.into_iter().rev().map(|state| state.values).collect();
        let store = SqliteStore::open(&sound, &Options::default()).expect("opens");
        store.backup(&copy).expect("copies");
        // While the store is open, what was committed is in the log.
        let read = |path| std::fs::read(path).expect("reads");
        (states, read(&sound), read(&log))
    };
    let whole = std::fs::read(&copy).expect("reads");
    assert!(log.len() > whole.len() / 2, "it is in the log");
    let mut random = Random::new(3);
    let mut of_file = Came::default();
    let mut of_log = Came::default();
    for seed in 0..seeds {
        let path = folder.path().join(format!("{seed}.db"));
        let mut bytes = if seed % 2 == 0 { whole.clone() } else { log.clone() };
        let what = if random.below(4) == 0 {
            let end = random.below(bytes.len());
            bytes.truncate(end);
            format!("seed {seed}: cut off after {end} bytes")
        } else {
            let at = random.below(bytes.len());
            let bit = random.below(8);
            bytes[at] ^= 1 << bit;
            format!("seed {seed}: bit {bit} of byte {at}")
        };
        if seed % 2 == 0 {
            std::fs::write(&path, bytes).expect("writes");
            of_file.look(&path, &states, false, &what).await;
        } else {
            std::fs::write(&path, &file).expect("writes");
            std::fs::write(path.with_extension("db-wal"), bytes).expect("writes");
            of_log.look(&path, &states, true, &what).await;
        }
        std::fs::remove_file(&path).expect("removes");
    }
    println!("{seeds} damages: of the file {of_file:?}, of its log {of_log:?}");
    assert!(of_file.reported > 0 && of_log.earlier > 0);
}

fn asking() -> CompiledGraph {
    Graph::<Log>::new("asking")
        .node("ask", async |ctx: Ctx| -> NodeResult<LogUpdate> {
            let said = ctx.interrupt(json!("go on?"))?.to_string();
            Ok(LogUpdate::new().log([said]))
        })
        .edge(START, "ask")
        .build()
        .expect("sound")
}

#[tokio::test]
async fn one_key_from_fifty_at_once_is_one_run() {
    let bench = Bench::new(pair()).await;
    let mut request = Bench::request(RunInput::Start { input: json!({}) });
    request.options.idempotency_key = Some("once".to_owned());
    let asked = (0..50).map(|_| bench.runtime.execute(request.clone()));
    let handles = futures_util::future::join_all(asked).await;
    let mut runs = std::collections::BTreeSet::new();
    for handle in handles {
        let handle = handle.expect("the same request");
        runs.insert(handle.run.run.to_string());
        let output = completed(handle.outcome.await);
        assert_eq!(output["log"], json!(["said 0", "said 1"]));
    }
    assert_eq!(runs.len(), 1);
}

#[tokio::test]
async fn of_fifty_answers_at_once_one_counts_and_the_others_get_its_record() {
    let bench = Bench::new(asking()).await;
    let open = interrupted(bench.start(json!({})).await)[0];
    let asked = (0..50).map(|n| {
        let request =
            Bench::request(RunInput::answers(std::collections::BTreeMap::from([(open, json!(n))])));
        bench.runtime.execute(request)
    });
    let mut won = Vec::new();
    let mut refused = Vec::new();
    for handle in futures_util::future::join_all(asked).await {
        match handle {
            Ok(handle) => won.push(completed(handle.outcome.await)),
            Err(error) => refused.push(error.fault.code),
        }
    }
    assert_eq!(won.len(), 1, "{won:?}");
    // Also while the run of the first answer goes.
    assert_eq!(refused, vec!["W0204".to_owned(); 49]);
}

on_each_store![
    one_key_from_fifty_at_once_is_one_run,
    of_fifty_answers_at_once_one_counts_and_the_others_get_its_record,
];
