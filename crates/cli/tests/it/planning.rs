//! `weft agents run --orchestrate --plan`: a plan that is shown, approved, and saved as a definition.

use crate::home::{Came, Home, PROGRAM};
use crate::terminal::Terminal;
use serde_json::{Value, json};
use std::path::Path;
use weftwork_testkit::{LoopbackServer, Reply};

const BOSS: &str =
    "type: context\norchestration:\n  availableAgents: [writer]\n  planning: {steps_max: 2}\n";
const WRITER: &str = "type: context\nagent_card: {description: Writes.}\ncontext: You write.\n";

fn says(text: &str) -> Reply {
    let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": "stop"});
    let chunk = json!({"id": "c", "choices": [choice]});
    let stream = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    Reply::full(200, &[("content-type", "text/event-stream")], stream)
}

/// Answers requests for plans with a plan, and all others with a text.
async fn scene(steps: &'static str) -> (Home, LoopbackServer) {
    let model = LoopbackServer::start(move |_, request| {
        let is_plan = String::from_utf8_lossy(&request.body).contains("Plan the work");
        says(if is_plan { steps } else { "Written." })
    });
    let model = model.await.expect("a server");
    let home = Home::new().provider(&model.url("/v1"));
    for (slug, text) in [("boss", BOSS), ("writer", WRITER)] {
        std::fs::create_dir_all(home.path(&format!("agents/{slug}"))).expect("made");
        std::fs::write(home.path(&format!("agents/{slug}/agent.yaml")), text).expect("written");
    }
    (home, model)
}

const PLAN: &str = r#"{"steps": [{"id": "text", "agent": "writer", "message": "Write."}]}"#;
const RUN: [&str; 9] =
    ["agents", "run", "boss", "Go.", "--mode", "build", "--orchestrate", "--conversation", "c"];

fn weft(home: &Home, args: &[&str]) -> Came {
    tokio::task::block_in_place(|| home.weft(args))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_shown_waits_without_a_terminal_and_is_saved_as_a_definition() {
    let (home, model) = scene(PLAN).await;
    let waiting = weft(&home, &[&RUN[..], &["--plan"]].concat());
    assert_eq!(waiting.status, Some(3), "{waiting:?}");
    assert!(waiting.errors.contains("orchestration:\n") && waiting.errors.contains("Write."));
    assert_eq!(model.received().len(), 1, "only the plan was asked for");
    let args = [&RUN[..8], &["d", "--plan", "--yes"]].concat();
    let ended = weft(&home, &args);
    assert_eq!((ended.status, ended.out.trim()), (Some(0), "Written."), "{ended:?}");
    assert_eq!(model.received().len(), 4, "the plan, the step and the own work");
    let listed = weft(&home, &["plans", "d", "--json"]);
    let plans: Value = serde_json::from_str(&listed.out).expect("JSON");
    let id = plans[0]["id"].as_str().expect("an id");
    let saved = weft(&home, &["plans", "d", id]);
    std::fs::create_dir_all(home.path("agents/saved")).expect("made");
    let definition = format!("type: context\n{}", saved.out);
    std::fs::write(home.path("agents/saved/agent.yaml"), definition).expect("written");
    let checked = weft(&home, &["agents", "check"]);
    assert_eq!(checked.status, Some(0), "{checked:?}\n{}", saved.out);
    let args = ["agents", "run", "saved", "Go.", "--mode", "build", "--orchestrate", "--json"];
    let ran = weft(&home, &args);
    let answer: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(answer["metadata"]["steps"], json!([{"id": "text", "status": "done"}]), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_at_the_terminal_decides_about_a_plan() {
    for (key, expected) in [("y\r", "Written."), ("n\r", "W1070")] {
        let (home, model) = scene(PLAN).await;
        let args = [&RUN[..], &["--plan"]].concat();
        let mut terminal = Terminal::start(&home, Path::new(PROGRAM), &args, (40, 120));
        tokio::task::block_in_place(|| {
            terminal.see("Carry out this plan? [y/N]");
            terminal.keys(key);
            terminal.see(expected);
        });
        let asked = if expected == "Written." { 3 } else { 1 };
        assert_eq!(model.received().len(), asked, "{key:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_refused_is_shown() {
    let (home, model) = scene(r#"{"steps": [{"id": "text", "agent": "nobody"}]}"#).await;
    let refused = weft(&home, &RUN);
    assert_eq!(refused.status, Some(1), "{refused:?}");
    for part in ["error[W1076]", "W1012", "nobody", "orchestration:"] {
        assert!(refused.errors.contains(part), "{part}: {refused:?}");
    }
    assert_eq!(model.received().len(), 2, "{refused:?}");
}
