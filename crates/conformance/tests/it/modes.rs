//! Stream modes of hosted runs: everyone who follows a run receives the same frames, and they are
//! the events that LangGraph emits.

use crate::dose::dose;
use crate::stores::{MadeOf, hosted_over, scenarios};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use weftwork_conformance::compare::FinishOrder;
use weftwork_conformance::kit::Scenario;
use weftwork_conformance::{Mode, Setting, Spec, answer};
use weftwork_graph::Durability;

/// Frames of these runs are committed with their checkpoints.
const AT_EXIT: &str = "frames of supersteps follow those of values that nodes emitted before";

/// Plays a dose of the scenarios with followers: in the fast tier one of so many.
fn check(setting: Setting, durability: Durability, share: usize) {
    let setting = setting.with_mode(Mode::Followed).with_durability(durability);
    let mut failed = Vec::new();
    for scenario in dose(share) {
        let name = scenario.name.clone();
        let found = found(scenario, &setting);
        failed.extend(found.map(|found| format!("{name}: {found}")));
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

/// The reason for which the frames of a scenario are not compared with LangGraph.
fn incomparable(spec: &Spec, setting: &Setting) -> Option<&'static str> {
    let at_exit = setting.durability == Durability::Exit;
    let reason = setting.not_applicable(spec).or_else(|| spec.frames_differ());
    reason.or(at_exit.then_some(AT_EXIT))
}

/// The first difference between the frames of followers of a scenario, or to the reference.
fn found(mut scenario: Scenario, setting: &Setting) -> Option<String> {
    // Tasks of one superstep are reported in the order in which they started.
    scenario.finish_order = FinishOrder::Any;
    let text = scenario.spec.to_string();
    let spec = Spec::parse(&text).unwrap();
    let trace = answer(&text, setting.clone());
    followers_differ(&trace).or_else(|| match incomparable(&spec, setting) {
        Some(_) => None,
        None => {
            with_whole_messages(&mut scenario.expect);
            scenario.difference(&trace).map(|found| found.to_string())
        }
    })
}

/// Puts whole messages in place of their partial text. The reference does not emit a message whose
/// partial text it emitted; frames of partial text are not repeated, and the message follows.
fn with_whole_messages(trace: &mut Json) {
    let entries = trace.get_mut("trace").and_then(Json::as_array_mut).into_iter().flatten();
    for events in entries.filter_map(|entry| entry.get_mut("events")?.as_array_mut()) {
        let mut whole: Vec<Json> = Vec::new();
        for mut event in std::mem::take(events) {
            let is_chunk = event[1] == "messages" && event[2]["chunk"] == true;
            if is_chunk {
                event[2]["chunk"] = false.into();
            }
            let id = event[2].get("id").cloned();
            let mut before = whole.iter_mut().filter(|_| is_chunk);
            match before.find(|other| other[1] == "messages" && other[2].get("id") == id.as_ref()) {
                Some(before) => {
                    let text = |event: &Json| event[2]["content"].as_str().unwrap().to_owned();
                    before[2]["content"] = (text(before) + &text(&event)).into();
                }
                None => whole.push(event),
            }
        }
        *events = whole;
    }
}

/// The difference between two followers, which a trace reports as an error.
fn followers_differ(trace: &Json) -> Option<String> {
    let entries = trace.get("trace")?.as_array()?.iter();
    let mut errors = entries.filter_map(|entry| entry.get("error")?.as_array());
    let error = errors.find(|error| error.first().is_some_and(|class| class == "FramesDiffer"))?;
    Some(error.get(1)?.to_string())
}

/// Reasons that hold for every store and durability, each with the number of its scenarios.
#[test]
fn frames_that_are_not_compared_are_few_and_reasoned() {
    let setting = hosted_over(&MadeOf::memory()).with_mode(Mode::Followed);
    let mut reasons = BTreeMap::<_, usize>::new();
    for scenario in scenarios() {
        let spec = Spec::from_json(&scenario.spec).unwrap();
        if let Some(reason) = incomparable(&spec, &setting) {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let usual = BTreeMap::from([
        ("a graph that the code of a node calls is not declared", 26),
        ("a node asks the run to stop, and the tasks that are due do not start", 1),
        ("a subgraph stores no checkpoints", 1),
        ("answers need checkpoints", 1),
        ("arguments of the tasks of a flow are not stored", 4),
        ("hosted runs that store checkpoints at their end store all of them", 13),
        ("values of untracked channels are not stored", 27),
    ]);
    assert_eq!(reasons, usual);
}

#[test]
fn followers_agree_in_memory() {
    check(hosted_over(&MadeOf::memory()), Durability::Sync, 9);
}

#[test]
fn followers_agree_in_memory_behind_writes() {
    check(hosted_over(&MadeOf::memory()), Durability::Async, 9);
}

#[test]
fn followers_agree_in_memory_at_exit() {
    check(hosted_over(&MadeOf::memory()), Durability::Exit, 9);
}

#[test]
fn followers_agree_over_sqlite() {
    check(hosted_over(&MadeOf::sqlite()), Durability::Sync, 6);
}

/// Plays some scenarios in each durability.
fn check_some(made: &MadeOf) {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        check(hosted_over(made), durability, 48);
    }
}

#[test]
fn followers_agree_over_sqlite_in_each_durability() {
    check_some(&MadeOf::sqlite());
}

#[test]
fn followers_agree_over_postgres_in_each_durability() {
    check_some(&MadeOf::postgres("followed"));
}
