//! Scenarios with a crash at each write: all crashes of some of them, of all in the full tier.
//!
//! `WEFT_CRASH_SEED` and `WEFT_CRASH_SPECS` choose others and more.

use crate::stores::{MadeOf, SAID_NOTHING, over, scenarios};
use serde_json::Value as Json;
use std::sync::Arc;
use weftwork_conformance::kit::Scenario;
use weftwork_conformance::{Mode, Profile, Setting, answer};
use weftwork_graph::exec::{
    Kept, Memo, Outside, Place, Plan, Puts, Records, Saved, SaverError, TaskRecord,
};
use weftwork_graph::{MemorySaver, Saver};
use weftwork_types::{BoxFuture, CheckpointId};

/// How many scenarios are played.
const SPECS: usize = 32;
const SEED: u64 = 1;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// A number that nobody expects, for each number.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[expect(clippy::print_stdout, reason = "the log says what was played, and how to play it again")]
fn say(text: &str) {
    println!("{text}");
}

/// Some scenarios about which the mode says something, or all.
fn chosen(setting: &Setting, share: usize) -> Vec<Scenario> {
    let seed = variable("WEFT_CRASH_SEED").unwrap_or(SEED);
    let count = variable("WEFT_CRASH_SPECS").map_or(SPECS, |count| count.try_into().unwrap());
    say(&format!("WEFT_CRASH_SEED={seed} WEFT_CRASH_SPECS={count}"));
    let mut all = scenarios();
    if count / share >= all.len() {
        return all;
    }
    all.retain(|scenario| {
        let spec = weftwork_conformance::Spec::from_json(&scenario.spec).unwrap();
        setting.not_applicable(&spec).is_none()
    });
    let mut order: Vec<_> = (0u64..).zip(all).collect();
    order.sort_by_key(|(index, _)| mixed(seed.wrapping_mul(1_000_003).wrapping_add(*index)));
    order.into_iter().map(|(_, scenario)| scenario).take(count / share).collect()
}

/// What is found wrong with an answer; a trace is compared when it can be.
fn wrong(answer: &Json) -> Vec<String> {
    let found = answer.get("crash_error").or(answer.get("harness_error"));
    match found {
        Some(Json::Array(all)) => all.iter().map(Json::to_string).collect(),
        Some(other) => vec![other.to_string()],
        None => Vec::new(),
    }
}

/// Plays some of the scenarios, or one in so many of those.
fn check(setting: Setting, share: usize) {
    let setting = setting.with_mode(Mode::CrashEachWrite);
    let chosen = chosen(&setting, share);
    let mut failed = Vec::new();
    for scenario in &chosen {
        let answer = answer(&scenario.spec.to_string(), setting.clone());
        let mut found = wrong(&answer);
        // Undisturbed, the reference's semantics give the recorded trace.
        let recorded = setting.profile == Profile::LangGraph;
        if found.is_empty() && recorded && answer.get("not_applicable").is_none() {
            found.extend(scenario.difference(&answer).map(|found| found.to_string()));
        }
        failed.extend(found.iter().map(|found| format!("{}: {found}", scenario.name)));
    }
    let tally = setting.tally();
    say(&tally.to_string());
    assert!(failed.is_empty(), "{} differences:\n{}", failed.len(), failed.join("\n"));
    assert_eq!(tally.failed, 0);
    assert!(tally.crashes > 5 * tally.played, "each has some writes");
    if chosen.len() == scenarios().len() {
        assert_eq!(tally.not_applicable.values().sum::<u64>(), SAID_NOTHING as u64);
    }
}

#[test]
fn over_values() {
    check(Setting::from(Profile::LangGraph), 2);
}

#[test]
fn over_the_memory_store() {
    check(over(&MadeOf::memory()), 1);
}

#[test]
fn over_the_memory_store_with_our_semantics() {
    let made = MadeOf::memory();
    check(Setting::from(Profile::Weft).over(Arc::clone(&made.store)), 2);
}

#[test]
fn over_sqlite() {
    let made = MadeOf::sqlite();
    check(over(&made), 2);
}

#[test]
fn over_postgres() {
    check(over(&MadeOf::postgres("crash")), 4);
}

/// What a saver drops of what it was asked to keep of open supersteps.
#[derive(Debug, Clone, Copy)]
enum Drops {
    All,
    /// Results alone. Questions and failures are kept, so that nothing shows before a crash.
    Results,
}

/// A saver that says that it kept what it drops.
#[derive(Debug)]
struct Forgetful {
    saver: Arc<MemorySaver>,
    drops: Drops,
}

impl Saver for Forgetful {
    fn load<'a>(
        &'a self,
        at: &'a Place,
        plan: &'a Arc<Plan>,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<Saved>, SaverError>> {
        self.saver.load(at, plan, id)
    }

    fn newest<'a>(
        &'a self,
        at: &'a Place,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>, SaverError>> {
        self.saver.newest(at)
    }

    fn newest_of_all<'a>(
        &'a self,
        thread: &'a str,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>, SaverError>> {
        self.saver.newest_of_all(thread)
    }

    fn list<'a>(
        &'a self,
        at: &'a Place,
        plan: &'a Arc<Plan>,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Saved>, SaverError>> {
        self.saver.list(at, plan, before, limit)
    }

    fn put<'a>(&'a self, at: &'a Place, memo: &Memo, puts: Puts) -> Kept<'a> {
        self.saver.put(at, memo, puts)
    }

    fn put_tasks<'a>(
        &'a self,
        at: &'a Place,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        tasks: Records,
    ) -> BoxFuture<'a, Result<(), SaverError>> {
        let kept = |record: &TaskRecord| match self.drops {
            Drops::All => false,
            Drops::Results => !record.is_finished(),
        };
        let tasks = tasks.into_iter().filter(|(_, record)| kept(record)).collect();
        self.saver.put_tasks(at, plan, of, tasks)
    }

    fn put_outside<'a>(
        &'a self,
        at: &'a Place,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        outside: Outside,
    ) -> BoxFuture<'a, Result<(), SaverError>> {
        self.saver.put_outside(at, plan, of, outside)
    }

    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<(), SaverError>> {
        self.saver.delete(thread)
    }

    fn copy<'a>(&'a self, from: &'a str, to: &'a str) -> BoxFuture<'a, Result<(), SaverError>> {
        self.saver.copy(from, to)
    }

    fn graphs<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<Vec<Arc<str>>, SaverError>> {
        self.saver.graphs(thread)
    }

    fn prune<'a>(
        &'a self,
        at: &'a Place,
        plan: &'a Arc<Plan>,
        keep: usize,
    ) -> BoxFuture<'a, Result<(), SaverError>> {
        self.saver.prune(at, plan, keep)
    }
}

fn forgetful(drops: Drops) -> Setting {
    let setting = Setting::from(Profile::LangGraph).with_mode(Mode::CrashEachWrite);
    setting.with_stores(Arc::new(move || {
        let saver = MemorySaver::new();
        Arc::new(move || Arc::new(Forgetful { saver: Arc::clone(&saver), drops }))
    }))
}

/// Supersteps of these stay open while some of their tasks have finished.
const WITH_PENDING: [&str; 5] = [
    "error_handler_parallel",
    "fail_fast_cancels",
    "func_parallel_tasks",
    "func_retry_task",
    "pending_writes_partial_failure",
];

fn with_pending() -> Vec<Scenario> {
    let mut all = scenarios();
    all.retain(|scenario| WITH_PENDING.contains(&scenario.name.as_str()));
    assert_eq!(all.len(), WITH_PENDING.len());
    all
}

#[test]
fn the_mode_fails_when_results_of_open_supersteps_are_not_kept() {
    let mut quiet = Vec::new();
    for scenario in with_pending() {
        let (text, setting) = (scenario.spec.to_string(), forgetful(Drops::Results));
        let found = wrong(&answer(&text, setting.clone()));
        let again = found.iter().any(|found| found.contains("ran again after it was kept"));
        assert!(again, "{}: {found:?}", scenario.name);
        assert_eq!(setting.tally().failed, 1);
        let straight = answer(&text, setting.with_mode(Mode::Straight));
        if scenario.difference(&straight).is_none() {
            quiet.push(scenario.name);
        }
    }
    // Without a crash nothing of it shows in these.
    assert_eq!(quiet, ["func_parallel_tasks", "func_retry_task"]);
}

#[test]
fn the_mode_fails_when_pending_writes_are_switched_off() {
    for scenario in with_pending() {
        let answer = answer(&scenario.spec.to_string(), forgetful(Drops::All));
        let noticed = !wrong(&answer).is_empty() || scenario.difference(&answer).is_some();
        assert!(noticed, "{}", scenario.name);
    }
}
