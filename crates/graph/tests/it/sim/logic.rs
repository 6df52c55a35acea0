//! Decisions of nodes and routes: functions of their input, so that the graph and its model share
//! them.

use super::spec::{Kind, Node, Spec};
use serde_json::{Value, json};
use weftwork_types::canonical;

/// Number of tasks that may finish before edges stop leading backwards and sends stop.
const TASKS_MAX: u64 = 10;

/// Result of a node.
#[derive(Debug, Clone, Default)]
pub(super) struct Left {
    /// Channels, values, and whether they replace what is there.
    pub(super) writes: Vec<(&'static str, Value, bool)>,
    pub(super) goto: Vec<usize>,
    pub(super) sends: Vec<(usize, Value)>,
}

/// Input of a node: the state it may read, its argument, and the answers it got.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) view: &'a Value,
    pub(super) input: &'a Value,
    pub(super) answers: &'a [Value],
}

/// A short text that tells values apart.
pub(super) fn digest(value: &Value) -> u64 {
    canonical::hash(value).0.iter().take(4).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

pub(super) fn question(node: &Node, index: usize, input: &Value) -> Value {
    json!({"node": node.name, "question": index, "input": digest(input)})
}

pub(super) fn answer(question: &Value) -> Value {
    json!(digest(question) % 100)
}

pub(super) fn input(round: usize) -> Value {
    json!({"log": [format!("input {round}")], "total": 0})
}

/// Returns the result of a node that works, or of its error handler.
pub(super) fn result(spec: &Spec, index: usize, handler: bool, seen: &Seen<'_>) -> Left {
    let node = &spec.nodes[index];
    let digest = digest(&json!([seen.view, seen.input, seen.answers]));
    let entry = format!("{}{}{:x}", node.name, if handler { '!' } else { '#' }, digest % 0xffff);
    let mut left = Left::default();
    for (channel, replace) in &node.writes {
        let value = match spec.kind(channel) {
            Some(Kind::Append | Kind::Topic) => json!([entry]),
            _ => json!({"by": entry}),
        };
        left.writes.push((channel, value, *replace));
    }
    left.writes.push(("log", json!([entry]), false));
    left.writes.push(("total", json!(1), false));
    if handler {
        return left;
    }
    let total = total(seen.view);
    let may = |to: &usize| *to > index || total < TASKS_MAX;
    if !digest.is_multiple_of(4) {
        left.goto = node.goto.iter().copied().filter(may).collect();
    }
    for to in node.sends.iter().copied().filter(|_| total < TASKS_MAX) {
        for copy in 0..=digest % 3 {
            // Two of them may be equal.
            left.sends.push((to, json!({"total": copy / 2})));
        }
    }
    left
}

/// Where a route leads from a node, or from the start; nowhere is the end.
pub(super) fn routed(from: Option<usize>, targets: &[usize], view: &Value) -> Vec<usize> {
    let total = total(view);
    let may = |to: &&usize| from.is_none_or(|from| **to > from) || total < TASKS_MAX;
    let targets: Vec<usize> = targets.iter().filter(may).copied().collect();
    let digest = digest(view);
    let turn = usize::try_from(digest / 7).unwrap_or_default();
    let count =
        if digest.is_multiple_of(5) { 0 } else { 1 + usize::try_from(digest % 2).unwrap_or(0) };
    let mut chosen: Vec<usize> = (0..count.min(targets.len()))
        .filter_map(|n| targets.get((turn + n) % targets.len()))
        .copied()
        .collect();
    chosen.dedup();
    chosen
}

fn total(view: &Value) -> u64 {
    view["total"].as_u64().unwrap_or_default()
}
