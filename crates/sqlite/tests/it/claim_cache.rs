//! Tests that the cached state of runs is used only while nothing else was written.

use crate::support::{begin, block_on, commit_of, custom_event, numbers, open};
use rusqlite::Connection;
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_store::WriteRuns as _;
use weftwork_store::{Claim, Commit, Committed, StoreError};
use weftwork_types::Principal;

const DURABILITIES: [Durability; 2] = [Durability::Normal, Durability::Full];

fn commit(store: &SqliteStore, claim: &Claim, number: u128) -> Result<Committed, StoreError> {
    block_on(store.commit(&Principal::local(), claim, commit_of(number, vec![7; 100])))
}

/// A store, the same file opened as by another process, and a claim with enough commits for its
/// state to be cached.
fn known(durability: Durability) -> (tempfile::TempDir, [SqliteStore; 2], Claim) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { durability, ..Options::default() };
    let stores = [open(&folder, &options), open(&folder, &options)];
    let claim = begin(&stores[0], "t", "r");
    for number in 1..=3 {
        commit(&stores[0], &claim, number).expect("commits");
    }
    (folder, stores, claim)
}

#[test]
fn a_cancel_is_noticed_whoever_asks() {
    for durability in DURABILITIES {
        for by in 0..2 {
            let (_folder, stores, claim) = known(durability);
            block_on(stores[by].request_cancel(&Principal::local(), &claim.at)).expect("asks");
            let next = commit(&stores[0], &claim, 4).expect("commits");
            assert!(next.cancel_requested, "{durability:?}, asked through store {by}");
            let after = commit(&stores[0], &claim, 5).expect("commits");
            assert!(after.cancel_requested, "it stays so");
            assert_eq!((next.first_seq, after.first_seq), (4, 5));
        }
    }
}

#[test]
fn a_claim_that_was_taken_over_is_refused() {
    for durability in DURABILITIES {
        for by in 0..2 {
            let (_folder, stores, claim) = known(durability);
            let who = Principal::local();
            let now = weftwork_types::Timestamp(9);
            block_on(stores[by].release(&who, &claim, now)).expect("puts it back");
            let (newer, _) =
                block_on(stores[by].claim(&who, &claim.at, &claim.worker, now)).expect("claims");
            let refused = commit(&stores[0], &claim, 4);
            assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{refused:?}");
            commit(&stores[by], &newer, 4).expect("commits");
            let refused = commit(&stores[0], &claim, 5);
            assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{refused:?}");
            assert_eq!(numbers(&stores[0], "t"), [1, 2, 3, 4]);
        }
    }
}

#[test]
fn a_run_that_is_gone_is_missed() {
    for durability in DURABILITIES {
        let (folder, stores, claim) = known(durability);
        let conn = Connection::open(folder.path().join("weft.db")).expect("opens");
        conn.execute("UPDATE runs SET status = 'completed'", []).expect("edits");
        let refused = commit(&stores[0], &claim, 4);
        assert!(refused.is_err(), "{refused:?}");
    }
}

#[test]
fn what_was_taken_back_is_not_remembered() {
    for durability in DURABILITIES {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options { durability, size_bytes_max: Some(400_000), ..Options::default() };
        let store = open(&folder, &options);
        let one = begin(&store, "t1", "r1");
        let two = begin(&store, "t2", "r2");
        for number in 1..=20_u128 {
            for claim in [&one, &two] {
                let large = commit_of(100 + number, vec![0; 1_000_000]);
                let full = block_on(store.commit(&Principal::local(), claim, large));
                assert!(matches!(full, Err(StoreError::Full { .. })), "{full:?}");
                let made = commit(&store, claim, number).expect("commits");
                assert_eq!(u128::from(made.first_seq), number);
            }
        }
        assert_eq!(numbers(&store, "t1"), Vec::from_iter(1..=20));
        assert_eq!(numbers(&store, "t2"), Vec::from_iter(1..=20));
    }
}

#[test]
fn commits_without_events_keep_the_count() {
    let (_folder, stores, claim) = known(Durability::Normal);
    let quiet = Commit { at: weftwork_types::Timestamp(3), ..Commit::default() };
    let made = block_on(stores[0].commit(&Principal::local(), &claim, quiet)).expect("commits");
    assert_eq!(made.first_seq, 4, "the number the next event gets");
    let twice = Commit { events: vec![custom_event(1), custom_event(2)], ..Commit::default() };
    let made = block_on(stores[0].commit(&Principal::local(), &claim, twice)).expect("commits");
    assert_eq!(made.first_seq, 4);
    assert_eq!(commit(&stores[0], &claim, 4).expect("commits").first_seq, 6);
}
