//! The model of a run as an argument of nodes.

use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use weftwork_agents::{Model, WithModel};
use weftwork_graph::{CompiledGraph, Ctx, Graph, NodeResult, START, State};
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_runtime::{Runtime, Thread};
use weftwork_types::event::AiEvent;
use weftwork_types::message::Message;
use weftwork_types::port::Limits;

#[derive(Debug, State)]
struct Note {
    #[channel(default)]
    text: String,
    #[channel(default)]
    count: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Verdict {
    good: bool,
}

fn scripted<const COUNT: usize>(texts: [&str; COUNT]) -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::from_steps(texts.map(Step::text)))
}

fn graph<M: 'static>(
    model: &Arc<ScriptedModel>,
    node: impl weftwork_graph::Handler<M>,
) -> CompiledGraph {
    let graph = Graph::<Note>::new("note").model(Arc::clone(model));
    graph.node("node", node).edge(START, "node").build().expect("sound")
}

async fn hosted(graph: CompiledGraph) -> Thread {
    let runtime = Runtime::in_memory().graph("note", graph).open().await.expect("opens");
    runtime.thread("note", "t").expect("a name")
}

#[tokio::test]
async fn an_answer_is_not_paid_again_when_its_node_is_executed_again() {
    async fn ask(model: Model, ctx: Ctx) -> NodeResult<NoteUpdate> {
        let said = model.ask([Message::system("Be short."), Message::user("Hi.")]).await?;
        let count: u32 = ctx.ask_as("How many?")?;
        Ok(NoteUpdate::new().text(said.joined_text()).count(count))
    }
    let model = scripted(["Hello."]);
    let thread = hosted(graph(&model, ask)).await;
    let asked = thread.start(json!({})).await.expect("runs");
    let question = &asked.questions()[0];
    assert_eq!(question.ask.to_string(), "How many?");
    // What is no number of people is refused where it is given.
    assert!(thread.answer(question.answer("many")).await.is_err());
    assert!(thread.answer(question.answer(-1)).await.is_err());
    let ended = thread.answer(question.answer(4)).await.expect("runs");
    assert_eq!(*ended.output().expect("completes"), json!({"text": "Hello.", "count": 4}));
    assert_eq!(model.calls(), 1);
}

#[tokio::test]
async fn an_answer_of_a_type_is_repaired_twice_and_no_more() {
    async fn judge(model: Model) -> NodeResult<NoteUpdate> {
        let verdict: Verdict = model.ask_as("Is it good?").await?;
        Ok(NoteUpdate::new().text(verdict.good.to_string()))
    }
    let good = r#"{"good": true}"#;
    let model = scripted(["Yes.", r#"{"good": "yes"}"#, good]);
    let ended = graph(&model, judge).invoke(json!({})).await.expect("runs");
    assert_eq!(
        (ended.output().expect("completes")["text"].as_str(), model.calls()),
        (Some("true"), 3)
    );
    let model = scripted(["Yes.", "Yes.", "Yes.", good]);
    let error = graph(&model, judge).invoke(json!({})).await.expect_err("no verdict");
    assert_eq!((error.fault().code.as_str(), model.calls()), ("W0615", 3));
}

#[tokio::test]
async fn a_type_that_no_model_can_answer_is_refused_before_the_call() {
    async fn count(model: Model) -> NodeResult<NoteUpdate> {
        Ok(NoteUpdate::new().count(model.ask_as("How many?").await?))
    }
    let model = scripted(["4"]);
    let error = graph(&model, count).invoke(json!({})).await.expect_err("a number").to_string();
    assert!(
        error.contains("`ask_as` takes no `u32`") && error.contains("wrap the value"),
        "{error}"
    );
    assert_eq!(model.calls(), 0);
}

#[tokio::test]
async fn a_quiet_answer_is_reported_and_not_streamed() {
    async fn talk(model: Model) -> NodeResult<NoteUpdate> {
        let draft = model.clone().quiet().ask("Draft.").await?.joined_text();
        let text = model.ask(draft).await?.joined_text();
        Ok(NoteUpdate::new().text(text))
    }
    let thread = hosted(graph(&scripted(["a secret draft", "a good text"]), talk)).await;
    let run = thread.start(json!({})).begin().await.expect("begins").into_handle();
    let events: Vec<AiEvent> = run.events.map(|event| event.event).collect().await;
    let text = |event: &AiEvent| match event {
        AiEvent::TextDelta { delta } => Some(delta.clone()),
        _ => None,
    };
    assert_eq!(events.iter().filter_map(text).collect::<String>(), "a good text");
    let facts = events.iter().filter(|event| matches!(event, AiEvent::UsageReport { .. }));
    assert_eq!(facts.count(), 2);
}

#[tokio::test]
async fn calls_of_nodes_take_from_the_budget() {
    async fn talk(model: Model) -> NodeResult<NoteUpdate> {
        for _ in 0..3 {
            model.ask("Again.").await?;
        }
        Ok(NoteUpdate::new())
    }
    let model = scripted(["one", "two", "three"]);
    let runtime = Runtime::in_memory().graph("note", graph(&model, talk));
    let runtime = runtime.budgets(Limits::model_calls(2)).open().await.expect("opens");
    let ended = runtime.thread("note", "t").expect("a name").start(json!({})).await.expect("runs");
    let error = ended.output().expect_err("the budget is used up").to_string();
    assert!(error.contains("budget"), "{error}");
    assert_eq!(model.calls(), 2);
}

#[derive(Deserialize, JsonSchema)]
enum Mood {
    Good,
}

#[tokio::test]
async fn an_enum_without_data_is_refused_with_the_remedy() {
    async fn ask(model: Model) -> NodeResult<NoteUpdate> {
        let Mood::Good = model.ask_as("Which mood?").await?;
        Ok(NoteUpdate::new())
    }
    let model = scripted([r#""Good""#]);
    let error = graph(&model, ask).invoke(json!({})).await.expect_err("no object").to_string();
    assert!(error.contains("wrap the value in a struct"), "{error}");
    assert_eq!(model.calls(), 0);
}

#[tokio::test]
async fn questions_in_a_loop_repeat_no_call_before_them() {
    async fn review(model: Model, ctx: Ctx) -> NodeResult<NoteUpdate> {
        let mut text = model.ask("Write.").await?.joined_text();
        while !ctx.ask_as::<bool>(text.as_str())? {
            text = model.ask(format!("Again: {text}")).await?.joined_text();
        }
        Ok(NoteUpdate::new().text(text))
    }
    let model = scripted(["first", "second", "third"]);
    let thread = hosted(graph(&model, review)).await;
    let mut ended = thread.start(json!({})).await.expect("runs");
    for good in [false, false, true] {
        let question = &ended.questions()[0];
        ended = thread.answer(question.answer(good)).await.expect("runs");
    }
    assert_eq!(ended.output().expect("completes")["text"], "third");
    assert_eq!(model.calls(), 3);
}

#[test]
fn a_graph_without_a_model_does_not_build() {
    async fn ask(model: Model) -> NodeResult<()> {
        model.ask("Hi.").await.map(drop)
    }
    let graph = Graph::<Note>::new("note").node("ask", ask).edge(START, "ask").build();
    let problem = graph.expect_err("no model").to_string();
    for part in ["`ask`", "`Model`", "has no model", "`Graph::model`", "PromptRun"] {
        assert!(problem.contains(part), "{part}: {problem}");
    }
}
