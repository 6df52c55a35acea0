//! Typed outputs of agents.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use weftwork_agents::{AgentError, ReactAgent, Supervisor};
use weftwork_graph::{IntoGraph, RuntimeError};
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_runtime::{EndedRun, Runtime};
use weftwork_store::memory::MemoryStore;
use weftwork_tools::ToolBox;
use weftwork_types::run::RunOutcome;

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Verdict {
    refund: bool,
    reason: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "the value is not read")]
struct Price {
    cents: u32,
}

fn model(steps: Vec<Step>) -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::from_steps(steps))
}

async fn ask(graph: impl IntoGraph) -> EndedRun {
    let runtime = Runtime::in_memory().graph("desk", graph).open().await.expect("opens");
    let thread = runtime.thread("desk", "t-1").expect("valid names");
    thread.say("It is broken.").await.expect("accepted")
}

fn broken() -> Verdict {
    Verdict { refund: true, reason: "broken".to_owned() }
}

const VALID: &str = r#"{"refund": true, "reason": "broken"}"#;

#[tokio::test]
async fn an_answer_that_does_not_fit_goes_back_and_the_value_is_read_from_the_end() {
    let model = model(vec![Step::text("Sure!"), Step::text(VALID)]);
    let ended = ask(ReactAgent::new("desk", Arc::clone(&model)).output::<Verdict>()).await;
    assert_eq!(ended.value::<Verdict>().expect("a verdict"), broken());
    assert_eq!(model.calls(), 2);
    assert_eq!(ended.output().expect("completed")["output"]["refund"], json!(true));

    let other = ended.value::<Price>().expect_err("it is a verdict");
    let text = other.to_string();
    assert!(matches!(other, RuntimeError::NoValue { .. }) && other.code().0 == "W0135");
    for part in ["`Price`", "found {", "\"broken\"", "missing field `cents`"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn answers_that_never_fit_fail_the_run_and_the_error_names_the_problem() {
    let bad = || Step::text(r#"{"refund": "yes"}"#);
    let ended = ask(ReactAgent::new("desk", model(vec![bad(), bad(), bad()])).output::<Verdict>());
    let ended = ended.await;
    let RunOutcome::Failed { fault } = ended.outcome() else { panic!("{ended:?}") };
    assert_eq!(fault.code, "W0615");
    assert!(fault.message.contains("expected a boolean"), "{}", fault.message);
    let error = ended.value::<Verdict>().expect_err("failed");
    assert!(error.to_string().contains("expected a boolean"), "{error}");
}

#[tokio::test]
async fn a_list_is_a_value_and_an_agent_without_a_type_has_none() {
    let steps = vec![Step::text(r#"{"items": [{"cents": 3}, {"cents": 4}]}"#)];
    let ended = ask(ReactAgent::new("desk", model(steps)).output::<Vec<Price>>()).await;
    assert_eq!(ended.value::<Vec<Price>>().expect("a list").len(), 2);
    let one = ended.value::<Price>().expect_err("a list").to_string();
    assert!(one.contains("found [{"), "{one}");

    let ended = ask(ReactAgent::new("desk", model(vec![Step::text("Hello.")]))).await;
    let error = ended.value::<Verdict>().expect_err("no type").to_string();
    let expected = "the run of `desk` has no output of type `Verdict`: found an output with the members messages; declare the type with `output::<T>()` of the agent, or read the members with `output`";
    assert_eq!(error, expected);
    let list = ended.value::<Vec<Verdict>>().expect_err("no type").to_string();
    assert!(list.contains("`Vec<Verdict>`"), "{list}");
}

#[tokio::test]
async fn a_type_that_models_cannot_answer_with_is_refused_before_the_first_run() {
    let agent = || ReactAgent::new("desk", model(Vec::new())).output::<u32>();
    let error = agent().build().expect_err("a number");
    assert!(matches!(error, AgentError::Option { .. }) && error.code().0 == "W0660");
    assert!(error.to_string().contains("`output::<u32>()`"), "{error}");
    let opened = Runtime::in_memory().graph("desk", agent()).open().await;
    assert_eq!(opened.expect_err("a number").code().0, "W0660");
}

#[tokio::test]
async fn a_resumed_run_has_the_type_and_is_not_paid_twice() {
    let store = Arc::new(MemoryStore::new());
    let open = async |steps: Vec<Step>| {
        let model = model(steps);
        let agent = ReactAgent::new("desk", Arc::clone(&model))
            .output::<Verdict>()
            .tools(ToolBox::new().with_ask_human());
        let runtime = Runtime::builder(Arc::clone(&store) as _).graph("desk", agent).open().await;
        let thread = runtime.expect("opens").thread("desk", "t-1").expect("valid names");
        (model, thread)
    };
    let first = open(vec![Step::call("ask_human", json!({"question": "Is it broken?"}))]).await;
    let ended = first.1.say("I want my money back.").await.expect("accepted");
    let waits = ended.value::<Verdict>().expect_err("it waits").to_string();
    assert!(waits.contains("waits for an answer"), "{waits}");

    let second = open(vec![Step::text("Yes."), Step::text(VALID)]).await;
    let ended = second.1.answer(json!("yes")).await.expect("accepted");
    assert_eq!(ended.value::<Verdict>().expect("a verdict"), broken());
    assert_eq!((first.0.calls(), second.0.calls()), (1, 2));
}

#[tokio::test]
async fn a_supervisor_answers_with_a_type() {
    let member = ReactAgent::new("cashier", model(vec![Step::text("It is broken.")]));
    let lead = model(vec![Step::call("transfer_to_cashier", json!({})), Step::text(VALID)]);
    let team = Supervisor::new("team", lead).member(member, "looks").output::<Verdict>();
    let ended = ask(team).await;
    assert_eq!(ended.value::<Verdict>().expect("a verdict"), broken());
}
