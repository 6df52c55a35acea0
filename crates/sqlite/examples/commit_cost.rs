//! Compares the cost of a commit of the store with a hand-written insert of one row, in the same
//! run.
//!
//! `cargo run --release -p weftwork-sqlite --example commit_cost [FOLDER]`
//!
//! Both work in FOLDER (default: a temporary folder), in alternating batches of a few commits, so
//! that a disk whose speed changes affects both equally. Concurrent runs are compared by their
//! mean.
#![expect(clippy::print_stdout, reason = "the example prints figures")]
#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use rusqlite::Connection;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::time::{Duration, Instant};
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_store::{
    CheckpointBatch, CheckpointNamespace, Claim, Commit, NewCheckpoint, NewRun, ReadCheckpoints,
    WorkerRow, WriteCheckpoints,
};
use weftwork_store::{Workers, WriteRuns};
use weftwork_types::caller::Caller;
use weftwork_types::event::AiEvent;
use weftwork_types::run::{RunInput, RunOptions, RunRef};
use weftwork_types::{CheckpointId, Principal, RunId, ThreadId, Timestamp, WorkerId};

type Outcome<T> = Result<T, Box<dyn Error>>;

const BODY_BYTES: usize = 1024;
const TURN: usize = 20;
const WRITERS: usize = 16;

fn main() -> Outcome<()> {
    let named = std::env::args().nth(1);
    let temporary = tempfile::tempdir()?;
    let folder = named.as_ref().map_or(temporary.path(), Path::new);
    println!("{BODY_BYTES} bytes a row, medians; in {}", folder.display());
    for (durability, turns) in [(Durability::Normal, 200), (Durability::Full, 30)] {
        compare(&folder.join(format!("{durability:?}")), durability, turns)?;
    }
    Ok(())
}

fn compare(folder: &Path, durability: Durability, turns: usize) -> Outcome<()> {
    std::fs::create_dir_all(folder)?;
    let row = ByHand::open(&folder.join("by-hand.db"), durability)?;
    let options = Options { durability, ..Options::default() };
    let store = SqliteStore::open(folder.join("weft.db"), &options)?;
    let mut writer = Writer::begin(&store, 0)?;
    let mut keeper = Keeper::new()?;
    let mut by_hand = Vec::new();
    let mut commits = Vec::new();
    let mut kept = Vec::new();
    let mut looks = Vec::new();
    let mut pages = Vec::new();
    for _ in 0..turns {
        for _ in 0..TURN {
            by_hand.push(timed(|| row.insert())?);
        }
        for _ in 0..TURN {
            commits.push(timed(|| writer.commit(&store))?);
        }
        for _ in 0..TURN {
            kept.push(timed(|| keeper.put_checkpoints(&store))?);
        }
        for _ in 0..TURN {
            looks.push(timed(|| keeper.look(&store))?);
            pages.push(timed(|| keeper.page(&store))?);
        }
    }
    let tenth = commits.len() / 10;
    let first = commits[..tenth].to_vec();
    let last = commits[commits.len() - tenth..].to_vec();
    let row_mean = mean(&by_hand)?;
    let commit_mean = mean(&commits)?;
    let row = median(by_hand);
    let commit = median(commits);
    println!("{durability:?}:");
    println!("  one row by hand         {:>8.1} us, mean {:.1}", micros(row), micros(row_mean));
    let times = ratio(commit, row);
    let median_us = micros(commit);
    let mean_us = micros(commit_mean);
    println!("  one commit of the store {median_us:>8.1} us, mean {mean_us:.1}, {times:.2} times");
    let first = micros(median(first));
    let last = micros(median(last));
    println!("  first and last tenth    {first:>8.1} us, {last:.1} us");
    let kept_mean = mean(&kept)?;
    let kept = median(kept);
    let kept_us = micros(kept);
    let times = ratio(kept, row);
    println!(
        "  one checkpoint kept     {kept_us:>8.1} us, mean {:.1}, {times:.2} times",
        micros(kept_mean)
    );
    println!("  the newest read         {:>8.1} us", micros(median(looks)));
    println!("  a page of one           {:>8.1} us, by a thread that reads", micros(median(pages)));
    let (count, took) = together(Arc::new(store), turns * TURN / WRITERS)?;
    let each = took / u32::try_from(count)?;
    let each_us = micros(each);
    let times = ratio(each, row_mean);
    println!("  {WRITERS} runs at once         {each_us:>8.1} us a commit, {times:.2} times");
    Ok(())
}

/// Runs all writers concurrently, each on its own thread.
fn together(store: Arc<SqliteStore>, each: usize) -> Outcome<(usize, Duration)> {
    let writers: Result<Vec<_>, _> =
        (1..=WRITERS).map(|number| Writer::begin(&store, number)).collect();
    let begun = Instant::now();
    let threads: Vec<_> = writers?
        .into_iter()
        .map(|mut writer| {
            let store = store.clone();
            std::thread::spawn(move || -> Result<(), String> {
                for _ in 0..each {
                    writer.commit(&store).map_err(|error| error.to_string())?;
                }
                Ok(())
            })
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "a writer panicked")??;
    }
    Ok((each * WRITERS, begun.elapsed()))
}

struct ByHand(Connection);

impl ByHand {
    fn open(path: &Path, durability: Durability) -> Outcome<Self> {
        let conn = Connection::open(path)?;
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        conn.pragma_update(None, "synchronous", format!("{durability:?}").to_uppercase())?;
        conn.execute_batch(
            "CREATE TABLE rows (id INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT",
        )?;
        Ok(Self(conn))
    }

    fn insert(&self) -> Outcome<()> {
        let mut statement = self.0.prepare_cached("INSERT INTO rows (body) VALUES (?1)")?;
        statement.execute([[7u8; BODY_BYTES]])?;
        Ok(())
    }
}

struct Writer {
    who: Principal,
    claim: Claim,
    step: u128,
}

impl Writer {
    fn begin(store: &SqliteStore, number: usize) -> Outcome<Self> {
        let who = Principal::local();
        let worker = WorkerId::new("bench")?;
        let at = RunRef {
            thread: ThreadId::new(format!("thread-{number}"))?,
            run: RunId::new(format!("run-{number}"))?,
        };
        let run = NewRun {
            at: at.clone(),
            graph: "bench:graph".to_owned(),
            caller: Caller::local("bench")?,
            input: RunInput::Continue,
            options: RunOptions::default(),
            created_at: Timestamp(0),
        };
        let row =
            WorkerRow { id: worker.clone(), renewed_at: Timestamp(0), expires_at: Timestamp(9) };
        block_on(store.keep_alive(row))?;
        block_on(store.create_run(&who, run, BTreeMap::new()))?;
        let (claim, _) = block_on(store.claim(&who, &at, &worker, Timestamp(1)))?;
        Ok(Self { who, claim, step: 0 })
    }

    /// Commits a superstep as the run loop does: one checkpoint and two events.
    fn commit(&mut self, store: &SqliteStore) -> Outcome<()> {
        self.step += 1;
        let number = i64::try_from(self.step)?;
        let batch = CheckpointBatch {
            checkpoints: vec![checkpoint(self.step)],
            ..CheckpointBatch::default()
        };
        let nodes = vec!["model".to_owned()];
        let events = vec![
            AiEvent::custom(serde_json::json!({"n": number})),
            AiEvent::Step { step: number, nodes },
        ];
        let commit =
            Commit { batch: batch.into(), events, at: Timestamp(number), ..Commit::default() };
        block_on(store.commit(&self.who, &self.claim, commit))?;
        Ok(())
    }
}

/// A checkpoint that follows the one with the previous number.
fn checkpoint(number: u128) -> NewCheckpoint {
    NewCheckpoint {
        ns: String::new(),
        id: CheckpointId(number),
        of: (number > 1).then(|| CheckpointId(number - 1)),
        tasks: vec![7; 64],
        body: vec![7; BODY_BYTES - 64],
        blobs: Vec::new(),
    }
}

/// A run without a worker: its superstep is one checkpoint.
struct Keeper {
    who: Principal,
    at: CheckpointNamespace,
    last: u128,
}

impl Keeper {
    fn new() -> Outcome<Self> {
        let at = CheckpointNamespace { thread: ThreadId::new("kept")?, ns: String::new() };
        Ok(Self { who: Principal::local(), at, last: 0 })
    }

    fn put_checkpoints(&mut self, store: &SqliteStore) -> Outcome<()> {
        self.last += 1;
        let batch = CheckpointBatch {
            checkpoints: vec![checkpoint(self.last)],
            ..CheckpointBatch::default()
        };
        Ok(block_on(store.put_checkpoints(&self.who, &self.at.thread, batch))?)
    }

    fn look(&self, store: &SqliteStore) -> Outcome<()> {
        block_on(store.checkpoint(&self.who, &self.at, None))?.ok_or("it was kept")?;
        Ok(())
    }

    fn page(&self, store: &SqliteStore) -> Outcome<()> {
        block_on(store.page(&self.who, &self.at, None, 1))?.pop().ok_or("it was kept")?;
        Ok(())
    }
}

fn timed(work: impl FnOnce() -> Outcome<()>) -> Outcome<Duration> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn mean(times: &[Duration]) -> Outcome<Duration> {
    Ok(times.iter().sum::<Duration>() / u32::try_from(times.len())?)
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::park();
    }
}
