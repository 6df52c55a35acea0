//! Every recorded scenario, played through the public builder.

use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weftwork_conformance::compare::{Messages, Rules, difference};
use weftwork_conformance::kit::Scenario;
use weftwork_conformance::{Profile, answer};

/// Scenarios that may deviate at most: true bugs of the reference only.
const DEVIATIONS_MAX: usize = 8;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kit")
}

/// Names with reasons.
fn deviations() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(folder().join("deviations.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn read(part: &str) -> Vec<Scenario> {
    Scenario::read_folder(&folder().join(part)).unwrap()
}

fn played(scenario: &Scenario) -> Json {
    answer(&scenario.spec.to_string(), Profile::LangGraph)
}

/// Plays the scenarios of a folder and compares; deviating ones with our own traces.
fn check(part: &str, count: usize) {
    let scenarios = read(part);
    assert_eq!(scenarios.len(), count);
    let deviations = deviations();
    let mut failed = Vec::new();
    for scenario in &scenarios {
        let trace = played(scenario);
        let found = scenario.difference(&trace);
        match (found, deviations.contains_key(&scenario.name)) {
            (Some(found), false) => failed.push(format!("{}: {found}", scenario.name)),
            (None, true) => failed.push(format!("{} deviates no more", scenario.name)),
            (Some(_), true) => failed.extend(own_difference(scenario, &trace)),
            (None, false) => {}
        }
    }
    assert!(failed.is_empty(), "{} of {count} failed:\n{}", failed.len(), failed.join("\n"));
}

fn own_difference(scenario: &Scenario, trace: &Json) -> Option<String> {
    let file = folder().join("deviations").join(format!("{}.json", scenario.name));
    let text = std::fs::read_to_string(&file).unwrap();
    let own: Json = serde_json::from_str(&text).unwrap();
    let rules = Rules { finish_order: scenario.finish_order, messages: Messages::All };
    let found = difference(&scenario.spec, &own, trace, rules)?;
    Some(format!("{} differs from our own trace: {found}", scenario.name))
}

#[test]
fn hand_written_scenarios_give_the_recorded_traces() {
    check("scenarios", 88);
}

#[test]
fn generated_scenarios_give_the_recorded_traces() {
    check("fuzz", 200);
}

#[test]
fn conversations_and_their_streams_give_the_recorded_traces() {
    check("messages", 60);
}

#[test]
fn deviations_are_few_known_and_reasoned() {
    let deviations = deviations();
    assert!(deviations.len() <= DEVIATIONS_MAX);
    let names: Vec<String> = ["scenarios", "fuzz", "messages"]
        .iter()
        .flat_map(|part| read(part))
        .map(|s| s.name)
        .collect();
    for (name, reason) in deviations {
        assert!(names.contains(&name), "`{name}` is no scenario");
        assert!(!reason.is_empty(), "`{name}` needs a reason");
    }
}

#[test]
fn a_recorded_trace_has_no_difference_to_itself() {
    for scenario in read("scenarios").iter().chain(&read("fuzz")) {
        assert_eq!(scenario.difference(&scenario.expect), None, "{}", scenario.name);
    }
}

/// The comparator is no use if it sees nothing: taking one event out of a trace, or one letter
/// into a value, must show.
#[test]
fn a_changed_trace_is_noticed() {
    for scenario in read("scenarios").iter().chain(&read("fuzz")) {
        let entries = scenario.expect.get("trace").and_then(Json::as_array);
        let events = |entry: &Json| entry.get("events").and_then(Json::as_array).map(Vec::len);
        let longest = entries.into_iter().flatten().enumerate().max_by_key(|(_, e)| events(e));
        let Some((index, entry)) = longest.filter(|(_, entry)| events(entry) > Some(0)) else {
            continue;
        };
        let mut changed = scenario.expect.clone();
        let place = events(entry).unwrap() / 2;
        changed["trace"][index]["events"].as_array_mut().unwrap().remove(place);
        assert!(scenario.difference(&changed).is_some(), "{}", scenario.name);
    }
}
