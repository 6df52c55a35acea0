//! Runs that are started, followed, left and found again, as programs with other libraries do.

use futures_util::TryStreamExt;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weftwork::agents::{Activity, AgentRuntime, InstanceOptions};
use weftwork::graph::{CompiledGraph, Modes, StreamEvent, SubgraphState};
use weftwork::models::{ModelError, RefusalKind};
use weftwork::prelude::*;
use weftwork::runtime::{FollowFrom, Output, Selection, StartedRun};
use weftwork::store::{MemoryStore, Store};
use weftwork::testing::{ScriptedModel, Step};
use weftwork::types::event::AiEvent;

#[derive(State)]
struct Note {
    #[channel(append)]
    log: List<String>,
}

/// Looks up a word.
#[tool]
fn look_up(word: String) -> String {
    format!("{word} is a word")
}

/// An outer graph whose node `inner` is a subgraph.
fn nested() -> CompiledGraph {
    let first = async |_: State<Note>| NoteUpdate::new().log(["first"]);
    let second = async |_: State<Note>| NoteUpdate::new().log(["second"]);
    let inner = Graph::<Note>::new("inner").node("first", first).node("second", second);
    let inner = inner.edge(START, "first").edge("first", "second").build().expect("sound");
    let outer = Graph::<Note>::new("outer").subgraph("inner", inner, SubgraphState::PerTask);
    let outer = outer.edge(START, "inner");
    outer.build().expect("sound")
}

fn asking() -> CompiledGraph {
    let ask = async |ctx: Ctx| -> NodeResult<NoteUpdate> {
        let answer = ctx.interrupt(json!("go on?"))?;
        Ok(NoteUpdate::new().log([answer.to_string()]))
    };
    let graph = Graph::<Note>::new("ask").node("ask", ask).edge(START, "ask");
    graph.build().expect("sound")
}

async fn hosted(store: &Arc<dyn Store>, graph: CompiledGraph) -> Thread {
    let runtime = Runtime::builder(Arc::clone(store)).graph("graph", graph);
    runtime.open().await.expect("opens").thread("graph", "t").expect("valid names")
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

async fn chat(steps: Vec<Step>) -> Thread {
    let agent = ReactAgent::new("chat", ScriptedModel::from_steps(steps));
    let agent = agent.tools(ToolBox::new().with(look_up)).build().expect("sound");
    hosted(&memory(), agent).await
}

async fn read(run: StartedRun) -> Vec<Output> {
    run.try_collect().await.expect("reads")
}

fn text(output: &[Output]) -> String {
    output.iter().filter_map(Output::text).map(|part| part.text.as_str()).collect()
}

#[tokio::test]
async fn a_run_that_was_streamed_to_its_end_has_its_state() {
    let thread = hosted(&memory(), nested()).await;
    let mut run = thread.start(json!({})).begin().await.expect("accepted");
    while run.try_next().await.expect("reads").is_some() {}
    assert!(run.try_next().await.expect("reads").is_none(), "the end is repeated");
    let ended = run.await;
    let state = ended.state::<Note>().expect("its state");
    let log: Vec<_> = state.log().iter().map(String::as_str).collect();
    assert_eq!(log, ["first", "second"]);
}

/// The starter of a run reads it from its first event on, however late it reads.
#[tokio::test]
async fn a_run_is_read_in_the_parts_in_which_it_was_emitted_by_who_started_it() {
    let thread = chat(vec![Step::text("Hello, dear Ada.")]).await;
    let run = thread.say("Hello").begin().await.expect("accepted");
    thread.follow_run(run.run()).await.expect("is there").await;
    let later = thread.follow_run(run.run()).await.expect("is there");
    let parts = |output: &[Output]| {
        output.iter().filter_map(Output::text).map(|part| part.text.clone()).collect::<Vec<_>>()
    };
    assert_eq!(parts(&read(run).await), ["Hello, ", "dear ", "Ada."]);
    assert_eq!(parts(&read(later).await), ["Hello, dear Ada."]);
}

#[tokio::test]
async fn text_and_changes_of_nodes_are_one_stream_of_one_execution() {
    let thread = chat(vec![Step::text("Hello, Ada.")]).await;
    let select = Selection { modes: Modes::UPDATES, ..Selection::default() };
    let run = thread.say("Hello").begin().await.expect("accepted");
    let output = read(run.select(select)).await;
    assert_eq!(text(&output), "Hello, Ada.");
    let frames = output.into_iter().filter_map(Output::into_frame);
    let nodes: Vec<_> = frames
        .filter_map(|frame| match &frame.item()?.event {
            StreamEvent::Updates { node, .. } => Some(node.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(nodes, ["model"]);
    assert_eq!(thread.runs(Default::default()).await.expect("reads").len(), 1);
}

#[tokio::test]
async fn a_client_that_returns_gets_the_frames_of_subgraphs_that_it_selects() {
    let thread = hosted(&memory(), nested()).await;
    let select = Selection::frames(Modes::UPDATES | Modes::TASKS).with_subgraphs();
    let run = thread.start(json!({})).begin().await.expect("accepted");
    let at = run.run().clone();
    let all = read(run.select(select)).await;
    let nested = |output: &&Output| {
        let frame = (*output).clone().into_frame();
        frame.is_some_and(|frame| frame.item().is_some_and(|item| !item.ns.is_empty()))
    };
    assert_eq!(all.iter().filter(nested).count(), 6, "two tasks with their updates: {all:?}");
    for place in 0..all.len() {
        let run = thread.follow_run(&at).await.expect("is there");
        let rest = read(run.after(all[place].position.clone()).select(select)).await;
        assert_eq!(rest, all[place + 1..], "after {place}");
    }
}

#[tokio::test]
async fn the_selection_of_a_stream_changes_between_two_outputs() {
    let thread = hosted(&memory(), nested()).await;
    let mut run = thread.start(json!({})).begin().await.expect("accepted");
    let first = run.try_next().await.expect("reads").expect("a first output");
    assert!(matches!(first.event().map(|it| &it.event), Some(AiEvent::RunStarted { .. })));
    let rest = read(run.select(Selection::frames(Modes::UPDATES))).await;
    assert!(!rest.is_empty() && rest.iter().all(|output| output.event().is_none()), "{rest:?}");
}

#[tokio::test]
async fn a_stream_goes_on_when_a_question_is_answered_in_another_process() {
    let store = memory();
    let here = hosted(&store, asking()).await;
    let asked = here.start(json!({})).begin().await.expect("accepted");
    let first = asked.run().clone();
    let mut all = here.follow(FollowFrom::Start, Selection::default()).await.expect("follows");
    let ended = asked.await;
    assert_eq!(ended.questions().len(), 1);

    let there = hosted(&store, asking()).await;
    let found = there.follow_run(&first).await.expect("is there").await;
    assert_eq!(found.questions(), ended.questions());
    let answered = there.answer(found.questions()[0].answer("yes")).begin().await;
    let answered = answered.expect("accepted");
    let second = answered.run().clone();
    let output = read(answered).await;
    assert!(output.iter().all(|output| output.run == second));

    let mut ends = Vec::new();
    while ends.len() < 2 {
        let next = all.try_next().await.expect("reads").expect("goes on");
        if let Some(AiEvent::Done { outcome }) = next.event().map(|event| &event.event) {
            ends.push((next.run.clone(), *outcome));
        }
    }
    assert_eq!(ends, [(first, RunStatus::Interrupted), (second, RunStatus::Completed)]);
}

#[tokio::test]
async fn a_run_whose_stream_nobody_reads_is_executed_and_read_later() {
    let thread = chat(vec![Step::text("Hello, Ada.")]).await;
    let run = thread.say("Hello").begin().await.expect("accepted");
    let at = run.run().clone();
    assert_eq!(thread.follow_run(&at).await.expect("is there").await.text(), "Hello, Ada.");
    let late = read(run).await;
    let again = read(thread.follow_run(&at).await.expect("is there")).await;
    assert_eq!([text(&late), text(&again)], ["Hello, Ada.", "Hello, Ada."]);
    let events = |output: &[Output]| -> Vec<_> {
        output.iter().filter_map(|output| output.event().cloned()).collect()
    };
    assert_eq!(events(&late), events(&again));
}

#[tokio::test]
async fn a_run_that_is_streamed_calls_tools_and_reports_the_calls_with_their_results() {
    let call = Step::call("look_up", json!({"word": "loom"}));
    let thread = chat(vec![call, Step::text("It is.")]).await;
    let output = read(thread.say("Is loom a word?").begin().await.expect("accepted")).await;
    let calls = output.iter().filter_map(Output::event).filter_map(|event| match &event.event {
        AiEvent::ToolCallStart { tool_name, .. } => Some(format!("calls {tool_name}")),
        AiEvent::ToolCallResult { result, .. } => Some(result.to_string()),
        _ => None,
    });
    assert_eq!(calls.collect::<Vec<_>>(), ["calls look_up", "\"loom is a word\""]);
    assert_eq!(text(&output), "It is.");
}

#[tokio::test]
async fn a_model_that_fails_ends_the_stream_and_is_the_end_of_the_run() {
    let refused = ModelError::BadRequest {
        provider: "test".to_owned(),
        status: 400,
        message: "blocked".to_owned(),
        kind: RefusalKind::ContentFilter,
    };
    let thread = chat(vec![Step::fails(refused)]).await;
    let mut run = thread.say("Hello").begin().await.expect("accepted");
    let mut last = None;
    while let Some(next) = run.try_next().await.expect("a failure is no error of the stream") {
        last = next.event().map(|event| event.event.clone());
    }
    assert_eq!(last, Some(AiEvent::Done { outcome: RunStatus::Failed }));
    let ended = run.await;
    assert!(matches!(ended.outcome(), RunOutcome::Failed { .. }), "{ended}");
}

#[tokio::test]
async fn a_request_that_is_sent_twice_has_one_run_with_all_of_its_output() {
    let made = Arc::new(AtomicU32::new(0));
    let node = async |count: Deps<Arc<AtomicU32>>| {
        count.fetch_add(1, Ordering::SeqCst);
        NoteUpdate::new().log(["made"])
    };
    let graph = Graph::<Note>::new("make").with(Arc::clone(&made)).node("make", node);
    let graph = graph.edge(START, "make");
    let thread = hosted(&memory(), graph.build().expect("sound")).await;
    let request = || thread.start(json!({})).idempotency_key("order-1").begin();
    let first = request().await.expect("accepted");
    let second = request().await.expect("the same request");
    assert_eq!(first.run(), second.run());
    assert_eq!(read(first).await, read(second).await);
    let third = request().await.expect("the same request");
    assert_eq!(third.await.output().expect("completed")["log"], json!(["made"]));
    assert_eq!(made.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_text_of_one_node_is_told_from_that_of_others_also_later() {
    let say = async |ctx: Ctx| {
        let id = ctx.message_id();
        ctx.token(&id, "Done.");
        ChatUpdate::new().messages([Message::text(id, Role::Assistant, "Done.")])
    };
    let graph = Graph::<Chat>::new("two").node("draft", say).node("last", say);
    let graph = graph.edge(START, "draft").edge("draft", "last").build().expect("sound");
    let thread = hosted(&memory(), graph).await;
    let select = Selection::frames(Modes::MESSAGES);
    let run = thread.start(json!({})).begin().await.expect("accepted");
    let at = run.run().clone();
    run.await;
    let late = read(thread.follow_run(&at).await.expect("is there").select(select)).await;
    let frames = late.into_iter().filter_map(Output::into_frame);
    let nodes: Vec<_> = frames
        .filter_map(|frame| match &frame.item()?.event {
            StreamEvent::Message { node, .. } => Some(node.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(nodes, ["draft", "last"]);
}

#[tokio::test]
async fn the_run_of_an_activity_is_followed_like_any_other() {
    let model = ScriptedModel::from_steps([Step::text("Hello, Ada.")]);
    let agent = ReactAgent::new("chat", model).build().expect("sound");
    let runtime = Runtime::in_memory().graph("chat", agent).open().await.expect("opens");
    let agents = AgentRuntime::over(runtime).build().expect("builds");
    let desk = agents.create_of("chat", json!({}), InstanceOptions::new()).await.expect("created");
    let said = json!({"messages": [Message::user("Hello")]});
    let sent = agents.send(&desk, Activity::new(json!(null)).input(said)).await;
    let sent = sent.expect("accepted");
    let run = sent.run().await.expect("is there");
    assert_eq!(run.run(), sent.activity());
    assert_eq!(text(&read(run).await), "Hello, Ada.");
    assert_eq!(sent.run().await.expect("is there").await.text(), "Hello, Ada.");
}
