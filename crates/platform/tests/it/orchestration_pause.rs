//! Pauses of orchestrations: tokens, and what a pause holds.

use crate::bench::{Bench, agent};
use futures_util::FutureExt;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork_models::ModelError;
use weftwork_models::scripted::Step;
use weftwork_platform::HostedAgents;
use weftwork_types::caller::Caller;
use weftwork_types::port::{ManualClock, Platform, TaskCaller};
use weftwork_types::task::TaskResponse;
use weftwork_types::{CallChain, OrgId, Principal};

const BOSS: &str = r#"
type: context
orchestration:
  steps:
    - {id: one, agent: writer}
    - {id: check, checkpoint: {question: Good?}}
    - {id: two, agent: writer}
"#;
const WRITER: &str = "type: context\ncontext: You write.\n";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

struct Scene {
    bench: Bench,
    platform: HostedAgents,
    clock: ManualClock,
}

impl Scene {
    async fn new(boss: &str, answers: impl IntoIterator<Item = Step>) -> Self {
        let clock = ManualClock::new();
        let agents = [agent("boss", boss), agent("writer", WRITER), agent("nested", BOSS)];
        let bench = Bench::with_clock(clock.clone(), agents, answers).await;
        let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
        Self { bench, platform, clock }
    }

    async fn act_as(&self, who: Principal, conversation: &str, payload: Value) -> TaskResponse {
        let request = json!({
            "agent": "boss", "mode": "build", "conversationId": conversation,
            "userMessage": if payload["orchestrate"] == true { "Go." } else { "" },
            "payload": payload,
        });
        let caller = Caller::local("request").expect("an id");
        let by = TaskCaller {
            principal: who,
            caller,
            parent_span: None,
            idempotency_key: None,
            chain: CallChain::default(),
        };
        self.platform.task(by, serde_json::from_value(request).expect("a request")).await
    }

    async fn act(&self, payload: Value) -> TaskResponse {
        self.act_as(Principal::local(), "c", payload).await
    }

    async fn execute(&self) -> TaskResponse {
        self.act(json!({"orchestrate": true})).await
    }

    async fn pause(&self) -> String {
        let paused = self.act(json!({"orchestrationAction": "pause"})).await;
        assert!(paused.success, "{paused:?}");
        assert_eq!(paused.metadata["status"], "paused");
        paused.content.expect("a token")["token"].as_str().expect("a text").to_owned()
    }

    async fn resume(&self, token: &str) -> TaskResponse {
        self.act(json!({"orchestrationAction": "resume", "token": token})).await
    }

    async fn approve(&self, waiting: &TaskResponse) -> TaskResponse {
        let id = waiting.metadata["approvalId"].clone();
        let action = "human-response";
        let approve =
            json!({"orchestrationAction": action, "approvalId": id, "decision": "approve"});
        self.act(approve).await
    }
}

fn texts(number: usize) -> Vec<Step> {
    (0..number).map(|number| Step::text(format!("text {number}"))).collect()
}

#[tokio::test]
async fn a_token_that_is_not_taken_is_refused_like_a_missing_one() {
    let scene = Scene::new(BOSS, texts(8)).await;
    let waiting = scene.execute().await;
    assert_eq!(waiting.metadata["status"], "input_required", "{waiting:?}");
    scene.act_as(Principal::local(), "other", json!({"orchestrate": true})).await;
    let other = scene.act_as(Principal::local(), "other", json!({"orchestrationAction": "pause"}));
    let other = other.await.content.expect("a token")["token"].clone();
    let void = scene.pause().await;
    let token = scene.pause().await;
    let resume = |token: Value| json!({"orchestrationAction": "resume", "token": token});
    let missing = scene.act(json!({"orchestrationAction": "resume"})).await;
    assert_eq!(missing.metadata["code"], "W1072", "{missing:?}");
    let missing = json!(missing).to_string();
    let somebody = Principal::new(Principal::local().org, "somebody");
    let elsewhere = Principal::new(OrgId::new("elsewhere").expect("an id"), "local");
    let me = Principal::local;
    let short = scene.act(json!({"orchestrationAction": "pause", "expiresIn": "1h"})).await;
    let short = short.content.expect("a token")["token"].clone();
    scene.clock.advance(Duration::from_secs(60 * 60));
    let cases = [
        ("forged", me(), "c", json!("0".repeat(64))),
        ("empty", me(), "c", json!("")),
        ("void since a second pause", me(), "c", json!(void)),
        ("of another orchestration", me(), "c", other.clone()),
        ("in another orchestration", me(), "other", json!(token)),
        ("by another principal", somebody.clone(), "c", json!(token)),
        ("by another organisation", elsewhere, "c", json!(token)),
        ("expired", me(), "c", short),
        ("in a conversation that is not there", me(), "none", json!(token)),
    ];
    for (name, who, conversation, token) in cases {
        let refused = scene.act_as(who, conversation, resume(token)).await;
        assert_eq!(json!(refused).to_string(), missing, "{name}");
    }
    // Neither a refusal nor the end of a token ends the pause.
    let held = scene.act(json!({"orchestrationAction": "continue"})).await;
    assert_eq!(held.metadata["code"], "W1073", "{held:?}");
    let token = scene.pause().await;
    scene.clock.advance(7 * DAY - Duration::from_millis(1));
    let resumed = scene.resume(&token).await;
    assert_eq!(resumed.metadata["status"], "input_required", "{resumed:?}");
    let again = scene.resume(&token).await;
    assert_eq!(json!(again).to_string(), missing, "used twice");
    // The token of the other orchestration is still the right one there.
    scene.clock.advance(Duration::from_millis(1));
    let late = scene.act_as(me(), "other", resume(other)).await;
    assert_eq!(json!(late).to_string(), missing, "expired after 7 days");
    assert!(!stored(&scene).await.contains(&token), "the token is not stored");
}

/// All records of pauses in the store.
async fn stored(scene: &Scene) -> String {
    let query = weftwork_store::SequenceQuery::all("thread:pause");
    let rows = scene.bench.store.sequence_rows(&Principal::local(), query).await.expect("reads");
    assert_eq!(rows.len(), 2);
    let text =
        |row: &weftwork_store::SequenceRow| String::from_utf8_lossy(&row.content.bytes).into();
    rows.iter().map(text).collect::<Vec<String>>().join("\n")
}

#[tokio::test]
async fn two_requests_with_one_token_resume_once() {
    let scene = Scene::new(BOSS, texts(8)).await;
    scene.execute().await;
    let token = scene.pause().await;
    let (one, two) = tokio::join!(scene.resume(&token), scene.resume(&token));
    assert!(one.success != two.success, "{one:?} {two:?}");
}

#[tokio::test]
async fn wrong_pauses_are_refused() {
    let scene = Scene::new(BOSS, texts(8)).await;
    let pause = json!({"orchestrationAction": "pause"});
    assert_eq!(scene.act(pause.clone()).await.metadata["code"], "W1074");
    let waiting = scene.execute().await;
    for time in ["8d", "0s", "soon"] {
        let wrong = json!({"orchestrationAction": "pause", "expiresIn": time});
        assert_eq!(scene.act(wrong).await.metadata["code"], "W1033", "{time}");
    }
    let ended = scene.approve(&waiting).await;
    assert!(ended.success, "{ended:?}");
    let late = scene.act(pause).await;
    assert_eq!(late.metadata["code"], "W1074", "{late:?}");
}

#[tokio::test]
async fn an_answer_at_a_checkpoint_is_on_record_while_the_orchestration_is_paused() {
    let scene = Scene::new(BOSS, texts(8)).await;
    let waiting = scene.execute().await;
    let token = scene.pause().await;
    let held = scene.approve(&waiting).await;
    assert_eq!(held.metadata["status"], "paused", "{held:?}");
    assert_eq!(held.metadata["steps"][1]["status"], "done", "{held:?}");
    assert_eq!(scene.bench.requests().len(), 1);
    // Whoever answers the question of the pause without the token resumes nothing.
    let thread = scene.bench.thread("boss", held.metadata["thread"].as_str().expect("an id"));
    let question = thread.questions().await.expect("reads").remove(0);
    let ended = thread.answer(question.answer(token.clone())).await.expect("runs");
    assert_eq!(ended.questions().len(), 1);
    assert_eq!(scene.bench.requests().len(), 1);
    let ended = scene.resume(&token).await;
    assert!(ended.success && ended.metadata.get("status").is_none(), "{ended:?}");
    assert_eq!(scene.bench.requests().len(), 3, "the second step and the own build");
}

#[tokio::test]
async fn a_run_that_is_paused_meanwhile_ends_at_its_next_superstep() {
    let steps = "  steps: [{id: one, agent: writer}, {id: two, agent: writer}]\n";
    let boss = format!("type: context\norchestration:\n{steps}");
    let scene = Arc::new(Scene::new(&boss, []).await);
    let token = Arc::new(Mutex::new(String::new()));
    let pausing = Arc::clone(&scene);
    let paused = Arc::clone(&token);
    scene.bench.during_next(move || {
        let made = pausing.pause().now_or_never().expect("needs no waiting");
        *paused.lock().expect("no panic") = made;
        Step::text("first")
    });
    let held = scene.execute().await;
    assert_eq!(held.metadata["status"], "paused", "{held:?}");
    let statuses: Vec<_> =
        (0..2).map(|step| held.metadata["steps"][step]["status"].clone()).collect();
    assert_eq!(statuses, ["done", "not_begun"]);
    let listed = scene.platform.orchestrations(&Principal::local(), None).await.expect("reads");
    assert_eq!(listed["orchestrations"][0]["status"], "paused", "{listed}");
    assert_eq!(listed["orchestrations"][0]["waits"], json!([]), "{listed}");
    for text in ["second", "own"] {
        scene.bench.during_next(move || Step::text(text));
    }
    let token = token.lock().expect("no panic").clone();
    let ended = scene.resume(&token).await;
    assert_eq!(ended.content, Some(json!("own")), "{ended:?}");
    let listed = scene.platform.orchestrations(&Principal::local(), None).await.expect("reads");
    assert_eq!(listed, json!({"orchestrations": []}));
}

#[tokio::test]
async fn an_orchestration_that_failed_does_not_continue_while_it_is_paused() {
    let boss = "type: context\norchestration:\n  steps: [{id: one, agent: writer}]\n";
    let broken = Step::fails(ModelError::Unknown { found: "x".to_owned(), known: Vec::new() });
    let scene = Scene::new(boss, [Step::text("one"), broken, Step::text("own")]).await;
    assert!(!scene.execute().await.success);
    let token = scene.pause().await;
    let refused = scene.act(json!({"orchestrationAction": "continue"})).await;
    assert_eq!(refused.metadata["code"], "W1073", "{refused:?}");
    assert_eq!(scene.bench.requests().len(), 2);
    assert_eq!(scene.resume(&token).await.content, Some(json!("own")));
}

#[tokio::test]
async fn nested_orchestrations_pause_with_their_parents() {
    let boss = r#"
type: context
orchestration:
  steps:
    - parallel:
        - {id: left, agent: nested, payload: {orchestrate: true}}
        - {id: right, agent: nested, payload: {orchestrate: true}}
"#;
    let scene = Scene::new(boss, texts(12)).await;
    let waiting = scene.execute().await;
    let thread = scene.bench.thread("boss", waiting.metadata["thread"].as_str().expect("an id"));
    let questions = thread.questions().await.expect("reads");
    assert_eq!(questions.len(), 2, "{waiting:?}");
    let token = scene.pause().await;
    let asked = scene.bench.requests().len();
    let all: weftwork_types::run::Answers = questions.iter().map(|of| of.approve()).collect();
    let held = thread.answer(all).await.expect("runs");
    assert_eq!(held.questions().len(), 2, "both wait at the pause");
    assert_eq!(scene.bench.requests().len(), asked);
    let ended = scene.resume(&token).await;
    assert!(ended.success && ended.metadata.get("status").is_none(), "{ended:?}");
    assert_eq!(ended.metadata["steps"][1]["status"], "done");
}
