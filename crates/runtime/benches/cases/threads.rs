//! Stores with no thread and with very many: what does not depend on how many there are.

use super::hosted::{Hosted, THREAD};
use crate::{cpu_ns, median};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use weftwork_runtime::Runtime;
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_store::{Claim, Commit, ExportThreads, ImportThreads, NewRun, WorkerRow};
use weftwork_store::{ReadRuns, ReadThreads, Workers, WriteRuns};
use weftwork_types::caller::Caller;
use weftwork_types::run::{RunInput, RunOptions, RunOutcome, RunRef};
use weftwork_types::{Principal, RunId, ThreadId, Timestamp, WorkerId};

/// Rounds that count; one before them warms up.
const ROUNDS: usize = 9;
/// Number of repetitions of each operation in a round.
const LOOKS: u32 = 50;
/// The most an opening may take, in milliseconds.
const OPEN_MS_MAX: f64 = 2_000.0;
/// Limit of an operation's cost, as a multiple of the cost in an empty store.
const LIMIT: f64 = 2.0;
/// Threads of a page.
const PAGE: usize = 20;

const NORMAL: Options =
    Options { durability: Durability::Normal, busy_timeout_ms: 5_000, size_bytes_max: None };

/// Measured operations.
const WHAT: [&str; 6] = ["create", "claim", "orphans", "due", "list", "state"];

/// A name spread over the whole of the range, as names are that somebody else gives.
fn spread(number: u64) -> String {
    format!("{:08x}", number * 2_654_435_761 % (1 << 32))
}

/// Puts copies of the one thread into a store, with its run, checkpoints and events.
async fn multiply(file: &Path, threads: u64) {
    let store = SqliteStore::open(file, &NORMAL).expect("opens");
    let who = Principal::local();
    let made = store.export_thread(&who, &id(ThreadId::new(THREAD))).await.expect("reads");
    for number in 1..=threads {
        let mut whole = made.clone();
        let thread = id(ThreadId::new(format!("t{}", spread(number))));
        let ago = number as i64;
        for run in &mut whole.runs {
            let row = &mut run.row;
            row.new.at =
                RunRef { thread: thread.clone(), run: id(RunId::new(format!("r{number:08x}"))) };
            row.new.created_at.0 -= ago;
        }
        whole.thread.updated_at.0 -= ago;
        whole.thread.id = thread;
        store.import_thread(&who, whole).await.expect("takes it");
    }
}

/// A store with threads in it, open for business.
struct Stored {
    runtime: Runtime,
    store: Arc<SqliteStore>,
    worker: WorkerId,
    made: u64,
}

fn id<T>(made: Result<T, weftwork_types::id::InvalidId>) -> T {
    made.expect("a valid id")
}

impl Stored {
    /// Opens the file; says how many milliseconds that took.
    async fn open(file: &Path) -> (Self, f64) {
        let wall = Instant::now();
        let store = Arc::new(SqliteStore::open(file, &NORMAL).expect("opens"));
        let runtime = Hosted::over(Arc::clone(&store) as _).await;
        let ms = wall.elapsed().as_secs_f64() * 1e3;
        let worker = id(WorkerId::new("bench"));
        let expires_at = Timestamp(i64::MAX);
        let row = WorkerRow { id: worker.clone(), renewed_at: Timestamp(0), expires_at };
        store.keep_alive(row).await.expect("registers");
        (Self { runtime, store, worker, made: 0 }, ms)
    }

    fn new_run(&mut self) -> NewRun {
        self.made += 1;
        // Threads anywhere among the others; runs have ids that go up.
        let thread = id(ThreadId::new(format!("t{}n", spread(self.made))));
        let run = id(RunId::new(format!("s{:08x}", self.made)));
        NewRun {
            at: RunRef { thread, run },
            graph: super::hosted::GRAPH.to_owned(),
            caller: id(Caller::local("bench")),
            input: RunInput::Start { input: json!({}) },
            options: RunOptions::default(),
            created_at: Timestamp(1),
        }
    }

    /// Ends a run.
    async fn end(&self, claim: &Claim) {
        let finish = Some(RunOutcome::Completed { output: json!({}) });
        let commit = Commit { finish, at: Timestamp(1), ..Commit::default() };
        self.store.commit(&Principal::local(), claim, commit).await.expect("ends");
    }

    /// Returns the cost of each operation of `WHAT` in a round, in microseconds.
    async fn round(&mut self) -> Vec<f64> {
        let who = Principal::local();
        let now = Timestamp(2);
        let mut cost = vec![0.0; WHAT.len()];
        let add = |at: usize, cpu: f64, cost: &mut Vec<f64>| {
            cost[at] += (cpu_ns() - cpu) / f64::from(LOOKS) / 1e3;
        };
        for _ in 0..LOOKS {
            let run = self.new_run();
            let at = run.at.clone();
            let cpu = cpu_ns();
            self.store.create_run(&who, run, Default::default()).await.expect("makes one");
            add(0, cpu, &mut cost);
            let cpu = cpu_ns();
            let (claim, _) = self.store.claim(&who, &at, &self.worker, now).await.expect("claims");
            add(1, cpu, &mut cost);
            let cpu = cpu_ns();
            assert!(self.store.orphans(now, 1_000).await.expect("looks").is_empty());
            add(2, cpu, &mut cost);
            let graphs = vec![super::hosted::GRAPH.to_owned()];
            let cpu = cpu_ns();
            assert!(self.store.due(now, graphs, 100).await.expect("looks").is_empty());
            add(3, cpu, &mut cost);
            self.end(&claim).await;
            let cpu = cpu_ns();
            let page = self.store.threads(&who, 0, PAGE).await.expect("lists");
            assert!(!page.is_empty());
            add(4, cpu, &mut cost);
            let cpu = cpu_ns();
            let state = self.runtime.state(&who, &id(ThreadId::new(THREAD))).await.expect("reads");
            assert_eq!(state.values["n"], 1);
            add(5, cpu, &mut cost);
        }
        cost
    }
}

/// The same with one thread and with so many, in turns.
pub(crate) async fn measure(threads: u64, rows: &mut Vec<Value>) {
    let dir = tempfile::tempdir().expect("a directory");
    let few = dir.path().join("few.db");
    let many = dir.path().join("many.db");
    for file in [&few, &many] {
        Hosted::fill(file).await;
    }
    let wall = Instant::now();
    multiply(&many, threads).await;
    let bytes = std::fs::metadata(&many).expect("a file").len();
    println!(
        "threads: {threads} made in {:.0} s, {} MB",
        wall.elapsed().as_secs_f64(),
        bytes >> 20
    );
    let (mut few, _) = Stored::open(&few).await;
    let (mut many, open_ms) = Stored::open(&many).await;
    println!("threads: {threads}: open {open_ms:.1} ms (limit {OPEN_MS_MAX})");
    rows.push(json!({
        "case": "threads", "saver": "sqlite", "engine": "weftwork", "threads": threads,
        "what": "open", "wall_ms": open_ms, "limit_ms": OPEN_MS_MAX, "db_bytes": bytes,
    }));
    let mut costs = [vec![Vec::new(); WHAT.len()], vec![Vec::new(); WHAT.len()]];
    for round in 0..=ROUNDS {
        for (stored, costs) in [&mut few, &mut many].into_iter().zip(&mut costs) {
            let found = stored.round().await;
            if round > 0 {
                costs.iter_mut().zip(found).for_each(|(costs, cost)| costs.push(cost));
            }
        }
    }
    let [few, many] = costs.map(|costs| costs.into_iter().map(median).collect::<Vec<_>>());
    for ((what, few), many) in WHAT.into_iter().zip(few).zip(many) {
        let ratio = many / few;
        println!("threads: {threads}: {what}: {many:.1} us, {ratio:.2} of empty (limit {LIMIT})");
        rows.push(json!({
            "case": "threads", "saver": "sqlite", "engine": "weftwork", "threads": threads,
            "what": what, "cpu_us": many, "empty_us": few, "ratio": ratio, "limit": LIMIT,
        }));
    }
}
