//! Snapshots of threads as JSON.

use serde_json::{Value, json};
use weftwork::graph::{
    CheckpointRef, Snapshot, Source, SubState, TaskResult, TaskSnapshot, Written,
};

/// Returns the word for the origin of a checkpoint.
pub fn source_word(source: Source) -> &'static str {
    match source {
        Source::Input => "input",
        Source::Loop => "loop",
        Source::Update => "update",
        Source::Fork => "fork",
        Source::Nothing => "nothing",
    }
}

/// Returns a snapshot as JSON: the checkpoint, its origin, its state, the due nodes, the tasks and
/// the open questions.
pub fn snapshot_to_json(found: &Snapshot) -> Value {
    let mut out = json!({
        "checkpoint": checkpoint_to_json(found.config.as_ref()),
        "parent": checkpoint_to_json(found.parent.as_ref()),
        "values": found.values,
        "next": found.next,
        "tasks": found.tasks.iter().map(task_to_json).collect::<Vec<_>>(),
        "interrupts": found.interrupts,
    });
    if let Some(metadata) = &found.metadata {
        out["source"] = source_word(metadata.source).into();
        out["step"] = metadata.step.into();
    }
    if let Some(config) = found.config.as_ref().filter(|config| !config.ns.is_empty()) {
        out["namespace"] = config.ns.as_str().into();
    }
    out
}

fn checkpoint_to_json(config: Option<&CheckpointRef>) -> Value {
    config.and_then(|config| config.id).map_or(Value::Null, |id| id.to_string().into())
}

fn task_to_json(task: &TaskSnapshot) -> Value {
    let mut out = json!({ "id": task.id.to_string(), "node": task.name });
    if let Some(fault) = &task.error {
        out["error"] = json!(fault);
    }
    if !task.interrupts.is_empty() {
        out["interrupts"] = json!(task.interrupts);
    }
    match &task.result {
        Some(TaskResult::Writes(writes)) => out["writes"] = writes_to_json(writes),
        Some(TaskResult::Returned(value)) => out["returned"] = value.clone(),
        None => {}
    }
    match &task.state {
        Some(SubState::Snapshot(state)) => out["state"] = snapshot_to_json(state),
        Some(SubState::Checkpoint(config)) => out["namespace"] = config.ns.as_str().into(),
        None => {}
    }
    out
}

/// Returns writes as JSON: a list of objects with the channel and the value.
pub(crate) fn writes_to_json(writes: &[(String, Written)]) -> Value {
    let writes = writes.iter().map(|(channel, write)| {
        let (kind, value) = match write {
            Written::Put(value) => ("put", value),
            Written::Overwrite(value) => ("overwrite", value),
        };
        json!({ "channel": channel, kind: value })
    });
    writes.collect()
}
