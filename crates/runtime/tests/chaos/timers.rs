//! Timers that are due at the same time, over two processes of which one is killed.

use crate::place::Place;
use crate::worker::{NAPS, Site, Worker, accept_as};
use crate::{check_time, full, report};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::SystemClock;
use weftwork_store::Store;
use weftwork_types::port::Clock;
use weftwork_types::run::{Durability, RunRef, RunStatus};
use weftwork_types::{Principal, Timestamp};

/// Time within which all timers of a full dose must have begun.
const BEGUN: Duration = Duration::from_secs(30);

async fn ended(store: &dyn Store, runs: &[RunRef], status: RunStatus) -> usize {
    let rows = store.threads(&Principal::local(), 0, runs.len()).await.expect("reads");
    rows.iter().filter(|row| row.status == Some(status)).count()
}

/// Runs that sleep until one time.
struct Asleep {
    runs: Vec<RunRef>,
    due: Timestamp,
}

/// Lets threads sleep until a time by which all of them have fallen asleep. On a busy machine that
/// takes longer than expected; then others sleep until a later time.
async fn asleep(store: &Arc<dyn Store>, timers: usize, ahead_ms: u64, look: Duration) -> Asleep {
    let clock = SystemClock::new();
    let mut ahead = Duration::from_millis(ahead_ms);
    loop {
        let due = clock.now().plus(ahead);
        let mut runs = Vec::new();
        for n in 0..timers {
            let thread = format!("t{}-{n}", ahead.as_millis());
            let tag = due.0.to_string();
            runs.push(accept_as(store, NAPS, &thread, &tag, Durability::Sync).await);
        }
        while clock.now() < due {
            if ended(store.as_ref(), &runs, RunStatus::Interrupted).await == timers {
                return Asleep { runs, due };
            }
            tokio::time::sleep(look).await;
        }
        while ended(store.as_ref(), &runs, RunStatus::Completed).await < timers {
            tokio::time::sleep(look).await;
        }
        ahead *= 2;
    }
}

async fn all_at_once(name: &str, place: Place, folder: &Path) {
    let who = Principal::local();
    // A check of the threads reads all of them, on the cores that the workers use.
    let (timers, ahead_ms, pace_ms, look_ms) =
        if full() { (10_000, 150_000, 2_000, 1_000) } else { (300, 6_000, 150, 10) };
    let look = Duration::from_millis(look_ms);
    let site =
        Site { database: place, folder: folder.to_owned(), pace_ms, step_ms: 0, attempts_max: 50 };
    let store = site.database.open();
    let clock = SystemClock::new();
    let first = Worker::start(&site);
    let second = Worker::start(&site);
    let Asleep { runs, due } = asleep(&store, timers, ahead_ms, look).await;
    clock.sleep(Duration::from_millis(u64::try_from(due.0 - clock.now().0).unwrap_or(0))).await;
    while ended(store.as_ref(), &runs, RunStatus::Completed).await < timers / 4 {
        tokio::time::sleep(look).await;
    }
    first.kill();
    while ended(store.as_ref(), &runs, RunStatus::Completed).await < timers {
        tokio::time::sleep(look).await;
    }
    let mut late = Vec::new();
    for run in &runs {
        let rows = store.runs(&who, &run.thread).await.expect("reads");
        assert_eq!(rows.len(), 2, "each timer begins once");
        late.push(rows[1].new.created_at.0 - due.0);
    }
    late.sort_unstable();
    let half = late[late.len() / 2];
    let last = late[late.len() - 1];
    assert!(late[0] >= 0, "{} ms", late[0]);
    check_time(Duration::from_millis(u64::try_from(last).unwrap_or(0)), BEGUN);
    report(name, &format!("{timers} timers: first {} ms, half {half} ms, last {last} ms", late[0]));
    drop(second);
}

#[tokio::test]
async fn timers_on_sqlite_begin_once_each() {
    let folder = tempfile::tempdir().expect("a folder");
    all_at_once("timers-sqlite", Place::sqlite(folder.path()), folder.path()).await;
}

#[tokio::test]
async fn timers_on_postgres_begin_once_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(place) = Place::postgres("timers") else { return };
    all_at_once("timers-postgres", place, folder.path()).await;
}
