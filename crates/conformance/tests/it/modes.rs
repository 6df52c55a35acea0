//! Stream modes of hosted runs: everyone who follows a run receives the same frames, and they are
//! the events that LangGraph emits.

use crate::stores::{MadeOf, hosted_over, scenarios};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use weftwork_conformance::compare::FinishOrder;
use weftwork_conformance::kit::Scenario;
use weftwork_conformance::{Mode, Setting, Spec, answer};
use weftwork_graph::Durability;

/// The reference does not emit a message whose partial text it emitted.
const MESSAGES: &str = "final messages follow their partial text";

/// Scenarios whose followers receive other frames, with the reason.
const DIFFERENT: [(&str, &str); 2] =
    [("messages_in_subgraph", MESSAGES), ("messages_tokens", MESSAGES)];

/// Reasons for which scenarios are not compared with LangGraph, each with their number.
type Reasons = BTreeMap<&'static str, usize>;

/// Plays all scenarios with followers.
fn check(setting: Setting, durability: Durability) -> Reasons {
    let setting = setting.with_mode(Mode::Followed).with_durability(durability);
    let (mut failed, mut reasons) = (Vec::new(), Reasons::new());
    for scenario in scenarios() {
        let name = scenario.name.clone();
        let known = DIFFERENT.iter().any(|(different, _)| *different == name);
        match (found(scenario, &setting, &mut reasons), known) {
            (Some(found), false) => failed.push(format!("{name}: {found}")),
            (None, true) => failed.push(format!("{name} is not different any more")),
            _ => {}
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
    reasons
}

/// The first difference between the frames of followers of a scenario, or to the reference.
fn found(mut scenario: Scenario, setting: &Setting, reasons: &mut Reasons) -> Option<String> {
    // Tasks of one superstep are reported in the order in which they started.
    scenario.finish_order = FinishOrder::Any;
    let text = scenario.spec.to_string();
    let spec = Spec::parse(&text).unwrap();
    let reason = setting.not_applicable(&spec).or_else(|| spec.frames_differ());
    if let Some(reason) = reason {
        *reasons.entry(reason).or_default() += 1;
    }
    let trace = answer(&text, setting.clone());
    followers_differ(&trace).or_else(|| match reason {
        Some(_) => None,
        None => scenario.difference(&trace).map(|found| found.to_string()),
    })
}

/// The difference between two followers, which a trace reports as an error.
fn followers_differ(trace: &Json) -> Option<String> {
    let entries = trace.get("trace")?.as_array()?.iter();
    let mut errors = entries.filter_map(|entry| entry.get("error")?.as_array());
    let error = errors.find(|error| error.first().is_some_and(|class| class == "FramesDiffer"))?;
    Some(error.get(1)?.to_string())
}

/// Reasons that hold for every store and durability.
fn usual() -> Reasons {
    Reasons::from([
        ("a graph that the code of a node calls is not declared", 26),
        ("a node asks the run to stop, and the tasks that are due do not start", 1),
        ("a subgraph stores no checkpoints", 1),
        ("answers need checkpoints", 1),
        ("arguments of the tasks of a flow are not stored", 4),
        ("hosted runs that store checkpoints at their end store all of them", 13),
        ("values of untracked channels are not stored", 27),
    ])
}

#[test]
fn followers_agree_in_memory() {
    assert_eq!(check(hosted_over(&MadeOf::memory()), Durability::Sync), usual());
}
