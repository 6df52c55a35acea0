//! `kill -9` of workers at random moments: nothing is lost, doubled or out of order, and what they
//! had is taken over in time.

use crate::place::Place;
use crate::worker::{CHAIN, STEPS, Site, Worker, accept, state};
use crate::{full, report};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weftwork_store::{RunRow, Store};
use weftwork_types::event::AiEvent;
use weftwork_types::port::CallState;
use weftwork_types::run::{RunRef, RunStatus};
use weftwork_types::{Principal, ThreadId, WorkerId};

const THREADS: usize = 12;
/// What a takeover may take at the default pace: a lease, the look for it, and some work.
const TAKEOVER_MAX: Duration = Duration::from_secs(12);

/// Kills workers while runs go on.
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
    /// How many kills struck a worker that had a run.
    struck: usize,
}

#[expect(clippy::disallowed_methods, reason = "the time of this machine is what is measured")]
fn now() -> Instant {
    Instant::now()
}

impl Killer {
    async fn new(site: Site, processes: usize, kills: usize) -> Self {
        let seed = std::env::var("WEFT_TEST_SEED").map_or(1, |s| s.parse().expect("a number"));
        let store = site.place.open();
        let workers = (0..processes).map(|_| Worker::start(&site)).collect();
        let mut threads = Vec::new();
        for thread in 0..THREADS {
            threads.push(vec![accept(&store, CHAIN, &format!("t{thread}"), "0").await]);
        }
        let random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
        let (left, takeovers) = (BTreeMap::new(), Vec::new());
        Self { site, store, workers, random, kills, killed: 0, threads, left, takeovers, struck: 0 }
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
            if self.killed < self.kills {
                let tag = self.threads[thread].len().to_string();
                let at = accept(&self.store, CHAIN, &format!("t{thread}"), &tag).await;
                self.threads[thread].push(at);
                open = true;
            }
        }
        open
    }

    async fn kill_one(&mut self) {
        let victim = self.random.below(self.workers.len());
        let dead = self.workers.swap_remove(victim).kill();
        let at = now();
        self.killed += 1;
        let before = self.left.len();
        for row in self.open_runs().await {
            if row.status == RunStatus::Running && row.worker.as_ref() == Some(&dead) {
                self.left.insert(row.new.at.run.to_string(), (dead.clone(), at));
            }
        }
        self.struck += usize::from(self.left.len() > before);
        self.workers.push(Worker::start(&self.site));
    }

    async fn run(&mut self) {
        while self.killed < self.kills {
            let longest = if full() { 1_950 } else { 350 };
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

    /// Looks at everything that is left, and says how many runs there were and how many calls
    /// were made twice because nobody knew what came of them.
    async fn check(&self) -> (usize, usize) {
        let mut made = BTreeMap::<String, usize>::new();
        for line in self.site.effects() {
            if let Some(("made", rest)) = line.split_once(' ') {
                let name = rest.split_once(' ').expect("name and process").0;
                *made.entry(name.to_owned()).or_default() += 1;
            }
        }
        let (mut runs, mut again) = (0, 0);
        for (thread, refs) in self.threads.iter().enumerate() {
            let name = format!("t{thread}");
            let expected: Vec<_> = (0..refs.len())
                .flat_map(|run| (1..=STEPS).map(move |n| (run, n)))
                .map(|(run, n)| format!("{name}.{run}:{n}"))
                .collect();
            let values = state(&self.site, CHAIN, &name).await;
            assert_eq!(values["log"], json!(expected), "nothing lost, doubled or out of order");
            for at in refs {
                self.check_log(at).await;
            }
            runs += refs.len();
            let id = ThreadId::new(&name).expect("valid id");
            let calls = self.store.calls(&Principal::local(), &id).await.expect("reads");
            assert_eq!(calls.len(), expected.len(), "one record for each call");
            for call in calls {
                assert_eq!(call.state, CallState::Settled);
                let made = made.get(&call.name).copied().unwrap_or(0);
                let most = 1 + call.possibly_paid as usize;
                assert!((1..=most).contains(&made), "{}: {made} of {most}", call.name);
                again += made - 1;
            }
        }
        (runs, again)
    }

    async fn check_log(&self, at: &RunRef) {
        let events =
            self.store.events(&Principal::local(), at, 0, usize::MAX).await.expect("reads");
        let numbers: Vec<_> = events.iter().map(|event| event.seq).collect();
        assert_eq!(numbers, Vec::from_iter(1..=events.len() as u64), "gapless");
        let steps: Vec<_> = events
            .iter()
            .filter_map(|told| match told.event {
                AiEvent::Step { step, .. } => Some(step),
                _ => None,
            })
            .collect();
        let first = steps.first().copied().expect("steps");
        let expected: Vec<_> = (first..first + i64::from(STEPS)).collect();
        assert_eq!(steps, expected, "{at:?}: each superstep was committed once, in order");
    }
}

async fn kills(name: &str, place: Place, processes: usize, folder: &std::path::Path) {
    let asked = std::env::var("WEFT_CHAOS_KILLS").map(|n| n.parse().expect("a number"));
    let kills = asked.unwrap_or(if full() { 1_000 } else { 12 });
    let pace_ms = if full() { 2_000 } else { 250 };
    let site = Site { place, folder: folder.to_owned(), pace_ms, step_ms: 5, attempts_max: 50 };
    let started = now();
    let mut killer = Killer::new(site, processes, kills).await;
    killer.run().await;
    let (runs, again) = killer.check().await;
    killer.takeovers.sort();
    let taken = killer.takeovers.len();
    let p99 = killer.takeovers.get(taken.saturating_sub(1 + taken / 100)).copied();
    let p99 = p99.unwrap_or_default();
    report(
        name,
        &format!(
            "{} kills ({} of workers with runs), {processes} processes, {runs} runs of {STEPS} \
             steps: 0 lost, 0 doubled, 0 out of order, 0 recorded calls made again, {again} \
             unknown ones; {taken} takeovers, p99 {} ms, most {} ms; {} s",
            killer.killed,
            killer.struck,
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

/// xorshift64: the same moments in every run of the test, as far as the machine allows.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).expect("below a usize")
    }
}
