//! Channels and writes as JSON.

use crate::run_loop::event::Written;
use serde_json::Value as Json;
use weftwork_engine::{ChannelIdx, NodeIdx, Plan, Slots, TaskOutput};

/// Returns the readable channels of a node that have a value, as an object.
pub(crate) fn read_json(plan: &Plan, slots: &Slots, node: NodeIdx) -> Json {
    let read = plan.reads(node);
    json_object(plan, slots, read)
}

fn json_object(plan: &Plan, slots: &Slots, channels: impl Iterator<Item = ChannelIdx>) -> Json {
    let mut members = serde_json::Map::new();
    for index in channels {
        if let Some(json) = plan.value_json(slots, index) {
            members.insert(plan.channel_name(index).to_owned(), json);
        }
    }
    Json::Object(members)
}

/// The current output of a graph.
pub(crate) fn output_json(plan: &Plan, slots: &Slots) -> Json {
    // The first channel of a flow is its result, the second the value for its next turn.
    if plan.is_single() {
        return plan.value_json(slots, ChannelIdx(0)).unwrap_or_default();
    }
    json_object(plan, slots, plan.output_keys())
}

/// The current state of a graph.
pub(crate) fn state_json(plan: &Plan, slots: &Slots) -> Json {
    if plan.is_single() {
        return plan.value_json(slots, ChannelIdx(0)).unwrap_or_default();
    }
    json_object(plan, slots, plan.state_keys())
}

/// Writes as they are shown.
pub(crate) fn shown_writes(
    plan: &Plan,
    output: &TaskOutput,
    keep: impl Fn(ChannelIdx) -> bool,
) -> Vec<(String, Written)> {
    let kept = output.writes.iter().filter(|(index, _)| keep(*index));
    kept.map(|(index, write)| {
        let shown = match plan.write_json(*index, write) {
            Ok((json, false)) => Written::Put(json),
            Ok((json, true)) => Written::Overwrite(json),
            Err(error) => Written::Put(Json::String(error.to_string())),
        };
        (plan.channel_name(*index).to_owned(), shown)
    })
    .collect()
}

/// The updates of a task as the stream groups them: one object, or one for each write when it
/// wrote a channel more than once.
pub(crate) fn group_updates(writes: Vec<(String, Written)>) -> Vec<Vec<(String, Written)>> {
    let twice = writes
        .iter()
        .enumerate()
        .any(|(i, (name, _))| writes.iter().take(i).any(|(other, _)| other == name));
    if writes.is_empty() {
        Vec::new()
    } else if twice {
        writes.into_iter().map(|write| vec![write]).collect()
    } else {
        vec![writes]
    }
}

/// Returns the result of a flow's node.
pub(crate) fn flow_result(plan: &Plan, output: &TaskOutput) -> Option<Json> {
    if !plan.is_single() {
        return None;
    }
    let (index, write) = output.writes.iter().find(|(index, _)| *index == ChannelIdx(0))?;
    plan.write_json(*index, write).ok().map(|(json, _)| json)
}

/// Writes as an object, the last one of each channel.
#[must_use]
pub fn last_writes(writes: &[(String, Written)]) -> serde_json::Value {
    let members = writes.iter().map(|(name, write)| {
        let (Written::Put(json) | Written::Overwrite(json)) = write;
        (name.clone(), json.clone())
    });
    serde_json::Value::Object(members.collect())
}
