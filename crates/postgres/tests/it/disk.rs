//! Tests of a server with a full disk: accepted writes are retained, refused writes can be retried.
#![cfg(target_os = "linux")]

use crate::cluster::{Cluster, End};
use crate::support::{Schema, begin, block_on, custom_event, thread};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use weftwork_postgres::{Options, PostgresStore};
use weftwork_store::{
    CheckpointBatch, CheckpointNamespace, Commit, NewCheckpoint, ReadCheckpoints,
};
use weftwork_store::{ReadEvents, ReadRuns, WriteRuns};
use weftwork_types::{CheckpointId, Principal};

/// A small disk mounted in a folder, unmounted on drop.
struct Disk(PathBuf);

impl Disk {
    /// Mounts the disk; `None` if this is not permitted.
    fn on(folder: &TempDir) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=96m,mode=711", "weft-test"]).arg(folder.path());
        let made = mount.output().is_ok_and(|output| output.status.success());
        made.then(|| Self(folder.path().to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A lazy unmount removes it after its last use.
        Command::new("umount").arg("--lazy").arg(&self.0).status().map(drop).unwrap_or_default();
    }
}

/// Fills the disk.
fn fill(folder: &Path) -> PathBuf {
    let path = folder.join("ballast");
    let mut file = File::create(&path).expect("makes");
    for size in [1 << 20, 1 << 12, 1] {
        let piece = vec![1u8; size];
        while file.write_all(&piece).is_ok() {}
    }
    path
}

fn commit(number: u128) -> Commit {
    let checkpoint = NewCheckpoint {
        ns: String::new(),
        id: CheckpointId(number),
        of: None,
        tasks: Vec::new(),
        body: (0..20_000u32).flat_map(|n| (n ^ number as u32).to_be_bytes()).collect(),
        blobs: Vec::new(),
    };
    let batch = CheckpointBatch { checkpoints: vec![checkpoint], ..CheckpointBatch::default() };
    Commit {
        batch: batch.into(),
        events: vec![custom_event(number.to_string())],
        ..Commit::default()
    }
}

/// Returns the number of commits, and checks that they are complete, in order, and not repeated.
fn there(store: &PostgresStore) -> u128 {
    let who = Principal::local();
    let shelf = CheckpointNamespace { thread: thread("t"), ns: String::new() };
    let page = block_on(store.page(&who, &shelf, None, usize::MAX)).expect("reads");
    let mut events = block_on(store.events(&who, &crate::support::at("t", "r"), 0, usize::MAX));
    let events = events.as_mut().expect("reads");
    assert_eq!(events.len(), page.len());
    for ((number, found), event) in (1..).zip(page.iter().rev()).zip(events) {
        assert_eq!(
            (found.id, &found.body),
            (CheckpointId(number), &commit(number).batch.checkpoints[0].body)
        );
        assert_eq!(event.event, custom_event(number.to_string()));
    }
    page.len() as u128
}

#[test]
fn a_full_disk_refuses_for_a_while_and_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(disk) = Disk::on(&folder) else {
        println!("SKIPPED(no disk of its own): a_full_disk_refuses_for_a_while_and_loses_nothing");
        return;
    };
    let mut cluster = Cluster::on(folder);
    let schema = Schema::new("disk");
    let options = Options { wait_ms: 500, ..schema.options() };
    let store = PostgresStore::open(&cluster.address(), &options).expect("opens");
    let who = Principal::local();
    let claim = begin(&store, "t", "r");
    let mut number = 0;
    let mut refused = Vec::new();
    for round in 0..3 {
        for _ in 0..5 {
            number += 1;
            block_on(store.commit(&who, &claim, commit(number))).expect("there is room");
        }
        let ballast = fill(cluster.folder());
        let error = loop {
            match block_on(store.commit(&who, &claim, commit(number + 1))) {
                Ok(_) => number += 1,
                Err(error) => break error,
            }
        };
        assert!(error.is_retriable(), "{error}");
        refused.push(error.to_string());
        std::fs::remove_file(ballast).expect("makes room");
        let mut tries = 0;
        while let Err(error) = block_on(store.orphans(weftwork_types::Timestamp(0), 1)) {
            assert!(error.is_retriable() && tries < 600, "round {round}: {error}");
            cluster.revive();
            std::thread::park_timeout(Duration::from_millis(100));
            tries += 1;
        }
        // The last one may be present without a confirmation.
        let found = there(&store);
        assert!((number..=number + 1).contains(&found), "{number} acknowledged, {found} there");
        number = found;
    }
    println!("refused: {refused:#?}");
    drop(store);
    cluster.end(End::Immediate);
    drop(disk);
}
