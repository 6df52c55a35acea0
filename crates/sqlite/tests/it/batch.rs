//! Tests that jobs in one transaction do not affect each other.

use crate::support::{begin, block_on, commit_of, numbers, open};
use rusqlite::Connection;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use weftwork_sqlite::{Options, SqliteStore};
use weftwork_store::{Claim, Commit, Committed, StoreError};
use weftwork_store::{Result, WriteRuns};
use weftwork_types::{BoxFuture, Principal};

/// Blocks the writer until it is dropped, so that jobs queue up.
struct Hold(Connection);

impl Hold {
    fn take(store: &SqliteStore) -> Self {
        let conn = Connection::open(store.path()).expect("opens");
        conn.execute_batch("BEGIN IMMEDIATE").expect("locks");
        Self(conn)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.execute_batch("ROLLBACK").expect("unlocks");
    }
}

fn start<'a>(
    store: &'a SqliteStore,
    who: &'a Principal,
    claim: &'a Claim,
    commit: Commit,
) -> BoxFuture<'a, Result<Committed>> {
    let mut future = store.commit(who, claim, commit);
    let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Pending, "the writer waits for the lock");
    future
}

fn claims(store: &SqliteStore, count: usize) -> Vec<Claim> {
    (0..count).map(|n| begin(store, &format!("t{n}"), &format!("r{n}"))).collect()
}

#[test]
fn one_refused_commit_spoils_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder, &Options::default());
    let who = Principal::local();
    let claims = claims(&store, 8);
    let hold = Hold::take(&store);
    let old = |n: usize| Claim { fence: 0, ..claims[n].clone() };
    let held: Vec<_> =
        (0..8).map(|n| if n % 3 == 1 { old(n) } else { claims[n].clone() }).collect();
    let commit = || commit_of(1, vec![0; 10]);
    let started: Vec<_> = held.iter().map(|claim| start(&store, &who, claim, commit())).collect();
    drop(hold);
    for (n, future) in started.into_iter().enumerate() {
        let done = block_on(future);
        let thread = format!("t{n}");
        if n % 3 == 1 {
            assert!(matches!(done, Err(StoreError::Fenced { .. })), "{done:?}");
            assert_eq!(numbers(&store, &thread), Vec::<u128>::new());
        } else {
            assert_eq!(done.map(|made| made.first_seq), Ok(1));
            assert_eq!(numbers(&store, &thread), [1]);
        }
    }
}

#[test]
fn one_commit_without_room_spoils_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { size_bytes_max: Some(400_000), ..Options::default() };
    let store = open(&folder, &options);
    let who = Principal::local();
    let claims = claims(&store, 6);
    let hold = Hold::take(&store);
    let commit = |n: usize| commit_of(1, vec![0; if n == 3 { 1_000_000 } else { 100 }]);
    let started: Vec<_> =
        claims.iter().enumerate().map(|(n, claim)| start(&store, &who, claim, commit(n))).collect();
    drop(hold);
    for (n, future) in started.into_iter().enumerate() {
        let done = block_on(future);
        let is_full = matches!(done, Err(StoreError::Full { .. }));
        assert_eq!((is_full, done.is_ok()), (n == 3, n != 3), "{n}: {done:?}");
    }
}

#[test]
fn a_dropped_future_does_nothing_before_its_first_poll_and_all_after_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder, &Options::default());
    let who = Principal::local();
    let claims = claims(&store, 2);
    drop(store.commit(&who, &claims[0], commit_of(1, vec![1])));
    let hold = Hold::take(&store);
    drop(start(&store, &who, &claims[1], commit_of(1, vec![1])));
    drop(hold);
    // Jobs are processed in order, so this one follows the dropped one.
    block_on(store.commit(&who, &claims[1], commit_of(2, vec![2]))).expect("commits");
    assert_eq!(numbers(&store, "t0"), Vec::<u128>::new());
    assert_eq!(numbers(&store, "t1"), [1, 2]);
}

#[test]
fn many_runs_commit_at_the_same_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(open(&folder, &Options::default()));
    let threads: Vec<_> = claims(&store, 8)
        .into_iter()
        .map(|claim| {
            let store = store.clone();
            std::thread::spawn(move || {
                for number in 1..=10 {
                    let commit = commit_of(number, vec![7; 500]);
                    let made = block_on(store.commit(&Principal::local(), &claim, commit));
                    assert_eq!(made.map(|made| u128::from(made.first_seq)), Ok(number));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("every commit is kept");
    }
    for n in 0..8 {
        assert_eq!(numbers(&store, &format!("t{n}")), Vec::from_iter(1..=10));
    }
}

#[test]
fn a_new_file_may_be_opened_by_many_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..6 {
        let path = folder.path().join(format!("{round}.db"));
        let open = || SqliteStore::open(&path, &Options::default()).map(drop);
        let opened: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(opened, vec![Ok(()); 6]);
        let conn = Connection::open(&path).expect("opens");
        let mode: i64 =
            conn.pragma_query_value(None, "auto_vacuum", |row| row.get(0)).expect("reads");
        assert_eq!(mode, 2, "whoever makes it lets it give room back");
    }
}
