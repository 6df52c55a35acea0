//! Chains of agents across servers.

use crate::bench::{Bench, agent};
use crate::peer::{Partner, Scene, answers, header};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_models::scripted::Step;
use weftwork_platform::HostedAgents;
use weftwork_types::caller::Caller;
use weftwork_types::port::{Egress, Platform, TaskCaller};
use weftwork_types::task::TaskResponse;
use weftwork_types::{CallChain, Principal};

const PARTNER: &str = "type: external\ntransport: {kind: external, external: {endpoint: 'https://partner.example/agent-to-agent/tasks', retries: 0}}\n";

async fn ask(platform: &HostedAgents, agent: &str, chain: CallChain) -> TaskResponse {
    let by = TaskCaller {
        principal: Principal::local(),
        caller: Caller::local("request").expect("an id"),
        parent_span: None,
        idempotency_key: None,
        chain,
    };
    let request =
        json!({"agent": agent, "userMessage": "Go.", "payload": {"orchestrate": agent == "boss"}});
    platform.task(by, serde_json::from_value(request).expect("a request")).await
}

fn chain(depth: u64, agents: &[&str]) -> CallChain {
    CallChain { depth, agents: agents.iter().map(|name| (*name).to_owned()).collect() }
}

#[tokio::test]
async fn the_agents_that_led_to_a_request_are_sent_along() {
    let partner = Partner::new(|_, _| {
        answers(200, &json!({"success": true, "mode": "build", "content": "done"}))
    });
    let boss = "type: context\norchestration:\n  steps:\n    - {id: one, agent: partner}\n";
    let egress: Arc<dyn Egress> = Arc::new(partner.clone());
    let definitions = [agent("partner", PARTNER), agent("boss", boss)];
    let bench = Bench::with_egress(egress, None, definitions).await;
    let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
    bench.during_next(|| Step::text("done"));
    let answer = ask(&platform, "boss", chain(1, &["other@1"])).await;
    assert!(answer.success, "{answer:?}");
    let got = partner.got();
    let sent: Value =
        serde_json::from_str(header(&got[0], "weft-chain").expect("is sent")).expect("JSON");
    let names = sent["agents"].as_array().expect("a list").iter();
    let names: Vec<_> =
        names.map(|name| name.as_str().expect("a text").split('@').next()).collect();
    assert_eq!(names, [Some("other"), Some("boss"), Some("partner")]);
    assert_eq!(sent["depth"], 3);
    // At this depth the agent may ask no further one.
    let deep = ask(&platform, "partner", chain(3, &[])).await;
    assert_eq!(deep.metadata["code"], "W1037", "{deep:?}");
    assert_eq!(partner.got().len(), 1);
}

#[tokio::test]
async fn an_agent_that_asked_already_is_asked_again_only_if_it_allows_it() {
    let scene = Scene::new(
        "endpoint: 'https://partner.example/agent-to-agent/tasks', retries: 0",
        Partner::new(|_, _| {
            answers(200, &json!({"success": true, "mode": "build", "content": "done"}))
        }),
    )
    .await;
    let name = |scene: &Scene| {
        let agents = json!(scene.platform.agents(&Principal::local()));
        format!("partner@{}", agents[0]["version"].as_str().expect("a version"))
    };
    let own = name(&scene);
    let refused = ask(&scene.platform, "partner", chain(1, &["other@1", &own])).await;
    assert_eq!(refused.metadata["code"], "W1039", "{refused:?}");
    assert!(scene.partner.got().is_empty());
    let other = ask(&scene.platform, "partner", chain(1, &["partner@another"])).await;
    assert!(other.success, "an agent of another server: {other:?}");
    let scene = Scene::at(
        None,
        "endpoint: 'https://partner.example/agent-to-agent/tasks', retries: 0",
        "orchestration: {allow_repeats: true}",
        Partner::new(|_, _| {
            answers(200, &json!({"success": true, "mode": "build", "content": "done"}))
        }),
    )
    .await;
    let own = name(&scene);
    let allowed = ask(&scene.platform, "partner", chain(1, &[&own])).await;
    assert!(allowed.success, "{allowed:?}");
}
