//! The protocol of commands and events of threads.

mod commands;
mod connections;
mod graphs;
pub(crate) mod socket;
mod streams;

use crate::client::Client;
use axum::body::{Body, BodyDataStream};
use axum::http::{Request, StatusCode};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::time::Duration;
use tower::ServiceExt;

/// Longest wait for an event.
const WAIT: Duration = Duration::from_secs(20);

/// A new id for a thread, made by the client.
fn new_thread() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Sends a command; returns its answer.
async fn command(client: &Client, thread: &str, method: &str, params: Value) -> Value {
    let body = json!({"id": 7, "method": method, "params": params});
    client.post(&format!("/threads/{thread}/commands"), body).await.json()
}

/// Sends a command that succeeds; returns its result.
#[track_caller]
fn result(answer: Value) -> Value {
    assert_eq!((&answer["type"], &answer["id"]), (&json!("success"), &json!(7)), "{answer}");
    answer["result"].clone()
}

/// A stream of server-sent events that is open.
pub(crate) struct Events {
    body: BodyDataStream,
    buffer: String,
    /// All text of the stream so far.
    pub(crate) received: String,
}

impl Events {
    pub(crate) async fn open(client: &Client, thread: &str, body: Value) -> Self {
        Self::open_with(client, thread, body, &[("host", "localhost".to_owned())]).await
    }

    /// Opens a stream with headers of the request.
    pub(crate) async fn open_with(
        client: &Client,
        thread: &str,
        body: Value,
        headers: &[(&'static str, String)],
    ) -> Self {
        let request = Request::post(format!("/threads/{thread}/stream/events"));
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        let request = request.body(Body::from(body.to_string())).expect("a request");
        let response = client.router.clone().oneshot(request).await.expect("routes do not fail");
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        let body = response.into_body().into_data_stream();
        Self { body, buffer: String::new(), received: String::new() }
    }

    /// Waits for the next event; `None` if the stream ended.
    async fn try_next(&mut self) -> Option<Value> {
        loop {
            if let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let block = block.to_owned();
                let rest = rest.to_owned();
                self.buffer = rest;
                if let Some(event) = read(&block) {
                    return Some(event);
                }
                continue;
            }
            let part = tokio::time::timeout(WAIT, self.body.next()).await.expect("an event");
            let bytes = part?.expect("the stream is not cut");
            let text = std::str::from_utf8(&bytes).expect("text");
            self.buffer += text;
            self.received += text;
        }
    }

    pub(crate) async fn next(&mut self) -> Value {
        self.try_next().await.expect("the stream is open")
    }

    async fn take(&mut self, count: usize) -> Vec<Value> {
        let mut events = Vec::new();
        for _ in 0..count {
            events.push(self.next().await);
        }
        events
    }

    /// Waits for events up to the end of a run.
    pub(crate) async fn run(&mut self) -> Vec<Value> {
        until_end(async || self.next().await).await
    }
}

/// Reads events up to the end of a run.
async fn until_end(mut next: impl AsyncFnMut() -> Value) -> Vec<Value> {
    let mut events = Vec::new();
    loop {
        events.push(next().await);
        if events.last().is_some_and(is_end) {
            return events;
        }
    }
}

/// Returns `true` for the event that ends a run.
fn is_end(event: &Value) -> bool {
    let ends = ["completed", "failed", "interrupted"].map(Value::from);
    event["method"] == "lifecycle"
        && event["params"]["namespace"] == json!([])
        && ends.contains(&event["params"]["data"]["event"])
}

/// Reads an event whose fields agree with its data; `None` for a comment.
fn read(block: &str) -> Option<Value> {
    if block.starts_with(':') {
        assert_eq!(block, ": heartbeat");
        return None;
    }
    let lines: Vec<_> = block.lines().collect();
    let [name, data, id] = lines[..] else { panic!("{block}") };
    let data: Value = serde_json::from_str(data.strip_prefix("data: ")?).expect("JSON");
    assert_eq!(name.strip_prefix("event: ").map(Value::from), Some(data["method"].clone()));
    // Text that a client has follows the number.
    let number = id.strip_prefix("id: ").and_then(|id| id.split('-').next());
    assert_eq!(number, Some(data["seq"].to_string().as_str()), "{id}");
    Some(data)
}

/// The data of the events of a method.
fn data(events: &[Value], method: &str) -> Vec<Value> {
    let of = |event: &&Value| event["method"] == method;
    events.iter().filter(of).map(|event| event["params"]["data"].clone()).collect()
}

/// Masks ids and times, and nothing else.
fn masked(mut event: Value) -> Value {
    for place in ["/event_id", "/seq", "/params/timestamp", "/params/data/interrupt_id"] {
        if let Some(value) = event.pointer_mut(place) {
            *value = "*".into();
        }
    }
    event
}
