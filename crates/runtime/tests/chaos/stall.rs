//! A worker that stands still for longer than its lease, and then goes on.

use crate::place::Place;
use crate::worker::{CHAIN, STEPS, Site, Worker, accept_as, state};
use crate::{full, report};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use weftwork_store::{Claim, Commit, StoreError};
use weftwork_types::Principal;
use weftwork_types::canonical::hash;
use weftwork_types::port::{CallKey, CallRecord};
use weftwork_types::run::{Durability, RunStatus};

async fn stall(name: &str, place: Place, folder: &Path) {
    let who = Principal::local();
    let tick = Duration::from_millis(10);
    let pace_ms = if full() { 2_000 } else { 100 };
    let site =
        Site { database: place, folder: folder.to_owned(), pace_ms, step_ms: 400, attempts_max: 3 };
    let store = site.database.open();
    let stalled = Worker::start(&site);
    let at = accept_as(&store, CHAIN, "t", "0", Durability::Sync).await;
    while site.effects().iter().filter(|line| line.starts_with("made")).count() < 2 {
        tokio::time::sleep(tick).await;
    }
    // In the middle of its next step, with nothing on its way to the store.
    tokio::time::sleep(Duration::from_millis(200)).await;
    stalled.signal("STOP");
    let row = store.run(&who, &at).await.expect("reads");
    assert_eq!((row.worker.as_ref(), row.fence), (Some(&stalled.id), 1));
    let other = Worker::start(&site);
    let stands = Duration::from_secs(if full() { 60 } else { 1 });
    tokio::time::sleep(stands).await;
    while !store.run(&who, &at).await.expect("reads").status.is_final() {
        tokio::time::sleep(tick).await;
    }
    let all = async || {
        let row = store.run(&who, &at).await.expect("reads");
        let events = store.events(&who, &at, 0, usize::MAX).await.expect("reads");
        let calls = store.calls(&who, &at.thread).await.expect("reads");
        (row, events, calls, state(&site, CHAIN, "t").await)
    };
    let before = all().await;
    assert_eq!(before.0.status, RunStatus::Completed);
    assert_eq!(before.0.worker.as_ref(), Some(&other.id));
    let noted = site.effects().len();
    stalled.signal("CONT");
    // It wakes within its step and goes on to write.
    let woke = |lines: &[String]| {
        let pid = stalled.pid().to_string();
        lines.iter().skip(noted).any(|l| l.starts_with("woke") && l.ends_with(&pid))
    };
    while !woke(&site.effects()) {
        tokio::time::sleep(tick).await;
    }
    // What it would do next takes far less.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(all().await, before, "nothing of what it wrote was taken");
    let effects = site.effects();
    assert!(!effects.iter().skip(noted).any(|l| l.starts_with("made")), "{effects:?}");
    let expected: Vec<_> = (1..=STEPS).map(|n| format!("t.0:{n}")).collect();
    assert_eq!(before.3["log"], json!(expected));
    // Every kind of write under its claim is refused.
    let claim = Claim { at: at.clone(), worker: stalled.id.clone(), fence: 1 };
    let call = CallRecord { key: CallKey(hash(&json!("late"))), ..before.2[0].clone() };
    let call = Commit { calls: vec![call.into()], ..Commit::default() };
    let refused = [
        store.commit(&who, &claim, Commit::default()).await.err(),
        store.commit(&who, &claim, call).await.err(),
        store.release(&who, &claim, row.new.created_at).await.err(),
    ];
    for error in refused {
        assert!(matches!(error, Some(StoreError::Fenced { .. })), "{error:?}");
    }
    let figures = format!("stopped for {} ms: every write after it refused", stands.as_millis());
    report(name, &figures);
}

/// The signals of two processes, one after the other.
const ORDERS: [[(&str, usize); 4]; 6] = [
    [("STOP", 0), ("STOP", 1), ("CONT", 0), ("CONT", 1)],
    [("STOP", 0), ("STOP", 1), ("CONT", 1), ("CONT", 0)],
    [("STOP", 1), ("STOP", 0), ("CONT", 0), ("CONT", 1)],
    [("STOP", 1), ("STOP", 0), ("CONT", 1), ("CONT", 0)],
    [("STOP", 0), ("CONT", 0), ("STOP", 1), ("CONT", 1)],
    [("STOP", 1), ("CONT", 1), ("STOP", 0), ("CONT", 0)],
];

/// The lock file of a process shows that it lives, however long it is stopped: nobody else makes the
/// call that it is in.
#[tokio::test]
async fn processes_of_a_file_that_are_stopped_keep_their_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::sqlite(folder.path());
    let lease = Duration::from_millis(200);
    let site = Site {
        database: place,
        folder: folder.path().into(),
        pace_ms: 50,
        step_ms: 30,
        attempts_max: 3,
    };
    let store = site.database.open();
    let workers = [Worker::start(&site), Worker::start(&site)];
    let rounds = if full() { 102 } else { ORDERS.len() };
    let mut runs = Vec::new();
    for (round, order) in ORDERS.iter().cycle().take(rounds).enumerate() {
        let mut of_round = Vec::new();
        for thread in 0..4 {
            let thread = format!("r{round}-{thread}");
            of_round.push(accept_as(&store, CHAIN, &thread, "0", Durability::Sync).await);
        }
        for (signal, which) in order {
            tokio::time::sleep(lease / 3).await;
            workers[*which].signal(signal);
            if *signal == "STOP" {
                tokio::time::sleep(lease * 2).await;
            }
        }
        for at in &of_round {
            while !store.run(&Principal::local(), at).await.expect("reads").status.is_final() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        runs.extend(of_round);
    }
    for at in &runs {
        let row = store.run(&Principal::local(), at).await.expect("reads");
        assert_eq!((row.status, row.fence), (RunStatus::Completed, 1), "{at:?}");
    }
    let made = site.made();
    let distinct: BTreeSet<&String> = made.iter().map(|(_, call)| call).collect();
    let calls = runs.len() * STEPS as usize;
    assert_eq!((made.len(), distinct.len()), (calls, calls), "each call once");
    report("stops-sqlite", &format!("{rounds} rounds of stops: {calls} calls, 0 twice"));
}

#[tokio::test]
async fn a_stalled_worker_on_postgres_writes_nothing_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(place) = Place::postgres("stall") else { return };
    stall("stall-postgres", place, folder.path()).await;
}
