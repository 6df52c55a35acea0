//! `kill -9` of workers at random moments: nothing is lost, doubled or out of order, and what they
//! had is taken over in time.

use crate::check::{check, check_log};
use crate::place::Place;
use crate::worker::{CHAIN, STEPS, Site, Worker, accept, word};
use crate::{full, report, seed};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weftwork_store::{NewRun, RunRow, Store};
use weftwork_testkit::fuzz::Random;
use weftwork_types::run::{RunRef, RunStatus};
use weftwork_types::{Principal, RunId, WorkerId};

const THREADS: usize = 24;
/// Long enough for each worker to have runs nearly always.
const STEP_MS: u64 = 40;
/// How long it may take until some worker has a run.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a takeover may take at the default pace: a lease, the look for it, and some work.
const TAKEOVER_MAX: Duration = Duration::from_secs(12);

/// Kills workers while they have runs.
struct Killer {
    site: Site,
    store: Arc<dyn Store>,
    workers: Vec<Worker>,
    random: Random,
    kills: usize,
    killed: usize,
    /// The runs of each thread; the last one is open or ended.
    threads: Vec<Vec<RunRef>>,
    /// Runs whose worker was killed, which it was, and when.
    left: BTreeMap<String, (WorkerId, Instant)>,
    takeovers: Vec<Duration>,
    /// The runs whose end was seen.
    checked: BTreeSet<RunId>,
    /// How many runs were under way where a kill struck, by when their supersteps are stored.
    struck: BTreeMap<&'static str, usize>,
}

#[expect(clippy::disallowed_methods, reason = "the time of this machine is what is measured")]
fn now() -> Instant {
    Instant::now()
}

impl Killer {
    async fn new(site: Site, processes: usize, kills: usize) -> Self {
        let store = site.place.open();
        let workers = (0..processes).map(|_| Worker::start(&site)).collect();
        let mut threads = Vec::new();
        for thread in 0..THREADS {
            threads.push(vec![accept(&store, CHAIN, &format!("t{thread}"), "0").await]);
        }
        let random = Random::new(0x9e37_79b9_7f4a_7c15 ^ seed());
        Self {
            site,
            store,
            workers,
            random,
            kills,
            killed: 0,
            threads,
            left: BTreeMap::new(),
            takeovers: Vec::new(),
            checked: BTreeSet::new(),
            struck: BTreeMap::new(),
        }
    }

    async fn open_runs(&self) -> Vec<RunRow> {
        let mut rows = Vec::new();
        for runs in &self.threads {
            let at = runs.last().expect("each has one");
            rows.push(self.store.run(&Principal::local(), at).await.expect("reads"));
        }
        rows
    }

    /// Notes who goes on with what was left, and gives threads whose run ended the next one.
    async fn look(&mut self) -> bool {
        let mut open = false;
        for (thread, row) in self.open_runs().await.into_iter().enumerate() {
            if let Some((dead, since)) = self.left.get(row.new.at.run.as_str())
                && row.worker.as_ref() != Some(dead)
            {
                self.takeovers.push(since.elapsed());
                self.left.remove(row.new.at.run.as_str());
            }
            if !row.status.is_final() {
                open = true;
                continue;
            }
            assert_eq!(row.status, RunStatus::Completed, "{:?}", row.outcome);
            // Whoever is told that it has ended finds all of it.
            if self.checked.insert(row.new.at.run.clone()) {
                check_log(&self.store, &row.new.at).await;
            }
            if self.killed < self.kills {
                let tag = self.threads[thread].len().to_string();
                let at = accept(&self.store, CHAIN, &format!("t{thread}"), &tag).await;
                self.threads[thread].push(at);
                open = true;
            }
        }
        open
    }

    /// The runs of each of our workers.
    async fn held(&self) -> BTreeMap<WorkerId, Vec<NewRun>> {
        let mut held: BTreeMap<WorkerId, Vec<NewRun>> = BTreeMap::new();
        for row in self.open_runs().await {
            if let (RunStatus::Running, Some(worker)) = (row.status, row.worker) {
                held.entry(worker).or_default().push(row.new);
            }
        }
        held
    }

    /// Kills one of the workers that have runs; only those kills count.
    async fn kill_one(&mut self) {
        let began = now();
        let victim = loop {
            let held = self.held().await;
            let busy: Vec<_> = (0..self.workers.len())
                .filter(|n| held.contains_key(&self.workers[*n].id))
                .collect();
            if !busy.is_empty() {
                break busy[self.random.below(busy.len())];
            }
            assert!(began.elapsed() < PATIENCE, "nobody has a run: {:?}", self.left);
            self.look().await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let dead = self.workers.swap_remove(victim).kill();
        let at = now();
        // What it has now it had when it died.
        let left = self.held().await.remove(&dead).unwrap_or_default();
        self.workers.push(Worker::start(&self.site));
        if left.is_empty() {
            return;
        }
        self.killed += 1;
        for run in left {
            *self.struck.entry(word(run.options.durability)).or_default() += 1;
            self.left.insert(run.at.run.to_string(), (dead.clone(), at));
        }
        if self.killed.is_multiple_of(100) {
            println!("{} kills", self.killed);
        }
    }

    async fn run(&mut self) {
        while self.killed < self.kills {
            let longest = if full() { 950 } else { 350 };
            let until = now() + Duration::from_millis(50 + self.random.below(longest) as u64);
            while now() < until {
                self.look().await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            self.kill_one().await;
        }
        let last = now();
        while self.look().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(last.elapsed() < Duration::from_secs(60), "runs do not end: {:?}", self.left);
        }
    }
}

async fn kills(name: &str, place: Place, processes: usize, folder: &std::path::Path) {
    let asked = std::env::var("WEFT_CHAOS_KILLS").map(|n| n.parse().expect("a number"));
    let kills = asked.unwrap_or(if full() { 1_000 } else { 12 });
    let pace_ms = if full() { 2_000 } else { 250 };
    let site =
        Site { place, folder: folder.to_owned(), pace_ms, step_ms: STEP_MS, attempts_max: 50 };
    let started = now();
    let mut killer = Killer::new(site, processes, kills).await;
    killer.run().await;
    let (runs, again) = check(&killer.site, CHAIN, &killer.threads).await;
    killer.takeovers.sort();
    let taken = killer.takeovers.len();
    let by_mode: Vec<_> = killer.struck.iter().map(|(mode, n)| format!("{n} {mode}")).collect();
    let p99 = killer.takeovers.get(taken.saturating_sub(1 + taken / 100)).copied();
    let p99 = p99.unwrap_or_default();
    report(
        name,
        &format!(
            "{} kills of workers with runs (runs struck: {}), {processes} processes, {runs} runs of \
             {STEPS} steps: 0 lost, 0 doubled, 0 out of order, 0 recorded calls made again, {again} \
             unknown ones; {taken} takeovers, p99 {} ms, most {} ms; {} s",
            killer.killed,
            by_mode.join(", "),
            p99.as_millis(),
            killer.takeovers.last().copied().unwrap_or_default().as_millis(),
            started.elapsed().as_secs(),
        ),
    );
    assert!(taken > 0, "no kill struck a run");
    assert!(p99 <= TAKEOVER_MAX, "{p99:?}");
}

#[tokio::test]
async fn kills_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    kills("kills-sqlite", Place::sqlite(folder.path()), 3, folder.path()).await;
}

#[tokio::test]
async fn kills_on_postgres() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(place) = Place::postgres("kills") else { return };
    kills("kills-postgres", place, 3, folder.path()).await;
}
