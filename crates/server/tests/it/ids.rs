//! Threads, messages and calls under the ids that other systems have for them.

use crate::chat::{chunks, client as chat_client, say, user};
use crate::client::Client;
use axum::http::StatusCode;
use serde_json::{Value, json};
use weftwork_types::{OrgId, ThreadId};

/// Ids of nine kinds: a word, and those of mail, chats, calls, orders, other alphabets, escapes,
/// UUIDs, and names of operations.
const IDS: [&str; 13] = [
    "lamp",
    "<CAJ+7f=mail+tag@mail.example.com>",
    "wamid.HBgLNDkxNzAxMjM0NTYVAgARGBI5QTNDQTVCM0Q0Q0Q2RTY3RTcA==",
    "19:meeting_x@thread.v2",
    "call_abc|fc_0123",
    "orders/2026/7 a",
    "Größe 7?#&",
    "%2Flamp",
    "KpDq3Yx0tQe7mZ1s",
    "9D2F0B5E-7C1A-4E6B-8F3D-2A1B0C9E8D7F",
    "search",
    "count",
    "prune",
];

/// Returns an id as a segment of a path, as browsers encode it.
fn segment(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte);
    id.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[tokio::test]
async fn a_thread_has_the_id_that_it_was_created_with_on_all_routes() {
    let client = Client::new().await;
    let long = "月".repeat(256);
    for id in IDS.into_iter().chain([long.as_str()]) {
        let made = client.post("/threads", json!({"thread_id": id})).await.json();
        assert_eq!(made["thread_id"], id);
        let path = format!("/threads/{}", segment(id));
        let run = json!({"assistant_id": "echo", "input": {"msg": id}});
        let ended = client.post(&format!("{path}/runs/wait"), run.clone()).await;
        assert_eq!(ended.json()["out"], format!("echo:{id}"));
        let place = ended.headers["content-location"].to_str().expect("ASCII").to_owned();
        let shown = client.get(&place).await.json();
        assert_eq!((&shown["thread_id"], &shown["status"]), (&json!(id), &json!("success")));
        let joined = ended.headers["location"].to_str().expect("ASCII").to_owned();
        assert_eq!(client.get(&joined).await.json()["n"], 1, "{id}");
        let one = client.get(&path).await.json();
        assert_eq!((&one["thread_id"], &one["values"]["n"]), (&json!(id), &json!(1)));
        let state = client.get(&format!("{path}/state")).await.json();
        assert_eq!(state["checkpoint"]["thread_id"], id);
        let checkpoint = state["checkpoint_id"].as_str().expect("an id");
        let at = client.get(&format!("{path}/state/{checkpoint}")).await.json();
        assert_eq!(at["values"], state["values"]);
        let history = client.get(&format!("{path}/history?limit=10")).await.json();
        assert_eq!(history[0]["metadata"]["thread_id"], id);
        let runs = client.get(&format!("{path}/runs")).await.json();
        assert_eq!(runs.as_array().map(Vec::len), Some(1));
        let streamed = client.post(&format!("{path}/runs/stream"), run).await;
        assert_eq!(streamed.events().last().expect("an event").0, "end", "{}", streamed.body);
        let changed = client.patch(&path, json!({"metadata": {"of": id}})).await.json();
        assert_eq!(changed["metadata"]["of"], id);
        let found = client.post("/threads/search", json!({"ids": [id]})).await.json();
        assert_eq!((found.as_array().map(Vec::len), &found[0]["thread_id"]), (Some(1), &json!(id)));
        let again = client.post("/threads", json!({"thread_id": id})).await;
        assert_eq!(again.status, StatusCode::CONFLICT, "{id}");
    }
    let listed = client.post("/threads/search", json!({"limit": 100})).await.json();
    let mut listed: Vec<_> = listed.as_array().expect("a list").iter().collect();
    listed.sort_by_key(|one| one["thread_id"].as_str());
    let mut expected = [&IDS[..], &[&long]].concat();
    expected.sort_unstable();
    assert_eq!(listed.iter().map(|one| &one["thread_id"]).collect::<Vec<_>>(), expected);
    for id in IDS {
        let path = format!("/threads/{}", segment(id));
        assert_eq!(client.delete(&path).await.status, StatusCode::NO_CONTENT, "{id}");
        assert_eq!(client.get(&path).await.status, StatusCode::NOT_FOUND, "{id}");
    }
}

#[tokio::test]
async fn texts_that_are_no_ids_are_refused() {
    let client = Client::new().await;
    for id in ["", " lamp", "lamp ", "la\nmp", "\u{7f}", &"x".repeat(257)] {
        let refused = client.post("/threads", json!({"thread_id": id})).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{id:?}");
        assert!(refused.body.contains("thread id `"), "{}", refused.body);
    }
}

#[tokio::test]
async fn a_thread_of_a_chat_is_one_of_the_server() {
    let client = chat_client().await;
    for id in IDS {
        chunks(&say(&client, id, json!([user("Where is order A1003?")])).await);
        let path = format!("/threads/{}", segment(id));
        let one = client.get(&path).await.json();
        assert_eq!((&one["thread_id"], &one["status"]), (&json!(id), &json!("idle")), "{one}");
        let stored = client.get(&format!("/chat/desk/{}", segment(id))).await.json();
        assert_eq!(stored.as_array().map(Vec::len), Some(2), "{stored}");
    }
}

#[tokio::test]
async fn a_thread_is_found_by_its_uuid_too() {
    let client = Client::new().await;
    let org = OrgId::new("local").expect("an id");
    for id in IDS {
        let thread = ThreadId::new(id).expect("an id");
        let uuid = thread.uuid(&org);
        let is_uuid = uuid::Uuid::try_parse(id).is_ok();
        let before = client.get(&format!("/threads/{uuid}")).await;
        assert_eq!(before.status, StatusCode::NOT_FOUND, "{id}");
        client.post("/threads", json!({"thread_id": id})).await.json();
        let found = client.get(&format!("/threads/{uuid}")).await;
        if is_uuid {
            assert_eq!(found.status, StatusCode::NOT_FOUND, "{id}");
            let lower = client.get(&format!("/threads/{}", id.to_lowercase())).await;
            assert_eq!(lower.status, StatusCode::NOT_FOUND, "ids are texts");
            continue;
        }
        assert_eq!(found.json()["thread_id"], id);
        let run = json!({"assistant_id": "echo", "input": {"msg": "a"}});
        let ended = client.post(&format!("/threads/{uuid}/runs/wait"), run).await;
        assert_eq!(ended.json()["n"], 1);
        let one = client.get(&format!("/threads/{}", segment(id))).await.json();
        assert_eq!((&one["thread_id"], &one["values"]["n"]), (&json!(id), &json!(1)));
    }
    let all: Value = client.post("/threads/count", json!({})).await.json();
    assert_eq!(all, IDS.len(), "no request made a second thread");
}

#[tokio::test]
async fn messages_and_calls_keep_the_ids_of_their_systems() {
    let client = chat_client().await;
    let thread = client.thread().await;
    let messages: Vec<_> = IDS
        .iter()
        .map(|id| json!({"type": "human", "id": id, "content": format!("mail {id}")}))
        .collect();
    let run = json!({"assistant_id": "desk", "input": {"messages": messages}});
    let ended = client.post(&format!("{thread}/runs/wait"), run).await.json();
    let ids: Vec<_> =
        ended["messages"].as_array().expect("messages").iter().take(IDS.len()).collect();
    assert_eq!(ids.iter().map(|one| &one["id"]).collect::<Vec<_>>(), IDS);
}
