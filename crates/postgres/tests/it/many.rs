//! Tests that the cost of operations does not depend on the number of threads in the database.
//!
//! Uses a few thousand threads by default; `WEFT_TEST_THREADS=1000000` uses a million, and then
//! checks the limits.

use crate::support::{Schema, begin, block_on, new_run, register, thread};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weftwork_postgres::PostgresStore;
use weftwork_store::{
    CheckpointBatch, CheckpointNamespace, Claim, Commit, NewCheckpoint, ReadCheckpoints,
};
use weftwork_store::{ReadRuns, ReadThreads, WriteRuns};
use weftwork_types::event::AiEvent;
use weftwork_types::run::RunOutcome;
use weftwork_types::{CheckpointId, Principal, Timestamp, WorkerId};

/// Number of rounds; each creates a run and runs all queries.
const ROUNDS: usize = 100;
/// Measured operations.
const WHAT: [&str; 7] = ["make", "claim", "commit", "orphans", "due", "list", "newest checkpoint"];
/// Maximum time for opening.
const OPEN_MAX: Duration = Duration::from_secs(2);
/// Maximum ratio of the time of a claim to that in a database with one thread.
const CLAIM_MAX: f64 = 2.0;

#[expect(clippy::disallowed_methods, reason = "it measures the time of this machine")]
fn now() -> Instant {
    Instant::now()
}

fn step(id: u128) -> Commit {
    let new = NewCheckpoint {
        ns: String::new(),
        id: CheckpointId(id),
        of: None,
        tasks: Vec::new(),
        body: vec![7; 200],
        blobs: Vec::new(),
    };
    let batch = CheckpointBatch { checkpoints: vec![new], ..CheckpointBatch::default() };
    let events = vec![AiEvent::Step { step: 1, nodes: vec!["node".to_owned()] }];
    Commit { batch: batch.into(), events, ..Commit::default() }
}

fn end(store: &PostgresStore, claim: &Claim) {
    let finish = Some(RunOutcome::Completed { output: serde_json::json!({}) });
    let commit = Commit { finish, ..Commit::default() };
    block_on(store.commit(&Principal::local(), claim, commit)).expect("ends");
}

/// A database with a thread of a few checkpoints, and a number of copies of it.
fn filled(schema: &Schema, copies: u64) {
    let store = schema.open();
    let claim = begin(&store, "t", "r");
    for id in 1..=3 {
        block_on(store.commit(&Principal::local(), &claim, step(id))).expect("commits");
    }
    end(&store, &claim);
    drop(store);
    // Ids are spread over the range, as ids assigned by others are.
    schema.script(&format!(
        "CREATE FUNCTION name(n bigint) RETURNS text LANGUAGE sql IMMUTABLE
             AS $$ SELECT lpad(to_hex((n * 2654435761) % 4294967296), 8, '0') $$;
         INSERT INTO threads SELECT t.org, 't' || name(n), t.graph, t.status, t.head, t.seq, t.mark,
                 t.created_at, t.updated_at - n, t.wakes_at
             FROM threads t, generate_series(1, {copies}) n;
         INSERT INTO runs (org, id, thread, subject, graph, caller, input, options, created_at,
                 status, worker, fence, outcome, ended_at, cancel_requested)
             SELECT r.org, 'r' || name(n), 't' || name(n), r.subject, r.graph, r.caller, r.input,
                 r.options, r.created_at, r.status, r.worker, r.fence, r.outcome, r.ended_at,
                 r.cancel_requested
             FROM runs r, generate_series(1, {copies}) n;
         INSERT INTO events SELECT e.org, 'r' || name(n), e.last_seq, e.first_seq, e.at, e.events
             FROM events e, generate_series(1, {copies}) n;
         INSERT INTO checkpoints SELECT c.org, 't' || name(n), c.ns, c.id, c.of, c.tasks, c.body,
                 c.blobs, seal_of(c.org, 't' || name(n), c.ns, c.id)
             FROM checkpoints c, generate_series(1, {copies}) n;
         ANALYZE"
    ));
}

/// Measures the time of each operation in `WHAT`.
fn round(store: &PostgresStore, worker: &WorkerId, number: usize) -> Vec<Duration> {
    let who = Principal::local();
    let at = Timestamp(2);
    let name = format!("n{number}");
    let run = new_run(&name, &name);
    let mut took = Vec::new();
    let mut since = now();
    let mut took_it = || took.push(std::mem::replace(&mut since, now()).elapsed());
    block_on(store.create_run(&who, run.clone(), BTreeMap::new())).expect("makes a run");
    took_it();
    let claim = block_on(store.claim(&who, &run.at, worker, at)).expect("claims").0;
    took_it();
    block_on(store.commit(&who, &claim, step(1))).expect("commits");
    took_it();
    assert_eq!(block_on(store.orphans(at, 100)).map(|runs| runs.len()), Ok(0));
    took_it();
    let graphs = vec![run.graph.clone()];
    assert_eq!(block_on(store.due(at, graphs, 100)).map(|runs| runs.len()), Ok(0));
    took_it();
    assert!(!block_on(store.threads(&who, 0, 20)).expect("lists").is_empty());
    took_it();
    let root = CheckpointNamespace { thread: thread("t"), ns: String::new() };
    let newest = block_on(store.checkpoint(&who, &root, None)).expect("reads");
    assert_eq!(newest.map(|found| found.id), Some(CheckpointId(3)));
    took_it();
    end(store, &claim);
    took
}

fn median(mut all: Vec<Duration>) -> f64 {
    all.sort();
    all[all.len() / 2].as_secs_f64() * 1e6
}

#[test]
fn what_a_store_does_depends_little_on_how_many_threads_are_in_it() {
    let asked = std::env::var("WEFT_TEST_THREADS").map(|n| n.parse().expect("a number"));
    let threads = asked.clone().unwrap_or(2_000_u64);
    let schemas = [(Schema::new("few"), 0), (Schema::new("many"), threads)];
    let mut opened = Duration::ZERO;
    let stores = schemas.each_ref().map(|(schema, copies)| {
        filled(schema, *copies);
        let began = now();
        let store = schema.open();
        // The last one measured is that of the large database.
        opened = began.elapsed();
        let worker = register(&store, "w");
        (store, worker)
    });
    let mut all = [vec![Vec::new(); WHAT.len()], vec![Vec::new(); WHAT.len()]];
    for number in 0..ROUNDS {
        for ((store, worker), all) in stores.iter().zip(&mut all) {
            let took = round(store, worker, number);
            all.iter_mut().zip(took).for_each(|(all, took)| all.push(took));
        }
    }
    println!("{threads} threads: open {} ms", opened.as_millis());
    let [few, many] = all;
    for ((what, few), many) in WHAT.into_iter().zip(few).zip(many) {
        let few = median(few);
        let many = median(many);
        println!("{threads} threads: {what}: {many:.0} us, {:.2} of one thread", many / few);
        if asked.is_ok() && what == "claim" {
            assert!(many <= few * CLAIM_MAX, "{what}");
        }
    }
    assert!(opened <= OPEN_MAX, "{opened:?}");
    for (schema, _) in &schemas {
        // A million threads take gigabytes, which other tests need.
        schema.script(&format!("DROP SCHEMA {} CASCADE", schema.name));
    }
}
