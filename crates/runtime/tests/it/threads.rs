//! Threads that exist without a run, and their metadata.

use crate::support::{on_each_store, store};
use serde_json::{Value, json};
use weftwork_graph::{CompiledGraph, Graph, List, RuntimeError, START, State};
use weftwork_runtime::Runtime;
use weftwork_store::{IfExists, Metadata, StoreError, ThreadQuery, ThreadStatus};
use weftwork_types::InterruptId;
use weftwork_types::run::Answers;

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

fn graph() -> CompiledGraph {
    let graph = Graph::<Log>::new("log")
        .node("a", async |_: State<Log>| LogUpdate::new().log(["a".to_owned()]))
        .edge(START, "a");
    graph.build().expect("sound")
}

async fn runtime() -> Runtime {
    let builder = Runtime::builder(store()).graph("test:log", graph()).graph("other", graph());
    builder.open().await.expect("opens")
}

fn metadata(value: Value) -> Metadata {
    value.as_object().cloned().expect("an object")
}

#[tokio::test]
async fn a_created_thread_takes_its_first_run() {
    let runtime = runtime().await;
    let thread = runtime.thread("log", "t").expect("a name");
    let row = thread.create(metadata(json!({"user": "ada"})), IfExists::Refuse).await;
    assert_eq!(row.expect("creates").graph.as_deref(), Some("test:log"));
    let again = thread.create(Metadata::new(), IfExists::Refuse).await;
    let conflict = matches!(again, Err(RuntimeError::Store(StoreError::Conflict { .. })));
    assert!(conflict, "{again:?}");
    let known = thread.create(Metadata::new(), IfExists::Return).await.expect("exists");
    assert_eq!(Value::Object(known.metadata), json!({"user": "ada"}));
    let set = thread.set_metadata(metadata(json!({"done": true}))).await.expect("merges");
    assert_eq!(thread.metadata().await.expect("reads"), set);
    assert_eq!(Value::Object(set), json!({"user": "ada", "done": true}));
    thread.state().await.expect("a state without checkpoints");

    let nothing = thread.proceed().await;
    assert!(matches!(nothing, Err(RuntimeError::NothingToContinue { .. })), "{nothing:?}");
    let other = runtime.thread("other", "t").expect("a name").proceed().await;
    assert!(matches!(other, Err(RuntimeError::OtherGraph { .. })), "{other:?}");
    thread.start(LogUpdate::new()).await.expect("runs");
    assert_eq!(thread.metadata().await.expect("reads").len(), 2);
}

#[tokio::test]
async fn an_answer_to_a_missing_thread_is_refused_as_missing() {
    let runtime = runtime().await;
    let thread = runtime.thread("log", "nowhere").expect("a name");
    let by_id = Answers::ById([(InterruptId(1), json!("yes"))].into());
    for answers in [Answers::One(json!("yes")), by_id] {
        let refused = thread.answer(answers.clone()).await.expect_err("there is no thread");
        let is_missing = matches!(refused, RuntimeError::Store(StoreError::NotFound { .. }));
        assert!(is_missing, "{answers:?}: {refused:?}");
        assert_eq!(refused.to_string(), "thread `nowhere` does not exist", "{answers:?}");
    }
}

#[tokio::test]
async fn a_thread_without_a_graph_takes_any_and_is_found() {
    let runtime = runtime().await;
    let made = runtime.threads().create(metadata(json!({"user": "ada"}))).await.expect("creates");
    runtime.threads().create(metadata(json!({"user": "bob"}))).await.expect("creates");
    let refused = runtime.state(&weftwork_types::Principal::local(), &made.id).await;
    let missing = matches!(refused, Err(RuntimeError::Store(StoreError::NotFound { .. })));
    assert!(missing, "{refused:?}");
    let thread = runtime.thread("other", made.id.as_str()).expect("a name");
    thread.start(LogUpdate::new()).await.expect("runs");
    let query = ThreadQuery {
        metadata: metadata(json!({"user": "ada"})),
        status: Some(ThreadStatus::Idle),
        ..ThreadQuery::default()
    };
    let page = runtime.threads().search(query.clone()).await.expect("searches");
    let row = runtime.threads().get(&made.id).await.expect("reads");
    assert_eq!(page.threads.iter().map(|found| &found.row).collect::<Vec<_>>(), [&row]);
    assert_eq!(row.graph.as_deref(), Some("app:other"));
    runtime.threads().delete(&made.id).await.expect("deletes");
    let page = runtime.threads().search(query).await.expect("searches");
    assert_eq!(page, Default::default());
}

on_each_store![
    a_created_thread_takes_its_first_run,
    a_thread_without_a_graph_takes_any_and_is_found
];
