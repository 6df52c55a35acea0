//! Sends the requests of a recording, and compares the answers.

use super::compare::Differences;
use super::ids::{Ids, masked};
use crate::client::{Answer, Client};
use axum::body::Body;
use axum::http::Request;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// A line of a recording.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Line {
    /// A request that the recording presumes.
    Setup {
        setup: String,
        body: Value,
    },
    Recorded(Box<Recorded>),
}

/// A recorded request with its answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recorded {
    /// Time between the answer to the previous request and this one.
    #[serde(default)]
    pause_ms: u64,
    pub(super) request: String,
    #[serde(default)]
    request_headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<Value>,
    /// The body of a request that is not JSON.
    #[serde(default)]
    text: Option<String>,
    status: u16,
    headers: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "present")]
    json: Option<Value>,
    #[serde(default)]
    events: Option<Vec<Event>>,
    /// An answer that is neither.
    #[serde(default)]
    answer: Option<String>,
}

/// Reads a member that may be null: only a missing one is `None`.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

#[derive(Debug, Deserialize)]
struct Event {
    event: String,
    data: Value,
    #[serde(default)]
    id: Option<String>,
}

/// The comparison of one answer.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) status: Option<String>,
    pub(super) differences: Differences,
}

pub(super) async fn play(client: &Client, line: &Line, ids: &mut Ids) -> Option<Outcome> {
    let recorded = match line {
        Line::Setup { setup, body } => {
            let body = ids.translate(&body.to_string());
            let answer = send(client, setup, &BTreeMap::new(), Some(body), ids).await;
            assert!(answer.status.is_success(), "{setup}: {}", answer.body);
            return None;
        }
        Line::Recorded(recorded) => recorded,
    };
    if recorded.pause_ms > 0 {
        tokio::time::sleep(Duration::from_millis(recorded.pause_ms)).await;
    }
    let body = recorded.body.as_ref().map(Value::to_string).or_else(|| recorded.text.clone());
    let body = body.map(|body| ids.translate(&body));
    let answer = send(client, &recorded.request, &recorded.request_headers, body, ids).await;
    Some(recorded.compared(&answer, ids))
}

async fn send(
    client: &Client,
    request: &str,
    headers: &BTreeMap<String, String>,
    body: Option<String>,
    ids: &Ids,
) -> Answer {
    let (method, path) = request.split_once(' ').expect("a method and a path");
    let mut request = Request::builder().method(method).uri(ids.translate(path));
    request = request.header("host", "localhost");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    client.send(request.body(body.map_or_else(Body::empty, Body::from)).expect("valid")).await
}

impl Recorded {
    fn compared(&self, answer: &Answer, ids: &mut Ids) -> Outcome {
        let mut outcome = Outcome::default();
        if answer.status.as_u16() != self.status {
            let found =
                format!("{}: {}", answer.status, answer.body.chars().take(300).collect::<String>());
            outcome.status = Some(format!("recorded {}, found {found}", self.status));
            return outcome;
        }
        let differences = &mut outcome.differences;
        self.compare_headers(answer, ids, differences);
        if let Some(events) = &self.events {
            compare_events(events, answer, ids, differences);
        } else if let Some(recorded) = &self.json {
            let found = serde_json::from_str(&answer.body).unwrap_or(Value::Null);
            differences.compare("body", recorded, &found, ids);
        } else {
            let recorded = self.answer.as_deref().unwrap_or_default();
            differences.compare_text(recorded, &answer.body);
        }
        outcome
    }

    fn compare_headers(&self, answer: &Answer, ids: &mut Ids, differences: &mut Differences) {
        let header = |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok());
        let recorded: Map<_, _> =
            self.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut found: Map<_, _> = recorded
            .keys()
            .filter_map(|name| header(name).map(|value| (name.clone(), json!(path(name, value)))))
            .collect();
        if let Some(next) = header("x-pagination-next") {
            found.insert("x-pagination-next".to_owned(), json!(next));
        }
        differences.compare("headers", &recorded.into(), &found.into(), ids);
    }
}

/// Compares the events of a stream. This server ends each stream with `end`, which the recorded one
/// does not; and each of its events has an id.
fn compare_events(recorded: &[Event], answer: &Answer, ids: &mut Ids, to: &mut Differences) {
    let mut found = answer.events();
    let failed = recorded.last().is_some_and(|event| event.event == "error");
    let ended = found.last().is_some_and(|event| event.0 == "end");
    if ended {
        found.pop();
    }
    if ended == failed {
        to.shape("events", "`end` or `error`, and not both, is the last event");
    }
    let names = |names: &mut dyn Iterator<Item = &str>| -> Vec<String> {
        names.map(|name| masked(name).text).collect()
    };
    let a = names(&mut recorded.iter().map(|event| event.event.as_str()));
    let b = names(&mut found.iter().map(|event| event.0.as_str()));
    if a != b {
        to.shape("events", format!("recorded {a:?}, found {b:?}"));
        return;
    }
    for (at, (recorded, found)) in recorded.iter().zip(&found).enumerate() {
        let place = format!("events.{at}");
        to.compare(&place, &json!(recorded.event), &json!(found.0), ids);
        to.compare(&place, &recorded.data, &found.1, ids);
        if recorded.id.is_some() && found.2.is_none() {
            to.shape(&place, "the id is missing");
        }
    }
}

/// The value of a header; of `location` without the modes, which the recorded server forgets.
fn path<'a>(name: &str, value: &'a str) -> &'a str {
    let path = value.split_once('?').map_or(value, |parts| parts.0);
    if name == "location" { path } else { value }
}
