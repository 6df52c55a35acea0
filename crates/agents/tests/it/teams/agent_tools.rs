//! Agents as tools.

use super::world::{said, text_of};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_agents::{Chat, ChatUpdate, ReactAgent, Tools};
use weftwork_graph::run_loop::{Host, InMemoryCheckpointer, Start, StartCommand};
use weftwork_graph::{Ctx, Graph, NodeResult, START};
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_runtime::{Output, Runtime};
use weftwork_tools::{Policy, ToolBox, ToolRunner};
use weftwork_types::event::AiEvent;
use weftwork_types::message::{Message, Role};
use weftwork_types::run::{Answers, RunOutcome};

fn asking(name: &str, question: &str) -> ReactAgent {
    let ask = Step::call("ask_human", json!({"question": question}));
    let model = ScriptedModel::from_steps(vec![ask, Step::text(format!("{name} is done."))]);
    ReactAgent::new(name, Arc::new(model)).tools(ToolBox::new().with_ask_human())
}

fn tool_of(agent: ReactAgent, name: &str) -> weftwork_tools::FnTool {
    agent.as_tool(name, "helps").expect("sound")
}

#[tokio::test]
async fn a_call_of_an_agent_that_asks_is_one_call_with_one_start_and_one_result() {
    let ask = |name: &str| (name.to_owned(), json!({"request": "Help."}));
    let lead = vec![Step::calls(vec![ask("left"), ask("right")]), Step::text("Both.")];
    let tools = ToolBox::new()
        .with(tool_of(asking("alice", "Left?"), "left"))
        .with(tool_of(asking("bob", "Right?"), "right"));
    let lead = ReactAgent::new("lead", Arc::new(ScriptedModel::from_steps(lead))).tools(tools);
    let runtime = Runtime::in_memory().graph("lead", lead.build().expect("sound"));
    let runtime = runtime.open().await.expect("opens");
    let thread = runtime.thread("lead", "t").expect("valid names");
    let mut ended = thread.start(said("Help me.")).await.expect("accepted");
    let mut events = Vec::new();
    for open in [2, 1] {
        let questions = thread.questions().await.expect("reads");
        assert_eq!(questions.len(), open, "{questions:?}");
        events.push(ended.run().clone());
        let last = questions.last().expect("open").id;
        let answers = std::collections::BTreeMap::from([(last, json!("yes"))]);
        ended = thread.answer(answers).await.expect("accepted");
    }
    events.push(ended.run().clone());
    let output = ended.output().expect("completed");
    let texts = text_of(output);
    assert!(texts.contains(&"tool: \"alice is done.\"".to_owned()), "{texts:?}");
    assert!(texts.contains(&"tool: \"bob is done.\"".to_owned()), "{texts:?}");
    let mut starts = 0;
    let mut results = 0;
    for run in &events {
        let log = thread.follow_run(run).await;
        let log = log.expect("reads");
        let log: Vec<Output> = futures_util::TryStreamExt::try_collect(log).await.expect("reads");
        for event in log.iter().filter_map(Output::event) {
            match &event.event {
                AiEvent::ToolCallStart { tool_name, .. } if tool_name != "ask_human" => starts += 1,
                AiEvent::ToolCallResult { result, .. } if *result != json!("yes") => results += 1,
                _ => {}
            }
        }
    }
    assert_eq!((starts, results), (2, 2));
}

/// Calls two agents, one after the other.
async fn both(tools: Tools, ctx: Ctx) -> NodeResult<ChatUpdate> {
    let mut said = Vec::new();
    for name in ["left", "right"] {
        let result = tools.call(name, json!({"request": "Help."})).await?;
        said.push(result.value.as_str().unwrap_or_default().to_owned());
    }
    let text = said.join(" ");
    Ok(ChatUpdate::new().messages([Message::text(ctx.message_id(), Role::Assistant, text)]))
}

#[tokio::test]
async fn a_node_calls_two_agents_that_ask_one_after_the_other() {
    let tools = ToolBox::new()
        .with(tool_of(asking("alice", "Left?"), "left"))
        .with(tool_of(asking("bob", "Right?"), "right"));
    let runner = ToolRunner::new(tools, Policy::new()).expect("sound");
    let graph = Graph::<Chat>::new("two").with(runner).node("both", both).edge(START, "both");
    let graph = graph.build().expect("sound");
    let runtime = Runtime::in_memory().graph("two", graph.clone()).open().await.expect("opens");
    let thread = runtime.thread("two", "t").expect("valid names");
    let mut ended = thread.start(said("Help me.")).await.expect("accepted");
    for name in ["alice", "bob"] {
        let [asked] = ended.questions() else { panic!("{:?}", ended.outcome()) };
        assert_eq!(asked.graph.as_deref(), Some(name));
        ended = thread.answer(json!("yes")).await.expect("accepted");
    }
    let texts = text_of(ended.output().expect("completed"));
    assert_eq!(texts.last().map(String::as_str), Some("assistant: alice is done. bob is done."));
}

#[tokio::test]
async fn a_run_of_this_process_waits_in_an_agent_that_is_a_tool() {
    let lead = vec![Step::call("left", json!({"request": "Help."})), Step::text("Done.")];
    let tools = ToolBox::new().with(tool_of(asking("alice", "Left?"), "left"));
    let lead = ReactAgent::new("lead", Arc::new(ScriptedModel::from_steps(lead))).tools(tools);
    let graph = lead.build().expect("sound");
    let host = Host::new().with_checkpointer(InMemoryCheckpointer::new());
    let asked = graph.run(&host, Start::from(said("Help."))).thread("t").finish().await;
    let RunOutcome::Interrupted { questions, .. } = asked.expect("runs").outcome() else {
        panic!("it asks")
    };
    assert_eq!(questions[0].graph.as_deref(), Some("alice"));
    let answers = Some(Answers::One(json!("yes")));
    let answer = Start::Command(StartCommand { resume: answers, ..StartCommand::default() });
    let answered = graph.run(&host, answer).thread("t").finish().await;
    let output = answered.expect("runs").outcome().output().expect("completed");
    assert_eq!(text_of(&output).last().map(String::as_str), Some("assistant: Done."));
}

#[tokio::test]
async fn a_failure_of_an_agent_is_the_failed_result_of_its_call() {
    let broken = ReactAgent::new("broken", Arc::new(ScriptedModel::from_steps(Vec::new())));
    let lead = vec![Step::call("ask", json!({"request": "Help."})), Step::text("It is broken.")];
    let tools = ToolBox::new().with(tool_of(broken, "ask"));
    let lead = ReactAgent::new("lead", Arc::new(ScriptedModel::from_steps(lead))).tools(tools);
    let graph = lead.build().expect("sound");
    let run = graph.run(&Host::new(), Start::from(said("Help."))).finish().await.expect("runs");
    let output = run.outcome().output().expect("completed");
    let messages: Vec<Value> = serde_json::from_value(output["messages"].clone()).expect("a list");
    let result = messages[2].to_string();
    assert!(result.contains("agent `broken` failed"), "{result}");
}
