//! Tests that the runs of a worker with a dead process can be claimed immediately, before its lease
//! ends.

use crate::support::{begin, block_on, open, register, worker};
use weftwork_sqlite::Options;
use weftwork_store::{ReadRuns, Workers, WriteRuns};
use weftwork_store::{StoreError, WorkerRow};
use weftwork_types::{Principal, Timestamp};

fn lock_files(folder: &tempfile::TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).expect("reads the folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut locks: Vec<String> = names
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.ends_with(".lock"))
        .collect();
    locks.sort();
    locks
}

#[test]
fn a_worker_without_a_process_is_dead() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = open(&folder, &Options::default());
    let second = open(&folder, &Options::default());
    let claim = begin(&first, "t", "r");
    assert_eq!(lock_files(&folder), ["weft.db.worker-w.lock"]);
    let who = Principal::local();
    let heir = register(&second, "heir");
    let busy = block_on(second.claim(&who, &claim.at, &heir, Timestamp(2)));
    assert!(matches!(busy, Err(StoreError::Busy { .. })), "{busy:?}");
    assert_eq!(block_on(second.orphans(Timestamp(2), 9)).map(|found| found.len()), Ok(0));

    drop(first); // Releases the locks, as the end of the process does.
    assert_eq!(block_on(second.orphans(Timestamp(2), 9)).map(|found| found.len()), Ok(1));
    let (taken, _) = block_on(second.claim(&who, &claim.at, &heir, Timestamp(2))).expect("takes");
    assert_eq!(taken.fence, 2);
    assert_eq!(lock_files(&folder), ["weft.db.worker-heir.lock"], "who takes over buries the dead");

    register(&open(&folder, &Options::default()), "third");
    assert_eq!(lock_files(&folder), ["weft.db.worker-heir.lock", "weft.db.worker-third.lock"]);
    drop(open(&folder, &Options::default()));
    assert_eq!(lock_files(&folder), ["weft.db.worker-heir.lock"], "so does who opens");
    block_on(second.retire(&heir)).expect("retires");
    assert_eq!(lock_files(&folder), Vec::<String>::new());
}

#[test]
fn without_a_lock_file_the_lease_decides() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = open(&folder, &Options::default());
    let second = open(&folder, &Options::default());
    let claim = begin(&first, "t", "r");
    std::fs::remove_file(folder.path().join("weft.db.worker-w.lock")).expect("removes");
    drop(first);
    let who = Principal::local();
    let heir = register(&second, "heir");
    let busy = block_on(second.claim(&who, &claim.at, &heir, Timestamp(2)));
    assert!(matches!(busy, Err(StoreError::Busy { .. })), "{busy:?}");
    let late = block_on(second.claim(&who, &claim.at, &heir, Timestamp(i64::MAX)));
    assert_eq!(late.expect("the lease is over").0.fence, 2);
}

#[test]
fn two_processes_cannot_be_the_same_worker() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = open(&folder, &Options::default());
    let second = open(&folder, &Options::default());
    let row = WorkerRow { id: worker("a:b.c"), renewed_at: Timestamp(0), expires_at: Timestamp(9) };
    block_on(first.keep_alive(row.clone())).expect("registers");
    block_on(first.keep_alive(row.clone())).expect("prolongs");
    assert_eq!(lock_files(&folder), ["weft.db.worker-a%3Ab.c.lock"]);
    let refused = block_on(second.keep_alive(row.clone())).expect_err("it is alive");
    assert!(refused.is_retriable());
    assert!(refused.to_string().ends_with("worker `a:b.c` is alive in another process"));
    block_on(first.retire(&row.id)).expect("retires");
    block_on(second.keep_alive(row)).expect("the name is free again");
}

/// A process that was suspended has let its lease expire.
#[test]
fn a_worker_with_a_process_lives_whatever_its_lease_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = open(&folder, &Options::default());
    let second = open(&folder, &Options::default());
    let claim = begin(&first, "t", "r");
    let who = Principal::local();
    let heir = register(&second, "heir");
    let row = WorkerRow { id: worker("w"), renewed_at: Timestamp(0), expires_at: Timestamp(1) };
    block_on(first.keep_alive(row)).expect("renews");
    let late = Timestamp(1_000_000);
    let busy = block_on(second.claim(&who, &claim.at, &heir, late));
    assert!(matches!(busy, Err(StoreError::Busy { .. })), "{busy:?}");
    assert_eq!(block_on(second.orphans(late, 9)).map(|found| found.len()), Ok(0));
    drop(first);
    let (taken, _) = block_on(second.claim(&who, &claim.at, &heir, late)).expect("takes");
    assert_eq!(taken.fence, 2);
}
