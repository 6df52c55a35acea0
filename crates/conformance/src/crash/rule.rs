//! Rules for comparing a trace with a crash to the undisturbed one.
//!
//! Compared as in all traces: the state after each entry with values, due tasks, results, questions
//! and errors of tasks, the history with the origin of each checkpoint, the events of later
//! entries, and the end of the entry. Not compared, since a crash changes them by nature:
//!
//! - the events of the entry that was cut off, whose first part is not emitted again;
//! - the end of that entry, when it was cut off after its last write;
//! - additional side effects from that entry on; fewer of them are a difference.

use super::Crash;
use crate::compare::{self, FinishOrder, Rules};
use serde_json::{Map, Value as Json};

fn fewer(whole: &Map<String, Json>, got: &Map<String, Json>) -> Option<String> {
    whole.iter().find_map(|(name, count)| {
        let fewer = got.get(name).and_then(Json::as_u64) < count.as_u64();
        let got = got.get(name).cloned().unwrap_or_default();
        fewer.then(|| format!("side effect `{name}` happened {got} times, not {count}"))
    })
}

/// Returns a difference between the trace with a crash and the undisturbed one, where they must be
/// equal.
pub(super) fn difference(undisturbed: &Json, mut got: Json, crash: &Crash<'_>) -> Option<String> {
    let mut expected = undisturbed.clone();
    let entries = |trace: &mut Json| trace["trace"].as_array().map_or(0, Vec::len);
    for index in crash.entry..entries(&mut expected) {
        let expected = &mut expected["trace"][index];
        let got = &mut got["trace"][index];
        let all = taken(expected, "counts");
        let seen = taken(got, "counts");
        let fewer = fewer(&all, &seen);
        if fewer.is_some() {
            return fewer;
        }
        if index == crash.entry {
            for entry in [expected, got] {
                taken(entry, "events");
                if crash.all.is_some() {
                    taken(entry, "error");
                }
            }
        }
    }
    let rules = Rules { finish_order: FinishOrder::Any, ..Rules::default() };
    compare::difference(&Json::Null, &expected, &got, rules).map(|found| found.to_string())
}

fn taken(entry: &mut Json, name: &str) -> Map<String, Json> {
    let found = entry.as_object_mut().and_then(|entry| entry.remove(name));
    match found {
        Some(Json::Object(members)) => members,
        _ => Map::new(),
    }
}
