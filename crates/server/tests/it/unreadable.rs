//! Threads that this build cannot read, among others.

#[path = "../../../../examples/reference_server/changed.rs"]
mod changed;

use crate::client::Client;
use crate::graphs;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::LazyLock;
use std::time::Duration;
use weftwork_runtime::Runtime;
use weftwork_store::{MemoryStore, Store, ThreadExport};
use weftwork_types::{Principal, ThreadId};

/// Number of threads that can be read.
const READABLE: usize = 100;

/// A kind of threads.
#[derive(serde::Deserialize)]
struct Kind {
    name: String,
    /// The graphs that run on it, one after the other.
    graphs: Vec<String>,
    /// Part of this build's error; `None` if the newest state can be read.
    error: Option<String>,
}

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let kinds = include_str!("../../../../examples/reference_server/changed.json");
    serde_json::from_str(kinds).expect("kinds")
});

fn id_of(kind: &Kind) -> String {
    uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, kind.name.as_bytes()).to_string()
}

/// Writes all threads with the earlier build, and returns a client of this one.
async fn client() -> Client {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let builder = Runtime::builder(Arc::clone(&store));
    let earlier = Client::over(
        changed::before(graphs::host(builder)).expect("sound").open().await.expect("opens"),
    );
    for number in 0..READABLE {
        let thread = earlier.thread().await;
        let run = json!({"assistant_id": "echo", "input": {"msg": format!("{number}")}});
        earlier.post(&format!("{thread}/runs/wait"), run).await.json();
    }
    for kind in KINDS.iter() {
        let thread = id_of(kind);
        earlier.post("/threads", json!({"thread_id": thread})).await.json();
        for graph in &kind.graphs {
            let known = graph.rsplit(':').next();
            let run = json!({"assistant_id": known, "input": {}});
            let way = if graph == "hangs" { "runs" } else { "runs/wait" };
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
    Client::over(
        changed::now(graphs::host(Runtime::builder(store)))
            .expect("sound")
            .open()
            .await
            .expect("opens"),
    )
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
    for kind in KINDS.iter() {
        let id = id_of(kind);
        let path = format!("/threads/{id}");
        let one = client.get(&path).await.json();
        assert_eq!(listed[&id], one, "{}", kind.name);
        let message = one["error"]["message"].as_str().unwrap_or_default();
        match &kind.error {
            Some(error) => {
                assert!(one["values"].is_null(), "{}: {one}", kind.name);
                assert!(
                    message.contains(error.as_str()) && !message.is_empty(),
                    "{}: {one}",
                    kind.name
                );
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
    for kind in KINDS.iter() {
        let path = format!("/threads/{}/history", id_of(kind));
        let history = client.post(&path, json!({"limit": 100})).await;
        if kind.error.as_ref().is_some_and(|error| error.starts_with("no graph")) {
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
    for kind in KINDS.iter() {
        let path = format!("/threads/{}", id_of(kind));
        let is_busy = kind.graphs.iter().any(|graph| graph == "hangs");
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
