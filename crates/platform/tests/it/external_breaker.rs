//! Servers that fail are left alone, by a virtual clock.

use crate::peer::{Partner, Scene, answers, breaks, is_get, refuses_to_connect, reply};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weftwork_types::Principal;
use weftwork_types::peer::PeerCounts;
use weftwork_types::port::{ManualClock, Platform};

const TASKS: &str =
    "endpoint: 'https://partner.example/agent-to-agent/tasks', retries: 0, idempotent: true";
const HEALTH: &str = "healthCheck: {endpoint: /health, interval: 10s, thresholds: {failures: 2}}";
const INTERVAL: Duration = Duration::from_secs(10);

fn done() -> Value {
    json!({"success": true, "mode": "build", "content": "done"})
}

/// A scene whose server is as healthy as a switch says.
async fn scene(
    external: &str,
    is_well: &Arc<AtomicBool>,
    has_health: bool,
) -> (Scene, ManualClock) {
    let clock = ManualClock::new();
    let switch = Arc::clone(is_well);
    let partner = Partner::new(move |_, request| match switch.load(Ordering::Relaxed) {
        true if is_get(request, "/health") => answers(200, &json!({"status": "ok"})),
        true => answers(200, &done()),
        false if has_health && is_get(request, "/health") => reply(503, &[], ""),
        false => refuses_to_connect(),
    });
    (Scene::at(Some(clock.clone()), external, "", partner).await, clock)
}

fn state(scene: &Scene) -> Value {
    let agents = scene.platform.agents(&Principal::local());
    json!(agents)[0]["peer"].clone()
}

#[tokio::test]
async fn a_sick_server_gets_one_request_in_an_interval_and_all_once_it_is_well() {
    let is_well = Arc::new(AtomicBool::new(false));
    let external = format!("{TASKS}, {HEALTH}");
    let (scene, clock) = scene(&external, &is_well, true).await;
    assert_eq!(state(&scene), "closed");
    for _ in 0..5 {
        assert_eq!(scene.code("Go.").await, "W1068");
    }
    assert_eq!(scene.partner.paths(), ["/health"; 2], "two failures open the circuit");
    assert_eq!(state(&scene), "open");
    assert_eq!(scene.platform.peers(), PeerCounts { closed: 0, open: 1, half_open: 0 });
    for round in 1..=3 {
        clock.advance(INTERVAL);
        assert_eq!(state(&scene), "half_open");
        for _ in 0..4 {
            assert_eq!(scene.code("Go.").await, "W1068");
        }
        assert_eq!(scene.partner.got().len(), 2 + round, "one request in an interval");
    }
    is_well.store(true, Ordering::Relaxed);
    assert_eq!(scene.code("Go.").await, "W1068", "the interval is not over");
    clock.advance(INTERVAL);
    for _ in 0..2 {
        assert!(scene.ask(json!({"userMessage": "Go."})).await.success);
    }
    assert_eq!(state(&scene), "closed");
    let paths = scene.partner.paths();
    assert_eq!(paths[5..], ["/health", "/agent-to-agent/tasks", "/agent-to-agent/tasks"]);
}

#[tokio::test]
async fn without_a_check_a_request_is_the_trial() {
    let is_well = Arc::new(AtomicBool::new(false));
    let (scene, clock) = scene(TASKS, &is_well, false).await;
    for _ in 0..5 {
        assert_eq!(scene.code("Go.").await, "W0803");
    }
    assert_eq!(scene.code("Go.").await, "W1068");
    assert_eq!(scene.partner.got().len(), 5);
    clock.advance(Duration::from_secs(30));
    assert_eq!(scene.code("Go.").await, "W0803", "the trial");
    assert_eq!(scene.code("Go.").await, "W1068");
    clock.advance(Duration::from_secs(30));
    is_well.store(true, Ordering::Relaxed);
    assert!(scene.ask(json!({"userMessage": "Go."})).await.success);
    assert_eq!(state(&scene), "closed");
}

#[tokio::test]
async fn refusals_and_failed_runs_are_no_failures_of_the_server() {
    let failed = json!({"success": false, "mode": "build", "error": "no"});
    let script = move |number: usize, _: &_| match number % 4 {
        0 => reply(404, &[], "none"),
        1 => reply(401, &[], "who"),
        2 => reply(429, &[], "later"),
        _ => answers(500, &failed),
    };
    let scene = Scene::at(Some(ManualClock::new()), TASKS, "", Partner::new(script)).await;
    for _ in 0..12 {
        assert_eq!(scene.code("Go.").await, "W1065");
    }
    assert_eq!(state(&scene), "closed");
    let scene = Scene::at(Some(ManualClock::new()), TASKS, "", Partner::new(|_, _| breaks())).await;
    for number in 0..5 {
        let request = json!({"userMessage": "Go.", "conversationId": number.to_string()});
        assert_eq!(scene.ask(request).await.metadata["status"], "input_required");
    }
    assert_eq!(state(&scene), "open", "connections that break are");
}

#[tokio::test]
async fn the_check_stays_at_the_server_and_has_no_credentials() {
    let external =
        format!("{TASKS}, {HEALTH}, authentication: {{type: bearer, secret: PARTNER_KEY}}");
    let partner = Partner::new(|_, request| match is_get(request, "/health") {
        true => reply(200, &[], ""),
        false => answers(200, &done()),
    });
    let scene = Scene::at(Some(ManualClock::new()), &external, "", partner).await;
    assert!(scene.ask(json!({"userMessage": "Go."})).await.success);
    let got = scene.partner.got();
    assert_eq!(got[0].url, "https://partner.example/health");
    assert!(crate::peer::header(&got[0], "authorization").is_none());
    assert!(crate::peer::header(&got[1], "authorization").is_some());
}
