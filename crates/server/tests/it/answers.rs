//! Answers and changes of waiting subgraphs, and questions beside a failure.

use crate::client::Client;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weftwork_graph::channel::{Append, LastValue};
use weftwork_graph::{
    ChannelDef, CompiledGraph, Ctx, DynUpdate, Dynamic, Graph, NodeError, NodeResult, START, State,
    SubgraphState,
};
use weftwork_runtime::Runtime;

fn channels() -> Vec<ChannelDef> {
    vec![
        ChannelDef::new("log", Append::<Value>::new()),
        ChannelDef::new("price", LastValue::<Value>::new()),
    ]
}

fn dynamic(name: &str) -> Graph<Dynamic> {
    Graph::dynamic(name, channels())
}

/// A graph with a subgraph that asks about its price.
fn shop() -> CompiledGraph {
    async fn ask(state: State<Dynamic>, ctx: Ctx) -> NodeResult<DynUpdate> {
        let price = state.get("price").unwrap_or_default();
        let answer = ctx.interrupt(json!(format!("pay {price}?")))?;
        Ok(DynUpdate::new().write("log", json!([format!("{price}: {answer}")])))
    }
    async fn begin(_: State<Dynamic>) -> DynUpdate {
        DynUpdate::new()
    }
    let till = dynamic("till").node("begin", begin).node("ask", ask);
    let till = till.edge(START, "begin").edge("begin", "ask").output(["log"]).build();
    let shop = dynamic("shop").subgraph("till", till.expect("sound"), SubgraphState::PerTask);
    shop.reads("till", ["price"]).edge(START, "till").build().expect("sound")
}

async fn hosting(graph: CompiledGraph) -> (Client, String) {
    let runtime = Runtime::in_memory().graph("shop", graph).open().await.expect("opens");
    let client = Client::over(runtime);
    let made = client.post("/threads", json!({})).await.json();
    let path = format!("/threads/{}", made["thread_id"].as_str().expect("an id"));
    (client, path)
}

async fn run(client: &Client, path: &str, members: Value) -> Value {
    let mut body = json!({"assistant_id": "shop"});
    let more = members.as_object().expect("members").clone();
    body.as_object_mut().expect("members").extend(more);
    let answer = client.post(&format!("{path}/runs/wait"), body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    answer.json()
}

async fn state(client: &Client, path: &str) -> Value {
    client.get(&format!("{path}/state?subgraphs=true")).await.json()
}

fn asked(state: &Value) -> Vec<&str> {
    let interrupts = state["interrupts"].as_array().expect("a list");
    interrupts.iter().map(|one| one["value"].as_str().expect("a text")).collect()
}

#[tokio::test]
async fn a_change_of_a_waiting_subgraph_is_made_there_and_keeps_its_question() {
    let (client, path) = hosting(shop()).await;
    run(&client, &path, json!({"input": {"price": 5}})).await;
    let before = state(&client, &path).await;
    assert_eq!(asked(&before), ["pay 5?"]);
    let place = before["tasks"][0]["state"]["checkpoint"].clone();
    let ns = place["checkpoint_ns"].clone();
    let change =
        json!({"values": {"price": 7}, "as_node": "begin", "checkpoint": {"checkpoint_ns": ns}});
    let changed = client.post(&format!("{path}/state"), change).await;
    assert_eq!(changed.status, StatusCode::OK, "{}", changed.body);
    assert_eq!(changed.json()["checkpoint"]["checkpoint_ns"], ns);

    let after = state(&client, &path).await;
    assert_eq!((&after["values"]["price"], asked(&after)), (&json!(5), vec!["pay 5?"]));
    assert_eq!(after["tasks"][0]["state"]["values"]["price"], 7);
    assert_eq!(after["checkpoint"], before["checkpoint"], "the outermost graph is as it was");
    let inbox = client.get("/interrupts").await.json();
    assert_eq!(inbox[0]["question"], "pay 5?");

    // Without an answer the subgraph asks anew, about what is there now.
    run(&client, &path, json!({"input": null})).await;
    assert_eq!(asked(&state(&client, &path).await), ["pay 7?"]);
    run(&client, &path, json!({"input": null})).await;
    let output = run(&client, &path, json!({"command": {"resume": "yes"}})).await;
    assert_eq!(output["log"], json!(["7: \"yes\""]));
}

#[tokio::test]
async fn an_answer_after_a_change_is_for_the_question_that_the_person_saw() {
    let (client, path) = hosting(shop()).await;
    run(&client, &path, json!({"input": {"price": 5}})).await;
    let before = state(&client, &path).await;
    let ns = before["tasks"][0]["state"]["checkpoint"]["checkpoint_ns"].clone();
    let change = |price: u32| json!({"values": {"price": price}, "as_node": "begin", "checkpoint": {"checkpoint_ns": ns}});
    for price in [7, 5] {
        let changed = client.post(&format!("{path}/state"), change(price)).await;
        assert_eq!(changed.status, StatusCode::OK, "{}", changed.body);
    }
    // The same question: it takes the answer.
    let output = run(&client, &path, json!({"command": {"resume": "yes"}})).await;
    assert_eq!(output["log"], json!(["5: \"yes\""]));

    let (client, path) = hosting(shop()).await;
    run(&client, &path, json!({"input": {"price": 5}})).await;
    let before = state(&client, &path).await;
    let ns = before["tasks"][0]["state"]["checkpoint"]["checkpoint_ns"].clone();
    let change = json!({"values": {"price": 5_000}, "as_node": "begin", "checkpoint": {"checkpoint_ns": ns}});
    client.post(&format!("{path}/state"), change).await;
    // Another question: it does not.
    run(&client, &path, json!({"command": {"resume": "yes"}})).await;
    assert_eq!(asked(&state(&client, &path).await), ["pay 5000?"]);
}

#[tokio::test]
async fn a_change_of_a_subgraph_that_does_not_exist_is_refused() {
    let (client, path) = hosting(shop()).await;
    run(&client, &path, json!({"input": {"price": 5}})).await;
    let change = json!({"values": {"price": 7}, "checkpoint": {"checkpoint_ns": "cellar:1"}});
    let refused = client.post(&format!("{path}/state"), change).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
    assert_eq!(asked(&state(&client, &path).await), ["pay 5?"]);
}

#[tokio::test]
async fn input_at_a_checkpoint_of_a_subgraph_is_refused() {
    let (client, path) = hosting(shop()).await;
    run(&client, &path, json!({"input": {"price": 5}})).await;
    let place = state(&client, &path).await["tasks"][0]["state"]["checkpoint"].clone();
    let body = json!({"assistant_id": "shop", "input": {"price": 7}, "checkpoint": place});
    let refused = client.post(&format!("{path}/runs"), body).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
    let after = state(&client, &path).await;
    assert_eq!((&after["values"]["price"], asked(&after)), (&json!(5), vec!["pay 5?"]));
}

#[tokio::test]
async fn a_question_beside_a_failure_is_in_the_inbox_and_takes_its_answer() {
    let failed = Arc::new(AtomicBool::new(false));
    let fails = move |_: State<Dynamic>| {
        let fails = !failed.swap(true, Ordering::SeqCst);
        async move {
            match fails {
                true => Err(NodeError::message("not yet")),
                false => Ok(DynUpdate::new()),
            }
        }
    };
    async fn ask(_: State<Dynamic>, ctx: Ctx) -> NodeResult<DynUpdate> {
        let answer = ctx.interrupt(json!("pay?"))?;
        Ok(DynUpdate::new().write("log", json!([answer])))
    }
    let graph = dynamic("shop").node("ask", ask).node("fails", fails);
    let graph = graph.edge(START, "ask").edge(START, "fails").build().expect("sound");
    let (client, path) = hosting(graph).await;
    let body = json!({"assistant_id": "shop", "input": {}});
    client.post(&format!("{path}/runs/wait"), body).await;
    assert_eq!(asked(&state(&client, &path).await), ["pay?"]);
    let inbox = client.get("/interrupts").await;
    assert_eq!(inbox.headers["x-pagination-total"], "1");
    let question = inbox.json()[0]["interrupt_id"].as_str().expect("an id").to_owned();
    let unknown = json!({"assistant_id": "shop", "command": {"resume": {"0".repeat(32): "yes"}}});
    let refused = client.post(&format!("{path}/runs/wait"), unknown).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(refused.body.contains(&question), "{}", refused.body);
    let output = run(&client, &path, json!({"command": {"resume": {question: "yes"}}})).await;
    assert_eq!(output["log"], json!(["yes"]));
}

#[tokio::test]
async fn a_question_that_stays_open_is_in_the_stream_of_the_run_that_answers_another() {
    async fn ask(_: State<Dynamic>, ctx: Ctx) -> NodeResult<DynUpdate> {
        let answer = ctx.interrupt(json!(format!("{}?", ctx.node())))?;
        Ok(DynUpdate::new().write("log", json!([answer])))
    }
    let graph = dynamic("shop").node("a", ask).node("b", ask).edge(START, "a").edge(START, "b");
    let (client, path) = hosting(graph.build().expect("sound")).await;
    run(&client, &path, json!({"input": {"price": 5}})).await;
    let open = state(&client, &path).await;
    let first =
        open["interrupts"].as_array().expect("a list").iter().find(|one| one["value"] == "a?");
    let id = first.expect("it asks")["id"].as_str().expect("an id").to_owned();
    let body = json!({"assistant_id": "shop", "command": {"resume": {id: "yes"}},
        "stream_mode": ["values", "updates"]});
    let stream = client.post(&format!("{path}/runs/stream"), body).await;
    assert_eq!(stream.status, StatusCode::OK, "{}", stream.body);
    let asked = |mode: &str| {
        let event = format!("event: {mode}");
        let frames = stream.body.split("\n\n").map(|frame| frame.replace('\r', ""));
        let of_mode = frames.filter(|frame| frame.lines().any(|line| line == event));
        let asked = of_mode.filter(|frame| frame.contains("__interrupt__"));
        asked.collect::<Vec<_>>()
    };
    for mode in ["values", "updates"] {
        let [frame] = &asked(mode)[..] else { panic!("{mode}: {}", stream.body) };
        assert!(frame.contains("b?") && !frame.contains("a?"), "{frame}");
    }
    assert_eq!(self::asked(&state(&client, &path).await), ["b?"]);
}

#[tokio::test(start_paused = true)]
async fn a_question_stays_open_while_a_run_waits_for_its_time() {
    let (client, path) = hosting(shop()).await;
    run(&client, &path, json!({"input": {"price": 5}})).await;
    let later = json!({"assistant_id": "shop", "input": {"price": 7}, "after_seconds": 60});
    let later = client.post(&format!("{path}/runs"), later).await.json();
    let later = format!("{path}/runs/{}", later["run_id"].as_str().expect("an id"));
    assert_eq!(client.get(&later).await.json()["status"], "pending");

    let thread = client.get(&path).await.json();
    assert_eq!(thread["status"], "interrupted");
    let listed = thread["interrupts"].as_object().expect("an object");
    assert_eq!(listed.values().next().expect("a task")[0]["value"], "pay 5?");
    assert_eq!(state(&client, &path).await["interrupts"][0]["value"], "pay 5?");
    let waiting = client.post("/threads/search", json!({"status": "interrupted"})).await.json();
    assert_eq!(waiting[0]["thread_id"], thread["thread_id"]);
    let inbox = client.get("/interrupts").await.json();
    assert_eq!(inbox[0]["question"], "pay 5?");

    // Each strategy means the same for an answer: it waits for nothing and cancels nothing.
    let answer = json!({"command": {"resume": "yes"}, "multitask_strategy": "interrupt"});
    let answered = run(&client, &path, answer).await;
    assert_eq!(answered["log"], json!(["5: \"yes\""]));
    let asks = client.get(&format!("{later}/join")).await.json();
    assert_eq!(asks["__interrupt__"][0]["value"], "pay 7?");
    let answered = run(&client, &path, json!({"command": {"resume": "no"}})).await;
    assert_eq!(answered["log"], json!(["5: \"yes\"", "7: \"no\""]));
}

#[tokio::test]
async fn an_answer_at_an_older_checkpoint_of_a_subgraph_is_refused() {
    let (client, path) = hosting(shop()).await;
    let place = async || state(&client, &path).await["tasks"][0]["state"]["checkpoint"].clone();
    run(&client, &path, json!({"input": {"price": 5}})).await;
    let older = place().await;
    run(&client, &path, json!({"input": {"price": 7}})).await;
    let question = state(&client, &path).await["interrupts"][0]["id"].clone();
    let question = question.as_str().expect("an id");
    for answer in [json!("yes"), json!({question: "yes"})] {
        let command = json!({"resume": answer});
        let body = json!({"assistant_id": "shop", "command": command, "checkpoint": older});
        let refused = client.post(&format!("{path}/runs"), body).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
        assert!(refused.body.contains("older checkpoint of subgraph `till"), "{}", refused.body);
    }
    assert_eq!(asked(&state(&client, &path).await), ["pay 7?"]);
    let newest = place().await;
    let body = json!({"command": {"resume": "yes"}, "checkpoint": newest});
    assert_eq!(run(&client, &path, body).await["log"], json!(["7: \"yes\""]));
}
