//! The rules of the protocol for the order of events.

use serde_json::Value;
use std::collections::BTreeSet;

/// Events that begin something, those within, and those that end it, with the member that names it.
const SPANS: [(&str, &[&str], &str, &str); 5] = [
    ("TEXT_MESSAGE_START", &["TEXT_MESSAGE_CONTENT"], "TEXT_MESSAGE_END", "messageId"),
    ("TOOL_CALL_START", &["TOOL_CALL_ARGS"], "TOOL_CALL_END", "toolCallId"),
    ("STEP_STARTED", &[], "STEP_FINISHED", "stepName"),
    (
        "REASONING_MESSAGE_START",
        &["REASONING_MESSAGE_CONTENT"],
        "REASONING_MESSAGE_END",
        "messageId",
    ),
    ("REASONING_START", &[], "REASONING_END", "messageId"),
];
const ALONE: [&str; 4] = ["STATE_SNAPSHOT", "STATE_DELTA", "MESSAGES_SNAPSHOT", "TOOL_CALL_RESULT"];

pub(crate) fn kind(event: &Value) -> &str {
    event["type"].as_str().expect("a type")
}

pub(crate) fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(kind).collect()
}

/// Returns the events of a kind.
pub(crate) fn of<'e>(events: &'e [Value], wanted: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| kind(event) == wanted).collect()
}

/// Checks a stream that has not ended.
#[track_caller]
pub(crate) fn check_begin(events: &[Value]) -> usize {
    let mut open = BTreeSet::new();
    let mut results = BTreeSet::new();
    assert_eq!(kind(&events[0]), "RUN_STARTED", "{events:?}");
    for event in &events[1..] {
        let name = kind(event);
        let span = SPANS.iter().find(|(start, within, end, _)| {
            *start == name || *end == name || within.contains(&name)
        });
        match span {
            Some((start, _, end, member)) => {
                let key = (*start, event[*member].as_str().expect("an id").to_owned());
                if name == *start {
                    assert!(open.insert(key), "{event} is open: {events:?}");
                } else if name == *end {
                    assert!(open.remove(&key), "{event} is not open: {events:?}");
                } else {
                    assert!(open.contains(&key), "{event} is not open: {events:?}");
                    assert!(event["delta"].is_string(), "{event}");
                }
            }
            None if name == "TOOL_CALL_RESULT" => {
                let id = event["toolCallId"].as_str().expect("an id").to_owned();
                assert!(event["content"].is_string() && results.insert(id), "{event}");
            }
            None if ["RUN_FINISHED", "RUN_ERROR"].contains(&name) => {
                assert_eq!(event, events.last().expect("events"), "{events:?}");
            }
            None => assert!(ALONE.contains(&name), "{event} has no place: {events:?}"),
        }
    }
    open.len()
}

/// Checks a whole stream: it begins and ends once, and what begins ends.
#[track_caller]
pub(crate) fn check_order(events: &[Value]) {
    let open = check_begin(events);
    let last = events.last().expect("events");
    match kind(last) {
        "RUN_FINISHED" => {
            assert_eq!(open, 0, "{events:?}");
            let outcome = &last["outcome"];
            let names = ["success", "interrupt", "cancelled"];
            assert!(names.contains(&outcome["type"].as_str().expect("an outcome")), "{last}");
            if outcome["type"] == "interrupt" {
                check_interrupts(events, outcome);
            }
            let ids = |event: &Value| (event["threadId"].clone(), event["runId"].clone());
            assert_eq!(ids(last), ids(&events[0]));
        }
        "RUN_ERROR" => assert!(last["message"].is_string() && last["code"].is_string(), "{last}"),
        other => panic!("the stream ends with {other}: {events:?}"),
    }
    assert!(!events.iter().any(has_null), "absent members are not null: {events:?}");
}

/// State and messages come before the end, and interrupts name calls that the client has.
#[track_caller]
fn check_interrupts(events: &[Value], outcome: &Value) {
    let before = kinds(&events[events.len() - 3..]);
    assert_eq!(before, ["STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
    let messages = events[events.len() - 2]["messages"].to_string();
    for interrupt in outcome["interrupts"].as_array().expect("a list") {
        assert!(interrupt["id"].is_string() && interrupt["reason"].is_string(), "{interrupt}");
        if let Some(call) = interrupt.get("toolCallId") {
            assert!(messages.contains(&format!("\"id\":{call}")), "{call}: {messages}");
        }
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.iter().any(has_null),
        Value::Object(members) => members.iter().any(|(name, value)| {
            !["snapshot", "value", "result"].contains(&name.as_str()) && has_null(value)
        }),
        _ => false,
    }
}
