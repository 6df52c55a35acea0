//! Servers that ask a person within a call.

use crate::rig::{Rig, Said, Talk, reads, results, run};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use weftwork_mcp::{McpServers, Terms};
use weftwork_models::scripted::Step;
use weftwork_store::memory::MemoryStore;
use weftwork_testkit::ManualClock;
use weftwork_tools::Policy;
use weftwork_types::port::Clock;
use weftwork_types::run::RunOutcome;
use weftwork_types::tool::Effect;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A thread in which a server asks, with the virtual time.
struct Scene {
    rig: Rig,
    kind: &'static str,
    clock: ManualClock,
    store: Arc<MemoryStore>,
    servers: McpServers,
    talk: Talk,
}

impl Scene {
    async fn new(kind: &'static str, tool: &str, terms: &Terms) -> (Self, RunOutcome) {
        let rig = Rig::with(kind);
        rig.allowing(&[&format!("{kind}/{tool}")], terms).await;
        let clock = ManualClock::new();
        let store = Arc::new(MemoryStore::new());
        let servers = rig.servers_at(Arc::new(clock.clone()));
        let call = Step::call(&format!("{kind}__{}", tool.replace('-', "_")), json!({}));
        let talk = open(kind, &store, &clock, &servers, vec![call, Step::text("Done.")]).await;
        let outcome = talk.say().await;
        (Self { rig, kind, clock, store, servers, talk }, outcome)
    }

    /// Kills the server and continues as in a new process.
    async fn killed(mut self) -> Self {
        let (_, process) = self.servers.facts(self.kind).await.expect("running");
        let process = process.expect("a process").to_string();
        let kill = Command::new("kill").args(["-9", &process]).status();
        assert!(kill.expect("kill").success());
        self.servers = self.rig.servers_at(Arc::new(self.clock.clone()));
        let steps = vec![Step::text("Done.")];
        self.talk = open(self.kind, &self.store, &self.clock, &self.servers, steps).await;
        self
    }

    async fn answer(&self, outcome: &RunOutcome, reply: Value) -> Vec<Said> {
        let (id, _) = self.talk.question(outcome).await;
        results(&self.talk.answer(id, reply).await)
    }
}

async fn open(
    kind: &str,
    store: &Arc<MemoryStore>,
    clock: &ManualClock,
    servers: &McpServers,
    steps: Vec<Step>,
) -> Talk {
    let policy = Policy::new().allow(&format!("{kind}/*")).expect("a pattern");
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    Talk::open(Arc::<MemoryStore>::clone(store), clock, servers, policy, steps).await
}

fn seven() -> Value {
    json!({"action": "accept", "content": {"guests": 7}})
}

/// The text of the only result.
fn text(said: &[Said]) -> Value {
    let [said] = said else { panic!("one call: {said:?}") };
    serde_json::from_str(said.ok().as_str().expect("text")).expect("JSON")
}

fn acts() -> Terms {
    Terms { effect: Effect::ExternalSideEffect, ..reads() }
}

#[tokio::test]
async fn input_that_a_call_requires_is_answered_a_day_after_its_processes_died() {
    let (scene, outcome) = Scene::new("modern", "guests", &acts()).await;
    let (_, question) = scene.talk.question(&outcome).await;
    assert_eq!(question, "MCP server `modern` asks: How many guests?");
    let scene = scene.killed().await;
    scene.clock.advance(DAY);
    let said = scene.answer(&outcome, seven()).await;
    assert_eq!(text(&said), json!({"first": seven()}));
    assert_eq!(scene.rig.calls(), ["guests", "guests"], "the request and the request with input");
}

#[tokio::test]
async fn a_secret_that_a_call_requires_is_refused_without_a_question() {
    let (scene, outcome) = Scene::new("modern", "sign-in", &reads()).await;
    assert_eq!(text(&results(&outcome)), json!({"first": {"action": "decline"}}));
    assert_eq!(scene.rig.calls(), ["sign-in", "sign-in"]);
}

#[tokio::test]
async fn an_address_is_shown_and_not_opened() {
    let (scene, outcome) = Scene::new("modern", "page", &reads()).await;
    let (_, question) = scene.talk.question(&outcome).await;
    assert!(question.contains("open https://127.0.0.1/pay yourself"), "{question}");
    let said = scene.answer(&outcome, json!({"action": "decline"})).await;
    assert_eq!(text(&said), json!({"first": {"action": "decline"}}));
}

#[tokio::test]
async fn a_required_answer_of_a_model_fails_the_call() {
    let rig = Rig::with("modern");
    let servers = rig.allowing(&["modern/model"], &reads()).await;
    let said = run(&servers, &[("modern__model", json!({}))]).await;
    let (code, message) = said[0].failure();
    assert_eq!(code, "W0406");
    assert!(message.contains("requires a model's answer"), "{message}");
}

#[tokio::test]
async fn a_server_that_waits_gets_the_answer_in_its_call() {
    let (scene, outcome) = Scene::new("plain", "guests", &acts()).await;
    let (_, question) = scene.talk.question(&outcome).await;
    assert_eq!(question, "MCP server `plain` asks: How many guests?");
    scene.clock.advance(Duration::from_secs(4 * 60));
    let said = scene.answer(&outcome, seven()).await;
    assert_eq!(text(&said)["result"], seven());
    assert_eq!(scene.rig.calls(), ["guests"]);
}

#[tokio::test]
async fn a_call_whose_server_died_while_it_waited_is_repeated_only_if_that_does_no_harm() {
    let idempotent = Terms { idempotent: true, ..acts() };
    for (terms, repeated) in [(reads(), true), (idempotent, true), (acts(), false)] {
        let (scene, outcome) = Scene::new("plain", "guests", &terms).await;
        let scene = scene.killed().await;
        scene.clock.advance(DAY);
        let said = scene.answer(&outcome, seven()).await;
        if repeated {
            assert_eq!(text(&said)["result"], seven(), "{terms:?}");
            assert_eq!(scene.rig.calls(), ["guests", "guests"]);
        } else {
            let (code, message) = said[0].failure();
            assert_eq!(code, "W0914");
            assert!(message.contains("is not made again"), "{message}");
            assert_eq!(scene.rig.calls(), ["guests"], "nothing is done twice");
        }
    }
}

#[tokio::test]
async fn after_five_minutes_the_call_is_cancelled() {
    let (scene, outcome) = Scene::new("plain", "guests", &acts()).await;
    scene.clock.advance(Duration::from_secs(5 * 60 + 1));
    for _ in 0..500 {
        if scene.rig.calls().len() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(scene.rig.calls(), ["guests", "cancelled"]);
    let said = scene.answer(&outcome, seven()).await;
    assert_eq!(said[0].failure().0, "W0914");
    assert_eq!(scene.rig.calls(), ["guests", "cancelled"]);
}
