//! Events of threads by server-sent events.

use super::{Events, command, data, graphs, is_end, masked, new_thread, result};
use crate::client::Client;
use crate::reference;
use serde_json::{Value, json};

fn recorded(text: &str) -> Vec<Value> {
    text.lines().map(|line| masked(serde_json::from_str(line).expect("JSON"))).collect()
}

async fn client() -> Client {
    Client::over(reference::runtime().await)
}

async fn start(client: &Client, thread: &str, graph: &str, input: Value) {
    let params = json!({"assistant_id": graph, "input": input});
    result(command(client, thread, "run.start", params).await);
}

const USUAL: [&str; 5] = ["values", "lifecycle", "input", "messages", "tools"];

#[tokio::test]
async fn a_question_and_its_answer_have_the_recorded_events() {
    let client = client().await;
    let thread = new_thread();
    // The stream is open before the thread exists, and over both runs.
    let mut events = Events::open(&client, &thread, json!({"channels": USUAL})).await;
    start(&client, &thread, "inter", json!({"q": "ok"})).await;
    let mut all = events.take(5).await;
    let id = all[2]["params"]["data"]["interrupt_id"].clone();
    let answer = json!({"namespace": [], "interrupt_id": id, "response": "yes v3"});
    assert_eq!(result(command(&client, &thread, "input.respond", answer).await), json!({}));
    all.extend(events.take(5).await);
    let found: Vec<_> = all.iter().cloned().map(masked).collect();
    assert_eq!(found, recorded(include_str!("../../recorded/protocol/inter.jsonl")));
    let since = json!({"channels": USUAL, "since": all[2]["seq"]});
    let rest = Events::open(&client, &thread, since).await.take(7).await;
    let rest: Vec<_> = rest.into_iter().map(masked).collect();
    assert_eq!(rest, recorded(include_str!("../../recorded/protocol/since.jsonl")));
}

/// Reads the rest of a tape after each of its events, by its number and by its id.
async fn assert_continues(client: &Client, thread: &str, filter: &Value, tape: &[Value]) {
    for (index, last) in tape.iter().enumerate() {
        for since in [&last["seq"], &last["event_id"]] {
            let mut body = filter.clone();
            body["since"] = since.clone();
            let mut events = Events::open(client, thread, body).await;
            let rest = events.take(tape.len() - index - 1).await;
            let is_message = last["event_id"].as_str().is_some_and(|id| id.contains('/'));
            // The id of an event of a message names no place: the run is sent again.
            if !(is_message && since.is_string()) {
                assert_eq!(rest, tape[index + 1..], "after {last}");
            }
        }
    }
}

#[tokio::test]
async fn a_stream_continues_after_each_of_its_events() {
    let client = client().await;
    let thread = new_thread();
    let filter = json!({"channels": ["values", "updates", "messages", "tools", "lifecycle",
        "input", "checkpoints", "tasks", "custom"]});
    let question = json!({"messages": [{"type": "human", "content": "2+3?", "id": "q"}]});
    start(&client, &thread, "agent", question.clone()).await;
    Events::open(&client, &thread, filter.clone()).await.run().await;
    start(&client, &thread, "agent", question).await;
    let whole = json!({"channels": filter["channels"], "since": 0});
    let mut events = Events::open(&client, &thread, whole).await;
    let mut tape = events.run().await;
    tape.extend(events.run().await);
    let numbers: Vec<_> = tape.iter().map(|event| event["seq"].as_u64()).collect();
    assert!(numbers.is_sorted_by(|before, after| before < after), "{numbers:?}");
    assert!(tape.len() > 50, "{}", tape.len());
    assert_continues(&client, &thread, &filter, &tape).await;
    // Numbers do not depend on the channels.
    let values = json!({"channels": ["values"], "since": 0});
    let of_values = |event: &&Value| event["method"] == "values";
    let expected: Vec<_> = tape.iter().filter(of_values).cloned().collect();
    let mut events = Events::open(&client, &thread, values).await;
    assert_eq!(events.take(expected.len()).await, expected);
}

fn is_delta(event: &Value) -> bool {
    event["params"]["data"]["event"] == "content-block-delta"
}

#[tokio::test]
async fn words_are_sent_once_before_and_after_a_reconnect() {
    let (runtime, words) = graphs::runtime().await;
    let client = Client::over(runtime);
    let thread = new_thread();
    let filter = json!({"channels": ["messages", "values", "lifecycle"]});
    let mut events = Events::open(&client, &thread, filter.clone()).await;
    start(&client, &thread, "talk", json!({"messages": [{"role": "user", "content": "?"}]})).await;
    let mut received = events.take(2).await;
    // The stream is opened anew after each word.
    for _ in 0..4 {
        words.add_permits(1);
        loop {
            received.push(events.next().await);
            if is_delta(&received[received.len() - 1]) {
                break;
            }
        }
        let last = &received[received.len() - 1];
        let since = json!({"channels": filter["channels"], "since": last["seq"]});
        events = Events::open(&client, &thread, since).await;
    }
    let words_end = received.len();
    while !received.last().is_some_and(is_end) {
        received.push(events.next().await);
    }
    // A message that is final begins again, under the ids that the client has.
    let mut ids = std::collections::BTreeSet::new();
    let mut tape = Vec::new();
    for (index, event) in received.into_iter().enumerate() {
        if ids.insert(event["event_id"].to_string()) {
            tape.push(event);
        } else {
            assert!(index >= words_end, "{event}");
        }
    }
    let deltas = data(&tape, "messages");
    let text = deltas.iter().filter_map(|data| data["delta"]["text"].as_str());
    assert_eq!(text.collect::<String>(), "one two three four");
    let kinds: Vec<_> = deltas.iter().map(|data| data["event"].clone()).collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "message-start").count(), 1, "{kinds:?}");
    assert_eq!(kinds.last(), Some(&json!("message-finish")));
    // A client that missed the rest of the message gets all of it under the known ids.
    let cut = tape.iter().find(|event| is_delta(event)).expect("a word");
    let since = json!({"channels": filter["channels"], "since": cut["seq"]});
    let rest = Events::open(&client, &thread, since).await.run().await;
    assert!(rest.iter().all(|event| ids.contains(&event["event_id"].to_string())), "{rest:?}");
    let finish =
        data(&rest, "messages").into_iter().find(|data| data["event"] == "content-block-finish");
    assert_eq!(finish.expect("a block")["content"]["text"], "one two three four");
}

#[tokio::test]
async fn each_channel_has_its_events() {
    let (runtime, _) = graphs::runtime().await;
    let client = Client::over(runtime);
    let run = async |graph: &str, input: Value, filter: Value| {
        let thread = new_thread();
        start(&client, &thread, graph, input).await;
        Events::open(&client, &thread, filter).await.run().await
    };
    let with = |channel: &str| json!({"channels": [channel, "lifecycle"]});
    let question = json!({"messages": [{"type": "human", "content": "2+3?", "id": "q"}]});
    let tools = data(&run("agent", question.clone(), with("tools")).await, "tools");
    let started = &tools[0];
    let finished = &tools[1];
    assert_eq!((&started["event"], &started["tool_name"]), (&json!("tool-started"), &json!("add")));
    assert_eq!(finished["event"], "tool-finished");
    assert_eq!(
        finished["output"],
        json!({"type": "tool", "content": "5", "tool_call_id": "call_1", "status": "success"})
    );
    assert_eq!(started["input"], json!({"a": 2, "b": 3}));
    let values = data(&run("agent", question, with("values")).await, "values");
    let messages = values.last().expect("values")["messages"].clone();
    assert_eq!(
        messages[1]["content"][0],
        json!({"type": "text", "text": "Let me add these", "index": 0})
    );
    assert_eq!(messages[1]["response_metadata"], json!({"output_version": "v1"}));
    assert_eq!((&messages[2]["type"], &messages[2]["status"]), (&json!("tool"), &json!("success")));
    let updates = data(&run("echo", json!({"msg": "a"}), with("updates")).await, "updates");
    assert_eq!(updates, [json!({"node": "echo", "values": {"out": "echo:a", "n": 1}})]);
    let tasks = data(&run("echo", json!({"msg": "a"}), with("tasks")).await, "tasks");
    assert_eq!((&tasks[0]["name"], &tasks[1]["result"]["out"]), (&json!("echo"), &json!("echo:a")));
    assert_eq!(tasks[0]["id"], tasks[1]["id"]);
    let checkpoints =
        data(&run("echo", json!({"msg": "a"}), with("checkpoints")).await, "checkpoints");
    let about: Vec<_> =
        checkpoints.iter().map(|at| (at["step"].clone(), at["source"].clone())).collect();
    assert_eq!(
        about,
        [(json!(-1), json!("input")), (json!(0), json!("loop")), (json!(1), json!("loop"))]
    );
    assert_eq!(checkpoints[2]["parent_id"], checkpoints[1]["id"]);
    let custom =
        data(&run("slow", json!({"steps": 2, "delay": 0.0}), with("custom")).await, "custom");
    assert_eq!(custom, [json!({"payload": {"progress": 0}}), json!({"payload": {"progress": 1}})]);
    let failed = run("failing", json!({}), json!({"channels": ["lifecycle"]})).await;
    let last = &failed.last().expect("an end")["params"]["data"];
    assert_eq!(last, &json!({"event": "failed", "graph_name": "failing", "error": "boom!"}));
}

#[tokio::test]
async fn subgraphs_have_namespaces_and_a_status() {
    let client = client().await;
    let thread = new_thread();
    start(&client, &thread, "parent", json!({"msg": "a"})).await;
    let all = json!({"channels": ["lifecycle", "values"]});
    let events = Events::open(&client, &thread, all).await.run().await;
    let about: Vec<_> = events
        .iter()
        .filter(|event| event["method"] == "lifecycle")
        .map(|event| {
            let of = &event["params"]["namespace"];
            let data = &event["params"]["data"];
            (of.as_array().map_or(0, Vec::len), data["event"].clone(), data["graph_name"].clone())
        })
        .collect();
    assert_eq!(
        about,
        [
            (0, json!("running"), json!("parent")),
            (1, json!("started"), json!("sub")),
            (1, json!("completed"), json!("sub")),
            (0, json!("completed"), json!("parent")),
        ]
    );
    let within = events.iter().filter(|event| event["params"]["namespace"] != json!([]));
    assert!(within.clone().count() >= 3);
    let part = within.clone().next().expect("some")["params"]["namespace"][0].clone();
    for filter in [json!([["sub"]]), json!([[part]])] {
        let body = json!({"channels": ["values"], "namespaces": filter});
        let first = Events::open(&client, &thread, body).await.next().await;
        assert_eq!(first["params"]["namespace"], json!([part]));
    }
    let root = json!({"channels": ["values", "lifecycle"], "namespaces": [[]], "depth": 0});
    let events = Events::open(&client, &thread, root).await.run().await;
    assert!(events.iter().all(|event| event["params"]["namespace"] == json!([])));
}

#[tokio::test]
async fn named_values_have_a_channel() {
    let (runtime, _) = graphs::runtime().await;
    let client = Client::over(runtime);
    let thread = new_thread();
    let named = json!({"channels": ["custom:progress", "input"]});
    let mut events = Events::open(&client, &thread, named).await;
    start(&client, &thread, "two", json!({"more": 1})).await;
    let asked = events.take(2).await;
    let payloads: Vec<_> =
        data(&asked, "input.requested").iter().map(|at| at["payload"].clone()).collect();
    assert_eq!(payloads, [json!("left?"), json!("right?")]);
    let response = |event: &Value| {
        json!({"namespace": [], "response": event["params"]["data"]["payload"],
        "interrupt_id": event["params"]["data"]["interrupt_id"]})
    };
    let responses: Vec<_> = asked.iter().map(response).collect();
    let answer = json!({"responses": responses, "goto": "extra", "update": {"more": 2},
        "metadata": {"origin": "test"}, "config": {"tags": ["t"]}});
    result(command(&client, &thread, "input.respond", answer).await);
    let value = json!({"name": "progress", "step": 1});
    let expected = json!({"name": "progress", "step": 1, "payload": value});
    assert_eq!(events.next().await["params"]["data"], expected);
    let runs = client.get(&format!("/threads/{thread}/runs")).await.json();
    client
        .get(&format!("/threads/{thread}/runs/{}/join", runs[0]["run_id"].as_str().expect("id")))
        .await;
    let state = result(command(&client, &thread, "state.get", json!({"namespace": []})).await);
    assert_eq!(
        state["values"],
        json!({"left": "left?", "right": "right?", "done": true, "extra": "went there", "more": 2})
    );
    let run = &runs[0];
    assert_eq!(
        (&run["metadata"]["origin"], &run["kwargs"]["config"]["tags"]),
        (&json!("test"), &json!(["t"]))
    );
}

#[tokio::test]
async fn a_client_that_names_no_event_gets_recent_and_later_runs() {
    let client = client().await;
    let thread = new_thread();
    start(&client, &thread, "echo", json!({"msg": "a"})).await;
    let filter = json!({"channels": ["values", "lifecycle"]});
    let first = Events::open(&client, &thread, filter.clone()).await.run().await;
    let answer = json!({"assistant_id": "echo", "input": {"msg": "b"}});
    let started = command(&client, &thread, "run.start", answer).await;
    // The events after the number of an answer are those of its run.
    let since =
        json!({"channels": filter["channels"], "since": started["meta"]["applied_through_seq"]});
    let second = Events::open(&client, &thread, since).await.run().await;
    let mut both = Events::open(&client, &thread, filter).await;
    assert_eq!(both.run().await, first);
    assert_eq!(both.run().await, second);
}

#[tokio::test]
async fn deleted_runs_and_threads_of_others_have_no_events() {
    let client = client().await;
    let thread = new_thread();
    let params = json!({"assistant_id": "echo", "input": {"msg": "secret"}});
    let run = result(command(&client, &thread, "run.start", params).await)["run_id"].clone();
    let path = format!("/threads/{thread}/runs/{}", run.as_str().expect("an id"));
    client.get(&format!("{path}/join")).await.json();
    assert!(client.delete(&path).await.status.is_success());
    start(&client, &thread, "echo", json!({"msg": "b"})).await;
    let whole = json!({"channels": ["values", "lifecycle"], "since": 0});
    let events = Events::open(&client, &thread, whole).await.run().await;
    assert_eq!(data(&events, "lifecycle").len(), 2);
    assert!(data(&events, "values").iter().any(|values| values["out"] == "echo:b"));
}

/// The text of a message in a stream of `messages-tuple`, as clients put it together: chunks are
/// appended, and so is a message of the type `ai`.
fn appended(events: &[(String, Value, Option<String>)]) -> String {
    let texts = events.iter().filter(|event| event.0 == "messages");
    texts.filter_map(|event| event.1[0]["content"].as_str()).collect()
}

#[tokio::test]
async fn a_text_is_continued_within_its_words_also_after_its_end() {
    let (runtime, words) = graphs::runtime().await;
    let client = Client::over(runtime);
    let thread = format!("/threads/{}", new_thread());
    client.post("/threads", json!({"thread_id": thread.trim_start_matches("/threads/")})).await;
    let talk = json!({
        "assistant_id": "talk", "input": {"messages": [{"role": "user", "content": "?"}]},
        "stream_mode": ["messages-tuple", "values"],
    });
    words.add_permits(4);
    let whole = client.post(&format!("{thread}/runs/stream"), talk).await;
    let events = whole.events();
    let text = appended(&events);
    assert_eq!(text, "one two three four");
    let location = whole.headers["location"].to_str().expect("text");
    // The run has ended, and the log has no partial text of it.
    for (seen, event) in events.iter().enumerate() {
        let Some(id) = &event.2 else { continue };
        let request = axum::http::Request::get(location)
            .header("host", "localhost")
            .header("last-event-id", id);
        let rest =
            client.send(request.body(axum::body::Body::empty()).expect("a request")).await.events();
        let mut received = events[..=seen].to_vec();
        received.extend(rest);
        assert_eq!(appended(&received), text, "after {id}");
    }
}
