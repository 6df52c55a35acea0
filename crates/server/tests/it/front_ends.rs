//! Requests of front ends of LangGraph's server, and what they read: members of their own in the input, the mode
//! `events`, the last chunk of a message, and files in chats.

use crate::chat::desk;
use crate::client::{Answer, Client};
use crate::reference;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use weftwork::models::{Capability, ChatModel, ChatRequest, ChatStream, ModelInfo};
use weftwork::prelude::*;
use weftwork::testing::ScriptedModel;
use weftwork_runtime::Runtime;
use weftwork_server::{LogEntry, Server};

const IGNORED: &str = "x-ignored-input";

async fn desk_client() -> Client {
    let graph = desk::desk().expect("sound");
    Client::over(Runtime::in_memory().graph("desk", graph).open().await.expect("opens"))
}

fn said(text: &str) -> Value {
    json!({"messages": [{"type": "human", "content": text, "id": "u1"}]})
}

fn header(answer: &Answer) -> Option<&str> {
    answer.headers.get(IGNORED).map(|value| value.to_str().expect("ASCII"))
}

#[tokio::test]
async fn members_that_a_graph_does_not_have_are_ignored_and_listed() {
    let log: Arc<Mutex<Vec<Vec<String>>>> = Arc::default();
    let entries = Arc::clone(&log);
    let runtime = Runtime::in_memory().graph("desk", desk::desk().expect("sound"));
    let runtime = runtime.open().await.expect("opens");
    let server = Server::new(runtime.clone()).log(move |entry| {
        if let LogEntry::InputIgnored { members, .. } = entry {
            entries.lock().expect("not poisoned").push(members);
        }
    });
    let client = Client::of(server, runtime);
    let mut input = said("Where is order A1003?");
    input["tools"] = json!([{"name": "show"}]);
    input["ag-ui"] = json!({"context": []});
    input["copilotkit"] = json!({"actions": []});
    let body = json!({"assistant_id": "desk", "input": input});
    let names = ["tools", "ag-ui", "copilotkit"];
    let thread = client.thread().await;
    for route in ["runs/wait", "runs/stream", "runs"] {
        let answer = client.post(&format!("{thread}/{route}"), body.clone()).await;
        assert!(answer.status.is_success(), "{route}: {}", answer.body);
        assert_eq!(header(&answer), Some("tools, ag-ui, copilotkit"), "{route}");
        client.post(&format!("{thread}/runs/wait"), json!({"assistant_id": "desk"})).await;
    }
    assert!(log.lock().expect("not poisoned").iter().all(|members| *members == names));
    assert_eq!(log.lock().expect("not poisoned").len(), 3);
    let state = client.get(&format!("{thread}/state")).await.json();
    let members: Vec<_> = state["values"].as_object().expect("an object").keys().collect();
    assert_eq!(members, ["messages"]);

    // Changes of the state and updates of commands, as a client that says something else sends them.
    let changed = json!({"values": {"messages": [], "tools": []}, "as_node": "model"});
    let changed = client.post(&format!("{thread}/state"), changed).await;
    assert_eq!((changed.status, header(&changed)), (StatusCode::OK, Some("tools")));
    for update in [json!({"tools": 1}), json!([["tools", 1]])] {
        let command =
            json!({"assistant_id": "desk", "command": {"update": update, "goto": "model"}});
        let answer = client.post(&format!("{thread}/runs/wait"), command).await;
        assert_eq!(
            (answer.status, header(&answer)),
            (StatusCode::OK, Some("tools")),
            "{}",
            answer.body
        );
    }
}

#[tokio::test]
async fn input_of_which_nothing_is_left_is_refused_by_name_and_nothing_is_stored() {
    let client = desk_client().await;
    let thread = client.thread().await;
    let body = json!({"assistant_id": "desk", "input": {"mesages": "hi"}});
    let refused = client.post(&format!("{thread}/runs/wait"), body).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(
        refused.body.contains("`mesages`") && refused.body.contains("`messages`"),
        "{}",
        refused.body
    );
    assert_eq!(client.get(&format!("{thread}/runs")).await.json(), json!([]));
}

/// The records of a stream in the mode `events`.
fn records(answer: &Answer) -> Vec<Value> {
    let events = answer.events().into_iter();
    events.filter(|event| event.0 == "events").map(|event| event.1).collect()
}

/// The kinds and names of records, without those of text that is streamed in parts.
fn outline(records: &[Value]) -> Vec<String> {
    let mut all = Vec::new();
    for record in records {
        let one = format!("{} {}", record["event"], record["name"]).replace('"', "");
        if all.last() != Some(&one) {
            all.push(one);
        }
    }
    all
}

#[tokio::test]
async fn the_mode_events_has_records_of_the_graph_its_nodes_models_and_tools() {
    let client = desk_client().await;
    let thread = client.thread().await;
    let body = json!({"assistant_id": "desk", "input": said("Where is order A1003?"),
        "stream_mode": ["events"], "config": {"tags": ["t"]}});
    let answer = client.post(&format!("{thread}/runs/stream"), body).await;
    let live = records(&answer);
    let model = [
        "on_chain_start model",
        "on_chat_model_start ChatModel",
        "on_chat_model_stream ChatModel",
        "on_chat_model_end ChatModel",
        "on_chain_stream model",
        "on_chain_end model",
    ];
    let tool = [
        "on_chain_start tool",
        "on_tool_start lookup_order",
        "on_tool_end lookup_order",
        "on_chain_stream tool",
        "on_chain_end tool",
    ];
    let expected: Vec<&str> = ["on_chain_start desk"]
        .into_iter()
        .chain(model)
        .chain(tool)
        .chain(model)
        .chain(["on_chain_end desk"])
        .collect();
    assert_eq!(outline(&live), expected);
    let run = answer.headers["content-location"].to_str().expect("ASCII");
    let run = run.rsplit('/').next().expect("an id").to_owned();
    for record in &live {
        for member in ["event", "data", "name", "tags", "run_id", "metadata", "parent_ids"] {
            assert!(record.get(member).is_some(), "{member}: {record}");
        }
        assert_eq!(record["metadata"]["run_id"], run.as_str());
    }
    let of =
        |event: &str| live.iter().filter(|record| record["event"] == event).collect::<Vec<_>>();
    let [start, end] = ["on_tool_start", "on_tool_end"].map(|event| of(event)[0]);
    assert_eq!(start["data"]["input"], json!({"order_id": "A1003"}));
    assert_eq!(start["run_id"], end["run_id"]);
    assert_eq!(start["metadata"]["langgraph_node"], "tool");
    let output = &end["data"]["output"];
    assert_eq!((&output["type"], &output["name"]), (&json!("tool"), &json!("lookup_order")));
    assert!(output["content"].as_str().is_some_and(|text| text.contains("wall lamp")));
    let root = of("on_chain_end").last().copied().expect("an end");
    assert_eq!(root["data"]["output"]["messages"].as_array().map(Vec::len), Some(4));
    let first = of("on_chat_model_end")[0];
    let call = &first["data"]["output"]["tool_calls"][0];
    assert_eq!(output["tool_call_id"], call["id"]);
    // The arguments of the call are streamed as providers stream them.
    let chunks = of("on_chat_model_stream");
    let parts: Vec<_> = chunks
        .iter()
        .flat_map(|record| record["data"]["chunk"]["tool_call_chunks"].as_array().expect("a list"))
        .collect();
    assert_eq!((&parts[0]["name"], &parts[0]["args"]), (&json!("lookup_order"), &json!("")));
    assert_eq!(parts[1]["args"], r#"{"order_id":"A1003"}"#);
    let last = &chunks.last().expect("chunks")["data"]["chunk"];
    assert_eq!(last["chunk_position"], "last");
    assert!(last["usage_metadata"]["total_tokens"].as_u64().is_some_and(|tokens| tokens > 0));

    // The run is over: everyone who follows it from its beginning gets the same records, but for text,
    // which is one chunk then.
    let path = format!("{thread}/runs/{run}/stream?stream_mode=events");
    let request = Request::get(path).header("host", "localhost").header("last-event-id", "-1");
    let again = client.send(request.body(Body::empty()).expect("a request")).await;
    let stored = records(&again);
    assert_eq!(outline(&stored), outline(&live));
    let whole = |records: &[Value]| -> Vec<Value> {
        let is_text = |record: &&Value| record["event"] != "on_chat_model_stream";
        records.iter().filter(is_text).cloned().collect()
    };
    assert_eq!(whole(&stored), whole(&live));
    let text = |records: &[Value]| -> String {
        let chunk = |record: &Value| record["data"]["chunk"]["content"].as_str().map(str::to_owned);
        records.iter().filter_map(chunk).collect()
    };
    assert_eq!(text(&stored), text(&live));
}

#[tokio::test]
async fn a_client_that_left_in_the_mode_events_goes_on_after_its_last_record() {
    let client = desk_client().await;
    let thread = client.thread().await;
    let body = json!({"assistant_id": "desk", "input": said("Where is order A1003?"),
        "stream_mode": ["events"]});
    let answer = client.post(&format!("{thread}/runs/stream"), body).await;
    let all = answer.events();
    let place = answer.headers["location"].to_str().expect("ASCII").to_owned();
    for (index, (name, _, id)) in all.iter().enumerate() {
        let next = all.get(index + 1).and_then(|next| next.2.as_ref());
        if name != "events" || next == id.as_ref() {
            continue;
        }
        let id = id.as_deref().expect("an id");
        let request = Request::get(&place).header("host", "localhost").header("last-event-id", id);
        let rest = client.send(request.body(Body::empty()).expect("a request")).await;
        let rest = records(&rest);
        let expected: Vec<Value> = all[index + 1..]
            .iter()
            .filter(|event| event.0 == "events")
            .map(|e| e.1.clone())
            .collect();
        assert_eq!(outline(&rest), outline(&expected), "after {id}");
    }
}

#[tokio::test]
async fn a_question_ends_the_graph_and_a_failed_tool_is_an_error() {
    let client = desk_client().await;
    let thread = client.thread().await;
    let stream = |input: Value| {
        let client = client.clone();
        let path = format!("{thread}/runs/stream");
        async move {
            let mut body = json!({"assistant_id": "desk", "stream_mode": "events"});
            body.as_object_mut()
                .expect("an object")
                .extend(input.as_object().expect("an object").clone());
            records(&client.post(&path, body).await)
        }
    };
    let asked = stream(json!({"input": said("Refund order A1001, amount 25.")})).await;
    let outline_of = outline(&asked);
    assert_eq!(outline_of.last().map(String::as_str), Some("on_chain_end desk"), "{outline_of:?}");
    assert!(!outline_of.iter().any(|one| one.contains("on_tool")), "{outline_of:?}");
    let decided = json!({"command": {"resume": {"decisions": [{"type": "approve"}]}}});
    let done = outline(&stream(decided).await);
    assert!(done.contains(&"on_tool_end refund_order".to_owned()), "{done:?}");
    let failed = stream(json!({"input": said("Where is order A9999?")})).await;
    let error = failed.iter().find(|record| record["event"] == "on_tool_error").expect("an error");
    assert!(error["data"]["error"].as_str().is_some_and(|text| text.contains("A9999")), "{error}");
    assert_eq!(error["data"]["input"], json!({"order_id": "A9999"}));
}

#[tokio::test]
async fn the_last_chunk_of_a_message_says_so_and_has_its_usage() {
    let client = desk_client().await;
    let body = json!({"assistant_id": "desk", "input": said("Where is order A1003?"),
        "stream_mode": "messages-tuple"});
    let answer = client.post("/runs/stream", body).await;
    // A message whose text was not followed comes as a whole.
    let is_answer =
        |message: &Value| message["type"] == "ai" || message["type"] == "AIMessageChunk";
    let mut ends: BTreeMap<String, Value> = BTreeMap::new();
    for (name, data, _) in answer.events() {
        if name == "messages" && is_answer(&data[0]) {
            ends.insert(data[0]["id"].to_string(), data[0].clone());
        }
    }
    assert_eq!(ends.len(), 2, "{ends:?}");
    for end in ends.values() {
        let usage = &end["usage_metadata"];
        let sum = usage["input_tokens"].as_u64().zip(usage["output_tokens"].as_u64());
        assert!(sum.is_some(), "{end}");
        assert_eq!(sum.map(|(input, output)| input + output), usage["total_tokens"].as_u64());
        assert!(end["type"] == "ai" || end["chunk_position"] == "last", "{end}");
    }
}

#[tokio::test]
async fn nested_graphs_have_records_with_their_namespace() {
    let client = Client::over(reference::runtime().await);
    let body = json!({"assistant_id": "parent", "input": {"msg": "a"}, "stream_mode": ["events", "updates"]});
    let answer = client.post("/runs/stream", body).await;
    let found = records(&answer);
    let ns =
        |record: &Value| record["metadata"]["langgraph_checkpoint_ns"].as_str().map(str::to_owned);
    let nested = found.iter().filter_map(ns).filter(|ns| ns.contains('|')).count();
    assert!(nested > 0, "{found:?}");
    assert!(
        answer.names().iter().all(|name| !name.starts_with("updates|")),
        "as was not asked for"
    );
}

const IMAGE: &str = "data:image/png;base64,iVBORw0KGgo=";

#[tokio::test]
async fn chats_take_files_in_the_forms_of_front_ends_and_ignore_data_parts() {
    let client = desk_client().await;
    for (number, body) in [
        json!({"messages": [{"role": "user", "parts": [{"type": "text", "text": "Where is order A1003?"},
            {"type": "file", "mediaType": "image/png", "filename": "a.png", "url": IMAGE},
            {"type": "data-page", "data": {"url": "/orders"}}]}]}),
        json!({"messages": [{"role": "user", "content": [
            {"type": "file", "mediaType": "image/png", "data": IMAGE},
            {"type": "text", "text": "Where is order A1003?"}]}]}),
        json!({"messages": [{"role": "user", "content": [{"type": "image", "image": IMAGE},
            {"type": "text", "text": "Where is order A1003?"}]}]}),
    ]
    .into_iter()
    .enumerate()
    {
        let thread = format!("files-{number}");
        let mut body = body;
        body["threadId"] = json!(thread);
        let answer = client.post("/chat/desk?protocol=ui-message-stream", body).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        let stored = client.get(&format!("/chat/desk/{thread}")).await.json();
        let parts = stored[0]["parts"].as_array().expect("parts");
        let file = json!({"type": "file", "mediaType": "image/png", "url": IMAGE});
        assert!(parts.contains(&file) && parts.len() == 2, "{stored}");
        let state = client.get(&format!("/threads/{thread}/state")).await.json();
        let content = state["values"]["messages"][0]["content"].as_array().expect("blocks").clone();
        assert!(content.iter().any(|block| block["image_url"]["url"] == IMAGE), "{state}");
    }
    for (parts, says) in [
        (json!([{"type": "poem"}]), "`poem`"),
        (json!([{"type": "file", "mediaType": "image/png"}]), "`file`"),
        (json!([{"type": "data-page", "data": 1}]), "no text and no file"),
    ] {
        let body = json!({"threadId": "refused", "messages": [{"role": "user", "parts": parts}]});
        let refused = client.post("/chat/desk", body).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{parts}");
        assert!(refused.body.contains(says), "{}", refused.body);
    }
    assert_eq!(client.get("/threads/refused").await.status, StatusCode::NOT_FOUND);
}

/// A model that takes no images.
#[derive(Debug)]
struct Blind(ScriptedModel);

impl ChatModel for Blind {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn lacks(&self) -> &[Capability] {
        &[Capability::Images]
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        self.0.stream(request)
    }
}

#[tokio::test]
async fn media_that_the_model_does_not_take_are_refused_before_anything_is_stored() {
    let graph = ReactAgent::new("blind", Arc::new(Blind(ScriptedModel::rules()))).build();
    let runtime = Runtime::in_memory().graph("blind", graph.expect("sound"));
    let client = Client::over(runtime.open().await.expect("opens"));
    let image = json!({"type": "image_url", "image_url": {"url": IMAGE}});
    let message =
        json!({"type": "human", "content": [{"type": "text", "text": "What is it?"}, image]});
    let body = json!({"assistant_id": "blind", "input": {"messages": [message]}});
    let thread = client.thread().await;
    let chat = json!({"threadId": "seen", "messages": [{"role": "user", "parts": [
        {"type": "text", "text": "What is it?"}, {"type": "file", "mediaType": "image/png", "url": IMAGE}]}]});
    for (path, body) in [
        (format!("{thread}/runs/wait"), body.clone()),
        (format!("{thread}/runs/stream"), body.clone()),
        (format!("{thread}/runs"), body),
        ("/chat/blind".to_owned(), chat),
    ] {
        let refused = client.post(&path, body).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{path}: {}", refused.body);
        assert!(refused.body.contains("images"), "{}", refused.body);
    }
    assert_eq!(client.get(&format!("{thread}/runs")).await.json(), json!([]));
    assert_eq!(client.get("/threads/seen").await.status, StatusCode::NOT_FOUND);
    let state = client.get(&format!("{thread}/state")).await.json();
    assert_eq!(state["values"].get("messages"), None, "{state}");
    // The thread goes on with text.
    let body = json!({"assistant_id": "blind", "input": said("hello")});
    let ended = client.post(&format!("{thread}/runs/wait"), body).await.json();
    assert_eq!(ended["messages"].as_array().map(Vec::len), Some(2), "{ended}");
}
