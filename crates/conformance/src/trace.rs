//! Events and snapshots as a trace shows them.

use crate::class;
use crate::expr;
use crate::message;
use serde_json::{Map, Value as Json, json};
use weftwork_graph::run_loop::{
    CheckpointRef, Metadata, Snapshot, Source, StreamItem, SubState, TaskEnded, TaskResult,
    TaskSnapshot, TaskStarted, Written,
};
use weftwork_graph::{MessagePart, StreamEvent, TaskPath};
use weftwork_types::interrupt::{Ask, Interrupt};

/// An event: its place, mode and content. The reference does not report when partial text is void.
pub(crate) fn event(item: &StreamItem) -> Option<Json> {
    if let StreamEvent::Message { part: MessagePart::Reset { .. }, .. } = item.event {
        return None;
    }
    let (mode, payload) = payload(&item.event);
    Some(json!([item.ns, mode, message::shown(payload)]))
}

fn payload(event: &StreamEvent) -> (&'static str, Json) {
    match event {
        StreamEvent::Values { values, interrupts } => ("values", outputs(values, interrupts)),
        StreamEvent::Updates { node, updates, returned, cached } => {
            ("updates", update(node, updates, returned.as_ref(), *cached))
        }
        StreamEvent::Interrupts(interrupts) => {
            ("updates", json!({ "__interrupt__": questions(interrupts) }))
        }
        StreamEvent::TaskStarted(task) => ("tasks", started(task)),
        StreamEvent::TaskEnded(task) => ("tasks", ended(task)),
        StreamEvent::Checkpoint(snapshot) => ("checkpoints", checkpoint(snapshot)),
        StreamEvent::Custom(value) => ("custom", value.clone()),
        StreamEvent::Data { mode, data } => (mode.name().unwrap_or("custom"), data.clone()),
        StreamEvent::Message { part, node, step } => {
            let (chunk, (content, id)) = match part {
                MessagePart::Chunk { id, text } => {
                    (true, (text.as_str().into(), message::id_shown(id.as_str())))
                }
                MessagePart::Reset { id } => (true, (Json::Null, message::id_shown(id.as_str()))),
                MessagePart::Returned(change) => (false, message::streamed(change)),
            };
            let payload = json!({
                "chunk": chunk, "content": content, "id": id, "node": node, "step": step,
            });
            ("messages", payload)
        }
        StreamEvent::Debug { step, event } => {
            let kind = match event.as_ref() {
                StreamEvent::TaskStarted(_) => "task",
                StreamEvent::TaskEnded(_) => "task_result",
                _ => "checkpoint",
            };
            let (_, payload) = payload(event);
            ("debug", json!({ "step": step, "type": kind, "payload": payload }))
        }
    }
}

fn outputs(values: &Json, interrupts: &Option<Vec<Interrupt>>) -> Json {
    let Some(interrupts) = interrupts else { return values.clone() };
    let mut members = values.as_object().cloned().unwrap_or_default();
    members.insert("__interrupt__".to_owned(), questions(interrupts));
    Json::Object(members)
}

fn update(
    node: &str,
    updates: &[Vec<(String, Written)>],
    returned: Option<&Json>,
    cached: bool,
) -> Json {
    let mut objects = updates.iter().map(|writes| {
        let writes = writes.iter().map(|(key, write)| (key.clone(), written(write)));
        Json::Object(writes.collect())
    });
    let value = match (returned, updates) {
        (Some(value), _) => value.clone(),
        (None, []) => Json::Null,
        (None, [_]) => objects.next().unwrap_or_default(),
        (None, _) => objects.collect(),
    };
    let mut members = Map::new();
    members.insert(node.to_owned(), value);
    if cached {
        members.insert("__metadata__".to_owned(), json!({ "cached": true }));
    }
    Json::Object(members)
}

fn written(write: &Written) -> Json {
    match write {
        Written::Put(value) => value.clone(),
        Written::Overwrite(value) => expr::overwrite(value.clone()),
    }
}

/// Writes by key; several writes to one key are grouped.
fn writes(writes: &[(String, Written)]) -> Json {
    let mut result: Map<String, Json> = Map::new();
    for (key, write) in writes {
        let value = written(write);
        let value = match result.get_mut(key) {
            None | Some(Json::Null) => value,
            Some(earlier) => match several(earlier) {
                Some(all) => {
                    all.push(value);
                    continue;
                }
                None => json!({ "$writes": [earlier.take(), value] }),
            },
        };
        result.insert(key.clone(), value);
    }
    Json::Object(result)
}

fn several(value: &mut Json) -> Option<&mut Vec<Json>> {
    value.as_object_mut()?.get_mut("$writes")?.as_array_mut()
}

fn started(task: &TaskStarted) -> Json {
    // A task that code calls gets a list of arguments, and another by name.
    let input = if task.call { json!([[task.input], {}]) } else { task.input.clone() };
    json!({
        "id": task.id.to_string(),
        "name": task.name,
        "input": input,
        "triggers": task.triggers,
    })
}

fn ended(task: &TaskEnded) -> Json {
    let asks = task.interrupts.iter();
    let asks = asks.map(|ask| json!({ "value": question(ask), "id": ask.id.to_string() }));
    json!({
        "id": task.id.to_string(),
        "name": task.name,
        "result": writes(&task.result),
        "error": task.error.as_ref().map(|fault| json!({ "$error": class::error(fault) })),
        "interrupts": asks.collect::<Vec<_>>(),
    })
}

fn questions(interrupts: &[Interrupt]) -> Json {
    let asks = interrupts.iter();
    asks.map(|ask| json!({ "$interrupt": question(ask), "id": ask.id.to_string() })).collect()
}

/// The question of an interrupt, as JSON.
pub(crate) fn question(interrupt: &Interrupt) -> Json {
    match &interrupt.ask {
        Ask::Value { value } => value.clone(),
        Ask::Question { question, .. } => question.as_str().into(),
        Ask::Approval(request) => serde_json::to_value(request).unwrap_or_default(),
        Ask::Timer { until } => json!({ "until": until }),
    }
}

pub(crate) fn config(config: Option<&CheckpointRef>) -> Json {
    match config {
        Some(config) => {
            json!({ "ns": config.ns, "id": config.id.map(|id| id.to_string()) })
        }
        None => Json::Null,
    }
}

fn metadata(metadata: &Metadata) -> Json {
    let source = match metadata.source {
        Source::Nothing => Json::Null,
        Source::Input => "input".into(),
        Source::Loop => "loop".into(),
        Source::Update => "update".into(),
        Source::Fork => "fork".into(),
    };
    let parents = metadata.parents.iter().map(|(ns, id)| (ns.clone(), id.to_string().into()));
    let parents: Map<String, Json> = parents.collect();
    let mut out = json!({ "source": source, "step": metadata.step, "parents": parents });
    if !metadata.delta.is_empty() {
        out["delta"] = json!(metadata.delta);
    }
    out
}

/// The name of what made a checkpoint, and its step; the parts that a script looks for.
pub(crate) fn made_by(snapshot: &Snapshot) -> (Json, Json) {
    match &snapshot.metadata {
        Some(found) => {
            let shown = metadata(found);
            (shown["source"].clone(), shown["step"].clone())
        }
        None => (Json::Null, Json::Null),
    }
}

/// The part of a snapshot that events of checkpoints show.
fn checkpoint(snapshot: &Snapshot) -> Json {
    let tasks = snapshot.tasks.iter().map(|task| {
        let mut out = json!({ "id": task.id.to_string(), "name": task.name });
        if let Some(state) = &task.state {
            out["state"] = sub_state(state);
        }
        out
    });
    json!({
        "values": snapshot.values,
        "next": snapshot.next,
        "config": config(snapshot.config.as_ref()),
        "parent": config(snapshot.parent.as_ref()),
        "metadata": snapshot.metadata.as_ref().map(metadata),
        "tasks": tasks.collect::<Vec<_>>(),
    })
}

/// A snapshot.
pub(crate) fn snapshot(snapshot: &Snapshot) -> Json {
    message::shown(snapshot_of(snapshot))
}

fn snapshot_of(snapshot: &Snapshot) -> Json {
    json!({
        "values": snapshot.values,
        "next": snapshot.next,
        "config": config(snapshot.config.as_ref()),
        "parent": config(snapshot.parent.as_ref()),
        "metadata": snapshot.metadata.as_ref().map(metadata),
        "tasks": snapshot.tasks.iter().map(task).collect::<Vec<_>>(),
        "interrupts": questions(&snapshot.interrupts),
    })
}

fn task(task: &TaskSnapshot) -> Json {
    let mut out = json!({
        "id": task.id.to_string(),
        "name": task.name,
        "path": path(task),
    });
    if let Some(fault) = &task.error {
        out["error"] = json!({ "$error": class::stored_error(fault) });
    }
    if !task.interrupts.is_empty() {
        out["interrupts"] = questions(&task.interrupts);
    }
    let result = match &task.result {
        Some(TaskResult::Writes(all)) => writes(all),
        Some(TaskResult::Returned(value)) => value.clone(),
        None => Json::Null,
    };
    if !result.is_null() && result != json!([]) {
        out["result"] = result;
    }
    if let Some(state) = &task.state {
        out["state"] = sub_state(state);
    }
    out
}

fn path(task: &TaskSnapshot) -> Json {
    match task.path {
        TaskPath::Pull => json!(["__pregel_pull", task.name]),
        TaskPath::Push(index) => json!(["__pregel_push", index, false]),
        other => json!(other.to_string()),
    }
}

fn sub_state(state: &SubState) -> Json {
    match state {
        SubState::Checkpoint(found) => config(Some(found)),
        SubState::Snapshot(found) => snapshot_of(found),
    }
}

#[cfg(test)]
mod tests {
    use super::{outputs, update, writes};
    use serde_json::json;
    use weftwork_graph::run_loop::Written;

    fn put(key: &str, value: serde_json::Value) -> (String, Written) {
        (key.to_owned(), Written::Put(value))
    }

    #[test]
    fn several_writes_to_one_key_stand_together() {
        let all = [put("a", json!(1)), put("b", json!(2)), put("a", json!(3)), put("a", json!(4))];
        assert_eq!(writes(&all), json!({"a": {"$writes": [1, 3, 4]}, "b": 2}));
        // A first write of nothing is lost, as in the reference.
        assert_eq!(writes(&[put("a", json!(null)), put("a", json!(1))]), json!({"a": 1}));
        let overwritten = ("a".to_owned(), Written::Overwrite(json!([1])));
        assert_eq!(writes(&[overwritten]), json!({"a": {"$overwrite": [1]}}));
    }

    #[test]
    fn updates_are_nothing_one_or_a_list() {
        assert_eq!(update("n", &[], None, false), json!({"n": null}));
        let one = vec![put("a", json!(1))];
        assert_eq!(update("n", std::slice::from_ref(&one), None, false), json!({"n": {"a": 1}}));
        let cached = json!({"n": [{"a": 1}, {"a": 1}], "__metadata__": {"cached": true}});
        assert_eq!(update("n", &[one.clone(), one], None, true), cached);
        assert_eq!(update("n", &[], Some(&json!(5)), false), json!({"n": 5}));
    }

    #[test]
    fn outputs_name_the_questions() {
        assert_eq!(outputs(&json!(3), &None), json!(3));
        assert_eq!(
            outputs(&json!({"a": 1}), &Some(Vec::new())),
            json!({"a": 1, "__interrupt__": []})
        );
    }
}
