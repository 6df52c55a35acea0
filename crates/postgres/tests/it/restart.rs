//! Kills and restarts the database under load: acknowledged writes are not lost, no write is
//! applied twice, and the store recovers by itself.

use crate::cluster::{Cluster, End};
use crate::support::{Schema, at, begin, block_on, custom_event, register, thread};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use weftwork_postgres::{Options, PostgresStore};
use weftwork_store::{
    CheckpointBatch, CheckpointNamespace, Claim, Commit, NewCheckpoint, ReadCheckpoints, StoreError,
};
use weftwork_store::{JournalRead, ReadEvents, ReadThreads, WriteRuns};
use weftwork_types::canonical;
use weftwork_types::port::{CallKey, CallKind, CallRecord, CallState};
use weftwork_types::tool::Effect;
use weftwork_types::{CheckpointId, Principal, Timestamp};

const WRITERS: usize = 4;
/// Maximum time until the store writes again after the server is up, on a machine that is not busy.
const BACK: Duration = Duration::from_secs(5);
/// Time after which the writers are stuck.
const STUCK: Duration = Duration::from_secs(60);

fn is_full() -> bool {
    std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full")
}

fn rounds() -> usize {
    if is_full() { 100 } else { 6 }
}

fn call(number: usize) -> CallRecord {
    CallRecord {
        key: CallKey(canonical::hash_bytes(&number.to_be_bytes())),
        kind: CallKind::Tool,
        name: "pay".to_owned(),
        node: "tools".to_owned(),
        step: 1,
        effect: Effect::ExternalSideEffect,
        state: CallState::Intent,
        result: None,
        made: 1,
        possibly_paid: 0,
        reused: 0,
        opened_at: Timestamp(1),
        settled_at: None,
    }
}

fn commit(number: usize) -> Commit {
    let id = |number: usize| CheckpointId(u128::try_from(number).expect("a number"));
    let checkpoint = NewCheckpoint {
        ns: String::new(),
        id: id(number),
        of: (number > 1).then(|| id(number - 1)),
        tasks: Vec::new(),
        body: number.to_be_bytes().repeat(100),
        blobs: Vec::new(),
    };
    Commit {
        batch: CheckpointBatch { checkpoints: vec![checkpoint], ..CheckpointBatch::default() }
            .into(),
        calls: vec![call(number).into()],
        events: vec![custom_event(number), custom_event(format!("end of {number}"))],
        ..Commit::default()
    }
}

/// Commits repeatedly, with a call, and counts the acknowledged commits.
fn write_on(store: &PostgresStore, claim: &Claim, end: &AtomicBool, count: &AtomicUsize) {
    let who = Principal::local();
    while !end.load(Ordering::Relaxed) {
        let number = count.load(Ordering::Relaxed) + 1;
        let made = block_on(store.commit(&who, claim, commit(number))).expect("commits");
        assert_eq!(made.first_seq, u64::try_from(number * 2 - 1).expect("a number"));
        count.store(number, Ordering::Relaxed);
    }
}

#[test]
fn writers_do_not_notice_a_restart() {
    let mut cluster = Cluster::new();
    let schema = Schema::new("restart");
    // A restart takes less time than this, so no write may fail.
    let options = Options { wait_ms: 60_000, ..schema.options() };
    let store = PostgresStore::open(&cluster.address(), &options).expect("opens");
    let claims: Vec<_> =
        (0..WRITERS).map(|n| begin(&store, &format!("t{n}"), &format!("t{n}"))).collect();
    let counts: Vec<_> = (0..WRITERS).map(|_| AtomicUsize::new(0)).collect();
    let end = AtomicBool::new(false);
    let mut slowest = Duration::ZERO;
    std::thread::scope(|scope| {
        for (claim, count) in claims.iter().zip(&counts) {
            scope.spawn(|| write_on(&store, claim, &end, count));
        }
        for round in 0..rounds() {
            let how = [End::Kill, End::Immediate, End::Fast][round % 3];
            go_on(&counts);
            cluster.end(how);
            cluster.start();
            slowest = slowest.max(go_on(&counts));
        }
        end.store(true, Ordering::Relaxed);
    });
    assert!(!is_full() || slowest < BACK, "it took {slowest:?} to write again");
    for (n, count) in counts.iter().enumerate() {
        verify(&store, &format!("t{n}"), count.load(Ordering::Relaxed));
    }
}

/// Waits until every writer has made progress and returns the time taken.
fn go_on(counts: &[AtomicUsize]) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "the server is real, with its own clock")]
    let begun = Instant::now();
    let before: Vec<_> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    let on = |(count, before): (&AtomicUsize, &usize)| count.load(Ordering::Relaxed) > before + 1;
    while !counts.iter().zip(&before).all(on) {
        std::thread::park_timeout(Duration::from_millis(5));
        assert!(begun.elapsed() < STUCK, "the writers do not get on");
    }
    begun.elapsed()
}

/// Checks that every acknowledged commit is present, in order, and not repeated.
fn verify(store: &PostgresStore, name: &str, count: usize) {
    let who = Principal::local();
    let shelf = CheckpointNamespace { thread: thread(name), ns: String::new() };
    let events = block_on(store.events(&who, &at(name, name), 0, usize::MAX)).expect("reads");
    let expected = (1..=count).flat_map(|n| [custom_event(n), custom_event(format!("end of {n}"))]);
    assert!(events.into_iter().map(|event| event.event).eq(expected), "events of {name}");
    let page = block_on(store.page(&who, &shelf, None, usize::MAX)).expect("reads");
    let ids: Vec<_> = page.iter().rev().map(|found| found.id.0).collect();
    assert!(ids.into_iter().eq(1..=u128::try_from(count).expect("a number")));
    let calls = block_on(store.calls(&who, &thread(name))).expect("reads");
    assert_eq!(calls.len(), count);
    assert!(calls.iter().all(|call| (call.made, call.possibly_paid, call.reused) == (1, 0, 0)));
}

#[test]
fn a_database_that_is_away_is_told_and_found_again() {
    let mut cluster = Cluster::new();
    let schema = Schema::new("away");
    let options = Options { wait_ms: 100, ..schema.options() };
    let store = PostgresStore::open(&cluster.address(), &options).expect("opens");
    let claim = begin(&store, "t", "r");
    let who = Principal::local();
    for how in [End::Kill, End::Fast] {
        cluster.end(how);
        let read = block_on(store.thread(&who, &thread("t"))).expect_err("nobody answers");
        let wrote = block_on(store.commit(&who, &claim, commit(1))).expect_err("nobody answers");
        for error in [read, wrote] {
            assert!(error.is_retriable(), "{error}");
            assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        }
        let opened = PostgresStore::open(&cluster.address(), &options);
        assert!(opened.expect_err("nobody answers").is_retriable());
        cluster.start();
        block_on(store.thread(&who, &thread("t"))).expect("it is back");
        register(&store, "w");
    }
    let made = block_on(store.commit(&who, &claim, commit(1))).expect("commits");
    assert_eq!(made.first_seq, 1, "what was refused has left nothing behind");
}
