//! Rows of threads and runs, and assistants.

use super::{ids, state, time};
use serde_json::{Map, Value, json};
use weftwork_store::{RunRow, ThreadRow, ThreadStatus};
use weftwork_types::run::{Durability, Multitask, RunInput, RunOutcome, RunStatus};

/// Returns the assistant that stands for a hosted graph.
pub(crate) fn assistant(graph: &str, since: &str) -> Value {
    json!({
        "assistant_id": ids::assistant_of(graph).to_string(),
        "graph_id": graph,
        "config": {},
        "context": {},
        "metadata": {"created_by": "system"},
        "name": graph,
        "created_at": since,
        "updated_at": since,
        "version": 1,
        "description": null,
    })
}

/// Returns a thread, with its state if it has one.
pub(crate) fn thread(
    row: &ThreadRow,
    graph: Option<&str>,
    status: ThreadStatus,
    at: Option<Value>,
) -> Value {
    let status = match status {
        ThreadStatus::Idle => "idle",
        ThreadStatus::Busy => "busy",
        ThreadStatus::Interrupted => "interrupted",
        ThreadStatus::Error => "error",
    };
    let updated = time::text(row.updated_at);
    let mut metadata = row.metadata.clone();
    if let (Some(graph), Some(_)) = (graph, row.status) {
        metadata.insert("graph_id".to_owned(), json!(graph));
        let assistant = ids::assistant_of(graph).to_string();
        metadata.entry("assistant_id").or_insert(assistant.into());
    }
    let mut thread = json!({
        "thread_id": row.id,
        "created_at": time::text(row.created_at),
        "updated_at": updated,
        "state_updated_at": updated,
        "metadata": metadata,
        "status": status,
        "config": {},
        "values": null,
    });
    if let Some(mut at) = at {
        thread["values"] = at["values"].take();
        let tasks = at["tasks"].as_array_mut().map(std::mem::take).unwrap_or_default();
        let mut interrupts = Map::new();
        for mut task in tasks {
            let asked = task["interrupts"].as_array().is_some_and(|asked| !asked.is_empty());
            if let (true, Some(id)) = (asked, task["id"].as_str().map(str::to_owned)) {
                interrupts.insert(id, task["interrupts"].take());
            }
        }
        thread["interrupts"] = interrupts.into();
    }
    thread
}

/// Returns the status of a run.
pub(crate) fn status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Queued | RunStatus::Pending => "pending",
        RunStatus::Running => "running",
        // A run that ends at a question has succeeded; its thread is interrupted.
        RunStatus::Completed | RunStatus::Interrupted => "success",
        RunStatus::Cancelled => "interrupted",
        RunStatus::LimitReached | RunStatus::Failed => "error",
    }
}

/// Returns a run.
pub(crate) fn run(row: &RunRow, graph: &str) -> Value {
    let options = &row.new.options;
    let (input, command) = match &row.new.input {
        RunInput::Start { input } => (input.clone(), Value::Null),
        RunInput::Command(command) => (Value::Null, json!(command)),
        RunInput::Continue => (Value::Null, Value::Null),
        RunInput::Update { writes, .. } => (writes.clone(), Value::Null),
    };
    let assistant = ids::assistant_of(graph).to_string();
    let mut metadata = options.metadata.clone();
    metadata.insert("graph_id".to_owned(), json!(graph));
    metadata.entry("assistant_id").or_insert_with(|| json!(assistant));
    let durability = match options.durability {
        Durability::Sync => "sync",
        Durability::Async => "async",
        Durability::Exit => "exit",
    };
    let multitask = Multitask::ALL.iter().find(|(kind, _)| *kind == options.multitask);
    let created = time::text(row.new.created_at);
    json!({
        "run_id": row.new.at.run,
        "thread_id": row.new.at.thread,
        "assistant_id": metadata["assistant_id"],
        "metadata": metadata,
        "status": status(row.status),
        "kwargs": {
            "input": input,
            "command": command,
            "config": {"configurable": options.configurable, "recursion_limit": options.step_limit},
            "context": options.context,
            "interrupt_before": options.interrupt_before,
            "interrupt_after": options.interrupt_after,
            "durability": durability,
        },
        "multitask_strategy": multitask.map(|(_, name)| name),
        "created_at": created,
        "updated_at": row.ended_at.map_or(created, time::text),
    })
}

/// Returns the failure of a run as a value, if it failed or reached its limit.
pub(crate) fn failure(outcome: &RunOutcome) -> Option<state::Error> {
    match outcome {
        RunOutcome::Failed { fault } => Some(state::Error::of(fault)),
        RunOutcome::LimitReached { step_limit } => Some(state::Error::step_limit(*step_limit)),
        _ => None,
    }
}
