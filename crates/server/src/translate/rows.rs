//! Rows of threads and runs.

use super::{ids, names, state, time};
use serde_json::{Map, Value, json};
use std::time::Duration;
use weftwork_runtime::FORKED_FROM;
use weftwork_store::{RunRow, ThreadRow, ThreadStatus};
use weftwork_types::code::Fault;
use weftwork_types::run::{Durability, Multitask, RunInput, RunOutcome, RunRef, RunStatus, Stops};

/// Returns a thread without its values.
pub(crate) fn thread_to_json(row: &ThreadRow, graph: Option<&str>, status: ThreadStatus) -> Value {
    let updated = time::format_time(row.updated_at);
    let has_run = graph.is_some() && row.status.is_some();
    let config = if has_run { json!({"configurable": {}}) } else { json!({}) };
    json!({
        "thread_id": row.id,
        "created_at": time::format_time(row.created_at),
        "updated_at": updated,
        "state_updated_at": updated,
        "metadata": thread_metadata(row, graph),
        "status": status.word(),
        "config": config,
        "values": null,
    })
}

/// Returns the metadata of a thread, with the members that follow from its last run.
pub(crate) fn thread_metadata(row: &ThreadRow, graph: Option<&str>) -> Map<String, Value> {
    let mut metadata = row.metadata.clone();
    metadata.shift_remove(FORKED_FROM);
    if let Some(graph) = graph
        && row.status.is_some()
    {
        metadata.insert("graph_id".to_owned(), json!(graph));
        let assistant = ids::assistant_of(graph).to_string();
        metadata.entry("assistant_id").or_insert(assistant.into());
    }
    metadata
}

/// Adds the values of a state to a thread, with the open questions by their tasks, and the error of
/// its last run.
pub(crate) fn add_values(thread: &mut Value, mut at: Value) {
    thread["values"] = at["values"].take();
    let tasks = at["tasks"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let mut interrupts = Map::new();
    for mut task in tasks {
        let asked = task["interrupts"].as_array().is_some_and(|asked| !asked.is_empty());
        if asked && let Some(id) = task["id"].as_str().map(str::to_owned) {
            interrupts.insert(id, task["interrupts"].take());
        }
    }
    if thread.get("error").is_none() {
        thread["error"] = Value::Null;
    }
    thread["interrupts"] = interrupts.into();
}

/// Adds the reason for which this build cannot read a thread, instead of its values.
pub(crate) fn add_unreadable(thread: &mut Value, reason: &Fault) {
    thread["error"] = json!(state::Error::of(reason));
    thread["interrupts"] = json!({});
}

/// The facts about a run that are part of its events.
#[derive(Debug, Clone)]
pub(crate) struct RunView {
    pub(crate) at: RunRef,
    /// Name of its graph.
    pub(crate) graph: String,
    pub(crate) assistant: Value,
    pub(crate) created_ms: i64,
    /// Metadata of its request.
    pub(crate) metadata: Map<String, Value>,
}

impl RunView {
    pub(crate) fn of(row: &RunRow, graph: &str) -> Self {
        let mut metadata = row.new.options.metadata.clone();
        metadata.entry("graph_id").or_insert_with(|| json!(graph));
        let assistant = ids::assistant_of(graph).to_string();
        metadata.entry("assistant_id").or_insert_with(|| json!(assistant));
        Self {
            at: row.new.at.clone(),
            graph: graph.to_owned(),
            assistant: metadata.get("assistant_id").cloned().unwrap_or_default(),
            created_ms: row.new.created_at.0,
            metadata,
        }
    }

    /// Returns the named settings of the run as clients see them.
    pub(crate) fn configurable(&self) -> Map<String, Value> {
        names::configurable(&self.at, &self.graph, &self.assistant, self.created_ms)
    }

    /// Returns the metadata of the run with the members about the server.
    pub(crate) fn with_server(&self) -> Map<String, Value> {
        let mut metadata = self.metadata.clone();
        names::add_server(&mut metadata);
        metadata
    }
}

/// Returns the status of a run.
pub(crate) fn status_word(status: RunStatus) -> &'static str {
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
pub(crate) fn run_to_json(row: &RunRow, graph: &str) -> Value {
    let options = &row.new.options;
    let view = RunView::of(row, graph);
    let (input, command) = match &row.new.input {
        RunInput::Start { input } => (input.clone(), Value::Null),
        RunInput::Command(command) => (Value::Null, json!(command)),
        RunInput::Continue => (Value::Null, Value::Null),
        RunInput::Update { writes, .. } => (writes.clone(), Value::Null),
    };
    let begun = !matches!(row.status, RunStatus::Queued | RunStatus::Pending);
    let mut configurable = options.configurable.clone();
    configurable.extend(view.configurable());
    // The run is stored shortly after its time was computed.
    let after = options.not_before.map_or(Duration::ZERO, |at| at.since(row.new.created_at));
    let after_seconds = after.as_millis().div_ceil(1_000);
    configurable.insert("__after_seconds__".to_owned(), json!(after_seconds));
    let metadata = if begun { view.with_server() } else { view.metadata.clone() };
    if begun {
        configurable.insert("__pregel_node_finished".to_owned(), Value::Null);
    }
    let mut config = json!({"configurable": configurable, "metadata": metadata});
    if let Some(limit) = options.step_limit {
        config["recursion_limit"] = json!(limit);
    }
    if let Some(limit) = options.concurrency {
        config["max_concurrency"] = json!(limit);
    }
    if !options.tags.is_empty() {
        config["tags"] = json!(options.tags);
    }
    let durability = match options.durability {
        Durability::Sync => "sync",
        Durability::Async => "async",
        Durability::Exit => "exit",
    };
    let multitask = Multitask::ALL.iter().find(|(kind, _)| *kind == options.multitask);
    let context = if options.context.is_null() { json!({}) } else { options.context.clone() };
    let created = time::format_time(row.new.created_at);
    json!({
        "run_id": row.new.at.run,
        "thread_id": row.new.at.thread,
        "assistant_id": view.assistant,
        "metadata": view.metadata,
        "status": status_word(row.status),
        "kwargs": {
            "input": input,
            "command": command,
            "config": config,
            "context": context,
            // The modes belong to the request that streams a run, and are not stored with it.
            "stream_mode": ["values"],
            "interrupt_before": options.interrupt_before.as_ref().map(stops_to_json),
            "interrupt_after": options.interrupt_after.as_ref().map(stops_to_json),
            "webhook": null,
            "feedback_keys": null,
            "temporary": false,
            "subgraphs": false,
            "resumable": false,
            "checkpoint_during": options.durability != Durability::Exit,
            "durability": durability,
        },
        "multitask_strategy": multitask.map(|(_, name)| name),
        "created_at": created,
        "updated_at": row.ended_at.map_or(created, time::format_time),
        "langsmith_session_name": null,
    })
}

fn stops_to_json(stops: &Stops) -> Value {
    match stops {
        Stops::None => json!([]),
        Stops::All => json!("*"),
        Stops::Nodes(nodes) => json!(nodes),
    }
}

/// Returns the failure of a run as a value, if it failed or reached its limit.
pub(crate) fn failure_of(outcome: &RunOutcome) -> Option<state::Error> {
    match outcome {
        RunOutcome::Failed { fault } => Some(state::Error::of(fault)),
        RunOutcome::LimitReached { step_limit } => Some(state::Error::step_limit(*step_limit)),
        _ => None,
    }
}
