//! `kill -9` of workers at random moments: nothing is lost, doubled or out of order, and what they
//! had is taken over in time.

use crate::check::{check, check_log, repeated, tag, unexplained};
use crate::place::Place;
use crate::worker::{CHAIN, Memory, STEPS, Site, Worker, accept, word};
use crate::{check_time, full, report, seed};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weftwork_store::{NewRun, RunRow, Store};
use weftwork_testkit::fuzz::Random;
use weftwork_types::port::CallState;
use weftwork_types::run::{RunRef, RunStatus};
use weftwork_types::{Principal, RunId, ThreadId, WorkerId};

/// Number of threads that have runs at a time.
const THREADS: usize = 24;
/// Number of runs of a thread until another thread takes its place: each kill reads all its calls.
const RUNS_PER_THREAD: usize = 10;
/// Long enough for each worker to have runs nearly always.
const STEP_MS: u64 = 40;
/// Time limit until some worker has a run.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time limit of a takeover at the default pace: a lease, the look for it, and some work.
const TAKEOVER_MAX: Duration = Duration::from_secs(12);

/// Kills workers while they have runs.
struct Killer {
    site: Site,
    store: Arc<dyn Store>,
    memory: Memory,
    workers: Vec<Worker>,
    random: Random,
    kills: usize,
    killed: usize,
    /// The runs of each thread; the last one is open or ended.
    threads: Vec<Vec<RunRef>>,
    /// The threads that have runs now.
    open: Vec<usize>,
    /// Runs whose worker was killed, which it was, and when.
    left: BTreeMap<String, (WorkerId, Instant)>,
    takeovers: Vec<Duration>,
    /// The runs whose end was seen.
    checked: BTreeSet<RunId>,
    /// Number of runs in progress when a kill struck, by durability of their supersteps.
    struck: BTreeMap<&'static str, usize>,
    /// The calls whose results a kill found on record, and where the log of the outside ended then.
    recorded: BTreeMap<String, u64>,
    /// Number of kills that may have struck each run.
    strikes: BTreeMap<String, usize>,
}

#[expect(clippy::disallowed_methods, reason = "the time of this machine is what is measured")]
fn now() -> Instant {
    Instant::now()
}

impl Killer {
    async fn new(site: Site, memory: Memory, processes: usize, kills: usize) -> Self {
        let store = site.database.open();
        let workers = (0..processes).map(|_| Worker::start_with(memory, &site)).collect();
        let mut threads = Vec::new();
        for thread in 0..THREADS {
            threads.push(vec![accept(&store, CHAIN, &format!("t{thread}"), "0").await]);
        }
        let random = Random::new(0x9e37_79b9_7f4a_7c15 ^ seed());
        Self {
            site,
            store,
            memory,
            workers,
            random,
            kills,
            killed: 0,
            threads,
            open: (0..THREADS).collect(),
            left: BTreeMap::new(),
            takeovers: Vec::new(),
            checked: BTreeSet::new(),
            struck: BTreeMap::new(),
            recorded: BTreeMap::new(),
            strikes: BTreeMap::new(),
        }
    }

    async fn open_runs(&self) -> Vec<RunRow> {
        let mut rows = Vec::new();
        for thread in &self.open {
            let at = self.threads[*thread].last().expect("each has one");
            rows.push(self.store.run(&Principal::local(), at).await.expect("reads"));
        }
        rows
    }

    /// Notes who goes on with what was left, and gives threads whose run ended the next one.
    async fn look(&mut self) -> bool {
        let mut open = false;
        for (place, row) in self.open_runs().await.into_iter().enumerate() {
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
                self.accept_next(place).await;
                open = true;
            }
        }
        open
    }

    /// Makes the next run of a thread, or the first one of a thread that takes its place.
    async fn accept_next(&mut self, place: usize) {
        if self.threads[self.open[place]].len() == RUNS_PER_THREAD {
            self.open[place] = self.threads.len();
            self.threads.push(Vec::new());
        }
        let thread = self.open[place];
        let tag = self.threads[thread].len().to_string();
        let at = accept(&self.store, CHAIN, &format!("t{thread}"), &tag).await;
        self.threads[thread].push(at);
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
        let (victim, mut had) = loop {
            let mut held = self.held().await;
            let busy: Vec<_> = (0..self.workers.len())
                .filter(|n| held.contains_key(&self.workers[*n].id))
                .collect();
            if !busy.is_empty() {
                let victim = busy[self.random.below(busy.len())];
                break (victim, held.remove(&self.workers[victim].id).unwrap_or_default());
            }
            assert!(began.elapsed() < PATIENCE, "nobody has a run: {:?}", self.left);
            self.look().await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let dead = self.workers.swap_remove(victim).kill();
        let at = now();
        // What it has now it had when it died.
        let left = self.held().await.remove(&dead).unwrap_or_default();
        had.extend(left.iter().cloned());
        self.read_record(&had).await;
        self.workers.push(Worker::start_with(self.memory, &self.site));
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

    /// Notes what is on record of the threads of a worker that was killed, before another one goes
    /// on with its runs: none of these calls may be made from now on.
    async fn read_record(&mut self, had: &[NewRun]) {
        for run in had.iter().map(|run| tag(&run.at)).collect::<BTreeSet<_>>() {
            *self.strikes.entry(run).or_default() += 1;
        }
        let threads: BTreeSet<&ThreadId> = had.iter().map(|run| &run.at.thread).collect();
        let mut settled = Vec::new();
        for thread in threads {
            let calls = self.store.calls(&Principal::local(), thread).await.expect("reads");
            settled.extend(calls.into_iter().filter(|call| call.state == CallState::Settled));
        }
        // Not before the record was read: what is in it was made before this place.
        let place = self.site.next_place();
        for call in settled {
            let call = format!("{} {}", call.name, call.key.0);
            self.recorded.entry(call).or_insert(place);
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
    let site = Site {
        database: place,
        folder: folder.to_owned(),
        pace_ms,
        step_ms: STEP_MS,
        attempts_max: 50,
    };
    let started = now();
    let mut killer = Killer::new(site, Memory::Sound, processes, kills).await;
    killer.run().await;
    let made = killer.site.made();
    let repeated = repeated(&made, &killer.recorded);
    assert!(repeated.is_empty(), "{} on record, and made again: {repeated:?}", repeated.len());
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
             {STEPS} steps: 0 lost, 0 doubled, 0 out of order, {} of {} calls that a kill found on \
             record made again, {again} unknown ones; {taken} takeovers, p99 {} ms, most {} ms; {} s",
            killer.killed,
            by_mode.join(", "),
            repeated.len(),
            killer.recorded.len(),
            p99.as_millis(),
            killer.takeovers.last().copied().unwrap_or_default().as_millis(),
            started.elapsed().as_secs(),
        ),
    );
    let unexplained = unexplained(&made, &killer.strikes);
    assert!(unexplained.is_empty(), "no kill explains them: {unexplained:?}");
    assert!(taken > 0, "no kill struck a run");
    check_time(p99, TAKEOVER_MAX);
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

#[tokio::test]
async fn calls_that_are_made_again_although_they_are_on_record_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::sqlite(folder.path());
    let folder = folder.path().to_owned();
    let site = Site { database: place, folder, pace_ms: 250, step_ms: STEP_MS, attempts_max: 50 };
    let mut killer = Killer::new(site, Memory::Forgets, 2, 4).await;
    killer.run().await;
    let repeated = repeated(&killer.site.made(), &killer.recorded);
    assert!(!repeated.is_empty(), "none of {} was found", killer.recorded.len());
    println!("{} of {} recorded calls made again", repeated.len(), killer.recorded.len());
}
