//! Graphs that a program runs by hand with the checkpointer of a session, on each store.

use crate::stores::{Place, on_three_stores};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork::agents::{Evaluator, Prompt, Section, Session};
use weftwork::graph::{Checkpointer, Host, Start};
use weftwork::graph::{CompiledGraph, RunOutcome};
use weftwork::prelude::*;
use weftwork::store::Store;
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::types::Principal;

#[derive(State)]
struct Log {
    #[channel(append)]
    lines: List<String>,
}

fn graph() -> CompiledGraph {
    async fn count(log: State<Log>) -> NodeResult<LogUpdate> {
        let line = format!("after {}", log.lines().len());
        Ok(LogUpdate::new().lines([line]))
    }
    Graph::<Log>::new("log").node("count", count).edge(START, "count").build().expect("sound")
}

/// Adds a line to a thread of a session, as a process of its own would, and returns all lines.
async fn add(store: &Arc<dyn Store>, session: &Session, line: &str) -> Value {
    let saver = session.checkpointer(Arc::clone(store) as _, Principal::local());
    let graph = graph();
    let host = Host::new().with_checkpointer(saver);
    let run = graph.run(&host, Start::from(json!({"lines": [line]}))).thread("t");
    match run.outcome().await.expect("runs") {
        RunOutcome::Completed { output } => output["lines"].clone(),
        other => panic!("{other:?}"),
    }
}

async fn sessions_keep_their_threads(place: Place) {
    let store = place.open();
    let session = |id| Session::new(id).expect("an id");
    assert_eq!(add(&store, &session("a"), "one").await, json!(["one", "after 1"]));
    assert_eq!(add(&store, &session("b"), "two").await, json!(["two", "after 1"]));

    // Evaluations of a session named like a thread, and of the session itself, are not affected.
    let task = Section::new("task", "Task", "Answer.");
    let prompt = Prompt::<()>::builder("tests", "answer", "Answer").section(task).build();
    let prompt = prompt.expect("sound");
    let model = ScriptedModel::from_steps(vec![Step::text("Yes."), Step::text("No.")]);
    let runtime = Runtime::builder(Arc::clone(&store));
    let evaluator = Evaluator::builder(Arc::new(model)).runtime(runtime).open().await;
    let evaluator = evaluator.expect("opens");
    for id in ["a", "t"] {
        let evaluation = evaluator.evaluate(&prompt, ()).session(&session(id)).await;
        assert!(evaluation.expect("evaluates").done().is_some());
    }

    let both = json!(["one", "after 1", "three", "after 3"]);
    assert_eq!(add(&store, &session("a"), "three").await, both);
    let copy = session("a").copy(weftwork::types::ThreadId::new("c").expect("an id"));
    assert_eq!(add(&store, &copy, "four").await, json!(["four", "after 1"]));

    let saver = session("a").checkpointer(Arc::clone(&store) as _, Principal::local());
    saver.delete("t").await.expect("deletes");
    assert_eq!(saver.newest_of_all("t").await, Ok(None));
    let other = json!(["two", "after 1", "five", "after 3"]);
    assert_eq!(add(&store, &session("b"), "five").await, other);
}

on_three_stores![sessions_keep_their_threads];
