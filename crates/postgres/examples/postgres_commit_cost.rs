//! Compares the cost of a commit of the store with a hand-written insert of one row, in the same
//! run.
//!
//! `scripts/postgres.sh with cargo run --release -p weftwork-postgres --example postgres_commit_cost`
//!
//! Both work in alternating batches of a few commits, so that a disk whose speed changes affects
//! both equally. The hand-written insert is a prepared `INSERT` of one row, committed by itself, on
//! one connection. The schemas `commit_cost` and `commit_cost_by_hand` are not deleted.
#![expect(clippy::print_stdout, reason = "the example prints figures")]
#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls, Statement};
use weftwork_postgres::{Options, PostgresStore};
use weftwork_store::{
    CheckpointBatch, Claim, Commit, NewCheckpoint, NewRun, WorkerRow, WriteCheckpoints,
};
use weftwork_store::{ReadThreads, Workers, WriteRuns};
use weftwork_testkit::ManualClock;
use weftwork_types::caller::Caller;
use weftwork_types::event::AiEvent;
use weftwork_types::run::{RunInput, RunOptions, RunRef};
use weftwork_types::{CheckpointId, Principal, RunId, ThreadId, Timestamp, WorkerId};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const BODY_BYTES: usize = 1024;
const TURN: usize = 20;
const TURNS: usize = 60;
const WRITERS: usize = 16;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Outcome<()> {
    let address = std::env::var("WEFT_TEST_POSTGRES")?;
    let by_hand = ByHand::open(&address).await?;
    let options =
        Options { schema: "commit_cost".to_owned(), ..Options::new(Arc::new(ManualClock::new())) };
    let store = Arc::new(PostgresStore::open(&address, &options)?);
    let mut writer = Writer::begin(&store, 0).await?;
    let mut rows = vec![];
    let mut commits = vec![];
    let mut kept = vec![];
    let mut reads = vec![];
    for _ in 0..TURNS {
        for _ in 0..TURN {
            rows.push(timed(by_hand.insert()).await?);
        }
        for _ in 0..TURN {
            commits.push(timed(writer.commit(&store)).await?);
        }
        for _ in 0..TURN {
            kept.push(timed(writer.put_checkpoints(&store)).await?);
        }
        for _ in 0..TURN {
            reads.push(timed(writer.read(&store)).await?);
        }
    }
    println!("{BODY_BYTES} bytes a row, medians");
    let row = print("one row by hand", &rows, None);
    print("one commit of the store", &commits, Some(row));
    print("one checkpoint alone", &kept, Some(row));
    print("one read of a thread", &reads, Some(row));
    let (count, took) = together(&store).await?;
    let each = took / u32::try_from(count)?;
    println!("  {WRITERS} runs at once        {:>8.1} us a commit", micros(each));
    Ok(())
}

/// Runs all writers concurrently, each on its own thread.
async fn together(store: &Arc<PostgresStore>) -> Outcome<(usize, Duration)> {
    let mut writers = Vec::new();
    for number in 1..=WRITERS {
        writers.push(Writer::begin(store, number).await?);
    }
    let each = TURNS * TURN / WRITERS;
    let begun = Instant::now();
    let tasks: Vec<_> = writers
        .into_iter()
        .map(|mut writer| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                for _ in 0..each {
                    writer.commit(&store).await?;
                }
                Outcome::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok((each * WRITERS, begun.elapsed()))
}

struct ByHand {
    client: Client,
    insert: Statement,
}

impl ByHand {
    async fn open(address: &str) -> Outcome<Self> {
        let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
        tokio::spawn(connection);
        client
            .batch_execute(
                "SET client_min_messages TO warning;
                 SET synchronous_commit TO on;
                 CREATE SCHEMA IF NOT EXISTS commit_cost_by_hand;
                 SET search_path TO commit_cost_by_hand;
                 CREATE TABLE IF NOT EXISTS rows
                     (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, body bytea NOT NULL)",
            )
            .await?;
        let insert = client.prepare("INSERT INTO rows (body) VALUES ($1)").await?;
        Ok(Self { client, insert })
    }

    async fn insert(&self) -> Outcome<()> {
        self.client.execute(&self.insert, &[&vec![7u8; BODY_BYTES]]).await?;
        Ok(())
    }
}

struct Writer {
    who: Principal,
    claim: Claim,
    step: u128,
}

impl Writer {
    async fn begin(store: &PostgresStore, number: usize) -> Outcome<Self> {
        let who = Principal::local();
        let worker = WorkerId::new("bench")?;
        let at = RunRef {
            thread: ThreadId::new(format!("thread-{}-{number}", std::process::id()))?,
            run: RunId::new(format!("run-{}-{number}", std::process::id()))?,
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
        store.create_run(&who, run, BTreeMap::new()).await?;
        let (claim, _) = store.claim(&who, &at, &worker, Timestamp(1)).await?;
        store.keep_alive(row).await?;
        Ok(Self { who, claim, step: 0 })
    }

    fn checkpoint(&mut self) -> CheckpointBatch {
        self.step += 1;
        let checkpoint = NewCheckpoint {
            ns: String::new(),
            id: CheckpointId(self.step),
            of: (self.step > 1).then(|| CheckpointId(self.step - 1)),
            tasks: vec![7; 16],
            body: vec![7; BODY_BYTES],
            blobs: Vec::new(),
        };
        CheckpointBatch { checkpoints: vec![checkpoint], ..CheckpointBatch::default() }
    }

    /// Commits a superstep as the run loop does: one checkpoint and two events.
    async fn commit(&mut self, store: &PostgresStore) -> Outcome<()> {
        let batch = self.checkpoint();
        let number = i64::try_from(self.step)?;
        let nodes = vec!["model".to_owned()];
        let events = vec![
            AiEvent::custom(serde_json::json!({"n": number})),
            AiEvent::Step { step: number, nodes },
        ];
        let commit =
            Commit { batch: batch.into(), events, at: Timestamp(number), ..Commit::default() };
        store.commit(&self.who, &self.claim, commit).await?;
        Ok(())
    }

    /// Stores a superstep of a run without a worker.
    async fn put_checkpoints(&mut self, store: &PostgresStore) -> Outcome<()> {
        let batch = self.checkpoint();
        store.put_checkpoints(&self.who, &self.claim.at.thread, batch).await?;
        Ok(())
    }

    async fn read(&self, store: &PostgresStore) -> Outcome<()> {
        store.thread(&self.who, &self.claim.at.thread).await?;
        Ok(())
    }
}

async fn timed(work: impl Future<Output = Outcome<()>>) -> Outcome<Duration> {
    let begun = Instant::now();
    work.await?;
    Ok(begun.elapsed())
}

/// Prints the median, the mean, and the ratio of the median to the other one; returns the median.
fn print(what: &str, times: &[Duration], other: Option<Duration>) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    let mean = sorted.iter().sum::<Duration>() / u32::try_from(sorted.len()).unwrap_or(1).max(1);
    let ratio = other.map(|other| format!(", {:.2} times", micros(median) / micros(other)));
    let ratio = ratio.unwrap_or_default();
    println!("  {what:<24}{:>8.1} us, mean {:.1}{ratio}", micros(median), micros(mean));
    median
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
