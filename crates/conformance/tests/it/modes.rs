//! Stream modes of hosted runs: everyone who follows a run receives the same frames, and they are
//! the events that LangGraph emits.

use crate::stores::{MadeOf, hosted_over, scenarios};
use std::collections::BTreeMap;
use weftwork_conformance::compare::FinishOrder;
use weftwork_conformance::{Mode, Setting, Spec, answer};
use weftwork_graph::Durability;

/// Reasons for which scenarios are not compared with LangGraph, each with their number.
type Reasons = BTreeMap<&'static str, usize>;

/// Plays all scenarios with followers.
fn check(setting: Setting, durability: Durability) -> Reasons {
    let setting = setting.with_mode(Mode::Followed).with_durability(durability);
    let (mut failed, mut reasons) = (Vec::new(), Reasons::new());
    for mut scenario in scenarios() {
        // Tasks of one superstep are reported in the order in which they started.
        scenario.finish_order = FinishOrder::Any;
        let text = scenario.spec.to_string();
        let spec = Spec::parse(&text).unwrap();
        let trace = answer(&text, setting.clone());
        if let Some(reason) = setting.not_applicable(&spec) {
            *reasons.entry(reason).or_default() += 1;
        } else if let Some(reason) = setting.frames_differ(&spec) {
            *reasons.entry(reason).or_default() += 1;
            if trace.to_string().contains("FramesDiffer") {
                failed.push(format!("{}: followers differ: {trace}", scenario.name));
            }
        } else if let Some(found) = scenario.difference(&trace) {
            failed.push(format!("{}: {found}", scenario.name));
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
    reasons
}

#[test]
fn followers_agree_in_memory() {
    let reasons = check(hosted_over(&MadeOf::memory()), Durability::Sync);
    assert_eq!(reasons, Reasons::new());
}
