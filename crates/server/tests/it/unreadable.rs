//! Threads that this build cannot read, among others.

use crate::client::Client;
use crate::graphs;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::channel::{Append, LastValue};
use weftwork_graph::run_loop::SubgraphState;
use weftwork_graph::{
    ChannelDef, CompiledGraph, Ctx, DynUpdate, Dynamic, Graph, NodeError, NodeResult, START, State,
};
use weftwork_runtime::{Runtime, RuntimeBuilder};
use weftwork_store::{MemoryStore, Store, ThreadExport};
use weftwork_types::{Principal, ThreadId};

/// Number of threads that can be read.
const READABLE: usize = 100;

fn graph(name: &str, channels: Vec<ChannelDef>) -> Graph<Dynamic> {
    Graph::dynamic(name, channels)
}

fn text() -> Vec<ChannelDef> {
    vec![ChannelDef::new("text", LastValue::<Value>::new())]
}

async fn write(_: State<Dynamic>) -> DynUpdate {
    DynUpdate::new().write("text", json!("written"))
}

async fn ask(_: State<Dynamic>, ctx: Ctx) -> NodeResult<DynUpdate> {
    Ok(DynUpdate::new().write("text", ctx.interrupt(json!("go on?"))?))
}

async fn fail(_: State<Dynamic>) -> NodeResult<DynUpdate> {
    Err(NodeError::of_kind("ValueError", "boom!"))
}

async fn sleep(_: State<Dynamic>, ctx: Ctx) -> NodeResult<DynUpdate> {
    ctx.sleep(Duration::from_secs(3_600)).await?;
    Ok(DynUpdate::new())
}

async fn hang(_: State<Dynamic>) -> DynUpdate {
    std::future::pending().await
}

/// A graph with one channel and one node.
macro_rules! single {
    ($node:literal, $run:expr) => {
        graph("single", text()).node($node, $run).edge(START, $node).build().expect("sound")
    };
}

/// A graph that runs another one.
fn around(inner: CompiledGraph) -> CompiledGraph {
    graph("around", text())
        .subgraph("inner", inner, SubgraphState::PerTask)
        .edge(START, "inner")
        .build()
        .expect("sound")
}

/// A graph with two nodes after each other, of which the second one asks.
fn two_steps(second: &'static str) -> CompiledGraph {
    graph("two", text())
        .node("first", write)
        .node(second, ask)
        .edge(START, "first")
        .edge("first", second)
        .build()
        .expect("sound")
}

fn with_channel(channel: ChannelDef) -> CompiledGraph {
    async fn put(_: State<Dynamic>) -> DynUpdate {
        DynUpdate::new().write("x", json!(["a"]))
    }
    graph("kind", vec![channel]).node("put", put).edge(START, "put").build().expect("sound")
}

fn of_numbers() -> CompiledGraph {
    async fn put(_: State<Dynamic>) -> DynUpdate {
        DynUpdate::new().write("x", json!(7))
    }
    let channels = vec![ChannelDef::new("x", LastValue::<u64>::new())];
    graph("numbers", channels).node("put", put).edge(START, "put").build().expect("sound")
}

/// Two nodes beside each other that ask.
fn fan(second: &'static str) -> CompiledGraph {
    graph("fan", vec![ChannelDef::new("text", Append::<Value>::new())])
        .node("left", ask)
        .node(second, ask)
        .edge(START, "left")
        .edge(START, second)
        .build()
        .expect("sound")
}

/// The earlier build.
fn before(builder: RuntimeBuilder) -> RuntimeBuilder {
    graphs::host(builder)
        .graph("removed", single!("write", write))
        .graph("acme:writer", single!("write", write))
        .graph("asks", single!("ask", ask))
        .graph("fails", single!("fail", fail))
        .graph("sleeps", single!("sleep", sleep))
        .graph("hangs", single!("hang", hang))
        .graph("lost_node", single!("ask", ask))
        .graph("lost_second", two_steps("second"))
        .graph("lost_branch", fan("right"))
        .graph("lost_inner", around(single!("ask", ask)))
        .graph("inner_removed", around(single!("ask", ask)))
        .graph("kind", with_channel(ChannelDef::new("x", Append::<Value>::new())))
        .graph("type", with_channel(ChannelDef::new("x", LastValue::<Value>::new())))
        .graph("damaged", single!("write", write))
        .graph("newer", single!("write", write))
        .graph("absent", single!("write", write))
}

/// This build.
fn now(builder: RuntimeBuilder) -> RuntimeBuilder {
    graphs::host(builder)
        .graph("renamed", single!("write", write))
        .graph("other:writer", single!("write", write))
        .graph("lost_node", single!("question", ask))
        .graph("lost_second", two_steps("third"))
        .graph("lost_branch", fan("up"))
        .graph("lost_inner", around(single!("question", ask)))
        .graph("inner_removed", single!("inner", write))
        .graph("kind", with_channel(ChannelDef::new("x", LastValue::<Value>::new())))
        .graph("type", of_numbers())
        .graph("damaged", single!("write", write))
        .graph("newer", single!("write", write))
        .graph("absent", single!("write", write))
}

/// A kind of threads: its name, the graphs that run on it, and what this build reads of it.
struct Kind {
    name: &'static str,
    graphs: &'static [&'static str],
    /// Part of the error; `None` if the newest state can be read.
    error: Option<&'static str>,
}

const fn kind(name: &'static str, graphs: &'static [&'static str], error: &'static str) -> Kind {
    Kind { name, graphs, error: Some(error) }
}

const KINDS: &[Kind] = &[
    kind("removed", &["removed"], "no graph `app:removed` here"),
    kind("renamed", &["removed", "removed"], "no graph `app:removed` here"),
    kind("of another provider", &["acme:writer"], "no graph `acme:writer` here"),
    kind("removed while it asks", &["asks"], "no graph `app:asks` here"),
    kind("removed after a failure", &["fails"], "no graph `app:fails` here"),
    kind("removed after failures", &["removed", "fails"], "no graph `app:fails` here"),
    kind("removed while it sleeps", &["sleeps"], "no graph `app:sleeps` here"),
    kind("removed while it runs", &["removed", "hangs"], "no graph `app:hangs` here"),
    kind("waits at a lost node", &["lost_node"], "waits at node `ask`"),
    kind("waits at a lost node after another", &["lost_second"], "waits at node `second`"),
    kind("waits in a lost branch", &["lost_branch"], "waits at node `right`"),
    kind("channel of another kind", &["kind"], "channel `x`"),
    kind("value of another type", &["type"], "channel `x` cannot be read"),
    kind("of three graphs, the last removed", &["echo", "removed", "asks"], "no graph `app:asks`"),
    kind("damaged", &["damaged"], "damaged"),
    kind("of another first byte", &["newer"], "damaged at checkpoint"),
    Kind { name: "of a subgraph that is a node now", graphs: &["inner_removed"], error: None },
    Kind { name: "without a change", graphs: &["absent"], error: None },
    Kind { name: "of three graphs", graphs: &["parent", "removed", "echo"], error: None },
    Kind { name: "of four graphs", graphs: &["echo", "removed", "slow", "echo"], error: None },
    Kind { name: "lost within a subgraph", graphs: &["lost_inner"], error: None },
];

fn id_of(kind: &Kind) -> String {
    uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, kind.name.as_bytes()).to_string()
}

/// Writes all threads with the earlier build, and returns a client of this one.
async fn client() -> Client {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let builder = Runtime::builder(Arc::clone(&store));
    let earlier = Client::over(before(builder).open().await.expect("opens"));
    for number in 0..READABLE {
        let thread = earlier.thread().await;
        let run = json!({"assistant_id": "echo", "input": {"msg": format!("{number}")}});
        earlier.post(&format!("{thread}/runs/wait"), run).await.json();
    }
    for kind in KINDS {
        let thread = id_of(kind);
        earlier.post("/threads", json!({"thread_id": thread})).await.json();
        for graph in kind.graphs {
            let known = graph.rsplit(':').next();
            let run = json!({"assistant_id": known, "input": {}});
            let way = if *graph == "hangs" { "runs" } else { "runs/wait" };
            let answer = earlier.post(&format!("/threads/{thread}/{way}"), run).await;
            assert_eq!(answer.status, StatusCode::OK, "{}: {}", kind.name, answer.body);
        }
    }
    earlier.runtime.shutdown(Duration::ZERO).await.expect("stops");
    change(&store, "damaged", |whole| {
        for row in &mut whole.kept.checkpoints {
            row.body = vec![1; 7];
        }
    })
    .await;
    change(&store, "of another first byte", |whole| {
        for row in &mut whole.kept.checkpoints {
            row.body[0] = 250;
        }
    })
    .await;
    Client::over(now(Runtime::builder(store)).open().await.expect("opens"))
}

/// Changes what is stored of the thread of a kind.
async fn change(store: &Arc<dyn Store>, name: &str, edit: impl FnOnce(&mut ThreadExport)) {
    let kind = KINDS.iter().find(|kind| kind.name == name).expect("a kind");
    let id = ThreadId::new(id_of(kind)).expect("an id");
    let who = Principal::local();
    let mut whole = store.export_thread(&who, &id).await.expect("exports");
    edit(&mut whole);
    store.delete_thread(&who, &id).await.expect("deletes");
    store.import_thread(&who, whole).await.expect("imports");
}

/// Returns the threads of a search by their ids.
async fn found(client: &Client, body: Value) -> BTreeMap<String, Value> {
    let found = client.post("/threads/search", body).await.json();
    let found = found.as_array().expect("a list").iter();
    found.map(|one| (one["thread_id"].as_str().expect("an id").to_owned(), one.clone())).collect()
}

#[tokio::test]
async fn threads_that_cannot_be_read_are_listed_with_their_errors_among_the_others() {
    let client = client().await;
    let all = READABLE + KINDS.len();
    let listed = found(&client, json!({"limit": 1_000})).await;
    assert_eq!(listed.len(), all);
    assert_eq!(client.post("/threads/count", json!({})).await.json(), json!(all));
    let readable = listed.values().filter(|one| one["values"].is_object()).count();
    let unreadable = KINDS.iter().filter(|kind| kind.error.is_some()).count();
    assert_eq!(readable, all - unreadable);
    for kind in KINDS {
        let id = id_of(kind);
        let path = format!("/threads/{id}");
        let one = client.get(&path).await.json();
        assert_eq!(listed[&id], one, "{}", kind.name);
        let message = one["error"]["message"].as_str().unwrap_or_default();
        match kind.error {
            Some(error) => {
                assert!(one["values"].is_null(), "{}: {one}", kind.name);
                assert!(message.contains(error) && !message.is_empty(), "{}: {one}", kind.name);
                let refused = client.get(&format!("{path}/state")).await;
                assert!(refused.body.contains(message), "{}: {}", kind.name, refused.body);
            }
            None => assert_eq!(message, "", "{}", kind.name),
        }
        let changed = client.patch(&path, json!({"metadata": {"seen": true}})).await.json();
        assert_eq!(changed["metadata"]["seen"], true, "{}", kind.name);
        assert_eq!(changed["error"], one["error"], "{}", kind.name);
    }
    // Conditions on values and times are checked for the threads that can be read.
    let of_value = found(&client, json!({"values": {"msg": "7"}})).await;
    assert_eq!(of_value.len(), 1);
    let timed =
        found(&client, json!({"timed": true, "select": ["thread_id", "waits_until"]})).await;
    assert_eq!(timed.len(), 1, "{timed:?}");
    let seen = json!({"metadata": {"seen": true}});
    assert_eq!(client.post("/threads/count", seen).await.json(), json!(KINDS.len()));
}

#[tokio::test]
async fn a_history_has_each_checkpoint_by_its_own_graph_or_with_the_reason() {
    let client = client().await;
    for kind in KINDS {
        let path = format!("/threads/{}/history", id_of(kind));
        let history = client.post(&path, json!({"limit": 100})).await;
        if kind.error.is_some_and(|error| error.starts_with("no graph")) {
            assert!(history.body.contains("no graph"), "{}: {}", kind.name, history.body);
            continue;
        }
        let history = history.json();
        let history = history.as_array().expect("a list");
        assert!(!history.is_empty(), "{}", kind.name);
        for at in history {
            assert!(at["checkpoint_id"].is_string(), "{}: {at}", kind.name);
            assert_ne!(at["values"].is_null(), at["error"].is_null(), "{}: {at}", kind.name);
        }
    }
    let three = KINDS.iter().find(|kind| kind.name == "of three graphs").expect("a kind");
    let path = format!("/threads/{}", id_of(three));
    let history = client.get(&format!("{path}/history?limit=100")).await.json();
    let graphs: Vec<_> = history
        .as_array()
        .expect("a list")
        .iter()
        .map(|at| (at["metadata"]["graph_id"].as_str().expect("a graph"), at["error"].is_null()))
        .collect();
    let mut in_order = graphs.clone();
    in_order.dedup();
    assert_eq!(in_order, [("echo", true), ("removed", false), ("parent", true)]);
    for at in history.as_array().expect("a list") {
        let id = at["checkpoint_id"].as_str().expect("an id");
        let state = client.get(&format!("{path}/state/{id}")).await;
        assert_eq!(state.status.is_success(), at["error"].is_null(), "{}", state.body);
    }
}

#[tokio::test]
async fn threads_that_cannot_be_read_are_copied_and_deleted() {
    let client = client().await;
    for kind in KINDS {
        let path = format!("/threads/{}", id_of(kind));
        let is_busy = kind.graphs.contains(&"hangs");
        let copied = client.post(&format!("{path}/copy"), json!({})).await;
        let deleted = client.delete(&path).await;
        if is_busy {
            // Its run belongs to the process that hosts the graph.
            assert_eq!(copied.status, StatusCode::CONFLICT, "{}", copied.body);
            continue;
        }
        let copied = copied.json();
        let copy = format!("/threads/{}", copied["thread_id"].as_str().expect("an id"));
        let error = client.get(&copy).await.json()["error"]["message"].clone();
        assert_eq!(error.is_string(), kind.error.is_some(), "{}: {error}", kind.name);
        assert_eq!(deleted.status, StatusCode::NO_CONTENT, "{}: {}", kind.name, deleted.body);
        assert_eq!(client.get(&path).await.status, StatusCode::NOT_FOUND, "{}", kind.name);
    }
    assert_eq!(
        client.post("/threads/count", json!({})).await.json(),
        json!(READABLE + KINDS.len()),
        "a copy of each, and the one whose run has not ended"
    );
}
