//! Tests of concurrent operations on two stores, as in two processes.

use crate::support::{
    Schema, at, begin, block_on, custom_event, new_run, register, thread, worker,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use weftwork_postgres::PostgresStore;
use weftwork_store::{
    BilledTo, LimitTable, LimitWindow, NewStart, StartCheck, StartCounts, StartUnit,
};
use weftwork_store::{
    CheckpointBatch, CheckpointNamespace, Commit, NewCheckpoint, ReadCheckpoints, StoreError,
    WriteCheckpoints,
};
use weftwork_store::{ReadEvents, ReadRuns, Workers, WriteRuns, WriteThreads};
use weftwork_types::canonical;
use weftwork_types::run::RunOutcome;
use weftwork_types::{BillingAccountId, CheckpointId, Principal, Timestamp, VirtualKeyId};

const MANY: usize = 12;

/// Runs an operation for many numbers concurrently, alternating between the two stores, and returns
/// the results.
fn all<T: Send>(
    stores: &[PostgresStore; 2],
    work: impl Fn(&PostgresStore, usize) -> T + Sync,
) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let begun: Vec<_> =
            (0..MANY).map(|n| scope.spawn(move || work(&stores[n % 2], n))).collect();
        begun.into_iter().map(|one| one.join().expect("no panic")).collect()
    })
}

#[test]
fn one_run_of_many_gets_the_thread() {
    let schema = Schema::new("one_run");
    let who = Principal::local();
    let stores = [schema.open(), schema.open()];
    for round in 0..10 {
        let name = format!("t{round}");
        let made = all(&stores, |store, n| {
            let run = new_run(&name, &format!("r{round}-{n}"));
            block_on(store.create_run(&who, run, BTreeMap::new()))
        });
        let busy = |made: &&Result<_, _>| matches!(made, Err(StoreError::Busy { .. }));
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1, "{made:?}");
        assert_eq!(made.iter().filter(busy).count(), MANY - 1, "{made:?}");
    }
}

#[test]
fn the_same_key_from_many_is_one_run() {
    let schema = Schema::new("one_key");
    let who = Principal::local();
    let stores = [schema.open(), schema.open()];
    for round in 0..40 {
        let name = format!("t{round}");
        let made = all(&stores, |store, n| {
            let mut run = new_run(&name, &format!("r{round}-{n}"));
            run.options.idempotency_key = Some(format!("key {round}"));
            let row = block_on(store.create_run(&who, run, BTreeMap::new())).expect("a run");
            row.new.at.run.to_string()
        });
        assert_eq!(made.iter().collect::<BTreeSet<_>>().len(), 1, "{made:?}");
        assert_eq!(block_on(stores[0].runs(&who, &thread(&name))).map(|runs| runs.len()), Ok(1));
    }
}

#[test]
fn one_claim_of_many_wins() {
    let schema = Schema::new("one_claim");
    let who = Principal::local();
    let stores = [schema.open(), schema.open()];
    for n in 0..MANY {
        register(&stores[0], &format!("w{n}"));
    }
    for round in 0..10 {
        let name = format!("t{round}");
        let run = new_run(&name, &name);
        block_on(stores[0].create_run(&who, run, BTreeMap::new())).expect("a run");
        let made = all(&stores, |store, n| {
            let by = worker(&format!("w{n}"));
            block_on(store.claim(&who, &at(&name, &name), &by, Timestamp(1)))
        });
        let won: Vec<_> = made.iter().flatten().map(|(claim, _)| claim.fence).collect();
        assert_eq!(won, [1], "{made:?}");
    }
}

#[test]
fn nothing_of_a_zombie_comes_after_the_takeover() {
    let schema = Schema::new("zombie");
    let who = Principal::local();
    let stores = [schema.open(), schema.open()];
    for round in 0..10 {
        let name = format!("t{round}");
        let zombie = begin(&stores[0], &name, &name);
        block_on(stores[0].retire(&zombie.worker)).expect("retires");
        register(&stores[1], "heir");
        let written = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut written = 0;
                loop {
                    let commit =
                        Commit { events: vec![custom_event("zombie")], ..Commit::default() };
                    match block_on(stores[0].commit(&who, &zombie, commit)) {
                        Ok(_) => written += 1,
                        Err(StoreError::Fenced { newest: 2, ours: 1, .. }) => return written,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
            let heir = worker("heir");
            let (claim, _) =
                block_on(stores[1].claim(&who, &zombie.at, &heir, Timestamp(1))).expect("claims");
            let commit = Commit {
                events: vec![custom_event("heir")],
                finish: Some(RunOutcome::cancelled()),
                ..Commit::default()
            };
            block_on(stores[1].commit(&who, &claim, commit)).expect("commits");
            writer.join().expect("no panic")
        });
        let events = block_on(stores[1].events(&who, &zombie.at, 0, usize::MAX)).expect("reads");
        assert_eq!(events.len(), written + 1);
        assert_eq!(events.last().map(|last| last.event.clone()), Some(custom_event("heir")));
        block_on(stores[0].delete_thread(&who, &thread(&name))).expect("deletes");
    }
}

#[test]
fn no_blob_that_is_spoken_of_is_collected() {
    let schema = Schema::new("blobs");
    let who = Principal::local();
    let stores = [schema.open(), schema.open()];
    let blob = |n: usize| {
        let body = format!("blob {}", n % 3).into_bytes();
        (canonical::hash_bytes(&body), body)
    };
    let end = AtomicBool::new(false);
    let collected = std::thread::scope(|scope| {
        let collector = scope.spawn(|| {
            let mut collected = 0;
            while !end.load(Ordering::Relaxed) {
                collected += block_on(stores[1].collect_blobs(&who)).expect("collects");
            }
            collected
        });
        // Each write replaces the previous one, so most blobs are soon unreferenced.
        for n in 0..150 {
            let (hash, body) = blob(n);
            let new = NewCheckpoint {
                ns: String::new(),
                id: CheckpointId(1),
                of: None,
                tasks: Vec::new(),
                body: Vec::new(),
                blobs: vec![hash],
            };
            let batch = CheckpointBatch {
                checkpoints: vec![new],
                blobs: vec![(hash, body.clone())],
                ..CheckpointBatch::default()
            };
            block_on(stores[0].put_checkpoints(&who, &thread("t"), batch)).expect("keeps");
            assert_eq!(block_on(stores[0].blob(&who, hash)), Ok(Some(body)), "after write {n}");
        }
        end.store(true, Ordering::Relaxed);
        collector.join().expect("no panic")
    });
    assert!(collected > 10, "only {collected} were collected");
    let at = CheckpointNamespace { thread: thread("t"), ns: String::new() };
    assert_eq!(block_on(stores[0].page(&who, &at, None, 9)).map(|page| page.len()), Ok(1));
}

#[test]
fn starts_of_two_processes_pass_no_limit_together() {
    let schema = Schema::new("starts");
    let stores = [schema.open(), schema.open()];
    let account = BilledTo::Account(BillingAccountId::new("acme").expect("an id"));
    let key = BilledTo::Key(VirtualKeyId::new("k").expect("an id"));
    let check = |subject: &BilledTo, limit| StartCheck {
        subject: subject.clone(),
        unit: StartUnit::Requests,
        window: LimitWindow::Month,
        from: Timestamp(0),
        limit,
    };
    let counted = all(&stores, |store, n| {
        // The order of the limits differs, and with it that of their rows.
        let mut checks = vec![check(&account, 7), check(&key, 9)];
        checks.rotate_left(n % 2);
        let counts = StartCounts { requests: 1, runs: 1 };
        let start = NewStart { at: Timestamp(1_000), counts, checks };
        block_on(store.count_start(&start)).expect("counts").is_none()
    });
    assert_eq!(counted.iter().filter(|counted| **counted).count(), 7, "{counted:?}");
    let counts = block_on(stores[0].starts(&account, LimitWindow::Month, Timestamp(0)));
    assert_eq!(counts, Ok(StartCounts { requests: 7, runs: 7 }));
}
