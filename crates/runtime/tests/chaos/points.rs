//! Processes that end right before and right after each kind of write.

use crate::check::check;
use crate::faulty::{Faulty, Moment, name};
use crate::place::Place;
use crate::worker::{ARGS, FORGETS, PAIR, POINT, Site, Worker, accept_as};
use crate::{full, report};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weftwork_store::{Commit, Store};
use weftwork_types::Principal;
use weftwork_types::port::CallState;
use weftwork_types::run::{Durability, RunStatus};

/// The writes, and at which time of each a process may end.
const POINTS: [(&str, u64); 7] = [
    ("claim", 1),
    // Those that are made at the same time may share a commit, so that there may be fewer than steps.
    ("commit of an intent", 5),
    ("commit of a result", 5),
    ("commit of tasks", 5),
    ("commit of a step", 9),
    ("commit of the end", 1),
    ("keep_alive", 4),
];

/// Returns `true` if a write is of the kind that a point is named for: a call may be announced, or
/// its result stored, in the same commit as task outcomes.
fn is(wanted: &str, point: &'static str, commit: Option<&Commit>) -> bool {
    let open = commit.filter(|commit| commit.batch.checkpoints.is_empty());
    let any = |state: CallState| {
        open.is_some_and(|commit| commit.calls.iter().any(|call| call.state == state))
    };
    match wanted {
        "commit of an intent" => any(CallState::Intent),
        "commit of a result" => any(CallState::Settled),
        _ => name(point, commit) == wanted,
    }
}

/// A store that forgets calls, or ends this process where the environment says, if it says so.
pub(crate) fn planted(store: Arc<dyn Store>) -> Arc<dyn Store> {
    if std::env::var_os(FORGETS).is_some() {
        let faulty = Faulty::new(store);
        faulty.forgets.store(true, Ordering::Relaxed);
        return faulty;
    }
    let Ok(said) = std::env::var(POINT) else { return store };
    let words: Vec<String> = said.split(':').map(str::to_owned).collect();
    let times: u64 = words[2].parse().expect("a number");
    let faulty = Faulty::new(store);
    let count = AtomicU64::new(0);
    faulty.interfere(move |point, moment, commit| {
        if is(&words[0], point, commit)
            && format!("{moment:?}") == words[1]
            && count.fetch_add(1, Ordering::SeqCst) + 1 == times
        {
            std::process::abort();
        }
        Ok(Duration::ZERO)
    });
    faulty
}

/// When the supersteps of one of the runs are stored: by turns, as far as the run makes such a write
/// then.
fn mode(point: &str, number: usize) -> Durability {
    let each_step = matches!(point, "commit of tasks" | "commit of a step");
    let modes = [Durability::Sync, Durability::Async, Durability::Exit];
    modes[number % if each_step { 2 } else { 3 }]
}

/// Waits for something that must come.
async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    for _ in 0..6_000 {
        if is().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what} does not come");
}

async fn crash(name: &str, place: Place, folder: &Path) {
    let rounds = if full() { 20 } else { 1 };
    let site = Site {
        database: place,
        folder: folder.to_owned(),
        pace_ms: 25,
        step_ms: 2,
        attempts_max: 50,
    };
    let store = site.database.open();
    let mut threads = Vec::new();
    let mut hits = Vec::new();
    for (point, most) in POINTS {
        for moment in [Moment::Before, Moment::After] {
            for round in 0..rounds {
                let times = 1 + round % most + u64::from(point == "keep_alive");
                let mut command = Command::new(std::env::current_exe().expect("this program"));
                command.args(ARGS).env(POINT, format!("{point}:{moment:?}:{times}"));
                let mut dies = Worker::start_by(command, &site);
                let durability = mode(point, threads.len());
                let thread = format!("t{}", threads.len());
                let at = accept_as(&store, PAIR, &thread, "0", durability).await;
                let what = format!("the end {moment:?} {point}, time {times}, {durability:?}");
                until(&what, async || dies.is_dead()).await;
                let goes_on = Worker::start(&site);
                until("the end of a run", async || {
                    let row = store.run(&Principal::local(), &at).await.expect("reads");
                    assert!(!row.status.is_final() || row.status == RunStatus::Completed);
                    row.status.is_final()
                })
                .await;
                drop(goes_on);
                threads.push(vec![at]);
            }
            hits.push(format!("{rounds} {moment:?} {point}"));
        }
    }
    let (runs, again) = check(&site, PAIR, &threads).await;
    let figures = format!(
        "{runs} processes ended at writes ({}): 0 lost, 0 doubled, 0 out of order, {again} unknown \
         calls made again",
        hits.join(", ")
    );
    report(name, &figures);
}

#[tokio::test]
async fn a_process_may_end_at_any_write_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    crash("points-sqlite", Place::sqlite(folder.path()), folder.path()).await;
}

#[tokio::test]
async fn a_process_may_end_at_any_write_on_postgres() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(place) = Place::postgres("points") else { return };
    crash("points-postgres", place, folder.path()).await;
}
