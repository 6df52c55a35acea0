//! `kill -9` of workers and of processes that follow a thread: each follower that reconnects at its
//! position receives each committed event once, in order.

use crate::place::Place;
use crate::worker::{CHAIN, SPEAKS, Site, Worker, accept, until_left};
use crate::{full, report, seed};
use futures_util::StreamExt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weftwork_runtime::{FollowFrom, Runtime, ThreadEvent, ThreadPosition};
use weftwork_store::Store;
use weftwork_testkit::fuzz::Random;
use weftwork_types::event::AiEvent;
use weftwork_types::run::{RunRef, RunStatus};
use weftwork_types::{Principal, ThreadId, WorkerId};

/// The file to which a follower writes the events it received.
const FILE: &str = "WEFT_CHAOS_FILE";
/// Arguments that make this program a follower.
const ARGS: [&str; 3] = ["--exact", "followers::follower_process", "--nocapture"];
const FOLLOWERS: usize = 3;
const WORKERS: usize = 2;
/// Time limit for the end of a run, and for the arrival of its last event.
const PATIENCE: Duration = Duration::from_secs(60);

fn thread() -> ThreadId {
    ThreadId::new("followed").expect("valid id")
}

/// Reads the events that a follower received, each a position and an event.
fn received(file: &Path) -> Vec<(ThreadPosition, AiEvent)> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("whole lines")).collect()
}

/// Entry point of a follower process; a test that passes at once in other processes.
#[test]
fn follower_process() {
    let (Some(site), Ok(file)) = (Site::of_process(), std::env::var(FILE)) else { return };
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    tokio.expect("a runtime").block_on(async {
        let file = PathBuf::from(file);
        let runtime = Runtime::builder(site.place.open()).open().await.expect("opens");
        let last = received(&file).pop();
        let from = last.map_or(FollowFrom::Start, |(at, _)| FollowFrom::After(at));
        let mut events = runtime.follow_thread(&Principal::local(), &thread(), from).stream();
        println!("worker f{}", std::process::id());
        let following = async {
            let opened = OpenOptions::new().append(true).create(true).open(&file);
            let mut file = opened.expect("opens");
            while let Some(event) = events.next().await {
                let event: ThreadEvent = event.expect("the store is in reach");
                let at = event.position().expect("it has a position");
                let line = serde_json::to_string(&(at, event.event.event)).expect("json");
                file.write_all(format!("{line}\n").as_bytes()).expect("writes");
            }
        };
        tokio::select! {
            () = following => {}
            () = until_left() => {}
        }
    });
    std::process::exit(0);
}

struct Killer {
    site: Site,
    store: Arc<dyn Store>,
    random: Random,
    workers: Vec<Worker>,
    followers: Vec<Worker>,
    runs: Vec<RunRef>,
    killed: [usize; 2],
}

#[expect(clippy::disallowed_methods, reason = "the time of this machine is what is measured")]
fn now() -> Instant {
    Instant::now()
}

impl Killer {
    fn new(site: Site) -> Self {
        let store = site.place.open();
        let workers = (0..WORKERS).map(|_| Worker::start(&site)).collect();
        let followers = (0..FOLLOWERS).map(|n| Self::follower(&site, n)).collect();
        let random = Random::new(0x51f1_5e44 ^ seed());
        Self { site, store, random, workers, followers, runs: Vec::new(), killed: [0, 0] }
    }

    fn file(site: &Site, n: usize) -> PathBuf {
        site.folder.join(format!("follower-{n}"))
    }

    fn follower(site: &Site, n: usize) -> Worker {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(ARGS).env(FILE, Self::file(site, n));
        Worker::start_by(command, site)
    }

    /// Starts the next run if the last one has ended. Returns the worker of the current one.
    async fn current(&mut self, is_last: bool) -> Option<WorkerId> {
        if let Some(last) = self.runs.last() {
            let row = self.store.run(&Principal::local(), last).await.expect("reads");
            if !row.status.is_final() {
                return row.worker;
            }
            assert_eq!(row.status, RunStatus::Completed, "{:?}", row.outcome);
        }
        if !is_last {
            let graph = if self.runs.len().is_multiple_of(2) { CHAIN } else { SPEAKS };
            let tag = self.runs.len().to_string();
            self.runs.push(accept(&self.store, graph, thread().as_str(), &tag).await);
        }
        None
    }

    /// Kills the worker that has the run, or a follower, and starts another one.
    async fn kill_one(&mut self) {
        if self.random.below(WORKERS + FOLLOWERS) >= WORKERS {
            let victim = self.random.below(FOLLOWERS);
            // Only one process at a time writes to its file.
            self.followers.remove(victim).kill();
            self.followers.insert(victim, Self::follower(&self.site, victim));
            self.killed[1] += 1;
            return;
        }
        let began = now();
        let victim = loop {
            let holder = self.current(false).await;
            let place = self.workers.iter().position(|worker| Some(&worker.id) == holder.as_ref());
            if let Some(place) = place {
                break place;
            }
            assert!(began.elapsed() < PATIENCE, "nobody has a run");
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        self.workers.swap_remove(victim).kill();
        self.workers.push(Worker::start(&self.site));
        self.killed[0] += 1;
    }

    async fn wait_for_end(&mut self) {
        let began = now();
        let last = self.runs.last().expect("there was one").clone();
        while self.current(true).await.is_some() || !self.has_ended(&last).await {
            assert!(began.elapsed() < PATIENCE, "the run does not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for n in 0..FOLLOWERS {
            let file = Self::file(&self.site, n);
            let ended = || {
                received(&file).last().is_some_and(|(at, event)| {
                    at.run == last.run && matches!(event, AiEvent::Done { .. })
                })
            };
            while !ended() {
                assert!(began.elapsed() < PATIENCE, "follower {n}: {:?}", received(&file).last());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    async fn has_ended(&self, run: &RunRef) -> bool {
        let row = self.store.run(&Principal::local(), run).await.expect("reads");
        row.status.is_final()
    }

    /// Checks that each follower received the log of all runs. Returns the number of events.
    async fn check(&self) -> usize {
        let mut log = Vec::new();
        for run in &self.runs {
            let events = self.store.events(&Principal::local(), run, 0, usize::MAX).await;
            let events = events.expect("reads").into_iter();
            log.extend(events.map(|event| (run.run.clone(), event.seq, event.event)));
        }
        for n in 0..FOLLOWERS {
            let received = received(&Self::file(&self.site, n));
            for pair in received.windows(2) {
                let [(before, _), (after, _)] = pair else { continue };
                assert!(before.run != after.run || before.at < after.at, "{before:?} {after:?}");
            }
            let durable = received.into_iter().filter(|(_, event)| event.is_durable());
            let durable: Vec<_> =
                durable.map(|(position, event)| (position.run, position.at.seq, event)).collect();
            assert_eq!(durable, log, "follower {n}: each event once, in order");
        }
        log.len()
    }
}

async fn followed(name: &str, place: Place, folder: &Path) {
    let kills = if full() { 500 } else { 20 };
    let site =
        Site { place, folder: folder.to_owned(), pace_ms: 250, step_ms: 5, attempts_max: u32::MAX };
    let mut killer = Killer::new(site);
    while killer.killed.iter().sum::<usize>() < kills {
        let until = now() + Duration::from_millis(50 + killer.random.below(250) as u64);
        while now() < until {
            killer.current(false).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        killer.kill_one().await;
    }
    killer.wait_for_end().await;
    let events = killer.check().await;
    let ([workers, followers], runs) = (killer.killed, killer.runs.len());
    report(
        name,
        &format!(
            "{workers} kills of workers with a run, {followers} of followers, {runs} runs, {events} \
             events to each of {FOLLOWERS} followers: 0 twice, 0 left out, 0 out of order"
        ),
    );
}

#[tokio::test]
async fn killed_followers_on_sqlite_receive_each_event_once() {
    let folder = tempfile::tempdir().expect("a folder");
    followed("followers-sqlite", Place::sqlite(folder.path()), folder.path()).await;
}

#[tokio::test]
async fn killed_followers_on_postgres_receive_each_event_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(place) = Place::postgres("followers") else { return };
    followed("followers-postgres", place, folder.path()).await;
}
