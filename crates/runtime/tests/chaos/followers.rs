//! `kill -9` of workers and of processes that follow a thread: each follower that reconnects at its
//! position receives each committed event, or each committed frame of its runs, once and in order.

use crate::place::Place;
use crate::worker::{CHAIN, NESTED, SPEAKS, Site, Worker, accept, reader, until_left};
use crate::{full, report, seed};
use futures_util::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weftwork_graph::{MessagePart, Modes, RuntimeError, StreamEvent};
use weftwork_runtime::{FollowFrom, Frame, Runtime, Selection};
use weftwork_store::Store;
use weftwork_testkit::fuzz::Random;
use weftwork_types::event::{Position, RunEvent};
use weftwork_types::run::{RunRef, RunStatus};
use weftwork_types::{BoxStream, Principal, RunId, ThreadId, WorkerId};

/// The file to which a follower writes the events it received.
const FILE: &str = "WEFT_CHAOS_FILE";
/// Set for a follower that receives frames in place of events.
const FRAMES: &str = "WEFT_CHAOS_FRAMES";
/// Arguments that make this program a follower.
const ARGS: [&str; 3] = ["--exact", "followers::follower_process", "--nocapture"];
const FOLLOWERS: usize = 3;
const WORKERS: usize = 2;
/// Time limit for the end of a run, and for the arrival of its last event.
const PATIENCE: Duration = Duration::from_secs(60);

fn thread() -> ThreadId {
    ThreadId::new("followed").expect("valid id")
}

/// Output of the runs of a thread that a follower receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    /// The events of the logs.
    Events,
    /// The frames of all modes, subgraphs included.
    Frames,
}

/// An event or a frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Line {
    run: RunId,
    position: String,
    content: String,
    /// `false` for partial text, which is not repeated once its message is final.
    lasts: bool,
}

impl Line {
    fn position(&self) -> Position {
        self.position.parse().expect("a position")
    }

    fn event(run: &RunId, event: &RunEvent) -> Self {
        let position = event.position().expect("it has one");
        let content = serde_json::to_string(&event.event).expect("json");
        let lasts = event.event.is_durable();
        Self { run: run.clone(), position: position.to_string(), content, lasts }
    }

    fn frame(run: &RunId, frame: &Frame) -> Self {
        let part = frame.item().and_then(|item| match &item.event {
            StreamEvent::Message { part, .. } => Some(part),
            _ => None,
        });
        let lasts = !matches!(part, Some(MessagePart::Chunk { .. } | MessagePart::Reset { .. }));
        let content = format!("{} {:?}", frame.at.0, frame.content);
        Self { run: run.clone(), position: frame.position.to_string(), content, lasts }
    }
}

/// Reads the lines that a follower wrote.
fn received(file: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("whole lines")).collect()
}

/// Passes the lines after the last one that the follower received to `write`.
async fn follow(site: &Site, output: Output, last: Option<Line>, mut write: impl FnMut(Line)) {
    let runtime = reader(site).await;
    if output == Output::Events {
        let from = last.map_or(FollowFrom::Start, |line| {
            let at = line.position();
            FollowFrom::in_run(line.run, at)
        });
        let who = Principal::local();
        let select = Selection::default().with_logged_texts();
        let events = runtime.follow(&who, &thread(), from, select).await;
        let mut events = events.expect("follows");
        while let Some(output) = events.next().await {
            let output = output.expect("the store is in reach");
            write(Line::event(&output.run.run, output.event().expect("no frames are selected")));
        }
        return;
    }
    let mut last = last;
    loop {
        let after = last.as_ref().map_or(Position::START, Line::position);
        let current = last.as_ref().map(|line| line.run.clone());
        for line in current.iter().chain(&next_run(&runtime, current.as_ref()).await) {
            let after = if Some(line) == current.as_ref() { after } else { Position::START };
            let run = RunRef { thread: thread(), run: line.clone() };
            let mut frames = frames(&runtime, &run, after).await;
            while let Some(frame) = frames.next().await {
                let line = Line::frame(&run.run, &frame.expect("the store is in reach"));
                last = Some(line.clone());
                write(line);
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the run after one, or the first one.
async fn next_run(runtime: &Runtime, current: Option<&RunId>) -> Option<RunId> {
    let runs = runtime.store().runs(&Principal::local(), &thread()).await.unwrap_or_default();
    let mut ids = runs.into_iter().map(|row| row.new.at.run);
    match current {
        Some(current) => ids.skip_while(|id| id != current).nth(1),
        None => ids.next(),
    }
}

/// The frames of a run after a position, in all modes.
async fn frames(
    runtime: &Runtime,
    run: &RunRef,
    after: Position,
) -> BoxStream<'static, Result<Arc<Frame>, RuntimeError>> {
    let names = ["values", "updates", "messages", "custom", "tasks", "checkpoints", "debug"];
    let modes = names.iter().map(|name| Modes::parse(name).expect("a mode"));
    let modes = modes.fold(Modes::NONE, |all, mode| all | mode);
    let select = Selection::frames(modes).with_subgraphs();
    let output = runtime.follow(&Principal::local(), run, after, select).await.expect("is there");
    output.try_filter_map(async |output| Ok(output.into_frame())).boxed()
}

/// Entry point of a follower process; a test that passes at once in other processes.
#[test]
fn follower_process() {
    let (Some(site), Ok(file)) = (Site::of_process(), std::env::var(FILE)) else { return };
    let output = if std::env::var(FRAMES).is_ok() { Output::Frames } else { Output::Events };
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    tokio.expect("a runtime").block_on(async {
        let file = PathBuf::from(file);
        let last = received(&file).pop();
        println!("worker f{}", std::process::id());
        let opened = OpenOptions::new().append(true).create(true).open(&file);
        let mut file = opened.expect("opens");
        let write = |line: Line| {
            let line = serde_json::to_string(&line).expect("json");
            file.write_all(format!("{line}\n").as_bytes()).expect("writes");
        };
        tokio::select! {
            () = follow(&site, output, last, write) => {}
            () = until_left() => {}
        }
    });
    std::process::exit(0);
}

struct Killer {
    site: Site,
    output: Output,
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
    fn new(site: Site, output: Output) -> Self {
        let store = site.database.open();
        let workers = (0..WORKERS).map(|_| Worker::start(&site)).collect();
        let followers = (0..FOLLOWERS).map(|n| Self::follower(&site, output, n)).collect();
        let random = Random::new(0x51f1_5e44 ^ seed());
        Self { site, output, store, random, workers, followers, runs: Vec::new(), killed: [0, 0] }
    }

    fn file(site: &Site, n: usize) -> PathBuf {
        site.folder.join(format!("follower-{n}"))
    }

    fn follower(site: &Site, output: Output, n: usize) -> Worker {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(ARGS).env(FILE, Self::file(site, n));
        if output == Output::Frames {
            command.env(FRAMES, "1");
        }
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
            let graphs = match self.output {
                Output::Events => [CHAIN, SPEAKS],
                Output::Frames => [NESTED, SPEAKS],
            };
            let graph = graphs[self.runs.len() % graphs.len()];
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
            let follower = Self::follower(&self.site, self.output, victim);
            self.followers.insert(victim, follower);
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

    /// Waits until the last run has ended, and each follower has received its end. Returns what a
    /// new follower receives.
    async fn wait_for_end(&mut self) -> Vec<Line> {
        let began = now();
        let last = self.runs.last().expect("there was one").clone();
        while self.current(true).await.is_some() || !self.has_ended(&last).await {
            assert!(began.elapsed() < PATIENCE, "the run does not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let expected = self.expected().await;
        let end = expected.last().expect("it has frames").clone();
        for n in 0..FOLLOWERS {
            let file = Self::file(&self.site, n);
            while received(&file).last() != Some(&end) {
                assert!(began.elapsed() < PATIENCE, "follower {n}: {:?}", received(&file).last());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        expected
    }

    async fn has_ended(&self, run: &RunRef) -> bool {
        let row = self.store.run(&Principal::local(), run).await.expect("reads");
        row.status.is_final()
    }

    /// The log of all runs, or the frames that a reader receives later.
    async fn expected(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let reader = reader(&self.site).await;
        for run in &self.runs {
            if self.output == Output::Frames {
                let frames = frames(&reader, run, Position::START).await;
                let frames: Vec<_> = frames.map(|frame| frame.expect("reads")).collect().await;
                lines.extend(frames.iter().map(|frame| Line::frame(&run.run, frame)));
            } else {
                let events = self.store.events(&Principal::local(), run, 0, usize::MAX).await;
                let events = events.expect("reads").into_iter();
                let events =
                    events.map(|event| RunEvent::durable(event.seq, event.at, event.event));
                lines.extend(events.map(|event| Line::event(&run.run, &event)));
            }
        }
        lines.retain(|line| line.lasts);
        lines
    }

    /// Checks that each follower received the output of all runs.
    fn check(&self, expected: &[Line]) {
        for n in 0..FOLLOWERS {
            let received = received(&Self::file(&self.site, n));
            for pair in received.windows(2) {
                let [before, after] = pair else { continue };
                let is_sorted = before.run != after.run || before.position() < after.position();
                assert!(is_sorted, "follower {n}: {before:?} {after:?}");
            }
            let lasting: Vec<_> = received.into_iter().filter(|line| line.lasts).collect();
            let differs = lasting.iter().zip(expected).find(|(one, other)| one != other);
            assert_eq!(differs, None, "follower {n}: each once, in order");
            assert_eq!(lasting.len(), expected.len(), "follower {n}");
        }
    }
}

async fn followed(name: &str, output: Output, place: Place, folder: &Path) {
    let kills = if full() { 500 } else { 20 };
    let site = Site {
        database: place,
        folder: folder.to_owned(),
        pace_ms: 250,
        step_ms: 5,
        attempts_max: u32::MAX,
    };
    let mut killer = Killer::new(site, output);
    while killer.killed.iter().sum::<usize>() < kills {
        let until = now() + Duration::from_millis(50 + killer.random.below(250) as u64);
        while now() < until {
            killer.current(false).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        killer.kill_one().await;
    }
    let expected = killer.wait_for_end().await;
    killer.check(&expected);
    let [workers, followers] = killer.killed;
    let runs = killer.runs.len();
    let lines = expected.len();
    report(
        name,
        &format!(
            "{workers} kills of workers with a run, {followers} of followers, {runs} runs, {lines} \
             {output:?} to each of {FOLLOWERS} followers: 0 twice, 0 left out, 0 out of order"
        ),
    );
}

#[tokio::test]
async fn killed_followers_on_sqlite_receive_each_event_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::sqlite(folder.path());
    followed("followers-sqlite", Output::Events, place, folder.path()).await;
}

#[tokio::test]
async fn killed_followers_on_postgres_receive_each_event_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(place) = Place::postgres("followers") else { return };
    followed("followers-postgres", Output::Events, place, folder.path()).await;
}

#[tokio::test]
async fn killed_followers_on_sqlite_receive_each_frame_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::sqlite(folder.path());
    followed("frames-sqlite", Output::Frames, place, folder.path()).await;
}

#[tokio::test]
async fn killed_followers_on_postgres_receive_each_frame_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(place) = Place::postgres("frames") else { return };
    followed("frames-postgres", Output::Frames, place, folder.path()).await;
}
