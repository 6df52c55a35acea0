//! Assistants, items, deleted runs, delayed runs, and principals.

use crate::client::{Client, token, with_tokens};
use crate::graphs;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use weftwork_runtime::Runtime;
use weftwork_schema::{Checker, Quotes};
use weftwork_server::{LogEntry, Server};
use weftwork_store::Store;
use weftwork_store::memory::MemoryStore;

fn id(value: &Value, name: &str) -> String {
    value[name].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn metadata_of_the_runtime_is_reserved() {
    let client = Client::new().await;
    let thread = client.thread().await;
    let reserved = json!({"metadata": {"a": "b", "weft:instance": true}});
    let refused =
        [client.post("/threads", reserved.clone()).await, client.patch(&thread, reserved).await];
    for answer in refused {
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(answer.body.contains("`weft:instance`"), "{}", answer.body);
    }
    assert_eq!(client.get(&thread).await.json()["metadata"]["a"], Value::Null);
}

#[tokio::test]
async fn a_body_has_a_limited_number_of_values() {
    let client = Client::new().await;
    let item =
        |numbers: usize| json!({"namespace": ["a"], "key": "k", "value": {"n": vec![1; numbers]}});
    // Beside the numbers: the object, the namespace with its element, the key, the value, the list.
    let allowed = client.put("/store/items", item(100_000 - 6)).await;
    assert_eq!(allowed.status, StatusCode::NO_CONTENT, "{}", allowed.body);
    let messages = vec![json!({"role": "user", "content": "hi"}); 500_000];
    let run = json!({"assistant_id": "echo", "input": {"messages": messages}});
    for refused in
        [client.put("/store/items", item(100_000 - 5)).await, client.post("/runs/wait", run).await]
    {
        assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
        let expected = "the request has too many JSON values; expected at most 100000";
        assert!(refused.body.contains(expected), "{}", refused.body);
    }
}

#[tokio::test]
async fn an_assistant_gives_its_runs_settings_and_its_versions_stay() {
    let client = Client::new().await;
    let body = json!({
        "graph_id": "echo", "name": "first", "metadata": {"team": "a"},
        "config": {"configurable": {"tone": "dry"}, "recursion_limit": 9},
    });
    let made = client.post("/assistants", body).await.json();
    let assistant = id(&made, "assistant_id");
    let path = format!("/assistants/{assistant}");
    let change = json!({"name": "second", "context": {"tone": "warm"}});
    assert_eq!(client.patch(&path, change).await.json()["version"], 2);
    let thread = client.thread().await;
    let run = json!({"assistant_id": assistant, "input": {"msg": "a"}});
    let run = client.post(&format!("{thread}/runs"), run).await.json();
    let wait = format!("{thread}/runs/{}/join", id(&run, "run_id"));
    assert_eq!(client.get(&wait).await.json()["out"], "echo:a");
    assert_eq!(run["kwargs"]["context"], json!({"tone": "warm"}));
    assert_eq!(run["kwargs"]["config"]["recursion_limit"], 9);
    assert_eq!(run["metadata"]["team"], "a");
    assert_eq!(run["assistant_id"], json!(assistant));
    let of_it = json!({"metadata": {"assistant_id": assistant}});
    assert_eq!(client.post("/threads/count", of_it.clone()).await.json(), 1);
    let of_graph = json!({"metadata": {"graph_id": "echo"}});
    assert_eq!(client.post("/threads/count", of_graph).await.json(), 1);
    let latest = client.post(&format!("{path}/latest"), json!({"version": 1})).await.json();
    assert_eq!((&latest["name"], &latest["version"]), (&json!("first"), &json!(1)));
    let missing = client.post(&format!("{path}/latest"), json!({"version": 3})).await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    let found = json!({"metadata": {"team": "a"}, "sort_by": "name", "limit": 1});
    let found = client.post("/assistants/search", found).await;
    assert_eq!(found.headers["x-pagination-total"], "1");
    assert_eq!(found.json()[0]["assistant_id"], json!(assistant));
    let gone = client.delete(&format!("{path}?delete_threads=true")).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    assert_eq!(client.get(&path).await.status, StatusCode::NOT_FOUND);
    assert_eq!(client.post("/threads/count", of_it).await.json(), 0);
    assert_eq!(client.get(&thread).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_assistants_of_hosted_graphs_do_not_change() {
    let client = Client::new().await;
    let found = client.post("/assistants/search", json!({"graph_id": "echo"})).await.json();
    let path = format!("/assistants/{}", id(&found[0], "assistant_id"));
    assert_eq!(client.patch(&path, json!({"name": "x"})).await.status, StatusCode::FORBIDDEN);
    assert_eq!(client.delete(&path).await.status, StatusCode::FORBIDDEN);
    let subgraphs = client.post("/assistants/search", json!({"graph_id": "parent"})).await.json();
    let path = format!("/assistants/{}/subgraphs", id(&subgraphs[0], "assistant_id"));
    assert_eq!(client.get(&path).await.json()["sub"]["graph_id"], "echo");
    assert_eq!(client.get(&format!("{path}/none")).await.json(), json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_run_is_pending_until_its_time() {
    let client = Client::new().await;
    let thread = client.thread().await;
    let body = json!({"assistant_id": "echo", "input": {"msg": "late"}, "after_seconds": 60});
    let run = client.post(&format!("{thread}/runs"), body).await.json();
    assert_eq!(run["kwargs"]["config"]["configurable"]["__after_seconds__"], 60);
    let path = format!("{thread}/runs/{}", id(&run, "run_id"));
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(client.get(&path).await.json()["status"], "pending");
    assert_eq!(client.get(&thread).await.json()["status"], "busy");
    let end = client.get(&format!("{path}/join")).await.json();
    assert_eq!(end, json!({"msg": "late", "out": "echo:late", "n": 1}));
    assert_eq!(client.get(&path).await.json()["status"], "success");
}

#[tokio::test]
async fn a_deleted_run_is_not_returned_and_its_effect_stays() {
    let client = Client::new().await;
    let thread = client.thread().await;
    let wait = format!("{thread}/runs/wait");
    client.post(&wait, json!({"assistant_id": "echo", "input": {"msg": "a"}})).await.json();
    let runs = client.get(&format!("{thread}/runs")).await.json();
    let path = format!("{thread}/runs/{}", id(&runs[0], "run_id"));
    assert_eq!(client.delete(&path).await.status, StatusCode::NO_CONTENT);
    assert_eq!(client.delete(&path).await.status, StatusCode::NOT_FOUND);
    assert_eq!(client.get(&path).await.status, StatusCode::NOT_FOUND);
    assert_eq!(client.get(&format!("{path}/stream")).await.status, StatusCode::NOT_FOUND);
    assert_eq!(client.get(&format!("{thread}/runs")).await.json(), json!([]));
    let next = json!({"assistant_id": "echo", "input": {"msg": "b"}});
    assert_eq!(client.post(&wait, next).await.json()["n"], 2);
    let stuck = json!({"assistant_id": "stuck", "input": {}});
    let active = client.post(&format!("{thread}/runs"), stuck).await.json();
    let path = format!("{thread}/runs/{}", id(&active, "run_id"));
    assert_eq!(client.delete(&path).await.status, StatusCode::CONFLICT);
    let all = client.post("/runs/cancel", json!({"status": "all"})).await;
    assert_eq!(all.status, StatusCode::NO_CONTENT);
    client.get(&format!("{path}/join")).await.json();
    assert_eq!(client.get(&path).await.json()["status"], "interrupted");
}

#[tokio::test]
async fn a_thread_that_is_deleted_ends_its_runs() {
    let client = Client::new().await;
    let thread = client.thread().await;
    let run = json!({"assistant_id": "stuck", "input": {}, "multitask_strategy": "enqueue"});
    for _ in 0..2 {
        client.post(&format!("{thread}/runs"), run.clone()).await.json();
    }
    let deleted = client.delete(&thread).await;
    assert_eq!(deleted.status, StatusCode::NO_CONTENT, "{}", deleted.body);
    assert_eq!(client.get(&thread).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn a_thread_whose_run_has_no_worker_is_not_deleted() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime =
        async || graphs::host(Runtime::builder(Arc::clone(&store))).open().await.expect("opens");
    let died = Client::over(runtime().await);
    let thread = died.thread().await;
    let body = json!({"assistant_id": "stuck", "input": {}});
    died.post(&format!("{thread}/runs"), body).await.json();
    died.runtime.shutdown(Duration::ZERO).await.expect("stops");
    let client = Client::over(runtime().await);
    let refused = client.delete(&thread).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.body);
    assert_eq!(client.get(&thread).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_thread_begins_with_supersteps() {
    let client = Client::new().await;
    let step = |values, as_node| json!({"updates": [{"values": values, "as_node": as_node}]});
    let body = json!({
        "metadata": {"graph_id": "inter"},
        "supersteps": [step(json!({"q": "copied?"}), "__start__"), step(json!({"answer": "y"}), "ask")],
    });
    let made = client.post("/threads", body).await.json();
    let thread = format!("/threads/{}", id(&made, "thread_id"));
    let state = client.get(&format!("{thread}/state")).await.json();
    assert_eq!(state["values"], json!({"q": "copied?", "answer": "y"}));
    assert_eq!(state["next"], json!(["done"]));
    let run = json!({"assistant_id": "inter", "input": null});
    let end = client.post(&format!("{thread}/runs/wait"), run).await.json();
    assert_eq!(end["note"], "done:y");
}

/// A client of a server with tokens, over the store of others.
pub(crate) fn with_token(runtime: &Runtime) -> (Client, [String; 2]) {
    let server = with_tokens(Server::new(runtime.clone()));
    let client = Client::of(server, runtime.clone());
    (client, ["one", "two"].map(token))
}

#[tokio::test]
async fn each_request_is_of_the_principal_of_its_token() {
    let runtime = Client::new().await.runtime;
    let (client, tokens) = with_token(&runtime);
    let [one, two] = [tokens[0].as_str(), tokens[1].as_str()];
    let send = async |token: Option<&str>, method: &str, path: &str, body: Value| {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if let Some(token) = token {
            request = request.header("x-api-key", token);
        }
        client.send(request.body(Body::from(body.to_string())).expect("a request")).await
    };
    assert_eq!(send(None, "POST", "/threads", json!({})).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(send(Some("x"), "GET", "/info", json!({})).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(send(None, "GET", "/ok", json!({})).await.status, StatusCode::OK);
    let made = send(Some(one), "POST", "/threads", json!({})).await.json();
    let thread = format!("/threads/{}", id(&made, "thread_id"));
    let run = json!({"assistant_id": "echo", "input": {"msg": "secret"}});
    let run = send(Some(one), "POST", &format!("{thread}/runs/wait"), run).await;
    assert_eq!(run.json()["out"], "echo:secret");
    let run = run.headers["content-location"].to_str().expect("text").to_owned();
    let made = send(Some(one), "POST", "/assistants", json!({"graph_id": "echo"})).await.json();
    let assistant = format!("/assistants/{}", id(&made, "assistant_id"));
    let item = json!({"namespace": ["a"], "key": "k", "value": {"secret": 1}});
    send(Some(one), "PUT", "/store/items", item).await;
    for path in [thread.clone(), run.clone(), assistant, format!("{thread}/state")] {
        assert_eq!(send(Some(one), "GET", &path, json!({})).await.status, StatusCode::OK, "{path}");
        let foreign = send(Some(two), "GET", &path, json!({})).await;
        assert_eq!(foreign.status, StatusCode::NOT_FOUND, "{path}");
    }
    let run = run.rsplit('/').next().expect("an id");
    let stream = format!("/runs/{run}/stream");
    assert_eq!(send(Some(two), "GET", &stream, json!({})).await.status, StatusCode::NOT_FOUND);
    for (path, body) in [
        ("/threads/search", json!({})),
        ("/assistants/search", json!({"name": "echo", "metadata": {}})),
        ("/store/items/search", json!({"namespace_prefix": []})),
    ] {
        let mine = send(Some(one), "POST", path, body.clone()).await.body;
        let theirs = send(Some(two), "POST", path, body).await.body;
        assert!(mine.len() > theirs.len() && !theirs.contains("secret"), "{path}: {theirs}");
    }
    let missing = send(Some(two), "GET", "/store/items?namespace=a&key=k", json!({})).await;
    assert_eq!(missing.json(), Value::Null);
}

#[tokio::test]
async fn the_schemas_of_a_typed_graph_fit_its_states() {
    let client = Client::over(crate::reference::runtime().await);
    let schemas = client.get("/assistants/agent/schemas").await.json();
    assert_eq!(schemas["graph_id"], "agent");
    let thread = client.thread().await;
    let input = json!({"messages": [{"type": "human", "content": "2+3?", "id": "q"}]});
    let run = json!({"assistant_id": "agent", "input": input});
    client.post(&format!("{thread}/runs/wait"), run).await.json();
    let state = client.get(&format!("{thread}/state")).await.json();
    assert_eq!(state["values"]["messages"].as_array().map(Vec::len), Some(4));
    for (name, value) in [
        ("state_schema", &state["values"]),
        ("output_schema", &state["values"]),
        ("input_schema", &input),
    ] {
        let checker = Checker::compile(&schemas[name]).expect("a schema");
        assert_eq!(checker.check(value, Quotes::Values), Ok(()), "{name}");
        for wrong in [json!({"messages": "hi"}), json!({"messages": [{"type": "robot"}]})] {
            assert!(checker.check(&wrong, Quotes::Values).is_err(), "{name}: {wrong}");
        }
    }
    assert_eq!(schemas["context_schema"], Value::Null);
}

#[tokio::test]
async fn answered_requests_and_runs_are_logged() {
    let (send, mut entries) = tokio::sync::mpsc::unbounded_channel();
    let runtime = Client::new().await.runtime;
    let server = Server::new(runtime.clone()).log(move |entry| drop(send.send(entry)));
    let client = Client::of(server, runtime);
    let thread = client.thread().await;
    let run = json!({"assistant_id": "inter", "input": {"q": "a"}});
    client.post(&format!("{thread}/runs/wait?token=secret"), run).await.json();
    // The page asks for the questions, and its person answers.
    let request = Request::get("/interrupts").header("host", "localhost");
    let request = request.header("sec-fetch-site", "same-origin");
    let open = client.send(request.body(Body::empty()).expect("a request")).await.json();
    let question = format!("/interrupts/{}/respond", id(&open[0], "id"));
    client.post(&question, json!({"answer": "yes"})).await.json();
    let mut found = Vec::new();
    while found.len() < 8 {
        found.push(match entries.recv().await.expect("entries") {
            LogEntry::Answered { from_page: true, method, path, status, .. } => {
                format!("the page: {method} {path} {status}")
            }
            LogEntry::Answered { method, path, status, .. } => format!("{method} {path} {status}"),
            LogEntry::RunBegun { run, graph } => format!("begun {graph} {}", run.thread),
            LogEntry::RunEnded { run, status, .. } => format!("{status:?} {}", run.thread),
            other => format!("{other:?}"),
        });
    }
    found.sort();
    let id = thread.rsplit('/').next().expect("an id");
    let expected = [
        format!("Completed {id}"),
        format!("Interrupted {id}"),
        format!("POST {question} 202"),
        "POST /threads 200".to_owned(),
        format!("POST {thread}/runs/wait 200"),
        format!("begun inter {id}"),
        format!("begun inter {id}"),
        "the page: GET /interrupts 200".to_owned(),
    ];
    assert_eq!(found, expected);
}
