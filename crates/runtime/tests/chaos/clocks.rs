//! Clocks that jump and stand still while workers have runs.

use crate::check::check;
use crate::place::Place;
use crate::worker::{ARGS, CHAIN, CLOCK, Site, Worker, accept};
use crate::{full, report};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::SystemClock;
use weftwork_types::port::Clock;
use weftwork_types::run::RunStatus;
use weftwork_types::{BoxFuture, Principal, Timestamp};

/// The system's clock, as far as a file does not say otherwise.
#[derive(Debug)]
pub(crate) struct Skewed {
    system: SystemClock,
    file: Option<PathBuf>,
}

impl Skewed {
    /// The clock of a worker process.
    pub(crate) fn of_this_worker() -> Arc<Self> {
        let file = std::env::var_os(CLOCK).map(PathBuf::from);
        Arc::new(Self { system: SystemClock::new(), file })
    }
}

impl Skewed {
    /// A time of the system as this clock shows it.
    fn set(&self, time: Timestamp) -> Timestamp {
        let said = self.file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
        match said.as_deref().and_then(|said| said.split_once(' ')) {
            Some(("by", offset)) => Timestamp(time.0 + offset.parse::<i64>().expect("a number")),
            Some(("at", time)) => Timestamp(time.parse().expect("a number")),
            _ => time,
        }
    }
}

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        self.set(self.system.now())
    }

    fn elapsed(&self) -> Duration {
        self.system.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.system.sleep(duration)
    }

    fn unique(&self) -> u128 {
        // Ids begin with the time, in milliseconds.
        let id = self.system.unique();
        let time = self.set(Timestamp(i64::try_from(id >> 80).expect("48 bits")));
        u128::try_from(time.0).expect("after 1970") << 80 | id & ((1 << 80) - 1)
    }
}

/// Sets the clocks of workers.
fn set(files: &[PathBuf], said: &str) {
    for file in files {
        // At once, so that nobody reads half of it.
        let whole = file.with_extension("new");
        std::fs::write(&whole, said).expect("writes");
        std::fs::rename(&whole, file).expect("moves");
    }
}

fn start(site: &Site, clock: &Path) -> Worker {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(ARGS).env(CLOCK, clock);
    Worker::start_by(command, site)
}

/// Whose clocks jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The clock of a single machine, shared by all its processes.
    Shared,
    /// The clocks of several machines: each jumps in its own way.
    Own,
}

/// Lets clocks jump while runs go on, and says how many runs went to another worker.
async fn jump(name: &str, place: Place, whose: Whose, folder: &Path) -> u64 {
    let (pace_ms, step_ms) = if full() { (2_000, 8_000) } else { (150, 350) };
    let site =
        Site { database: place, folder: folder.to_owned(), pace_ms, step_ms, attempts_max: 50 };
    let files: Vec<_> = (0..2).map(|n| folder.join(format!("clock-{n}"))).collect();
    let store = site.database.open();
    let workers: Vec<_> = files.iter().map(|file| start(&site, file)).collect();
    let mut runs = Vec::new();
    for thread in 0..8 {
        runs.push(vec![accept(&store, CHAIN, &format!("t{thread}"), "0").await]);
    }
    let frozen = format!("at {}", SystemClock::new().now().0);
    let hour = 3_600_000;
    let mut jumps = 0;
    let mut ended = false;
    let mut moment = 0;
    let said = [format!("by {hour}"), format!("by -{hour}"), frozen, "by 0".to_owned()];
    while !ended {
        let both = match whose {
            Whose::Shared => [moment, moment],
            Whose::Own => [moment, moment + 1],
        };
        for (file, which) in files.chunks(1).zip(both) {
            set(file, &said[which % said.len()]);
            jumps += 1;
        }
        moment += 1;
        // Longer than workers wait for each other after a jump.
        tokio::time::sleep(Duration::from_millis(pace_ms * 4)).await;
        ended = true;
        for run in runs.iter().flatten() {
            let row = store.run(&Principal::local(), run).await.expect("reads");
            assert!(!row.status.is_final() || row.status == RunStatus::Completed, "{row:?}");
            ended &= row.status.is_final();
        }
    }
    drop(workers);
    let (count, again) = check(&site, CHAIN, &runs).await;
    let mut taken = 0;
    for run in runs.iter().flatten() {
        taken += store.run(&Principal::local(), run).await.expect("reads").fence - 1;
    }
    report(
        name,
        &format!(
            "{jumps} jumps of clocks by an hour forth and back, and stops: {count} runs, 0 lost, \
             0 doubled, 0 out of order, {taken} takeovers, {again} unknown calls made again"
        ),
    );
    taken
}

#[tokio::test]
async fn clocks_that_jump_on_sqlite_take_no_run_away() {
    let folder = tempfile::tempdir().expect("a folder");
    // Processes of one file share a machine, and so its clock.
    let place = Place::sqlite(folder.path());
    let taken = jump("clocks-sqlite", place, Whose::Shared, folder.path()).await;
    assert_eq!(taken, 0, "those who are alive renew their leases first");
}

#[tokio::test]
async fn clocks_that_jump_on_postgres_take_no_run_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(place) = Place::postgres("clocks") else { return };
    let taken = jump("clocks-postgres", place, Whose::Own, folder.path()).await;
    assert_eq!(taken, 0, "the database's clock decides");
}
