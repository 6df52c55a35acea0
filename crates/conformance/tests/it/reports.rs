//! Scenarios from reports of users of agent frameworks, in every mode, in process and hosted.

use std::path::Path;
use weftwork_conformance::kit::Scenario;
use weftwork_conformance::{Mode, Profile, Setting, answer};

const MODES: [Mode; 4] =
    [Mode::Straight, Mode::Streamed, Mode::RebuildEachStep, Mode::CrashEachWrite];

/// Plays the scenarios in a setting.
fn check(setting: &Setting) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kit/reports");
    let scenarios = Scenario::read_folder(&folder).unwrap();
    assert!(!scenarios.is_empty());
    for scenario in scenarios {
        let trace = answer(&scenario.spec.to_string(), setting.clone());
        if let Some(found) = scenario.difference(&trace) {
            panic!("{}: {setting:?}: {found}", scenario.name);
        }
    }
}

#[test]
fn reported_scenarios_give_the_recorded_traces() {
    for mode in MODES {
        check(&Setting::from(Profile::LangGraph).with_mode(mode));
    }
}

#[test]
fn reported_scenarios_give_the_recorded_traces_when_hosted() {
    for mode in MODES.into_iter().chain([Mode::Followed]) {
        check(&Setting::from(Profile::LangGraph).hosted().with_mode(mode));
    }
}
