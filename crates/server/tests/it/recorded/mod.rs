//! Recorded requests of LangGraph's own server, sent to this one.
//!
//! `tests/recorded/NN.json` are the requests and answers of a session, one a line, in order; a line
//! with `setup` is a request that the session presumes. `tests/recorded/differences.json` lists each
//! difference with its reason. Ids and times are masked, and nothing else.

mod compare;
mod ids;
mod replay;

use crate::client::Client;
use crate::reference;
use ids::Ids;
use replay::{Line, Outcome};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

const GROUPS: [&str; 11] = ["00", "01", "02", "03", "04", "05", "06", "07", "08", "11", "16"];
/// Requests in a hundred whose status is the recorded one.
const STATUS_MIN: usize = 97;
/// Requests in a hundred whose shape and events are the recorded ones too. One in a hundred differs
/// because ids of threads are texts.
const SHAPE_MIN: usize = 94;

/// The listed differences.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    /// Values that differ wherever they occur, by the ends of their places.
    values: BTreeMap<String, String>,
    /// Requests whose answers differ, as `GROUP.NUMBER`.
    requests: BTreeMap<String, Difference>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    request: String,
    differs: Kind,
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Status,
    Shape,
    Values,
}

fn read<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name);
    let text = std::fs::read_to_string(&file).expect("the file is there");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The kind of difference of an answer, with the differences as text.
fn judged(outcome: &Outcome, listed: &Listed) -> Option<(Kind, String)> {
    if let Some(status) = &outcome.status {
        return Some((Kind::Status, status.clone()));
    }
    let differences = &outcome.differences;
    if !differences.shape.is_empty() {
        return Some((Kind::Shape, differences.shape.join("\n  ")));
    }
    let known = |place: &str| listed.values.keys().any(|end| place.ends_with(end.as_str()));
    let others = differences.values.iter().filter(|(place, _)| !known(place));
    let others: Vec<_> = others.map(|(place, what)| format!("{place}: {what}")).collect();
    (!others.is_empty()).then(|| (Kind::Values, others.join("\n  ")))
}

#[tokio::test(start_paused = true)]
async fn recorded_requests_have_the_recorded_answers() {
    let client = Client::over(reference::runtime().await);
    let listed: Listed = read("differences.json");
    assert!(listed.requests.values().all(|listed| !listed.reason.is_empty()));
    let mut ids = Ids::default();
    let mut all = 0;
    let mut by_kind = [0; 3];
    let mut unlisted = Vec::new();
    let mut stale: Vec<&String> = listed.requests.keys().collect();
    for group in GROUPS {
        let lines: Vec<Line> = read(&format!("{group}.json"));
        let mut number = 0;
        for line in &lines {
            let Some(outcome) = replay::play(&client, line, &mut ids).await else { continue };
            let Line::Recorded(recorded) = line else { continue };
            all += 1;
            number += 1;
            let Some((kind, what)) = judged(&outcome, &listed) else { continue };
            by_kind[kind as usize] += 1;
            let key = format!("{group}.{number}");
            let entry = listed.requests.get(&key);
            stale.retain(|listed| **listed != key);
            let fits = |entry: &Difference| {
                entry.differs == kind && recorded.request.starts_with(&entry.request)
            };
            if !entry.is_some_and(fits) {
                unlisted.push(format!("{key} {} ({kind:?})\n  {what}", recorded.request));
            }
        }
    }
    let [status, shape, values] = by_kind;
    println!(
        "recorded: {}/{all} status, {}/{all} shape and events",
        all - status,
        all - status - shape
    );
    println!("recorded: {}/{all} values too", all - status - shape - values);
    assert!(unlisted.is_empty(), "not listed:\n{}", unlisted.join("\n"));
    assert!(stale.is_empty(), "listed, but no differences: {stale:?}");
    assert!((all - status) * 100 >= all * STATUS_MIN);
    assert!((all - status - shape) * 100 >= all * SHAPE_MIN);
}
