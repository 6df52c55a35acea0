//! Content of the events of a stream: computed from a graph, its state and the records of its
//! tasks, in a run and from stored checkpoints alike.

use crate::compiled::CompiledGraph;
use crate::run_loop::checkpointer::TaskRecord;
use crate::run_loop::event::{
    CheckpointRef, Metadata, Snapshot, StreamEvent, SubState, TaskEnded, TaskSnapshot, TaskStarted,
};
use crate::run_loop::namespace::task_ns;
use crate::run_loop::task::{name_of, trigger_names};
use crate::run_loop::values::{
    flow_result, group_updates, output_json, read_json, shown_writes, state_json,
};
use serde_json::Value as Json;
use weftwork_engine::channel::{ids_in, ids_in_json};
use weftwork_engine::pregel::{Machine, Task};
use weftwork_engine::{ChannelIdx, Plan, Slots, TaskOutput};
use weftwork_types::{CheckpointId, TaskId};

/// Returns `true` if a stream shows a channel of a graph: the outermost graph shows its whole
/// state, subgraphs their output.
pub(crate) fn shows_channel(plan: &Plan, nested: bool, channel: ChannelIdx) -> bool {
    if nested { plan.is_output(channel) } else { plan.is_state(channel) }
}

/// The output of a graph as streams show it.
pub(crate) fn shown_values(plan: &Plan, nested: bool, slots: &Slots) -> Json {
    if nested { output_json(plan, slots) } else { state_json(plan, slots) }
}

/// The writes of a task of a node.
pub(crate) fn update_event(
    plan: &Plan,
    nested: bool,
    node: &str,
    output: &TaskOutput,
    cached: bool,
) -> StreamEvent {
    let writes = shown_writes(plan, output, |index| shows_channel(plan, nested, index));
    let returned = flow_result(plan, output);
    let updates = if returned.is_some() { Vec::new() } else { group_updates(writes) };
    StreamEvent::Updates { node: node.to_owned(), updates, returned, cached }
}

/// The outcome of a task of a node.
pub(crate) fn task_ended(plan: &Plan, id: TaskId, name: &str, record: &TaskRecord) -> TaskEnded {
    let result = record.output().map(|output| {
        // The second channel of a flow is the value for its next turn, which is no result.
        shown_writes(plan, output, |index| !plan.is_single() || index == ChannelIdx(0))
    });
    let asks = record.output().is_none();
    TaskEnded {
        id,
        name: name.to_owned(),
        result: result.unwrap_or_default(),
        error: record.fault().cloned(),
        interrupts: if asks { record.questions().to_vec() } else { Vec::new() },
    }
}

/// The input of a task.
pub(crate) fn task_input(graph: &CompiledGraph, machine: &Machine, task: &Task) -> Json {
    match &task.arg {
        Some(arg) => arg.json.clone(),
        None => read_json(graph.plan(), machine.slots(), task.node),
    }
}

/// The start of a task of a node.
pub(crate) fn task_started(
    graph: &CompiledGraph,
    task: &Task,
    id: TaskId,
    input: Json,
) -> TaskStarted {
    TaskStarted {
        id,
        name: name_of(graph, task).to_string(),
        input,
        triggers: trigger_names(graph.plan(), task.node, task.path),
        call: false,
    }
}

/// Place of a checkpoint that is shown.
pub(crate) struct ShownAt<'a> {
    pub(crate) ns: &'a str,
    pub(crate) id: Option<CheckpointId>,
    pub(crate) parent: Option<CheckpointId>,
    pub(crate) metadata: &'a Metadata,
}

/// A checkpoint with the tasks that are due there, and their ids.
pub(crate) fn checkpoint_snapshot<'a>(
    graph: &CompiledGraph,
    slots: &Slots,
    at: &ShownAt<'_>,
    tasks: impl Iterator<Item = (&'a Task, TaskId)>,
) -> Snapshot {
    let tasks: Vec<_> = tasks.map(|(task, id)| task_snapshot(graph, at.ns, task, id)).collect();
    let config = |id| CheckpointRef::of(at.ns, id, at.metadata);
    Snapshot {
        values: state_json(graph.plan(), slots),
        next: tasks.iter().map(|task| task.name.clone()).collect(),
        config: Some(config(at.id)),
        parent: at.parent.map(|id| config(Some(id))),
        metadata: Some(at.metadata.clone()),
        tasks,
        interrupts: Vec::new(),
        run: None,
        error: None,
    }
}

fn task_snapshot(graph: &CompiledGraph, ns: &str, task: &Task, id: TaskId) -> TaskSnapshot {
    let name = name_of(graph, task);
    let node = graph.node(task.node);
    let within = node.is_some_and(|node| node.options.stored_subgraph().is_some());
    let state = within.then(|| {
        SubState::Checkpoint(CheckpointRef {
            ns: task_ns(ns, name, id),
            ..CheckpointRef::default()
        })
    });
    TaskSnapshot {
        id,
        name: name.to_string(),
        path: task.path,
        error: None,
        interrupts: Vec::new(),
        result: None,
        state,
    }
}

/// Calls `found` with the ids of the messages that a task gets in its input.
pub(crate) fn message_ids_in(
    graph: &CompiledGraph,
    machine: &Machine,
    task: &Task,
    mut found: impl FnMut(&str),
) {
    if let Some(arg) = &task.arg {
        let members = arg.json.as_object().into_iter().flat_map(|members| members.values());
        members.for_each(|value| ids_in_json(value, &mut found));
    } else {
        let plan = graph.plan();
        let slots = machine.slots();
        let values = plan.reads(task.node).filter_map(|index| slots.get(index.0));
        values.for_each(|value| ids_in(value, &mut found));
    }
}
