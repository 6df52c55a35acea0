//! Items that graphs put into the long-term store.

use crate::support::completed;
use futures_util::StreamExt;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::{CompiledGraph, Ctx, Graph, List, NodeResult, START, State};
use weftwork_runtime::Runtime;
use weftwork_sqlite::{Options, SqliteStore};
use weftwork_store::memory::MemoryStore;
use weftwork_store::{
    ItemQuery, ItemRef, ItemStore, MemoryItems, Namespace, Prefix, PutOptions, Store,
};
use weftwork_testkit::ManualClock;
use weftwork_types::caller::Caller;
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::{RunInput, RunOptions, RunRequest};
use weftwork_types::{OrgId, Principal, ThreadId};

#[derive(State)]
struct Talk {
    said: String,
    #[channel(append)]
    known: List<String>,
}

/// Tells what is remembered, and remembers what was said for an hour.
async fn remembers(ctx: Ctx, talk: State<Talk>) -> NodeResult<TalkUpdate> {
    let items = ctx.items().expect("items");
    let who = &ctx.calls().principal;
    let facts = Namespace::new(["facts"]).expect("a namespace");
    let found = items.search(who, &Prefix::from(&facts), &ItemQuery::default()).await;
    let known: Vec<_> = found.expect("searches").into_iter().map(|item| item.key).collect();
    let at = ItemRef::new(facts, talk.said().expect("is told").as_str()).expect("a key");
    let options = PutOptions { ttl: Some(Duration::from_hours(1)), ..PutOptions::default() };
    items.put(who, &at, json!({}), options).await.expect("puts");
    Ok(TalkUpdate::new().known(known))
}

fn graph() -> CompiledGraph {
    let graph = Graph::<Talk>::new("talk").node("remembers", remembers).edge(START, "remembers");
    graph.build().expect("sound")
}

/// Runs on a thread of its own with the given text, and returns what the run finds.
async fn says(runtime: &Runtime, org: &str, said: &str) -> serde_json::Value {
    let request = RunRequest {
        principal: Principal::new(OrgId::new(org).expect("an id"), "ann"),
        caller: Caller::local("request").expect("valid id"),
        graph: "test:graph".to_owned(),
        thread: ThreadId::new(said).expect("an id"),
        input: RunInput::Start { input: json!({ "said": said }) },
        options: RunOptions::default(),
    };
    let handle = runtime.execute(request).await.expect("the run is accepted");
    handle.events.collect::<Vec<_>>().await;
    completed(handle.outcome.await)["known"].clone()
}

async fn opened(store: Arc<dyn Store>, clock: &ManualClock) -> Runtime {
    let builder = Runtime::builder(store).graph("test:graph", graph());
    builder.clock(Arc::new(clock.clone())).open().await.expect("opens")
}

fn file(path: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(path, &Options::default()).expect("opens"))
}

#[tokio::test]
async fn what_a_node_put_is_there_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("weft.db");
    let clock = ManualClock::new();
    let runtime = opened(file(&path), &clock).await;
    assert_eq!(says(&runtime, "us", "one").await, json!([]));
    drop(runtime);

    let runtime = opened(file(&path), &clock).await;
    assert_eq!(says(&runtime, "us", "two").await, json!(["one"]));
    assert_eq!(says(&runtime, "them", "other").await, json!([]), "an organisation has its own");
    drop(runtime);

    let runtime = opened(file(&path), &clock).await;
    assert_eq!(says(&runtime, "us", "three").await, json!(["one", "two"]));
    clock.advance(Duration::from_hours(2));
    assert_eq!(runtime.sweep_items().await.expect("sweeps"), 4);
    assert_eq!(says(&runtime, "us", "four").await, json!([]));
}

#[tokio::test]
async fn a_runtime_takes_other_items_than_those_of_its_store() {
    let clock = ManualClock::new();
    let items: Arc<dyn ItemStore> = Arc::new(MemoryItems::new(Arc::new(clock.clone())));
    for n in 0..2 {
        let store = Arc::new(MemoryStore::new());
        let builder = Runtime::builder(store).graph("test:graph", graph());
        let builder = builder.clock(Arc::new(clock.clone())).items(Arc::clone(&items));
        let runtime = builder.open().await.expect("opens");
        let known = says(&runtime, "us", ["one", "two"][n]).await;
        assert_eq!(known, [json!([]), json!(["one"])][n]);
    }
}
