//! Tests of requirements of policy rules, as far as they need no store.

use crate::rig::{Rig, call, failure, runner};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weftwork_tools::{FnTool, Policy, Prepared, ToolBox, ToolContext};
use weftwork_types::tool::ToolErrorKind;

#[derive(Default)]
struct Gauge {
    now: AtomicU32,
    most: AtomicU32,
}

fn slow(gauge: &Arc<Gauge>) -> FnTool {
    let gauge = Arc::clone(gauge);
    FnTool::new("slow", "Waits.", move |_: BTreeMap<String, String>, context: ToolContext| {
        let gauge = Arc::clone(&gauge);
        async move {
            let now = gauge.now.fetch_add(1, Ordering::SeqCst) + 1;
            gauge.most.fetch_max(now, Ordering::SeqCst);
            context.clock().sleep(Duration::from_secs(3600)).await;
            gauge.now.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, String>(now)
        }
    })
    .timeout(Duration::from_secs(7 * 3600))
}

fn policy(rule: serde_json::Value) -> Policy {
    serde_json::from_value(json!({"rules": [rule]})).expect("a policy")
}

#[test]
fn calls_wait_for_a_place() {
    for (max, calls) in [(1, 3), (2, 5), (9, 4)] {
        let rig = Rig::new();
        let gauge = Arc::new(Gauge::default());
        let rule = json!({"tool": "slow", "decision": "allow", "at_once": max});
        let runner = runner(ToolBox::new().with(slow(&gauge)), policy(rule));
        let executions = (0..calls).map(|number| {
            let made = call(&format!("c-{number}"), "slow", json!({}));
            let Prepared::Ready(ready) = runner.prepare(&made, &rig.context()) else {
                panic!("ready")
            };
            runner.execute(ready)
        });
        let all = rig.drive(futures_util::future::join_all(executions));
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(gauge.most.load(Ordering::SeqCst), max.min(calls), "at most {max} of {calls}");
        assert_eq!(rig.events.all().len(), 2 * calls as usize);
    }
}

#[test]
fn a_rule_that_looks_back_denies_without_records() {
    for requirement in [json!({"after": ["look"]}), json!({"calls_per_run": 5})] {
        let mut rule = json!({"tool": "slow", "decision": "allow"});
        rule.as_object_mut().expect("a rule").extend(requirement.as_object().expect("one").clone());
        let rig = Rig::new();
        let gauge = Arc::new(Gauge::default());
        let runner = runner(ToolBox::new().with(slow(&gauge)), policy(rule));
        let refused = failure(rig.run(&runner, &call("c-1", "slow", json!({}))));
        assert_eq!(refused.0, ToolErrorKind::PolicyDenied);
        assert!(refused.2.contains("earlier calls of the run"), "{refused:?}");
        assert_eq!((gauge.most.load(Ordering::SeqCst), rig.pairs().len()), (0, 1));
    }
}
