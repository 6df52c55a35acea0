//! Settings and reports of runs.

use crate::client::Client;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use weftwork::prelude::*;
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::tools::ToolContext;
use weftwork_graph::channel::Append;
use weftwork_graph::{ChannelDef, DynUpdate, Dynamic};
use weftwork_runtime::Runtime;
use weftwork_types::event::AiEvent;
use weftwork_types::{Principal, RunId, ThreadId};

/// A graph of four nodes beside each other, which count how many of them run at once.
fn crowd(running: &Arc<AtomicUsize>, most: &Arc<AtomicUsize>) -> CompiledGraph {
    let mut graph = Graph::dynamic("crowd", vec![ChannelDef::new("log", Append::<Value>::new())]);
    for name in ["a", "b", "c", "d"] {
        let running = Arc::clone(running);
        let most = Arc::clone(most);
        let run = move |_: State<Dynamic>| {
            let running = Arc::clone(&running);
            let most = Arc::clone(&most);
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                running.fetch_sub(1, Ordering::SeqCst);
                DynUpdate::new().write("log", json!([name]))
            }
        };
        graph = graph.node(name, run).edge(START, name);
    }
    graph.build().expect("sound")
}

#[tokio::test]
async fn no_more_tasks_run_at_once_than_the_config_allows() {
    for (config, expected) in [
        (json!({}), 4),
        (json!({"max_concurrency": null}), 4),
        (json!({"max_concurrency": 2}), 2),
        (json!({"max_concurrency": 1}), 1),
    ] {
        let running = Arc::default();
        let most = Arc::default();
        let graph = crowd(&running, &most);
        let runtime = Runtime::in_memory().graph("crowd", graph).open().await.expect("opens");
        let client = Client::over(runtime);
        let thread = client.thread().await;
        let body = json!({"assistant_id": "crowd", "input": {}, "config": config});
        let ended = client.post(&format!("{thread}/runs/wait"), body).await.json();
        assert_eq!(ended["log"], json!(["a", "b", "c", "d"]));
        assert_eq!(most.load(Ordering::SeqCst), expected, "{config}");
        let run = client.get(&format!("{thread}/runs")).await.json();
        let shown = &run[0]["kwargs"]["config"]["max_concurrency"];
        assert_eq!(shown, &config["max_concurrency"], "{run}");
    }
    let client = Client::new().await;
    let none = json!({"assistant_id": "echo", "input": {}, "config": {"max_concurrency": 0}});
    let refused = client.post("/runs/wait", none).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
}

#[tokio::test]
async fn integers_are_kept_exactly_or_refused() {
    let client = Client::new().await;
    let thread = client.thread().await;
    for number in ["18446744073709551615", "-9223372036854775808", "9007199254740993"] {
        let body = format!(r#"{{"assistant_id":"echo","input":{{"msg":{number}}}}}"#);
        let ended = client.post_text(&format!("{thread}/runs/wait"), &body).await;
        assert!(ended.body.contains(&format!("\"msg\":{number}")), "{}", ended.body);
    }
    let wide = "123456789012345678901234567890";
    for (path, body) in [
        ("runs/wait", r#"{"assistant_id":"echo","input":{"msg":WIDE}}"#),
        ("runs/stream", r#"{"assistant_id":"echo","input":{"msg":[{"n":WIDE}]}}"#),
        ("state", r#"{"values":{"msg":WIDE},"as_node":"echo"}"#),
        ("commands", r#"{"id":1,"method":"run.start","params":{"input":{"msg":-WIDE}}}"#),
    ] {
        let body = body.replace("WIDE", wide);
        let refused = client.post_text(&format!("{thread}/{path}"), &body).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{path}: {}", refused.body);
        assert!(
            refused.body.contains(wide) && refused.body.contains("64 bits"),
            "{}",
            refused.body
        );
    }
    let text = format!(r#"{{"assistant_id":"echo","input":{{"msg":"{wide}"}}}}"#);
    let ended = client.post_text(&format!("{thread}/runs/wait"), &text).await.json();
    assert_eq!(ended["msg"], wide);
}

/// A tool that reports its progress.
#[tool]
fn count(to: u64, context: ToolContext) -> u64 {
    for done in 1..=to {
        context.progress(json!({"done": done, "of": to}));
    }
    to
}

#[tokio::test]
async fn tools_report_their_progress_live_and_stored() {
    let call = Step::calls(vec![("count".to_owned(), json!({"to": 3}))]);
    let model = ScriptedModel::from_steps(vec![call, Step::text("Counted.")]);
    let agent = ReactAgent::new("counter", Arc::new(model)).tools(ToolBox::new().with(count));
    let graph = agent.build().expect("sound");
    let runtime = Runtime::in_memory().graph("counter", graph).open().await.expect("opens");
    let client = Client::over(runtime);
    let thread = client.thread().await;
    let body = json!({
        "assistant_id": "counter", "stream_mode": ["custom"],
        "input": {"messages": [{"role": "user", "content": "count"}]},
    });
    let live = client.post(&format!("{thread}/runs/stream"), body).await;
    let expected: Vec<_> = (1..=3).map(|done| json!({"done": done, "of": 3})).collect();
    let custom = live.events().into_iter().filter(|(name, ..)| name == "custom");
    assert_eq!(custom.map(|(_, data, _)| data).collect::<Vec<_>>(), expected, "{}", live.body);
    let place = live.headers["content-location"].to_str().expect("text");
    let run = RunId::new(place.rsplit('/').next().expect("an id")).expect("an id");
    let who = Principal::local();
    let store = client.runtime.store();
    let at = store.find_run(&who, &run).await.expect("the run").new.at;
    let log = store.events(&who, &at, 0, usize::MAX).await.expect("a log");
    let stored = log.into_iter().filter_map(|stored| match stored.event {
        AiEvent::Custom { tool_call_id: Some(_), node, value, .. } => Some((node, value)),
        _ => None,
    });
    let expected: Vec<_> = expected.into_iter().map(|value| ("tool".to_owned(), value)).collect();
    assert_eq!(stored.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_run_that_answers_names_the_run_that_asked() {
    let client = Client::new().await;
    let thread = client.thread().await;
    let wait = format!("{thread}/runs/wait");
    for body in [
        json!({"assistant_id": "inter", "input": {"q": "ok?"}}),
        json!({"assistant_id": "inter", "command": {"resume": "yes"}}),
        json!({"assistant_id": "inter", "input": {"q": "again?"}}),
    ] {
        client.post(&wait, body).await.json();
    }
    let who = Principal::local();
    let store = client.runtime.store();
    let id = ThreadId::new(thread.rsplit('/').next().expect("an id")).expect("an id");
    let runs = store.runs(&who, &id).await.expect("runs");
    let mut continued = Vec::new();
    for run in &runs {
        let log = store.events(&who, &run.new.at, 0, usize::MAX).await.expect("a log");
        continued.extend(log.into_iter().filter_map(|stored| match stored.event {
            AiEvent::RunStarted { continues, .. } => Some(continues),
            _ => None,
        }));
    }
    assert_eq!(continued, [None, Some(runs[0].new.at.run.clone()), None]);
}

#[tokio::test]
async fn a_request_with_a_key_has_one_run_however_often_it_comes() {
    let client = Client::new().await;
    let thread = client.thread().await;
    let send = async |path: &str, key: &str, body: Value| {
        let request = Request::post(path).header("host", "localhost");
        let request = request.header("Idempotency-Key", key);
        client.send(request.body(Body::from(body.to_string())).expect("a request")).await
    };
    let said = |text: &str| {
        let keeps = "keep";
        json!({"assistant_id": "echo", "input": {"msg": text}, "metadata": {"a": 1}, "on_completion": keeps})
    };
    for (place, key) in [(thread.as_str(), "on-a-thread"), ("", "alone")] {
        let runs = format!("{place}/runs");
        let wait = format!("{runs}/wait");
        let stream = format!("{runs}/stream");
        let first = send(&wait, key, said("one")).await;
        assert_eq!(first.json()["out"], "echo:one");
        let at = first.headers["content-location"].to_str().expect("text").to_owned();
        let run = at.trim_end_matches("/join").rsplit('/').next().expect("an id").to_owned();
        assert_eq!(send(&wait, key, said("one")).await.json()["out"], "echo:one");
        let created = send(&runs, key, said("one")).await.json();
        assert_eq!((&created["run_id"], &created["status"]), (&json!(run), &json!("success")));
        assert!(send(&stream, key, said("one")).await.body.contains("echo:one"));
        let path = format!("/threads/{}/runs", created["thread_id"].as_str().expect("an id"));
        assert_eq!(client.get(&path).await.json().as_array().map(Vec::len), Some(1));
        let other = send(&wait, key, said("two")).await;
        assert_eq!(other.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", other.body);
        assert!(other.body.contains(key), "{}", other.body);
    }
    let long = "k".repeat(256);
    for (key, says) in [("weft:aside:1", "`weft:`"), ("", "empty"), (&*long, "shorter")] {
        let refused = send(&format!("{thread}/runs"), key, said("three")).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
        assert!(refused.body.contains(says), "{}", refused.body);
    }
    let ten = (0..10).map(|_| send("/runs/wait", "ten", said("ten")));
    for one in futures_util::future::join_all(ten).await {
        assert_eq!(one.json()["out"], "echo:ten", "{}", one.body);
    }
}

#[tokio::test]
async fn a_repeated_request_gives_its_messages_the_ids_of_the_first_one() {
    let client = crate::chat::client().await;
    let thread = client.thread().await;
    let send = async |path: &str, key: &str, body: &Value| {
        let request = Request::post(path).header("host", "localhost");
        let request = request.header("Idempotency-Key", key);
        client.send(request.body(Body::from(body.to_string())).expect("a request")).await
    };
    let says = "Where is order A1003?";
    let messages = [
        json!([{"role": "user", "content": says}, {"role": "user", "content": says}]),
        json!([{"type": "human", "content": says}]),
        json!([["user", says]]),
        json!([says]),
        json!(says),
    ];
    for (index, messages) in messages.into_iter().enumerate() {
        let body = json!({"assistant_id": "desk", "input": {"messages": messages}});
        for path in [format!("{thread}/runs"), "/runs".to_owned()] {
            let key = format!("{path} {index}");
            let first = send(&format!("{path}/wait"), &key, &body).await.json();
            let again = send(&format!("{path}/wait"), &key, &body).await;
            assert_eq!(again.status, StatusCode::OK, "{body}: {}", again.body);
            assert_eq!(again.json()["messages"], first["messages"], "{body}");
        }
    }
    let all = client.get(&format!("{thread}/state")).await.json();
    let all = all["values"]["messages"].as_array().expect("messages").clone();
    let said: Vec<_> = all.iter().filter(|one| one["type"] == "human").collect();
    let ids: std::collections::BTreeSet<_> = said.iter().map(|one| one["id"].as_str()).collect();
    assert_eq!((said.len(), ids.len()), (6, 6), "{said:?}");
    let pairs = json!([["messages", [{"role": "user", "content": says}]]]);
    for update in [json!({"messages": [{"role": "user", "content": says}]}), pairs] {
        let command = json!({"update": update, "goto": "model"});
        let body = json!({"assistant_id": "desk", "command": command});
        let key = update.to_string();
        let first = send(&format!("{thread}/runs/wait"), &key, &body).await.json();
        let again = send(&format!("{thread}/runs/wait"), &key, &body).await;
        assert_eq!(again.json(), first);
    }
}

#[tokio::test]
async fn the_log_of_a_run_has_its_calls_and_supersteps_and_no_texts() {
    let client = crate::chat::client().await;
    let thread = client.thread().await;
    let input =
        json!({"messages": [{"role": "user", "content": "Refund order A1002, amount 40."}]});
    let body = json!({"assistant_id": "desk", "input": input});
    client.post(&format!("{thread}/runs/wait"), body).await;
    let runs = client.get(&format!("{thread}/runs")).await.json();
    let run = runs[0]["run_id"].as_str().expect("an id");
    let log = client.get(&format!("{thread}/runs/{run}/log")).await.json();
    assert_eq!((&log["run_id"], &log["status"]), (&json!(run), &json!("interrupted")), "{log}");
    assert!(log["ended_at"].is_string(), "{log}");
    assert_eq!(log["omitted"], 0, "{log}");
    let events = log["events"].as_array().expect("a list");
    let kinds: Vec<_> = events.iter().map(|one| one["event"]["type"].as_str()).collect();
    for kind in ["run_started", "checkpoint", "usage_report", "human_input_required", "done"] {
        assert!(kinds.contains(&Some(kind)), "`{kind}` is not in {kinds:?}");
    }
    assert!(!kinds.contains(&Some("message_final")), "{kinds:?}");
    let is_ordered = events.is_sorted_by_key(|one| one["seq"].as_u64());
    assert!(is_ordered && events.iter().all(|one| one["at"].is_u64()), "{log}");
    let missing = format!("{thread}/runs/019f3ad0-8c56-7c10-b2f5-0a4a2a4f6f11/log");
    assert_eq!(client.get(&missing).await.status, StatusCode::NOT_FOUND);
}
