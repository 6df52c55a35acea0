//! Tasks as the log of a run reports them.

use super::OpenTask;
use crate::compiled::CompiledGraph;
use crate::error::NODE_CANCELLED;
use crate::run_loop::checkpointer::TaskKey;
use std::sync::Arc;
use weftwork_engine::pregel::{Machine, Path};
use weftwork_engine::{EngineError, NodeIdx, Plan};
use weftwork_types::event::{TaskDue, TaskEnd, TaskStatus};
use weftwork_types::{CheckpointId, TaskId};

/// Returns the tasks that start from a checkpoint of the graph at a namespace, given its superstep.
///
/// # Errors
/// [`EngineError::BrokenInvariant`].
pub fn tasks_due(
    machine: &Machine,
    ns: &str,
    id: CheckpointId,
    step: i64,
) -> Result<Vec<TaskDue>, EngineError> {
    let plan = machine.plan();
    let mut due = Vec::new();
    machine.each_due(|task| {
        if task.node != NodeIdx::START {
            let node = Arc::clone(plan.shared_name(task.node));
            let path = task.path;
            let triggers = trigger_names(plan, task.node, path);
            // The tasks run in the superstep after that of the checkpoint.
            let id = TaskKey::Node { node: Arc::clone(&node), path }.id(ns, id, step + 1);
            due.push(TaskDue { id, node: node.to_string(), triggers, finished: false });
        }
    })?;
    Ok(due)
}

/// Returns the names of the triggers of a task.
pub(crate) fn trigger_names(plan: &Plan, node: NodeIdx, path: Path) -> Vec<String> {
    let triggers = match path {
        _ if plan.is_single() => vec![weftwork_engine::plan::START_NAME],
        Path::Pull => plan.triggers_of(node),
        _ => vec!["__pregel_push"],
    };
    triggers.into_iter().map(str::to_owned).collect()
}

impl OpenTask {
    /// Returns `true` if the task is one of a node, other than the hidden first one.
    pub(crate) fn is_shown(&self) -> bool {
        self.task.node != NodeIdx::START
    }

    /// The task as the log reports that it is due.
    pub(crate) fn due(&self, ns: &str, graph: &CompiledGraph) -> TaskDue {
        let triggers = trigger_names(graph.plan(), self.task.node, self.task.path);
        let id = self.id(ns, graph);
        let node = self.name(graph).to_string();
        // The handler of a failure runs in place of the task.
        let finished = self.is_reused() || self.record.is_handled();
        TaskDue { id, node, triggers, finished }
    }

    /// The task as the log reports its end; `None` if it has no outcome.
    pub(crate) fn ended(&self, ns: &str, graph: &CompiledGraph) -> Option<TaskEnd> {
        let record = &self.record;
        let status = match () {
            () if self.is_reused() => TaskStatus::Cached,
            () if record.failure().is_some() => TaskStatus::Failed,
            () if record.output().is_some() => TaskStatus::Ok,
            () if !record.questions().is_empty() => TaskStatus::Asks,
            () => return None,
        };
        let mut end = TaskEnd::new(self.id(ns, graph), &**self.name(graph), status);
        if status == TaskStatus::Failed {
            end.fault = record.fault().cloned().map(Box::new);
            // A task that was cut off says nothing more, and its questions were reported before.
            if record.fault().is_some_and(|fault| fault.code == NODE_CANCELLED.0) {
                return Some(end);
            }
            let taken = self.task_state.get().and_then(|state| state.answers());
            end.answered = taken.is_some() && record.output().is_none();
        }
        if record.output().is_none() {
            end.questions = record.questions().iter().map(|question| question.id).collect();
        }
        Some(end)
    }
}

/// The task of a flow as the log reports its end.
pub(crate) fn call_ended(
    id: TaskId,
    name: &str,
    status: TaskStatus,
    caller: TaskId,
) -> Box<TaskEnd> {
    Box::new(TaskEnd { caller: Some(caller), ..TaskEnd::new(id, name, status) })
}
