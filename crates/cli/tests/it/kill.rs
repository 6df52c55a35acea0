//! kill -9 at random moments of the story. Every run ends, the refund is made once, and no
//! recorded call is made again; the provider, in another process, keeps count.

use crate::home::Home;
use crate::provider::{Bill, Provider, mix};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weftwork::store::{JournalRead, ReadThreads, ReadUsage, Store};
use weftwork::types::port::{CallKind, CallRecord};
use weftwork::types::run::RunStatus;
use weftwork::types::usage::UsageStatus;
use weftwork::types::{Principal, ThreadId};

const SAID: &str = "Where is order A1001, and please refund 25 of it.";
/// How often one story is killed before it may end.
const KILLS_PER_STORY: usize = 5;
/// How many processes a story may take, so that a test that is wrong ends.
const PROCESSES_MAX: usize = 60;
/// How many model calls the story has, and how many of them before the approval.
const MODEL_CALLS: (usize, usize) = (4, 3);

/// Kills that hit a living process, and those that came too late.
#[derive(Debug, Default)]
struct Tally {
    landed: usize,
    late: usize,
    /// Of those that landed: while a run was on record and had not ended.
    inside_run: usize,
    processes: usize,
    stories: usize,
}

/// What was on record at one moment, and how often each prompt had been asked then.
struct Moment {
    recorded: Vec<String>,
    asked: BTreeMap<String, u32>,
}

struct Story<'a> {
    home: Home,
    provider: &'a Provider,
    moments: Vec<Moment>,
    seed: u64,
    kills: usize,
    moment: Kill,
}

/// When a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kill {
    /// At any moment of what it still has to do.
    AtRandom,
    /// As soon as it tells that a model has answered.
    AfterAnswer,
}

/// How long a process takes to its first model call.
const START: Duration = Duration::from_millis(40);

fn thread() -> ThreadId {
    ThreadId::new("story").expect("an id")
}

#[expect(clippy::disallowed_methods, reason = "real processes are killed in real time")]
fn now() -> Instant {
    Instant::now()
}

impl Story<'_> {
    fn args(&self, begun: bool) -> &'static [&'static str] {
        // What goes on is told the thread's id and the person's yes, and nothing else.
        match begun {
            true => &["threads", "resume", "story", "--approve"],
            false => &["run", "desk", "--thread", "story", "--input", SAID],
        }
    }

    fn spawn(&self, begun: bool) -> Child {
        let mut command = self.home.command(self.args(begun));
        command.stderr(Stdio::null());
        match self.moment {
            Kill::AtRandom => command.stdout(Stdio::null()),
            Kill::AfterAnswer => command.arg("--json"),
        };
        command.spawn().expect("weft starts")
    }

    /// Takes the story to its end, killing on the way.
    fn play(&mut self, tally: &mut Tally) -> Result<(), String> {
        tally.stories += 1;
        for _ in 0..PROCESSES_MAX {
            tally.processes += 1;
            let begun = self.status().is_some();
            let mut child = self.spawn(begun);
            if self.kills > 0 {
                let inside = match self.moment {
                    Kill::AtRandom => self.kill_some_time(&mut child),
                    Kill::AfterAnswer => self.kill_after_answer(&mut child),
                };
                match inside {
                    None => tally.late += 1,
                    Some(inside) => {
                        self.kills -= 1;
                        tally.landed += 1;
                        tally.inside_run += usize::from(inside);
                    }
                }
            }
            child.wait().expect("it ends");
            if self.status() == Some(RunStatus::Completed) {
                return Ok(());
            }
        }
        Err(format!("the story has not ended after {PROCESSES_MAX} processes"))
    }

    /// Kills the process at a random moment of what it still has to do. `None` when it had ended
    /// before; else whether a run was under way.
    fn kill_some_time(&mut self, child: &mut Child) -> Option<bool> {
        let begun = now();
        self.seed = mix(self.seed);
        let calls_left = u32::try_from(self.calls_left()).unwrap_or(1);
        // An answer takes 27 ms on average; most moments are before the expected end.
        let span = START + Duration::from_millis(20) * calls_left;
        let wait = span.mul_f64((self.seed % 1_000) as f64 / 1_000.0);
        while begun.elapsed() < wait {
            if child.try_wait().expect("a status").is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.kill(child)
    }

    fn kill_after_answer(&mut self, child: &mut Child) -> Option<bool> {
        let out = child.stdout.take().expect("a pipe");
        let mut lines = BufReader::new(out).lines().map_while(Result::ok);
        lines.find(|line| line.contains("usage_report"))?;
        self.kill(child)
    }

    fn kill(&mut self, child: &mut Child) -> Option<bool> {
        if child.try_wait().expect("a status").is_some() {
            return None;
        }
        child.kill().expect("it can be killed");
        let status = child.wait().expect("it ends");
        if !killed(status) {
            return None;
        }
        let inside = matches!(self.status(), Some(RunStatus::Running | RunStatus::Pending));
        self.remember();
        Some(inside)
    }

    fn store(&self) -> Arc<dyn Store> {
        self.home.store()
    }

    fn status(&self) -> Option<RunStatus> {
        if !self.home.store_file().exists() {
            return None;
        }
        let store = self.store();
        let row = block_on(ReadThreads::thread(store.as_ref(), &Principal::local(), &thread()));
        row.ok().map(|row| row.status)
    }

    fn calls_left(&self) -> usize {
        let made = self.recorded().len();
        match self.status() {
            Some(RunStatus::Interrupted) => MODEL_CALLS.0.saturating_sub(made),
            _ if made < MODEL_CALLS.1 => MODEL_CALLS.1 - made,
            _ => 1,
        }
    }

    /// The calls of the journal; none before the thread is there.
    fn calls(&self) -> Vec<CallRecord> {
        if self.status().is_none() {
            return Vec::new();
        }
        let store = self.store();
        block_on(JournalRead::calls(store.as_ref(), &Principal::local(), &thread())).expect("calls")
    }

    /// The answers that are on record: in the journal, and in the ledger.
    fn recorded(&self) -> Vec<String> {
        let id = |value: &serde_json::Value| {
            value["usage"]["provider_call_id"].as_str().map(str::to_owned)
        };
        let calls = self.calls();
        let results = calls.iter().filter_map(|call| call.result.as_ref());
        let mut ids: Vec<String> = results.filter_map(|result| id(&result.value)).collect();
        if self.status().is_some() {
            let store = self.store();
            let usage = block_on(ReadUsage::usage_of_thread(
                store.as_ref(),
                &Principal::local(),
                &thread(),
            ));
            let facts = usage.expect("usage").into_iter().map(|row| row.fact);
            let paid = facts.filter(|fact| fact.status == UsageStatus::Ok);
            ids.extend(paid.filter_map(|fact| fact.provider_call_id));
        }
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    fn remember(&mut self) {
        let recorded = self.recorded();
        self.moments.push(Moment { recorded, asked: self.provider.bill().asked });
    }

    /// Everything that is not as it must be.
    fn violations(&self) -> Vec<String> {
        let bill = self.provider.bill();
        let mut found = Vec::new();
        let refunds = self.refunds();
        if refunds != 1 {
            found.push(format!("the refund was made {refunds} times"));
        }
        for moment in &self.moments {
            for id in &moment.recorded {
                let Some(prompt) = bill.prompt_of.get(id) else { continue };
                let (then, now) = (moment.asked.get(prompt), bill.asked.get(prompt));
                if now > then {
                    found.push(format!("the recorded call behind `{id}` was made again"));
                }
            }
        }
        found.extend(self.unrecorded(&bill));
        found.sort();
        found.dedup();
        found
    }

    /// Every call that the provider saw must be on record as made, whether or not it was answered.
    fn unrecorded(&self, bill: &Bill) -> Option<String> {
        let models = self.calls().into_iter().filter(|call| call.kind == CallKind::Model);
        let made: u32 = models.map(|call| call.made).sum();
        let seen: u32 = bill.asked.values().sum();
        (seen > made).then(|| format!("the provider saw {seen} calls, {made} are on record"))
    }

    fn refunds(&self) -> i64 {
        let file = self.home.store_file().with_file_name("desk.db");
        let desk = rusqlite::Connection::open(file).expect("the desk's database");
        desk.query_row("SELECT count(*) FROM refunds", [], |row| row.get(0)).expect("a count")
    }
}

#[cfg(unix)]
fn killed(status: std::process::ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(9)
}

#[cfg(not(unix))]
fn killed(status: std::process::ExitStatus) -> bool {
    !status.success()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

/// Plays stories until so many kills have landed.
fn play(seed: u64, kills: usize, moment: Kill, variables: &[(&str, &str)]) -> (Tally, Vec<String>) {
    let (mut tally, mut violations) = (Tally::default(), Vec::new());
    let mut seed = seed;
    while tally.landed < kills {
        seed = mix(seed);
        let provider = Provider::start(seed);
        let home = Home::new().provider(provider.url());
        let home = variables.iter().fold(home, |home, (name, value)| home.set(name, value));
        let kills = KILLS_PER_STORY.min(kills - tally.landed);
        let mut story =
            Story { home, provider: &provider, moments: Vec::new(), seed, kills, moment };
        let ended = story.play(&mut tally);
        violations.extend(ended.err().into_iter().chain(story.violations()));
    }
    (tally, violations)
}

/// The seed of a test run; one that was printed can be given back.
fn seed() -> u64 {
    let given = std::env::var("WEFT_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| u64::from(std::process::id()))
}

#[test]
fn killed_at_random_moments_every_run_ends_and_nothing_is_paid_twice() {
    let kills = if std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full") { 500 } else { 50 };
    let seed = seed();
    let (tally, violations) = play(seed, kills, Kill::AtRandom, &[]);
    let share = 100.0 * tally.landed as f64 / (tally.landed + tally.late) as f64;
    println!("seed {seed}: {tally:?}; {share:.1} % of the kills landed while the process ran");
    assert_eq!(violations, Vec::<String>::new(), "seed {seed}");
    assert!(share >= 95.0, "seed {seed}: only {share:.1} % of the kills landed: {tally:?}");
}

#[test]
fn without_the_journal_the_same_check_finds_calls_paid_twice() {
    let seed = seed();
    let (_, violations) = play(seed, 15, Kill::AfterAnswer, &[]);
    assert_eq!(violations, Vec::<String>::new(), "with the journal, killed at the same moments");
    let off = [("WEFT_TEST_JOURNAL", "off")];
    let (tally, violations) = play(seed, 15, Kill::AfterAnswer, &off);
    let twice = violations.iter().filter(|text| text.ends_with("was made again")).count();
    println!("seed {seed}: {} kills, {twice} calls made again without the journal", tally.landed);
    assert!(twice > 0, "seed {seed}: {violations:?}");
}
