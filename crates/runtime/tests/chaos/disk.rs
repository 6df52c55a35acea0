//! A disk on which files may not grow: runs pause, and go on when there is room again.
#![cfg(target_os = "linux")]

use crate::check::check;
use crate::place::Place;
use crate::worker::{ARGS, CHAIN, Site, Worker, accept};
use crate::{full, report};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use weftwork_sqlite::{Options, SqliteStore};
use weftwork_store::{RunRow, Store};
use weftwork_types::Principal;
use weftwork_types::run::{RunRef, RunStatus};

/// The first limit of a file's size, in bytes: some dozen commits.
const ROOM: u64 = 256 * 1024;

/// Starts a worker that is told by an error, not by a signal, when a file may not grow.
fn start(site: &Site) -> Worker {
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
    shell.arg(std::env::current_exe().expect("this program")).args(ARGS);
    Worker::start_by(shell, site)
}

/// Says how large the files of a worker may get.
fn limit(worker: &Worker, bytes: Option<u64>) {
    let pid = i32::try_from(worker.pid()).ok().and_then(Pid::from_raw).expect("a process");
    let rooms = Rlimit { current: bytes, maximum: None };
    prlimit(Some(pid), Resource::Fsize, rooms).expect("the limit of a child can be set");
}

async fn rows(store: &Arc<dyn Store>, runs: &[Vec<RunRef>]) -> Vec<RunRow> {
    let mut found = Vec::new();
    for at in runs.iter().flatten() {
        found.push(store.run(&Principal::local(), at).await.expect("reads"));
    }
    found
}

/// Waits until all runs have ended or nothing was done for a second; says whether they have.
async fn settled(site: &Site, store: &Arc<dyn Store>, runs: &[Vec<RunRef>]) -> bool {
    let mut known = 0;
    let mut still = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let rows = rows(store, runs).await;
        for row in &rows {
            let is_well = !row.status.is_final() || row.status == RunStatus::Completed;
            assert!(is_well, "a full disk pauses runs: {row:?}");
        }
        if rows.iter().all(|row| row.status.is_final()) {
            return true;
        }
        let now = site.effects().len();
        still = if now == known { still + 1 } else { 0 };
        known = now;
        if still == 20 {
            return false;
        }
    }
}

fn whole(path: &Path) {
    let store = SqliteStore::open(path, &Options::default()).expect("opens");
    assert_eq!(store.verify().expect("can be read"), [], "the file is whole");
}

#[tokio::test]
async fn files_that_may_not_grow_pause_runs_until_they_may() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::sqlite(folder.path());
    let site = Site {
        database: place,
        folder: folder.path().to_owned(),
        pace_ms: 250,
        step_ms: 2,
        attempts_max: 50,
    };
    let store = site.database.open();
    let file = folder.path().join("weft.db");
    let worker = start(&site);
    let threads = if full() { 60 } else { 12 };
    limit(&worker, Some(ROOM));
    let mut runs = Vec::new();
    for thread in 0..threads {
        runs.push(vec![accept(&store, CHAIN, &format!("t{thread}"), "0").await]);
    }
    let mut room = ROOM;
    let mut pauses = 0;
    while !settled(&site, &store, &runs).await {
        whole(&file);
        pauses += 1;
        // A little at first, so that there is more than one pause.
        room += ROOM;
        limit(&worker, if pauses < 3 { Some(room) } else { None });
    }
    drop(worker);
    whole(&file);
    let (count, again) = check(&site, CHAIN, &runs).await;
    assert!(pauses > 0, "the limit was never met");
    let figures = format!(
        "{count} runs, {pauses} pauses at the limit of a file's size: 0 failed, 0 lost, 0 doubled, \
         0 out of order, {again} unknown calls made again; no damage"
    );
    report("disk-sqlite", &figures);
}
