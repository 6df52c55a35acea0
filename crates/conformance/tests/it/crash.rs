//! Scenarios with a crash at each write: all crashes of some of them, of all in the full tier.
//!
//! Which they are is another seed's choice each time. `WEFT_CRASH_SEED` plays those of a seed again,
//! `WEFT_CRASH_SPECS` plays more.

use crate::dose::{random_seed, say, shuffled, variable};
use crate::odd_checkpointer::Manner;
use crate::stores::{MadeOf, SAID_NOTHING, hosted_over, odd, over, scenarios};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use weftwork_conformance::kit::Scenario;
use weftwork_conformance::{Mode, Profile, Setting, Tally, answer};

/// Number of scenarios played.
const SPECS: usize = 10;

/// Differs between processes unless it is set.
static SEED: LazyLock<u64> =
    LazyLock::new(|| variable("WEFT_CRASH_SEED").unwrap_or_else(random_seed));

/// Some scenarios about which the mode says something, or all.
fn chosen(setting: &Setting, share: usize) -> Vec<Scenario> {
    let seed = *SEED;
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
    shuffled(all, seed).into_iter().take(count / share).collect()
}

/// The problems that an answer reports.
fn wrong(answer: &Json) -> Vec<String> {
    let found = answer.get("crash_error").or(answer.get("harness_error"));
    match found {
        Some(Json::Array(all)) => all.iter().map(Json::to_string).collect(),
        Some(other) => vec![other.to_string()],
        None => Vec::new(),
    }
}

/// `true` if a run of a scenario may depend on data that is not stored at a crash.
fn may_be_passed_over(scenario: &Scenario, profile: Profile) -> bool {
    let spec = &scenario.spec;
    let text = spec["nodes"].to_string();
    // Stops of subgraphs, nodes that read what they wrote, and requests to stop.
    let inner = spec["nodes"].as_object().into_iter().flatten().any(|(_, node)| {
        let node = node.to_string();
        node.contains(r#""interrupt_before""#) || node.contains(r#""interrupt_after""#)
    });
    if inner || text.contains("store_put") || text.contains(r#"["drain"]"#) {
        return true;
    }
    let entries = spec["script"].as_array().into_iter().flatten();
    let any = |name: &str| entries.clone().any(|entry| entry.get(name).is_some());
    if profile == Profile::Weft || any("in") {
        return any("in");
    }
    let own = spec.to_string().contains(r#""persist":true"#);
    let limited = any("limit") || spec.get("recursion_limit").is_some();
    // A hosted run from an older checkpoint that stored none of its own before the crash.
    own || limited || any("at") || any("resume") || any("command")
}

/// Reason to pass over crashes, of which the number depends on which of two tasks ends first.
const CHANGED_ITEMS: &str = "a node that runs again finds its own changes of the long-term store";

/// Numbers of crashes passed over in the whole kit, by reason other than that one. Other numbers are
/// a change of the mode.
fn passed_over_in_all(setting: &Setting) -> BTreeMap<&'static str, u64> {
    let inner_stop = "a run that goes on passes the stop of a subgraph";
    let within = "where to start in a graph within is known to the run alone";
    let dropped = "the reference drops input of graphs with their own state when it goes on";
    let numbers: &[(&'static str, u64)] = match (setting.profile, setting.is_hosted()) {
        (Profile::Weft, _) => &[(inner_stop, 11), (within, 42)],
        (Profile::LangGraph, false) => &[
            (inner_stop, 15),
            (within, 42),
            (dropped, 144),
            ("the reference offers an answer without an id again after it was taken", 108),
            ("the reference lets a run go beyond its limit", 13),
        ],
        (Profile::LangGraph, true) => &[
            (inner_stop, 31),
            (within, 40),
            (dropped, 262),
            ("a run from an older checkpoint has stored none of its own", 163),
            ("that a node asked its run to stop is not recorded", 12),
            ("the reference counts the checkpoint of a branch against the limit", 46),
            ("the reference takes an answer again for the next question of a task", 628),
        ],
    };
    numbers.iter().copied().collect()
}

/// Plays a scenario; returns what is wrong with it.
fn played(scenario: &Scenario, setting: &Setting) -> Vec<String> {
    let passed_over = |tally: &Tally| tally.passed_over.values().sum::<u64>();
    let before = setting.tally();
    let answer = answer(&scenario.spec.to_string(), setting.clone());
    let mut found = wrong(&answer);
    // Undisturbed, the reference's semantics give the recorded trace.
    let recorded = setting.profile == Profile::LangGraph;
    if found.is_empty() && recorded && answer.get("not_applicable").is_none() {
        found.extend(scenario.difference(&answer).map(|found| found.to_string()));
    }
    let after = setting.tally();
    let passed = passed_over(&after) - passed_over(&before);
    if passed > 0 && !may_be_passed_over(scenario, setting.profile) {
        found.push(format!("{passed} crashes were passed over"));
    }
    let writes = answer["history"].as_array().is_some_and(|history| !history.is_empty());
    if writes && after.crashes + passed == before.crashes {
        found.push("it has checkpoints, and no crash came about".to_owned());
    }
    found
}

/// Plays some of the scenarios, or one in so many of those.
fn check(setting: Setting, share: usize) {
    let setting = setting.with_mode(Mode::CrashEachWrite);
    let chosen = chosen(&setting, share);
    let mut failed = Vec::new();
    for scenario in &chosen {
        let found = played(scenario, &setting);
        failed.extend(found.iter().map(|found| format!("{}: {found}", scenario.name)));
    }
    let tally = setting.tally();
    say(&tally.to_string());
    let count = failed.len();
    let seed = *SEED;
    let list = failed.join("\n");
    assert!(failed.is_empty(), "{count} differences with WEFT_CRASH_SEED={seed}:\n{list}");
    assert_eq!(tally.failed, 0);
    // Over stores with threads of their own, tasks that end together may share a write or not.
    assert!(tally.missed * 50 <= tally.crashes, "{} did not come about", tally.missed);
    if chosen.len() == scenarios().len() {
        assert_eq!(tally.not_applicable.values().sum::<u64>(), SAID_NOTHING as u64);
        let mut passed_over = tally.passed_over;
        assert!(passed_over.remove(CHANGED_ITEMS).is_some_and(|count| count <= 90));
        assert_eq!(passed_over, passed_over_in_all(&setting));
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
    check(Setting::from(Profile::Weft).over(Arc::clone(&made.store) as _), 2);
}

#[test]
fn of_hosted_runs() {
    check(Setting::from(Profile::LangGraph).hosted(), 4);
}

#[test]
fn of_hosted_runs_over_sqlite() {
    check(hosted_over(&MadeOf::sqlite()), 8);
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

fn forgetful(manner: Manner) -> Setting {
    odd(manner, &Arc::default()).with_mode(Mode::CrashEachWrite)
}

/// A graph within it got further than the graph around it, of which the next process changes the
/// state.
#[test]
fn ids_follow_those_of_graphs_within() {
    let mut all = scenarios();
    all.retain(|scenario| scenario.name == "fuzz_13000051");
    let setting = Setting::from(Profile::LangGraph).with_mode(Mode::CrashEachWrite);
    let [scenario] = all.as_slice() else { panic!("it is there once") };
    assert_eq!(played(scenario, &setting), Vec::<String>::new());
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
        let text = scenario.spec.to_string();
        let setting = forgetful(Manner::DropsResults);
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
        let answer = answer(&scenario.spec.to_string(), forgetful(Manner::DropsOpen));
        let noticed = !wrong(&answer).is_empty() || scenario.difference(&answer).is_some();
        assert!(noticed, "{}", scenario.name);
    }
}
