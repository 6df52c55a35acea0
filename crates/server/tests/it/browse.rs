//! Threads as people browse them: found by words, forked at a message, with what was answered.

use crate::chat::{chunks, client, finished, say, user};
use crate::client::Client;
use crate::graphs;
use axum::http::StatusCode;
use serde_json::{Value, json};
use weftwork_runtime::Runtime;

const THREADS: [&str; 3] = [
    "00000000-0000-4000-8000-00000000000a",
    "00000000-0000-4000-8000-00000000000b",
    "00000000-0000-4000-8000-00000000000c",
];

#[tokio::test]
async fn threads_are_found_by_words_and_values_are_extracted() {
    let client = client().await;
    for (thread, title) in THREADS.iter().zip(["The blue Lamp", "A lamp", "A chair"]) {
        let body = json!({"thread_id": thread, "metadata": {"title": title}});
        assert_eq!(client.post("/threads", body).await.status, StatusCode::OK);
    }
    chunks(&say(&client, THREADS[0], json!([user("Where is order A1003?")])).await);
    let search = async |body: Value| client.post("/threads/search", body).await;
    for (query, found) in [("lamp", 2), ("LAMP blue", 1), ("desk", 1), ("lamp chair", 0), ("", 3)] {
        let answer = search(json!({"query": query, "select": ["thread_id"]})).await.json();
        assert_eq!(answer.as_array().map(Vec::len), Some(found), "{query}: {answer}");
        let count = client.post("/threads/count", json!({"query": query})).await.json();
        assert_eq!(count, json!(found));
    }
    let shown = client.get(&format!("/threads/{}", THREADS[0])).await.json();
    let assistant = shown["metadata"]["assistant_id"].as_str().expect("an id").to_owned();
    let of_people = json!({"query": assistant});
    assert_eq!(client.post("/threads/count", of_people).await.json(), 0, "an id is no text");
    let of_program = json!({"metadata": {"assistant_id": assistant}});
    assert_eq!(client.post("/threads/count", of_program).await.json(), 1);
    for (words, status) in [(16, StatusCode::OK), (17, StatusCode::UNPROCESSABLE_ENTITY)] {
        let answer = search(json!({"query": "lamp ".repeat(words)})).await;
        assert_eq!(answer.status, status, "{words} words");
    }
    let extract = json!({
        "last": "values.messages[-1].content", "first": "values.messages[0].content",
        "none": "values.messages[99].content",
    });
    let body = json!({"query": "blue", "select": ["thread_id"], "extract": extract});
    let found = search(body).await.json();
    let stored = client.get(&format!("/chat/desk/{}", THREADS[0])).await.json();
    let last = stored[1]["parts"].as_array().and_then(|parts| parts.last()).expect("a text");
    let extracted = json!({"last": last["text"], "first": "Where is order A1003?", "none": null});
    assert_eq!(found, json!([{"thread_id": THREADS[0], "extracted": extracted}]));
    for extract in [json!({"a": "values..b"}), json!({"a": 1}), json!([1])] {
        let refused = search(json!({"extract": extract})).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{extract}");
    }
}

#[tokio::test]
async fn a_fork_at_a_message_has_the_messages_before_it_and_goes_on_alone() {
    let client = client().await;
    let [thread, ..] = THREADS;
    for order in ["A1003", "A1001"] {
        let text = format!("Where is order {order}?");
        chunks(&say(&client, thread, json!([user(&text)])).await);
    }
    let stored = client.get(&format!("/chat/desk/{thread}")).await.json();
    assert_eq!(stored[0]["metadata"], json!({"checkpointId": null}));
    let before = &stored[2]["metadata"]["checkpointId"];
    assert!(before.is_string(), "{stored}");
    let body = json!({"checkpoint_id": before});
    let fork = client.post(&format!("/threads/{thread}/copy"), body).await.json();
    let fork = fork["thread_id"].as_str().expect("an id").to_owned();
    let path = format!("/chat/desk/{fork}");
    let copied = client.get(&path).await.json();
    assert_eq!(copied.as_array().map(Vec::len), Some(2), "{copied}");
    let texts = |message: &Value| {
        let parts = message["parts"].as_array().expect("parts");
        let text = |part: &Value| {
            let of = ["text", "output"].iter().find_map(|name| part.get(*name))?;
            Some((part["type"].clone(), of.clone()))
        };
        parts.iter().filter_map(text).collect::<Vec<_>>()
    };
    assert_eq!(texts(&copied[0]), texts(&stored[0]));
    assert_eq!(texts(&copied[1]), texts(&stored[1]));
    chunks(&say(&client, &fork, json!([user("Where is order A1002?")])).await);
    // Metadata that a client reads can be sent back.
    let metadata = client.get(&format!("/threads/{fork}")).await.json()["metadata"].clone();
    let body = json!({ "metadata": metadata });
    let updated = client.patch(&format!("/threads/{fork}"), body).await;
    assert_eq!(updated.status, StatusCode::OK, "{}", updated.body);
    let longer = client.get(&path).await.json();
    assert_eq!(longer.as_array().map(Vec::len), Some(4), "{longer}");
    assert_eq!((&longer[0], &longer[1]), (&copied[0], &copied[1]));
    for (limit, first) in [(0, 4), (1, 2), (2, 0), (9, 0)] {
        let newest = client.get(&format!("{path}?limit={limit}")).await.json();
        let expected: Vec<_> = longer.as_array().into_iter().flatten().skip(first).collect();
        assert_eq!(json!(expected), newest, "limit {limit}");
    }
    let after = client.get(&format!("/chat/desk/{thread}")).await.json();
    assert_eq!(after, stored, "the thread that was forked is as it was");
    // A copy has the last run, and the messages before it.
    let copy = client.post(&format!("/threads/{thread}/copy"), json!({})).await.json();
    let copy = copy["thread_id"].as_str().expect("an id");
    let copied = client.get(&format!("/chat/desk/{copy}")).await.json();
    let all =
        |messages: &Value| messages.as_array().into_iter().flatten().map(texts).collect::<Vec<_>>();
    assert_eq!(all(&copied), all(&stored));
    // A client that names the copy finds it, and none is copied over.
    let named = json!({"thread_id": THREADS[1], "checkpoint_id": before});
    let made = client.post(&format!("/threads/{thread}/copy"), named.clone()).await.json();
    assert_eq!(made["thread_id"], THREADS[1]);
    let again = client.post(&format!("/threads/{thread}/copy"), named).await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.body);
    let unknown = json!({"checkpoint_id": THREADS[1]});
    let refused = client.post(&format!("/threads/{thread}/copy"), unknown).await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND);
    let nothing = client.thread().await;
    let refused = client.post(&format!("{nothing}/copy"), json!({"checkpoint_id": before})).await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND, "no graph has run: {}", refused.body);
    // Checkpoints are listed without their states.
    let history = json!({"limit": 3, "select": ["checkpoint_id", "next"]});
    let listed = client.post(&format!("/threads/{thread}/history"), history).await.json();
    assert_eq!(listed.as_array().map(Vec::len), Some(3));
    assert_eq!(listed[0].as_object().map(serde_json::Map::len), Some(2), "{listed}");
    let whole = json!({"limit": 3, "select": ["values", "tasks"]});
    let whole = client.post(&format!("/threads/{thread}/history"), whole).await.json();
    let all = client.post(&format!("/threads/{thread}/history"), json!({"limit": 3})).await.json();
    let selected = |name: &str, of: &Value| {
        of.as_array().expect("a list").iter().map(|at| at[name].clone()).collect::<Vec<_>>()
    };
    for (name, of) in [("values", &whole), ("tasks", &whole), ("next", &listed)] {
        assert_eq!(selected(name, of), selected(name, &all), "{name}");
    }
}

/// The body of a request that replaces the last answer.
fn again(thread: &str, text: &str) -> Value {
    json!({"threadId": thread, "trigger": "regenerate-message", "messages": [user(text)]})
}

#[tokio::test]
async fn an_answer_is_replaced_only_if_a_run_of_its_thread_made_it() {
    let client = client().await;
    let [thread, other, empty] = THREADS;
    // Nothing was said on this thread, so nothing is said twice.
    client.post("/threads", json!({"thread_id": empty, "metadata": {"graph_id": "desk"}})).await;
    for thread in [empty, other] {
        chunks(&client.post("/chat/desk", again(thread, "Where is order A1003?")).await);
        let stored = client.get(&format!("/chat/desk/{thread}")).await.json();
        assert_eq!(stored.as_array().map(Vec::len), Some(2), "{stored}");
    }
    for order in ["A1003", "A1001"] {
        let text = format!("Where is order {order}?");
        chunks(&say(&client, thread, json!([user(&text)])).await);
    }
    let path = format!("/chat/desk/{thread}");
    let before = client.get(&path).await.json()[2]["metadata"]["checkpointId"].clone();
    let fork =
        client.post(&format!("/threads/{thread}/copy"), json!({"checkpoint_id": before})).await;
    let fork = fork.json()["thread_id"].as_str().expect("an id").to_owned();
    let copied = client.get(&format!("/chat/desk/{fork}")).await.json();
    assert_eq!(copied[1]["metadata"].get("runId"), None, "{copied}");
    let refused = client.post("/chat/desk", again(&fork, "Where is order A1003?")).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.body);
    assert!(refused.body.contains("came with a copy"), "{}", refused.body);
    assert_eq!(client.get(&format!("/chat/desk/{fork}")).await.json(), copied);
    // A change of the state from outside is no message, and does not hide the last one.
    let update = json!({"values": {"messages": []}, "as_node": "__start__"});
    let changed = client.post(&format!("/threads/{thread}/state"), update).await;
    assert_eq!(changed.status, StatusCode::OK, "{}", changed.body);
    chunks(&client.post("/chat/desk", again(thread, "Where is order A1001?")).await);
    let stored = client.get(&path).await.json();
    assert_eq!(stored.as_array().map(Vec::len), Some(4), "{stored}");
}

#[tokio::test]
async fn earlier_messages_are_listed_before_the_first_run_begins() {
    let client = client().await;
    let [thread, ..] = THREADS;
    let messages = json!([
        {"type": "system", "content": "Be brief."},
        {"type": "human", "content": "Where is order A1003?"},
        {"type": "ai", "content": "On its way."},
    ]);
    let updates = json!([{"values": {"messages": messages}, "as_node": "__start__"}]);
    let metadata = json!({"graph_id": "desk"});
    let body =
        json!({"thread_id": thread, "metadata": metadata, "supersteps": [{"updates": updates}]});
    client.post("/threads", body).await.json();
    let input = json!({"messages": [{"type": "human", "content": "And A1001?"}]});
    let run = json!({"assistant_id": "desk", "input": input, "after_seconds": 600});
    client.post(&format!("/threads/{thread}/runs"), run).await.json();
    let stored = client.get(&format!("/chat/desk/{thread}")).await.json();
    let texts: Vec<_> = stored.as_array().into_iter().flatten().map(said).collect();
    assert_eq!(texts, ["Where is order A1003?", "On its way.", "And A1001?"]);
}

/// The last text of a message.
fn said(message: &Value) -> &str {
    let parts = message["parts"].as_array().expect("parts");
    parts.iter().rev().find_map(|part| part["text"].as_str()).unwrap_or_default()
}

#[tokio::test]
async fn answered_questions_are_listed_with_who_answered_and_how_newest_first() {
    let client = client().await;
    for thread in THREADS {
        chunks(&say(&client, thread, json!([user("Refund order A1002, amount 40.")])).await);
    }
    let path = "/interrupts?answered=true";
    assert_eq!(client.get(path).await.json(), json!([]));
    let open = client.get("/interrupts").await.json();
    let ids: Vec<_> = open.as_array().into_iter().flatten().map(|one| &one["id"]).collect();
    assert_eq!(ids.len(), 3);
    for (id, answer) in ids.iter().zip([json!({"type": "approve"}), json!({"type": "reject"})]) {
        let address = format!("/interrupts/{}/respond", id.as_str().expect("an id"));
        let answered = client.post(&address, answer).await;
        assert_eq!(answered.status, StatusCode::ACCEPTED, "{}", answered.body);
        let thread = answered.json()["thread_id"].as_str().expect("an id").to_owned();
        finished(&client, &thread).await;
    }
    let found = client.get(path).await.json();
    let listed: Vec<_> = found.as_array().into_iter().flatten().map(|one| &one["id"]).collect();
    assert_eq!(listed, [ids[1], ids[0]]);
    assert_eq!(
        (&found[0]["answered_by"], &found[0]["answer"]["approved"]),
        (&json!("local"), &json!(false))
    );
    assert_eq!(found[1]["call"]["args"]["action"], "refund_order");
    let one = client.get(&format!("{path}&limit=1")).await.json();
    assert_eq!(one, json!([found[0]]));
    let refused = client.get(&format!("{path}&offset=1")).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
    // Those of one thread. A copy has no answers of its own.
    let thread = found[1]["thread_id"].as_str().expect("an id");
    let of = async |thread: &str| client.get(&format!("{path}&thread_id={thread}")).await;
    assert_eq!(of(thread).await.json(), json!([found[1]]));
    assert_eq!(of("00000000-0000-4000-8000-00000000000d").await.status, StatusCode::NOT_FOUND);
    let copy = client.post(&format!("/threads/{thread}/copy"), json!({})).await.json();
    let copy = copy["thread_id"].as_str().expect("an id");
    assert_eq!(of(copy).await.json(), json!([]));
    assert_eq!(client.get(path).await.json(), found);
}

#[tokio::test]
async fn threads_that_wait_for_a_time_are_found_apart() {
    let hosted = graphs::host(Runtime::in_memory()).graph("nap", graphs::nap());
    let client = Client::over(hosted.open().await.expect("opens"));
    let thread = async |run: &str, body: Value| {
        let thread = client.thread().await;
        let answer = client.post(&format!("{thread}/{run}"), body).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        thread.rsplit('/').next().expect("an id").to_owned()
    };
    let nap = |q: &str| json!({"assistant_id": "nap", "input": {"q": q}});
    let timer = thread("runs/wait", nap("no")).await;
    let asks = thread("runs/wait", nap("ask")).await;
    let later = json!({"assistant_id": "echo", "input": {"msg": "x"}, "after_seconds": 600});
    let later = thread("runs", later).await;
    thread("runs/wait", json!({"assistant_id": "echo", "input": {"msg": "x"}})).await;
    let search = async |mut body: Value| {
        body["select"] = json!(["thread_id", "status", "waits_until"]);
        body["sort_order"] = json!("asc");
        let found = client.post("/threads/search", body).await.json();
        let shown = |one: &Value| {
            let of = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
            (of("thread_id"), of("status"), one["waits_until"].is_string())
        };
        found.as_array().expect("a list").iter().map(shown).collect::<Vec<_>>()
    };
    let of = |id: &String, status: &str, waits| (id.clone(), status.to_owned(), waits);
    let timed = [of(&timer, "interrupted", true), of(&later, "busy", true)];
    assert_eq!(search(json!({"timed": true})).await, timed);
    let asked = json!({"timed": false, "status": "interrupted"});
    assert_eq!(search(asked).await, [of(&asks, "interrupted", false)]);
    assert_eq!(search(json!({"timed": false, "status": "busy"})).await, []);
    assert_eq!(search(json!({})).await.len(), 4);
    let count = client.post("/threads/count", json!({"timed": true})).await.json();
    assert_eq!(count, json!(2));
    let plain = client.post("/threads/search", json!({"ids": [timer]})).await.json();
    assert_eq!(plain[0].get("waits_until"), None, "{plain}");
}

#[tokio::test]
async fn the_end_of_the_last_run_is_found_with_a_thread() {
    let client = Client::new().await;
    let last_run = async |thread: &str| {
        let id = thread.rsplit('/').next().expect("an id");
        let body = json!({"ids": [id], "select": ["status", "last_run"]});
        client.post("/threads/search", body).await.json()[0].clone()
    };
    let thread = client.thread().await;
    assert_eq!(last_run(&thread).await, json!({"status": "idle", "last_run": null}));
    let echo = json!({"assistant_id": "echo", "input": {"msg": "x"}});
    client.post(&format!("{thread}/runs/wait"), echo).await;
    assert_eq!(last_run(&thread).await, json!({"status": "idle", "last_run": "completed"}));
    let copy = client.post(&format!("{thread}/copy"), json!({})).await.json();
    let copy = copy["thread_id"].as_str().expect("an id").to_owned();
    assert_eq!(last_run(&copy).await, json!({"status": "idle", "last_run": "completed"}));
    // A copy up to a checkpoint has no runs.
    let state = client.get(&format!("{thread}/state")).await.json();
    let at = json!({"checkpoint_id": state["checkpoint"]["checkpoint_id"]});
    let copy = client.post(&format!("{thread}/copy"), at).await.json();
    let copy = copy["thread_id"].as_str().expect("an id").to_owned();
    assert_eq!(last_run(&copy).await, json!({"status": "idle", "last_run": "copied"}));
    // Threads are found by it.
    let count = async |last_run: Value| {
        client.post("/threads/count", json!({"last_run": last_run})).await.json()
    };
    client.thread().await;
    assert_eq!(count(json!("none")).await, json!(1));
    assert_eq!(count(json!("copied")).await, json!(1));
    assert_eq!(count(json!(["completed", "copied"])).await, json!(3));
    assert_eq!(count(json!("cancelled")).await, json!(0));
    let odd = client.post("/threads/count", json!({"last_run": "gone"})).await;
    assert_eq!(odd.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", odd.body);
}
