//! States of threads, their tasks and their questions.

use super::{approval, ids, messages, names, time};
use serde_json::{Map, Value, json};
use weftwork_graph::run_loop::{
    CheckpointRef, Snapshot, Source, SubState, TaskResult, TaskSnapshot, Written,
};
use weftwork_types::ThreadId;
use weftwork_types::code::Fault;
use weftwork_types::interrupt::{Ask, Interrupt};
use weftwork_types::run::RunRef;

/// Returns the state of a thread on which nothing ran.
pub(crate) fn empty_state() -> Value {
    json!({
        "values": {}, "next": [], "tasks": [], "metadata": null, "created_at": null,
        "checkpoint": null, "parent_checkpoint": null, "interrupts": [],
        "checkpoint_id": null, "parent_checkpoint_id": null,
    })
}

/// Returns a state.
pub(crate) fn state_to_json(thread: &ThreadId, graph: &str, snapshot: Snapshot) -> Value {
    if snapshot.config.as_ref().is_none_or(|config| config.id.is_none()) {
        return empty_state();
    }
    let id = |place: &Value| place.get("checkpoint_id").cloned().unwrap_or(Value::Null);
    let (at, parent) = checkpoint_and_parent(thread, &snapshot);
    let at_id = id(&at);
    let parent_id = id(&parent);
    let committed = snapshot.run.as_ref().and_then(|run| run.committed_at);
    let interrupts: Vec<_> = snapshot.interrupts.iter().map(interrupt_to_json).collect();
    let metadata = metadata_to_json(thread, graph, &snapshot);
    let error = snapshot.error.as_ref().map(Error::of);
    let mut shown = json!({
        "values": messages::into_shown(snapshot.values),
        "next": snapshot.next,
        "tasks": snapshot.tasks.into_iter().map(|t| task_to_json(thread, graph, t)).collect::<Vec<_>>(),
        "metadata": metadata,
        "created_at": committed.map(time::format_time),
        "checkpoint": at,
        "parent_checkpoint": parent,
        "interrupts": interrupts,
        "checkpoint_id": at_id,
        "parent_checkpoint_id": parent_id,
    });
    if let Some(error) = error {
        // A member of our own: this build cannot read the checkpoint.
        shown["error"] = json!(error);
    }
    shown
}

/// Returns a place in a thread.
pub(crate) fn checkpoint_to_json(thread: &ThreadId, config: &CheckpointRef) -> Value {
    let mut place = json!({
        "checkpoint_id": config.id.map(|id| ids::to_hyphenated(id.0)),
        "thread_id": thread,
        "checkpoint_ns": namespace_of(config),
    });
    if !config.map.is_empty() {
        let map = config.map.iter().map(|(ns, id)| {
            (ids::join_namespace(ns.split('|')), Value::from(ids::to_hyphenated(id.0)))
        });
        place["checkpoint_map"] = map.collect::<Map<_, _>>().into();
    }
    place
}

fn metadata_to_json(thread: &ThreadId, graph: &str, snapshot: &Snapshot) -> Value {
    let mut metadata = Map::new();
    if let Some(run) = &snapshot.run {
        metadata.extend(run.metadata.clone());
        let at = RunRef { thread: thread.clone(), run: run.id.clone() };
        metadata.insert("run_id".to_owned(), json!(run.id));
        metadata.insert("langgraph_request_id".to_owned(), json!(names::request_of(&at)));
        names::add_server(&mut metadata);
    }
    metadata.insert("user_id".to_owned(), json!(""));
    metadata.insert("langgraph_auth_user_id".to_owned(), json!(""));
    // Runs of other graphs may have made earlier checkpoints.
    metadata.entry("graph_id").or_insert_with(|| json!(graph));
    metadata.insert("thread_id".to_owned(), json!(thread));
    if let Some(origin) = &snapshot.metadata {
        metadata.extend(origin_of(origin));
    }
    metadata.into()
}

/// Returns a checkpoint as the event of a stream. `names` are the named settings of its run.
pub(crate) fn event_to_json(names: &Map<String, Value>, snapshot: Snapshot) -> Value {
    let config = |config: &Option<CheckpointRef>| match config {
        Some(config) => {
            let mut configurable = names.clone();
            configurable.insert("checkpoint_ns".to_owned(), namespace_of(config).into());
            let id = config.id.map(|id| ids::to_hyphenated(id.0));
            configurable.insert("checkpoint_id".to_owned(), json!(id));
            json!({"configurable": configurable})
        }
        None => Value::Null,
    };
    let task = |task: TaskSnapshot| {
        let mut shown = json!({
            "id": ids::to_hyphenated(task.id.0),
            "name": task.name,
            "interrupts": task.interrupts.iter().map(interrupt_to_json).collect::<Vec<_>>(),
            "state": match task.state {
                Some(SubState::Checkpoint(at)) => config(&Some(at)),
                Some(SubState::Snapshot(at)) => event_to_json(names, *at),
                None => Value::Null,
            },
        });
        if let Some(error) = &task.error {
            shown["error"] = json!(error_text(error));
        }
        if let Some(done) = task.result {
            shown["result"] = result_to_json(done);
        }
        shown
    };
    json!({
        "config": config(&snapshot.config),
        "parent_config": config(&snapshot.parent),
        "values": messages::into_shown(snapshot.values),
        "metadata": snapshot.metadata.as_ref().map(origin_of),
        "next": snapshot.next,
        "tasks": snapshot.tasks.into_iter().map(task).collect::<Vec<_>>(),
    })
}

/// Returns the places of a checkpoint and of the one before it.
pub(crate) fn checkpoint_and_parent(thread: &ThreadId, snapshot: &Snapshot) -> (Value, Value) {
    let place = |config: &Option<CheckpointRef>| {
        config.as_ref().map_or(Value::Null, |config| checkpoint_to_json(thread, config))
    };
    (place(&snapshot.config), place(&snapshot.parent))
}

fn namespace_of(config: &CheckpointRef) -> String {
    ids::join_namespace(config.ns.split('|'))
}

/// Returns the members `source`, `step` and `parents` of a checkpoint.
fn origin_of(origin: &weftwork_graph::run_loop::Metadata) -> Map<String, Value> {
    let source = match origin.source {
        Source::Input => "input",
        Source::Loop => "loop",
        Source::Update => "update",
        Source::Fork => "fork",
        Source::Nothing => "none",
    };
    let parents = origin.parents.iter().map(|(ns, id)| {
        (ids::join_namespace(ns.split('|')), Value::from(ids::to_hyphenated(id.0)))
    });
    Map::from_iter([
        ("source".to_owned(), json!(source)),
        ("step".to_owned(), json!(origin.step)),
        ("parents".to_owned(), parents.collect::<Map<_, _>>().into()),
    ])
}

fn task_to_json(thread: &ThreadId, graph: &str, task: TaskSnapshot) -> Value {
    let (checkpoint, state) = match task.state {
        Some(SubState::Checkpoint(config)) => (checkpoint_to_json(thread, &config), Value::Null),
        Some(SubState::Snapshot(snapshot)) => {
            (Value::Null, state_to_json(thread, graph, *snapshot))
        }
        None => (Value::Null, Value::Null),
    };
    let path = match task.path {
        weftwork_graph::run_loop::Path::Push(index) => json!(["__pregel_push", index]),
        _ => json!(["__pregel_pull", task.name]),
    };
    json!({
        "id": ids::to_hyphenated(task.id.0),
        "name": task.name,
        "path": path,
        "error": task.error.as_ref().map(error_text),
        "interrupts": task.interrupts.iter().map(interrupt_to_json).collect::<Vec<_>>(),
        "checkpoint": checkpoint,
        "state": state,
        "result": task.result.map(result_to_json),
    })
}

fn result_to_json(result: TaskResult) -> Value {
    match result {
        TaskResult::Writes(writes) => writes_to_json(writes),
        TaskResult::Returned(value) => messages::into_shown(value),
    }
}

/// Returns the writes of a task as an object.
pub(crate) fn writes_to_json(writes: Vec<(String, Written)>) -> Value {
    let value = |write| match write {
        Written::Put(value) | Written::Overwrite(value) => messages::into_shown(value),
    };
    let writes = writes.into_iter().map(|(channel, write)| (channel, value(write)));
    Value::Object(writes.collect())
}

/// Returns a question as part of a task.
pub(crate) fn interrupt_to_json(question: &Interrupt) -> Value {
    let value = match &question.ask {
        Ask::Value { value } => messages::into_shown(value.clone()),
        Ask::Approval(request) => approval::request_to_json(request, question),
        other => json!(other),
    };
    json!({"id": question.id, "value": value})
}

/// Returns a question as part of the values of a run.
pub(crate) fn question_to_json(question: &Interrupt) -> Value {
    let mut asked = interrupt_to_json(question);
    asked["response_schema"] = match &question.ask {
        Ask::Approval(_) => approval::response_schema(question),
        _ => json!(question.answer_schema),
    };
    asked
}

/// Returns a failure as the reference prints exceptions.
pub(crate) fn error_text(fault: &Fault) -> String {
    let Error { error, message } = Error::of(fault);
    format!("{error}('{message}')")
}

/// A failure: the kind of the error and its message.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Error {
    error: String,
    message: String,
}

impl Error {
    pub(crate) fn of(fault: &Fault) -> Self {
        let error = fault.kind.as_deref().unwrap_or(&fault.code).to_owned();
        Self { error, message: fault.message.clone() }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn step_limit(limit: u32) -> Self {
        let message = format!(
            "Recursion limit of {limit} reached without hitting a stop condition. You can \
             increase the limit by setting the `recursion_limit` config key."
        );
        Self { error: "GraphRecursionError".to_owned(), message }
    }
}
