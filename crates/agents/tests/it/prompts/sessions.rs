//! Sessions of evaluations.

use super::{Note, done, note, notes, noting, over, scripted};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_agents::{
    Chat, ChatUpdate, EvaluationErrorKind, Evaluator, Model, PromptEventKind, PromptRun, Session,
    ToolCallError, Tools,
};
use weftwork_graph::{Ctx, Graph, NodeResult, START, State};
use weftwork_models::scripted::Step;
use weftwork_store::MemoryStore;
use weftwork_types::ThreadId;
use weftwork_types::message::{Message, Role};
use weftwork_types::run::Answers;

#[tokio::test]
async fn events_of_calls_are_applied_in_their_order_and_failed_calls_leave_none() {
    let model = scripted(vec![
        Step::calls(vec![note("b"), note("bad"), note("a")]),
        Step::calls(vec![note("c")]),
        Step::text("Done."),
    ]);
    let evaluator = Evaluator::builder(model).open().await.expect("opens");
    let mut events = evaluator.bus().subscribe();
    let session = evaluator.new_session();
    session.dispatch::<Note>(&Note("mine".to_owned())).expect("dispatches");
    let response = evaluator.evaluate(&noting(), ()).session(&session).await.expect("evaluates");
    assert_eq!(done(response).text, "Done.");
    assert_eq!(notes(&session), ["mine", "b", "a", "c"]);
    let results: Vec<Value> = events
        .drain()
        .iter()
        .filter_map(|event| match &event.kind {
            PromptEventKind::ToolInvoked(event) => Some(json!(event.result)),
            _ => None,
        })
        .collect();
    // Calls beside each other see the state before them and their own events.
    let seen: Vec<&Value> = results.iter().map(|result| &result["value"]).collect();
    assert_eq!(seen, [&json!(2), &Value::Null, &json!(2), &json!(4)]);
}

#[tokio::test]
async fn without_a_checkpointer_evaluations_share_only_their_session() {
    let first = Step::calls(vec![note("one")]);
    let second = Step::calls(vec![note("two")]);
    let model = scripted(vec![first, Step::text("1"), second, Step::text("2")]);
    let evaluator = Evaluator::builder(model).open().await.expect("opens");
    let session = evaluator.new_session();
    for _ in 0..2 {
        evaluator.evaluate(&noting(), ()).session(&session).await.expect("evaluates");
    }
    assert_eq!(notes(&session), ["one", "two"]);
    let threads = evaluator.runtime().threads().search(Default::default()).await.expect("reads");
    assert!(threads.threads.is_empty(), "their threads are deleted");
}

#[tokio::test]
async fn a_session_is_that_of_its_thread_in_every_process() {
    let store = Arc::new(MemoryStore::new());
    let ask = ("ask_human".to_owned(), json!({"question": "More?"}));
    let model = scripted(vec![Step::calls(vec![note("before"), ask])]);
    let session = Session::new("s").expect("an id");
    let evaluator = over(&store, Evaluator::builder(model)).await;
    let waiting = evaluator.evaluate(&noting(), ()).session(&session).await.expect("evaluates");
    let waiting = waiting.interrupted().expect("a question is open");
    assert_eq!(notes(&session), ["before"], "finished tasks of an open superstep are read");
    drop(evaluator);

    let model = scripted(vec![Step::calls(vec![note("after")]), Step::text("Done.")]);
    let evaluator = over(&store, Evaluator::builder(model)).await;
    let opened = evaluator.session(&waiting.thread).await.expect("reads");
    let answers = Answers::One(json!("yes"));
    let evaluation = evaluator.answer(&noting(), &waiting.thread, answers).session(&opened);
    let response = done(evaluation.await.expect("continues"));
    assert_eq!(notes(&opened), ["before", "after"]);
    // The question takes nothing from the budget: no tool runs for it.
    assert_eq!((response.usage.model_calls, response.usage.tool_calls), (3, 2));
    let again = evaluator.session(session.id()).await.expect("reads");
    assert_eq!(notes(&again), ["before", "after"]);
}

#[test]
fn sessions_are_copied_restored_and_have_children() {
    let session = Session::new("s").expect("an id");
    let add = |to: &Session, text: &str| to.dispatch::<Note>(&Note(text.to_owned())).expect("adds");
    add(&session, "a");
    let before = session.snapshot();
    let child = session.child(ThreadId::new("c").expect("an id"));
    add(&child, "child");
    add(&session, "b");
    assert_eq!(
        (notes(&session), notes(&child)),
        (vec!["a".into(), "b".into()], vec!["a".into(), "child".into()])
    );
    assert_eq!(child.parent(), Some(session.id()));
    session.restore(&before).expect("restores");
    add(&session, "c");
    assert_eq!(notes(&session), ["a", "c"]);
    let stored = json!(session.snapshot());
    let other = Session::new("other").expect("an id");
    other.restore(&serde_json::from_value(stored.clone()).expect("a snapshot")).expect("restores");
    assert_eq!(notes(&other), ["a", "c"]);
    let mut newer = stored;
    newer["v"] = json!(2);
    newer["parent"] = json!("s");
    let newer = other.restore(&serde_json::from_value(newer).expect("a snapshot"));
    assert_eq!(newer.expect_err("a newer version").code().0, "W0619");
    let wrong = json!({"v": 1, "events": [{"slice": "notes", "event": {"text": 1}}]});
    other.restore(&serde_json::from_value(wrong).expect("a snapshot")).expect("restores");
    assert_eq!(other.query::<Note>().expect_err("no note").code().0, "W0619");
}

#[test]
fn snapshots_that_are_restored_again_and_again_do_not_grow() {
    let session = Session::new("s").expect("an id");
    for number in 0..60 {
        session.dispatch::<Note>(&Note(number.to_string())).expect("dispatches");
        session.restore(&session.snapshot()).expect("restores");
    }
    let snapshot = json!(session.snapshot());
    assert_eq!(snapshot["events"].as_array().map(Vec::len), Some(60));
    assert_eq!(notes(&session), (0..60).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_dispatch_in_a_graph_without_sessions_is_refused() {
    async fn ask(chat: State<Chat>, model: Model) -> NodeResult<ChatUpdate> {
        Ok(ChatUpdate::new().messages([model.ask(chat.messages()).await?]))
    }
    async fn note(tools: Tools, ctx: Ctx) -> NodeResult<ChatUpdate> {
        let refused = tools.call("take_note", json!({"text": "x"})).await;
        let Err(ToolCallError::Failed(failure)) = refused else { panic!("it has no session") };
        assert_eq!(failure.code.as_deref(), Some("W0619"));
        let text = failure.safe_message;
        Ok(ChatUpdate::new().messages([Message::text(ctx.message_id(), Role::User, text)]))
    }
    let graph = Graph::<Chat>::new("plain")
        .with_run_scoped::<PromptRun>()
        .node("note", note)
        .node("ask", ask)
        .edge(START, "note")
        .edge("note", "ask")
        .build()
        .expect("sound");
    let evaluator = Evaluator::builder(scripted(vec![Step::text("Done.")])).graph(graph);
    let evaluator = evaluator.open().await.expect("opens");
    let response = evaluator.evaluate(&noting(), ()).await.expect("evaluates");
    assert_eq!(done(response).text, "Done.");
    let session = evaluator.new_session();
    session.dispatch::<Note>(&Note("mine".to_owned())).expect("dispatches");
    let error = evaluator.evaluate(&noting(), ()).session(&session).await.expect_err("no channel");
    assert_eq!((error.code(), error.kind), ("W0619", EvaluationErrorKind::Session));
}
