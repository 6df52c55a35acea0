//! What must be the same after a crash, and what need not be.
//!
//! Compared as traces are: the state after each entry with values, what is due, results, questions
//! and errors of tasks, the history with how each checkpoint came about, what later entries tell,
//! and how the entry ended. Left out is what a crash changes by nature:
//!
//! - the events of the entry that was cut off, for nobody told the first part of them twice;
//! - how that entry ended, when it was cut off after its last write;
//! - side effects may have happened more often from that entry on, never less often.

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

/// How the trace with a crash differs from the undisturbed one, where it must not.
pub(super) fn difference(undisturbed: &Json, mut got: Json, crash: &Crash<'_>) -> Option<String> {
    let mut expected = undisturbed.clone();
    let entries = |trace: &mut Json| trace["trace"].as_array().map_or(0, Vec::len);
    for index in crash.entry..entries(&mut expected) {
        let (expected, got) = (&mut expected["trace"][index], &mut got["trace"][index]);
        let (all, seen) = (taken(expected, "counts"), taken(got, "counts"));
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
