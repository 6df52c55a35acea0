//! Commands on threads.

use super::{Events, command, graphs, new_thread, result};
use crate::client::{Client, with_tokens};
use crate::reference;
use axum::http::StatusCode;
use serde_json::{Value, json};
use weftwork_server::Server;

/// Commands that LangGraph's server does not know, and this one carries out.
const MORE: [&str; 2] = ["state.get", "state.listCheckpoints"];

#[tokio::test]
async fn answers_have_the_recorded_shape() {
    let client = Client::over(reference::runtime().await);
    let text = include_str!("../../recorded/protocol/commands.jsonl");
    let mut thread = String::new();
    let mut question = Value::Null;
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let mut body = line["body"].clone();
        let recorded = &line["answer"];
        if line["path"] == "/threads" {
            thread = client.post("/threads", body).await.json()["thread_id"]
                .as_str()
                .expect("an id")
                .to_owned();
            continue;
        }
        let method = body["method"].as_str().unwrap_or_default().to_owned();
        if method == "input.respond" {
            let filter = json!({"channels": ["input"]});
            let asked = Events::open(&client, &thread, filter).await.next().await;
            question = asked["params"]["data"]["interrupt_id"].clone();
            body["params"]["interrupt_id"] = question.clone();
        }
        if method == "agent.getTree" {
            let filter = json!({"channels": ["lifecycle"]});
            Events::open(&client, &thread, filter).await.run().await;
        }
        let answer = client.post(&format!("/threads/{thread}/commands"), body).await.json();
        if MORE.contains(&method.as_str()) {
            assert_eq!(answer["type"], "success", "{answer}");
            continue;
        }
        let members = |value: &Value| {
            value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(members(&answer), members(recorded), "{method}");
        if recorded["meta"].is_object() {
            assert_eq!(members(&answer["meta"]), members(&recorded["meta"]), "{method}");
        }
        for name in ["type", "id", "error", "message"] {
            assert_eq!(answer[name], recorded[name], "{method}");
        }
    }
    assert_eq!(question.as_str().map(str::len), Some(32));
}

#[track_caller]
fn refused(answer: &Value, code: &str, says: &str) {
    assert_eq!((&answer["type"], &answer["error"]), (&json!("error"), &json!(code)), "{answer}");
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(message.contains(says), "{message}");
}

/// A thread that waits for an answer; returns it with the id of its question.
async fn asked(client: &Client) -> (String, Value) {
    let thread = new_thread();
    let start = json!({"assistant_id": "inter", "input": {"q": "ok"}});
    result(command(client, &thread, "run.start", start).await);
    let filter = json!({"channels": ["input", "lifecycle"]});
    let events = Events::open(client, &thread, filter).await.run().await;
    (thread, events[1]["params"]["data"]["interrupt_id"].clone())
}

fn one(id: &Value) -> Value {
    json!({"interrupt_id": id, "namespace": [], "response": 1})
}

#[tokio::test]
async fn commands_that_do_not_fit_are_refused_with_a_code() {
    let client = Client::over(reference::runtime().await);
    let (asked, id) = asked(&client).await;
    let fresh = new_thread();
    let other = "0".repeat(32);
    for (thread, method, params, code, says) in [
        (&fresh, "run.start", json!({"input": {}}), "invalid_argument", "requires an assistant_id"),
        (&fresh, "run.start", json!({"assistant_id": "nope"}), "invalid_argument", "nope"),
        (&fresh, "run.start", json!([]), "invalid_argument", "not an object"),
        (
            &fresh,
            "run.start",
            json!({"assistant_id": "echo", "config": 7}),
            "invalid_argument",
            "invalid type",
        ),
        (&fresh, "input.respond", one(&id), "no_such_run", "No interrupted run"),
        (&asked, "input.respond", json!({}), "invalid_argument", "requires an interrupt_id"),
        (&asked, "input.respond", json!({"responses": []}), "invalid_argument", "at least one"),
        (&asked, "input.respond", one(&json!(other)), "no_such_interrupt", "is no question"),
        (&asked, "input.respond", one(&json!("x")), "no_such_interrupt", "is no question"),
        (
            &asked,
            "input.respond",
            json!({"responses": [one(&id), one(&id)]}),
            "invalid_argument",
            "two responses",
        ),
        (
            &fresh,
            "input.inject",
            json!({"message": {"role": "user", "content": "x"}}),
            "no_such_run",
            "needs a thread",
        ),
        (
            &asked,
            "input.inject",
            json!({"message": {"role": "user", "content": "x"}}),
            "not_supported",
            "no channel `messages`",
        ),
        (
            &asked,
            "input.inject",
            json!({"message": {"role": "ai", "content": "x"}}),
            "invalid_argument",
            "user or system",
        ),
        (
            &asked,
            "input.inject",
            json!({"namespace": ["a"], "message": {"role": "user", "content": "x"}}),
            "no_such_namespace",
            "outermost",
        ),
    ] {
        let answer = command(&client, thread, method, params).await;
        assert_eq!(answer["id"], 7);
        refused(&answer, code, says);
    }
    result(command(&client, &asked, "input.respond", one(&id)).await);
    let again = command(&client, &asked, "input.respond", one(&id)).await;
    refused(&again, "no_such_interrupt", "was answered before");
}

#[tokio::test]
async fn commands_that_read_nothing_or_are_none_are_refused_with_a_code() {
    let client = Client::over(reference::runtime().await);
    let (asked, _) = asked(&client).await;
    let fresh = new_thread();
    let nobody = "00000000-0000-4000-8000-000000000000";
    for (thread, method, params, code, says) in [
        (&fresh, "state.get", json!({"namespace": []}), "no_such_run", "no run"),
        (&asked, "state.get", json!({"namespace": ["nope:1"]}), "no_such_namespace", "nope"),
        (
            &asked,
            "state.listCheckpoints",
            json!({"limit": 5000}),
            "invalid_argument",
            "at most 1000",
        ),
        (
            &asked,
            "state.listCheckpoints",
            json!({"before": "x"}),
            "invalid_argument",
            "must be a UUID",
        ),
        (
            &asked,
            "state.fork",
            json!({"checkpoint_id": nobody}),
            "no_such_checkpoint",
            "not one of this thread",
        ),
        (&asked, "state.fork", json!({}), "invalid_argument", "checkpoint_id"),
        (&fresh, "agent.getTree", json!({}), "no_such_run", "No active run"),
        (&asked, "agent.getTree", json!({"run_id": nobody}), "no_such_run", "No active run"),
        (
            &asked,
            "subscription.subscribe",
            json!({"channels": ["values"]}),
            "not_supported",
            "WebSocket",
        ),
    ] {
        let answer = command(&client, thread, method, params).await;
        assert_eq!(answer["id"], 7);
        refused(&answer, code, says);
    }
    for body in [
        json!([]),
        json!({"method": "state.get"}),
        json!({"id": -1, "method": "x"}),
        json!({"id": 1}),
    ] {
        let answer = client.post(&format!("/threads/{asked}/commands"), body).await.json();
        assert_eq!(answer["id"], Value::Null);
        refused(&answer, "invalid_argument", "integer id and string method");
    }
    let malformed = client.post_text(&format!("/threads/{asked}/commands"), "{bad").await;
    assert_eq!(malformed.status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn states_are_read_listed_and_branched_from() {
    let client = Client::over(reference::runtime().await);
    let thread = new_thread();
    let start = json!({"assistant_id": "echo", "input": {"msg": "a"},
        "config": {"configurable": {"thread_id": thread}}});
    result(command(&client, &thread, "run.start", start).await);
    let filter = json!({"channels": ["lifecycle"]});
    Events::open(&client, &thread, filter.clone()).await.run().await;
    let state = result(
        command(&client, &thread, "state.get", json!({"namespace": [], "keys": ["out"]})).await,
    );
    assert_eq!(state["values"], json!({"out": "echo:a"}));
    let list = result(command(&client, &thread, "state.listCheckpoints", json!({})).await);
    let checkpoints = list["checkpoints"].as_array().expect("a list");
    assert_eq!(checkpoints.iter().map(|at| at["step"].clone()).collect::<Vec<_>>(), [1, 0, -1]);
    assert_eq!(checkpoints[0]["id"], state["checkpoint"]["id"]);
    assert_eq!(checkpoints[2]["metadata"]["source"], "input");
    let before = json!({"before": checkpoints[1]["id"], "limit": 5});
    let older = result(command(&client, &thread, "state.listCheckpoints", before).await);
    assert_eq!(older["checkpoints"], json!([checkpoints[2]]));
    let fork = json!({"checkpoint_id": checkpoints[1]["id"]});
    let answer = command(&client, &thread, "state.fork", fork).await;
    let since = answer["meta"]["applied_through_seq"].clone();
    let made = result(answer);
    assert_eq!(made["thread_id"], json!(thread));
    let body = json!({"channels": ["lifecycle", "values"], "since": since});
    let events = Events::open(&client, &thread, body).await.run().await;
    assert_eq!(super::data(&events, "values").last().expect("values")["out"], "echo:a");
    let fork = json!({"checkpoint_id": checkpoints[0]["id"], "input": {"msg": "b"}});
    result(command(&client, &thread, "state.fork", fork).await);
}

#[tokio::test]
async fn the_graphs_of_a_run_are_a_tree() {
    let client = Client::over(reference::runtime().await);
    let thread = new_thread();
    let start = json!({"assistant_id": "parent", "input": {"msg": "a"}});
    let run = result(command(&client, &thread, "run.start", start).await)["run_id"].clone();
    Events::open(&client, &thread, json!({"channels": ["lifecycle"]})).await.run().await;
    let tree = result(command(&client, &thread, "agent.getTree", json!({"run_id": run})).await);
    let child = tree["tree"]["children"][0]["namespace"].clone();
    assert_eq!(
        tree["tree"],
        json!({"namespace": [], "status": "completed", "graph_name": "parent", "children": [
            {"namespace": child, "status": "completed", "graph_name": "sub"}]})
    );
}

#[tokio::test]
async fn input_answers_an_open_question_and_messages_are_injected() {
    let (runtime, words) = graphs::runtime().await;
    let client = Client::over(runtime);
    let asked = new_thread();
    let start = |input: Value| json!({"assistant_id": "inter", "input": input});
    result(command(&client, &asked, "run.start", start(json!({"q": "ok"}))).await);
    let filter = json!({"channels": ["lifecycle", "values"]});
    let mut events = Events::open(&client, &asked, filter.clone()).await;
    events.run().await;
    result(command(&client, &asked, "run.start", start(json!("typed"))).await);
    let ended = events.run().await;
    assert_eq!(super::data(&ended, "values").last().expect("values")["note"], "done:typed");
    let thread = new_thread();
    let talk =
        json!({"assistant_id": "talk", "input": {"messages": [{"role": "user", "content": "?"}]}});
    result(command(&client, &thread, "run.start", talk).await);
    let inject = json!({"namespace": [], "message": {"role": "user", "content": "and then?"}});
    assert_eq!(result(command(&client, &thread, "input.inject", inject).await), json!({}));
    words.add_permits(8);
    let mut events = Events::open(&client, &thread, filter).await;
    events.run().await;
    let ended = events.run().await;
    let last = super::data(&ended, "values").pop().expect("values");
    let texts: Vec<_> = last["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|at| at["type"].clone())
        .collect();
    assert_eq!(texts, ["human", "ai", "human", "ai"]);
    assert_eq!(last["messages"][2]["content"], "and then?");
}

#[tokio::test]
async fn threads_belong_to_the_organisation_of_their_token() {
    let runtime = reference::runtime().await;
    let client = Client::of(with_tokens(Server::new(runtime.clone())), runtime);
    let path = format!("/threads/{}/commands", new_thread());
    let send = async |org: Option<&str>, body: Value| {
        client.send_as(org, "POST", &path, body.to_string()).await
    };
    let one = Some("one");
    let two = Some("two");
    let start = json!({"id": 1, "method": "run.start",
        "params": {"assistant_id": "inter", "input": {"q": "ok"}}});
    assert_eq!(send(one, start).await.json()["type"], "success");
    let tree = json!({"id": 1, "method": "agent.getTree", "params": {}});
    refused(&send(two, tree.clone()).await.json(), "no_such_run", "No active run");
    assert_eq!(send(one, tree.clone()).await.json()["type"], "success");
    assert_eq!(send(None, tree).await.status, StatusCode::UNAUTHORIZED);
}
