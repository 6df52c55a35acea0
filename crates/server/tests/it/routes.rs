use crate::client::Client;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;

fn detail(body: &str) -> Value {
    serde_json::from_str::<Value>(body).expect("JSON")["detail"].clone()
}

#[tokio::test]
async fn graphs_are_assistants() {
    let client = Client::new().await;
    let found = client.post("/assistants/search", json!({"limit": 2})).await;
    assert_eq!(found.headers["x-pagination-total"], "6");
    assert_eq!(found.headers["x-pagination-next"], "2");
    assert_eq!(found.json().as_array().map(Vec::len), Some(2));
    assert_eq!(client.post("/assistants/count", json!({})).await.json(), json!(6));
    for order in [json!({}), json!({"sort_by": "created_at", "sort_order": "asc"})] {
        let found = client.post("/assistants/search", order).await.json();
        let found = found.as_array().expect("a list").iter();
        let names: Vec<_> = found.map(|one| one["name"].as_str().expect("a name")).collect();
        assert!(names.len() == 6 && names.is_sorted(), "{names:?}");
    }
    let echo = client.get("/assistants/046b5dc7-2108-582c-9c6c-31d556d138f0").await.json();
    assert_eq!((&echo["graph_id"], &echo["version"]), (&json!("echo"), &json!(1)));
    let refused = client.get("/assistants/echo").await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(detail(&refused.body), "Invalid assistant ID: must be a UUID");
    let parent = client.get("/assistants/parent/graph?xray=1").await.json();
    assert_eq!(
        parent["edges"],
        json!([
            {"source": "__start__", "target": "pre"},
            {"source": "pre", "target": "sub:echo"},
            {"source": "sub:echo", "target": "__end__"},
        ])
    );
}

#[tokio::test]
async fn threads_are_created_found_changed_and_deleted() {
    let client = Client::new().await;
    let made = client.post("/threads", json!({"metadata": {"u": "1"}})).await.json();
    assert_eq!((&made["status"], &made["values"]), (&json!("idle"), &Value::Null));
    let id = made["thread_id"].as_str().expect("an id");
    let again = client.post("/threads", json!({"thread_id": id})).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    assert_eq!(detail(&again.body), format!("Thread with ID {id} already exists"));
    let kept = json!({"thread_id": id, "if_exists": "do_nothing"});
    assert_eq!(client.post("/threads", kept).await.json()["thread_id"], id);
    let path = format!("/threads/{id}");
    let changed = client.patch(&path, json!({"metadata": {"a": "b"}})).await.json();
    assert_eq!(changed["metadata"], json!({"u": "1", "a": "b"}));
    let found = client.post("/threads/search", json!({"metadata": {"a": "b"}})).await.json();
    assert_eq!(found[0]["thread_id"], id);
    assert_eq!(client.post("/threads/count", json!({})).await.json(), json!(1));
    assert_eq!(client.get(&format!("{path}/state")).await.json()["values"], json!({}));
    assert_eq!(client.delete(&path).await.status, StatusCode::NO_CONTENT);
    let missing = client.get(&path).await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    assert_eq!(detail(&missing.body), format!("Thread with ID {id} not found"));
}

#[tokio::test]
async fn a_run_is_waited_for_and_its_end_is_read() {
    let client = Client::new().await;
    let thread = client.thread().await;
    let wait = format!("{thread}/runs/wait");
    let ended = client.post(&wait, json!({"assistant_id": "echo", "input": {"msg": "hi"}})).await;
    assert_eq!(ended.json(), json!({"msg": "hi", "out": "echo:hi", "n": 1}));
    let at = ended.headers["content-location"].to_str().expect("text").to_owned();
    assert!(at.starts_with(&format!("{thread}/runs/")));
    assert_eq!(ended.headers["location"], format!("{at}/join"));
    assert_eq!(client.get(&at).await.json()["status"], "success");
    let joined = client.get(&format!("{at}/join")).await.json();
    assert_eq!(joined["out"], "echo:hi");
    let failed =
        client.post(&wait, json!({"assistant_id": "failing", "input": {"msg": "x"}})).await;
    assert_eq!(failed.json(), json!({"__error__": {"error": "ValueError", "message": "boom!"}}));
    let thread_row = client.get(&thread).await.json();
    assert_eq!(thread_row["status"], "error");
    assert_eq!(thread_row["error"], json!({"error": "ValueError", "message": "boom!"}));
}

#[tokio::test(start_paused = true)]
async fn the_thread_of_a_stateless_wait_stays_for_a_minute() {
    let client = Client::new().await;
    let alone = json!({"assistant_id": "echo", "input": {"msg": "hi"}});
    assert_eq!(client.post("/runs/wait", alone).await.json()["n"], 1);
    assert_eq!(client.post("/threads/count", json!({})).await.json(), json!(1));
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(client.post("/threads/count", json!({})).await.json(), json!(0));
}

#[tokio::test]
async fn a_question_is_asked_and_answered() {
    let client = Client::new().await;
    let thread = client.thread().await;
    let wait = format!("{thread}/runs/wait");
    let asked = client.post(&wait, json!({"assistant_id": "inter", "input": {"q": "ok?"}})).await;
    let asked = asked.json();
    let question = &asked["__interrupt__"][0];
    assert_eq!(question["value"], json!({"question": "approve?", "q": "ok?"}));
    assert_eq!(question["id"].as_str().map(str::len), Some(32));
    let row = client.get(&thread).await.json();
    assert_eq!(row["status"], "interrupted");
    let state = client.get(&format!("{thread}/state")).await.json();
    assert_eq!((&state["next"], &state["values"]), (&json!(["ask"]), &json!({"q": "ok?"})));
    assert_eq!(state["tasks"][0]["path"], json!(["__pregel_pull", "ask"]));
    let task = state["tasks"][0]["id"].as_str().expect("an id");
    assert_eq!(row["interrupts"][task][0]["id"], question["id"]);
    let answer = json!({"assistant_id": "inter", "command": {"resume": "yes"}});
    let ended = client.post(&wait, answer).await.json();
    assert_eq!(ended, json!({"q": "ok?", "answer": "yes", "note": "done:yes"}));
    let history = client.get(&format!("{thread}/history?limit=10")).await.json();
    let steps: Vec<_> = history
        .as_array()
        .expect("a list")
        .iter()
        .map(|at| at["metadata"]["step"].as_i64().expect("a step"))
        .collect();
    assert_eq!(steps, [2, 1, 0, -1]);
    let alone = json!({"assistant_id": "inter", "command": {"resume": "yes"}});
    assert_eq!(client.post("/runs/wait", alone).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_run_is_streamed_and_continued_after_its_last_event() {
    let client = Client::new().await;
    let thread = client.thread().await;
    let run = json!({
        "assistant_id": "parent", "input": {"msg": "x"},
        "stream_mode": ["values", "updates"], "stream_subgraphs": true,
    });
    let streamed = client.post(&format!("{thread}/runs/stream"), run).await;
    assert_eq!(streamed.headers["content-type"], "text/event-stream; charset=utf-8");
    assert_eq!(
        streamed.names(),
        [
            "metadata",
            "values",
            "updates",
            "values",
            "values|sub",
            "updates|sub",
            "values|sub",
            "updates",
            "values",
            "end"
        ]
    );
    let events = streamed.events();
    let ids: Vec<_> = events.iter().filter_map(|event| event.2.clone()).collect();
    assert_eq!(ids.len(), 9, "all but end");
    assert_eq!(ids[0], "0-0", "a client that received only metadata continues with all frames");
    let location = streamed.headers["location"].to_str().expect("text");
    for (seen, id) in ids.iter().enumerate() {
        let request =
            Request::get(location).header("host", "localhost").header("last-event-id", id);
        let rest = client.send(request.body(Body::empty()).expect("a request")).await.events();
        assert_eq!(rest, events[seen + 1..], "after {id}");
    }
}

#[tokio::test]
async fn a_failure_and_progress_are_streamed() {
    let client = Client::new().await;
    let thread = client.thread().await;
    let stream = format!("{thread}/runs/stream");
    let failed = client.post(&stream, json!({"assistant_id": "failing", "input": {}})).await;
    let last = failed.events().pop().expect("events");
    assert_eq!(last.0, "error");
    assert_eq!(last.1, json!({"error": "ValueError", "message": "boom!"}));
    let thread = client.thread().await;
    let slow = json!({"assistant_id": "slow", "input": {"steps": 2}, "stream_mode": "custom"});
    let slow = client.post(&format!("{thread}/runs/stream"), slow).await;
    let progress: Vec<_> = slow.events().into_iter().map(|event| event.1).collect();
    assert_eq!(progress[1..3], [json!({"progress": 0}), json!({"progress": 1})]);
    assert_eq!(slow.names(), ["metadata", "custom", "custom", "end"]);
    // A client that joins the run and names no modes gets those of its request.
    let runs = format!("{thread}/runs");
    let run = client.get(&runs).await.json()[0]["run_id"].as_str().expect("an id").to_owned();
    let request = Request::get(format!("{runs}/{run}/stream")).header("host", "localhost");
    let request = request.header("last-event-id", "-1");
    let joined = client.send(request.body(Body::empty()).expect("a request")).await;
    assert_eq!(joined.names(), ["metadata", "custom", "custom", "end"], "{}", joined.body);
}

#[tokio::test]
async fn a_busy_thread_refuses_queues_or_interrupts() {
    let client = Client::new().await;
    let thread = client.thread().await;
    let runs = format!("{thread}/runs");
    let first = client.post(&runs, json!({"assistant_id": "stuck", "input": {}})).await.json();
    let reject = json!({"assistant_id": "echo", "input": {}, "multitask_strategy": "reject"});
    let refused = client.post(&runs, reject).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert_eq!(client.get(&thread).await.json()["status"], "busy");
    let next = json!({
        "assistant_id": "stuck", "input": {"msg": "go"}, "multitask_strategy": "interrupt",
    });
    assert_eq!(client.post(&format!("{runs}/wait"), next).await.json()["out"], "went");
    let first = format!("{runs}/{}", first["run_id"].as_str().expect("an id"));
    assert_eq!(client.get(&first).await.json()["status"], "interrupted");
}

#[tokio::test]
async fn a_run_is_cancelled_and_rolled_back() {
    let client = Client::new().await;
    let thread = client.thread().await;
    let runs = format!("{thread}/runs");
    let echo = json!({"assistant_id": "echo", "input": {}});
    client.post(&format!("{runs}/wait"), echo).await.json();
    let stuck = json!({"assistant_id": "stuck", "input": {"msg": "lost"}});
    let made = client.post(&runs, stuck).await.json();
    let run = format!("{runs}/{}", made["run_id"].as_str().expect("an id"));
    let cancelled =
        client.post(&format!("{run}/cancel?wait=true&action=rollback"), json!({})).await;
    assert_eq!(cancelled.json(), json!({}));
    assert_eq!(client.get(&run).await.status, StatusCode::NOT_FOUND);
    let state = client.get(&format!("{thread}/state")).await.json();
    assert_eq!(state["values"], json!({"out": "echo:", "n": 1}));
}

#[tokio::test]
async fn a_drain_cuts_streams_and_waits_and_both_name_where_to_go_on() {
    let client = Client::new().await;
    let stuck = json!({"assistant_id": "stuck", "input": {}});
    let mut ends = Vec::new();
    for how in ["stream", "wait"] {
        let path = format!("{}/runs/{how}", client.thread().await);
        let client = client.clone();
        let stuck = stuck.clone();
        ends.push(tokio::spawn(async move { client.post(&path, stuck).await }));
    }
    let busy = json!({"status": "busy"});
    while client.post("/threads/count", busy.clone()).await.json() != 2 {
        tokio::task::yield_now().await;
    }
    client.runtime.shutdown(Duration::ZERO).await.expect("shuts down");
    let wait = ends.pop().expect("two").await.expect("ends");
    assert!(wait.cut, "{}", wait.body);
    assert!(wait.headers["location"].to_str().expect("text").ends_with("/join"));
    let stream = ends.pop().expect("one").await.expect("ends");
    assert_eq!(stream.status, StatusCode::OK);
    let last = stream.names().pop().expect("events");
    assert!(last != "end" && last != "error", "{}", stream.body);
}

#[tokio::test]
async fn a_state_is_changed_and_a_run_forks_from_a_checkpoint() {
    let client = Client::new().await;
    let thread = client.thread().await;
    let wait = format!("{thread}/runs/wait");
    client.post(&wait, json!({"assistant_id": "echo", "input": {"msg": "a"}})).await.json();
    let state = format!("{thread}/state");
    let before = client.get(&state).await.json();
    let change = json!({"values": {"msg": "patched"}, "as_node": "echo"});
    let changed = client.post(&state, change).await.json();
    let now = client.get(&state).await.json();
    assert_eq!(now["checkpoint_id"], changed["checkpoint_id"]);
    assert_eq!(now["values"]["msg"], "patched");
    let unknown = json!({"values": {}, "as_node": "bogus"});
    let refused = client.post(&state, unknown).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert_eq!(detail(&refused.body), "Node bogus does not exist");
    let fork = json!({
        "assistant_id": "echo", "input": {"msg": "b"},
        "checkpoint": {"checkpoint_id": before["checkpoint_id"]},
    });
    assert_eq!(client.post(&wait, fork).await.json(), json!({"msg": "b", "out": "echo:b", "n": 2}));
    let old = before["checkpoint_id"].as_str().expect("an id");
    let at = client.get(&format!("{state}/{old}")).await.json();
    assert_eq!(at["values"], before["values"]);
    let place = json!({"checkpoint": {"checkpoint_id": old}});
    let at = client.post(&format!("{state}/checkpoint"), place).await.json();
    assert_eq!(at["values"], before["values"]);
    let copy = client.post(&format!("{thread}/copy"), json!({})).await.json();
    let copied = format!("/threads/{}/state", copy["thread_id"].as_str().expect("an id"));
    assert_eq!(client.get(&copied).await.json()["values"]["msg"], "b");
}

#[tokio::test]
async fn requests_that_do_not_fit_are_refused() {
    let client = Client::new().await;
    let thread = client.thread().await;
    let wait = format!("{thread}/runs/wait");
    let none = "/threads/00000000-0000-0000-0000-000000000000/runs/wait";
    for (path, body, status, says) in [
        (wait.as_str(), "{bad json", 422, "Invalid JSON in request body"),
        (&wait, r#"{"input": {}}"#, 422, "assistant_id"),
        (&wait, r#"{"assistant_id": "nope"}"#, 422, "Invalid assistant: 'nope'"),
        (&wait, r#"{"assistant_id": "echo", "durability": "bogus"}"#, 422, "bogus"),
        (
            &wait,
            r#"{"assistant_id": "echo", "input": {}, "after_seconds": -5}"#,
            422,
            "after_seconds",
        ),
        (none, r#"{"assistant_id": "echo", "input": {}}"#, 404, "Thread or assistant not found."),
        ("/nope", "{}", 404, "Not Found"),
    ] {
        let refused = client.post_text(path, body).await;
        assert_eq!(refused.status.as_u16(), status, "{body}: {}", refused.body);
        let detail = detail(&refused.body);
        assert!(detail.as_str().is_some_and(|text| text.contains(says)), "{body}: {detail}");
    }
    let source = json!({"metadata": {"source": "bogus"}});
    let refused = client.post(&format!("{thread}/history"), source).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    let nothing = client.post(&wait, json!({"assistant_id": "echo", "input": null})).await;
    assert_eq!(nothing.status, StatusCode::BAD_REQUEST, "{}", nothing.body);
    let mode = json!({"assistant_id": "echo", "input": {}, "stream_mode": "bogus"});
    let refused = client.post(&format!("{thread}/runs/stream"), mode).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(client.get(&format!("{thread}/runs")).await.json(), json!([]), "nothing began");
}

#[tokio::test]
async fn other_hosts_and_origins_are_refused() {
    let client = Client::new().await;
    for (header, value) in [("host", "evil.example"), ("origin", "http://evil.example")] {
        let mut request = Request::get("/info").header(header, value);
        if header == "origin" {
            request = request.header("host", "localhost");
        }
        let refused = client.send(request.body(Body::empty()).expect("a request")).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{header}");
    }
    let preflight = Request::options("/threads")
        .header("host", "localhost:8123")
        .header("origin", "http://localhost:3000")
        .header("access-control-request-headers", "content-type, x-trace-of-a-front-end")
        .body(Body::empty());
    let allowed = client.send(preflight.expect("a request")).await;
    assert_eq!(allowed.status, StatusCode::NO_CONTENT);
    let headers = &allowed.headers["access-control-allow-headers"];
    assert_eq!(headers, "content-type, x-trace-of-a-front-end");
    assert_eq!(allowed.headers["access-control-allow-origin"], "http://localhost:3000");
    assert!(
        allowed.headers["access-control-expose-headers"]
            .to_str()
            .is_ok_and(|exposed| exposed.contains("content-location"))
    );
}

#[tokio::test]
async fn a_preflight_that_names_no_headers_is_told_those_that_the_operator_allows() {
    let runtime = crate::graphs::runtime().await;
    let server = weftwork_server::Server::new(runtime.clone());
    let server = server.allow_header(weftwork_server::HeaderName::from_static("x-tenant"));
    let client = Client::of(server, runtime);
    let preflight = |asked: Option<&str>| {
        let mut request = Request::builder().method("OPTIONS").uri("/threads");
        request = request.header("host", "localhost").header("origin", "http://localhost:3000");
        if let Some(asked) = asked {
            request = request.header("access-control-request-headers", asked);
        }
        client.send(request.body(Body::empty()).expect("a request"))
    };
    let allowed = preflight(None).await;
    let lists = allowed.headers.get_all("access-control-allow-headers").iter();
    let lists: Vec<&str> = lists.map(|list| list.to_str().expect("ASCII")).collect();
    let names = lists.join(", ");
    assert!(names.ends_with(", x-tenant") && names.contains("authorization"), "{names}");
    let asked = preflight(Some("x-other")).await;
    assert_eq!(asked.headers["access-control-allow-headers"], "x-other");
    let varies: Vec<_> = asked.headers.get_all("vary").iter().collect();
    assert!(varies.iter().any(|vary| *vary == "Access-Control-Request-Headers"), "{varies:?}");
}
