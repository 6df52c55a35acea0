//! Tests that the clock of the database decides which workers are alive, regardless of the workers'
//! clocks.

use crate::support::{Schema, address, at, block_on, new_run, worker};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weftwork_postgres::{Options, PostgresStore, Time};
use weftwork_store::{ReadRuns, Workers, WriteRuns};
use weftwork_store::{StoreError, WorkerRow};
use weftwork_testkit::ManualClock;
use weftwork_types::port::Clock;
use weftwork_types::{Principal, Timestamp};

const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn clocks_of_workers_do_not_count() {
    let schema = Schema::new("leases");
    let slow = Arc::new(ManualClock::new());
    let fast = Arc::new(ManualClock::new());
    fast.advance(DAY);
    let open = |clock: &Arc<ManualClock>| {
        let time = Time::Database(clock.clone());
        let options = Options { time, ..schema.options() };
        PostgresStore::open(&address(), &options).expect("opens")
    };
    let ours = open(&slow);
    let theirs = open(&fast);
    let who = Principal::local();
    let register = |store: &PostgresStore, clock: &ManualClock, id: &str, lease: i64| {
        let now = clock.now();
        let expires_at = Timestamp(now.0.saturating_add(lease));
        let row = WorkerRow { id: worker(id), renewed_at: now, expires_at };
        block_on(store.keep_alive(row)).expect("registers");
    };
    register(&ours, &slow, "ours", 3_600_000);
    register(&theirs, &fast, "theirs", i64::MAX);
    block_on(ours.create_run(&who, new_run("t", "r"), BTreeMap::new())).expect("a run");
    let take = |store: &PostgresStore, by: &str, now| {
        block_on(store.claim(&who, &at("t", "r"), &worker(by), now)).map(|(claim, _)| claim.fence)
    };
    let orphans =
        |store: &PostgresStore, now| block_on(store.orphans(now, 9)).expect("reads").len();
    assert_eq!(take(&ours, "ours", slow.now()), Ok(1));
    // One clock is a day ahead, and the other is stopped: neither ends the lease.
    for now in [fast.now(), Timestamp(i64::MAX), Timestamp(0)] {
        assert!(matches!(take(&theirs, "theirs", now), Err(StoreError::Busy { .. })));
        assert_eq!(orphans(&theirs, now), 0);
    }
    slow.advance(DAY * 30);
    assert_eq!(orphans(&ours, slow.now()), 0);
    // A lease ends when the time of the database passes it: immediately, for one of length zero.
    register(&ours, &slow, "ours", 0);
    assert_eq!(orphans(&theirs, Timestamp(0)), 1);
    assert_eq!(take(&theirs, "theirs", Timestamp(0)), Ok(2));
    assert!(matches!(take(&ours, "ours", slow.now()), Err(StoreError::Busy { .. })));
    block_on(theirs.retire(&worker("theirs"))).expect("retires");
    assert_eq!(take(&ours, "ours", Timestamp(0)), Ok(3));
}
