//! Messages that replace others: they answer no question, and repeat no effect.

use crate::chat::{chunks, client, finished, say, user};
use axum::http::StatusCode;
use serde_json::{Value, json};
use weftwork_types::{Principal, ThreadId};

const THREADS: [&str; 2] =
    ["00000000-0000-4000-8000-0000000000a1", "00000000-0000-4000-8000-0000000000a2"];

/// A body of the AI SDK that replaces a message and all that follows it.
fn replacing(thread: &str, trigger: &str, named: &str, messages: Value) -> Value {
    json!({"id": thread, "trigger": trigger, "messageId": named, "messages": messages})
}

fn of_assistant(id: &Value) -> Value {
    json!({"id": id, "role": "assistant", "parts": [{"type": "text", "text": "said"}]})
}

/// The ids of the questions that a response asks.
fn asked(chunks: &[Value]) -> Vec<&Value> {
    let asks = |chunk: &&Value| {
        chunk["type"] == "tool-input-available" && chunk["toolName"] == "request_approval"
    };
    chunks.iter().filter(asks).map(|chunk| &chunk["toolCallId"]).collect()
}

#[tokio::test]
async fn a_text_that_is_said_again_answers_no_question() {
    let client = client().await;
    let [thread, other] = THREADS;
    let refund = user("Refund order A1002, amount 40.");
    let first = chunks(&say(&client, thread, json!([user("Where is order A1003?")])).await);
    let first = of_assistant(&first[0]["messageId"]);
    assert_eq!(asked(&chunks(&say(&client, thread, json!([refund])).await)).len(), 1);
    // The second message, in other words. `yes` would approve.
    let edits =
        replacing(thread, "submit-message", "own-2", json!([user("a"), first, user("yes")]));
    assert_eq!(asked(&chunks(&client.post("/chat/desk", edits).await)).len(), 0);
    assert_eq!(asked(&chunks(&say(&client, thread, json!([refund])).await)).len(), 1);
    let again = replacing(thread, "regenerate-message", "", json!([user("a"), first, user("yes")]));
    assert_eq!(asked(&chunks(&client.post("/chat/desk", again).await)).len(), 0);
    // A text after an older message than the one that asks.
    assert_eq!(asked(&chunks(&say(&client, thread, json!([refund])).await)).len(), 1);
    let late = json!({"id": thread, "messages": [user("a"), first, user("yes")]});
    assert_eq!(asked(&chunks(&client.post("/chat/desk", late).await)).len(), 0);
    let stored = client.get(&format!("/chat/desk/{thread}")).await.json();
    let texts = stored.as_array().into_iter().flatten().filter(|said| said["role"] == "user");
    let texts: Vec<_> = texts.map(|said| &said["parts"][0]["text"]).collect();
    let refund = "Refund order A1002, amount 40.";
    assert_eq!(texts, ["Where is order A1003?", "yes", refund, "yes"]);
    assert!(!stored.to_string().contains("refunded"), "{stored}");
    // Which message is replaced is not known.
    let unknown = replacing(thread, "submit-message", "own-7", json!([user("yes")]));
    assert_eq!(client.post("/chat/desk", unknown).await.status, StatusCode::CONFLICT);
    let none = replacing(other, "submit-message", "own-1", json!([user("Where is A1003?")]));
    chunks(&client.post("/chat/desk", none).await);
}

#[tokio::test]
async fn a_decision_with_the_id_of_its_message_replaces_nothing() {
    let client = client().await;
    let [thread, _] = THREADS;
    let refund = user("Refund order A1002, amount 40.");
    let asks = chunks(&say(&client, thread, json!([refund])).await);
    let named = asks[0]["messageId"].as_str().expect("an id");
    let card = json!({"type": "tool-request_approval", "toolCallId": asked(&asks)[0],
        "state": "output-available", "input": {}, "output": {"type": "approve"}});
    // As the AI SDK sends it by itself once a card has its result.
    let message = json!({"id": named, "role": "assistant", "parts": [card]});
    let body = replacing(thread, "submit-message", named, json!([refund, message]));
    chunks(&client.post("/chat/desk", body).await);
    finished(&client, thread).await;
    let stored = client.get(&format!("/chat/desk/{thread}")).await.json();
    assert!(stored.to_string().contains("refunded 40 for A1002"), "{stored}");
}

#[tokio::test]
async fn an_answer_that_replaces_another_makes_no_call_again() {
    let client = client().await;
    let [thread, other] = THREADS;
    for (thread, before) in [(thread, false), (other, true)] {
        if before {
            chunks(&say(&client, thread, json!([user("Where is order A1003?")])).await);
        }
        let refund = user("Refund order A1002, amount 40.");
        let asks = chunks(&say(&client, thread, json!([refund])).await);
        let id = asked(&asks)[0].as_str().expect("an id").to_owned();
        let address = format!("/interrupts/{thread}.{id}/respond");
        let answered = client.post(&address, json!({"type": "approve"})).await;
        assert!(answered.status.is_success(), "{}", answered.body);
        finished(&client, thread).await;
        let stored = client.get(&format!("/chat/desk/{thread}")).await.json();
        let named = stored.as_array().expect("a list").iter().rfind(|said| said["role"] == "user");
        let named = named.expect("it was said")["id"].as_str().expect("an id").to_owned();
        for (trigger, named) in [("regenerate-message", ""), ("submit-message", named.as_str())] {
            let body = replacing(thread, trigger, named, json!([refund]));
            let found = chunks(&client.post("/chat/desk", body).await);
            assert_eq!(asked(&found).len(), 0, "{trigger}: {found:?}");
        }
        let state = client.get(&format!("/threads/{thread}/state")).await.json();
        let made = state["values"].to_string().matches("refunded 40").count();
        assert!(made > 0, "{state}");
        let records = client.runtime.store();
        let who = Principal::local();
        let id = ThreadId::new(thread).expect("an id");
        let calls = records.calls(&who, &id).await.expect("reads");
        let refunds = calls.iter().filter(|call| call.name == "refund_order");
        assert_eq!(refunds.map(|call| call.made).collect::<Vec<_>>(), [1]);
    }
}

#[tokio::test]
async fn a_decision_of_langchain_at_an_older_checkpoint_is_about_the_call_that_waited_there() {
    let client = client().await;
    let thread = client.thread().await;
    let text = "Refund order A1002, amount 40.";
    let input = json!({"messages": [{"role": "user", "content": text}]});
    let ask = json!({"assistant_id": "desk", "input": input});
    client.post(&format!("{thread}/runs/wait"), ask).await.json();
    let waited = client.get(&format!("{thread}/state")).await.json();
    let checkpoint = &waited["checkpoint"]["checkpoint_id"];
    let id = &waited["interrupts"][0]["id"].as_str().expect("an id").to_owned();
    let decisions = |kind: &str| json!({"decisions": [{"type": kind, "message": "not now"}]});
    for (kind, by_id, said) in [
        ("approve", false, "refunded 40"),
        ("reject", false, "not now"),
        ("reject", true, "not now"),
        ("approve", true, "refunded 40"),
    ] {
        let resume = match by_id {
            true => json!({id: decisions(kind)}),
            false => decisions(kind),
        };
        let body = json!({"assistant_id": "desk", "command": {"resume": resume},
            "checkpoint": {"checkpoint_id": checkpoint}});
        let values = client.post(&format!("{thread}/runs/wait"), body).await.json();
        assert!(values["messages"].to_string().contains(said), "{kind}, {by_id}: {values}");
    }
    let records = client.runtime.store();
    let id = ThreadId::new(thread.trim_start_matches("/threads/")).expect("an id");
    let calls = records.calls(&Principal::local(), &id).await.expect("reads");
    let refunds = calls.iter().filter(|call| call.name == "refund_order");
    assert_eq!(refunds.map(|call| call.made).sum::<u32>(), 1, "{calls:?}");
}
