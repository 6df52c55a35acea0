//! A worker that stands still for longer than its lease, and then goes on.

use crate::place::Place;
use crate::worker::{CHAIN, STEPS, Site, Worker, accept_as, state};
use crate::{full, report};
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use weftwork_store::{Claim, Commit, StoreError};
use weftwork_types::Principal;
use weftwork_types::canonical::hash;
use weftwork_types::port::{CallKey, CallRecord};
use weftwork_types::run::{Durability, RunStatus};

async fn stall(name: &str, place: Place, folder: &Path) {
    let (who, tick) = (Principal::local(), Duration::from_millis(10));
    let pace_ms = if full() { 2_000 } else { 100 };
    let site = Site { place, folder: folder.to_owned(), pace_ms, step_ms: 400, attempts_max: 3 };
    let store = site.place.open();
    let stalled = Worker::start(&site);
    let at = accept_as(&store, CHAIN, ("t", "0"), Durability::Sync).await;
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

#[tokio::test]
async fn a_stalled_worker_on_sqlite_writes_nothing_more() {
    let folder = tempfile::tempdir().expect("a folder");
    stall("stall-sqlite", Place::sqlite(folder.path()), folder.path()).await;
}

#[tokio::test]
async fn a_stalled_worker_on_postgres_writes_nothing_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(place) = Place::postgres("stall") else { return };
    stall("stall-postgres", place, folder.path()).await;
}
