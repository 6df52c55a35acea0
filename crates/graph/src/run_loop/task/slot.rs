//! A task of the open superstep.

use super::{key_of, name_of};
use crate::compiled::CompiledGraph;
use crate::run_loop::calls::Calls;
use crate::run_loop::checkpointer::{TaskKey, TaskRecord};
use crate::run_loop::context::TaskState;
use crate::run_loop::node_cache::CacheKey;
use std::sync::{Arc, OnceLock};
use weftwork_engine::TaskOutput;
use weftwork_engine::pregel::{Ahead, Done, Task};
use weftwork_types::{CheckpointId, TaskId};

/// A task of the open superstep.
#[derive(Debug)]
pub(crate) struct OpenTask {
    pub(crate) task: Task,
    id: OnceLock<TaskId>,
    at: (CheckpointId, i64),
    pub(crate) record: TaskRecord,
    /// The calls it made before this loop.
    pub(crate) recorded_calls: Calls,
    /// Data that the task retains across its attempts, created on first use.
    pub(crate) task_state: OnceLock<Arc<TaskState>>,
    /// The state with what the task wrote.
    pub(crate) ahead: Option<Box<Ahead>>,
    state: SlotState,
    /// Under which key its result is cached.
    pub(crate) cache: Option<Box<CacheKey>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    Due,
    Running,
    Ended(Ending, Storage),
}

/// Origin of the outcome of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The task ran in this superstep.
    Ran,
    /// It failed before this loop and its error handler runs, or it still waits for answers.
    Restored,
    /// It finished before this loop, or the node cache had a result.
    Reused,
}

/// Storage of the record of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// The record is to be stored.
    Due,
    /// The record is stored, or need not be.
    Done,
}

impl OpenTask {
    pub(crate) fn new(task: Task, at: (CheckpointId, i64)) -> Self {
        Self {
            task,
            id: OnceLock::new(),
            at,
            record: TaskRecord::default(),
            recorded_calls: None,
            task_state: OnceLock::new(),
            ahead: None,
            state: SlotState::Due,
            cache: None,
        }
    }

    /// The checkpoint and the superstep of the task.
    pub(crate) fn at(&self) -> (CheckpointId, i64) {
        self.at
    }

    pub(crate) fn is_due(&self) -> bool {
        self.state == SlotState::Due
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state == SlotState::Running
    }

    /// Returns `true` if the task ended, and neither before this loop nor by the node cache with a
    /// result.
    pub(crate) fn has_ended_here(&self) -> bool {
        matches!(self.state, SlotState::Ended(Ending::Ran | Ending::Restored, _))
    }

    /// Returns `true` if the task finished before this loop, or the node cache had a result.
    pub(crate) fn is_reused(&self) -> bool {
        matches!(self.state, SlotState::Ended(Ending::Reused, _))
    }

    /// Returns `true` if the task ended before this loop without a result, and did not run in it.
    pub(crate) fn is_restored(&self) -> bool {
        matches!(self.state, SlotState::Ended(Ending::Restored, _))
    }

    /// Returns `true` if the record of the task is to be stored.
    pub(crate) fn is_to_store(&self) -> bool {
        matches!(self.state, SlotState::Ended(_, Storage::Due)) && !self.record.is_blank()
    }

    pub(crate) fn run(&mut self) {
        self.state = SlotState::Running;
    }

    pub(crate) fn end(&mut self, ending: Ending, storage: Storage) {
        self.state = SlotState::Ended(ending, storage);
    }

    /// Marks the record of an ended task as stored.
    pub(crate) fn set_stored(&mut self) {
        if let SlotState::Ended(_, storage) = &mut self.state {
            *storage = Storage::Done;
        }
    }

    pub(crate) fn name<'a>(&self, graph: &'a CompiledGraph) -> &'a Arc<str> {
        name_of(graph, &self.task)
    }

    pub(crate) fn key(&self, graph: &CompiledGraph) -> TaskKey {
        key_of(graph, &self.task)
    }

    /// Returns `true` if the key is that of the task.
    pub(crate) fn is(&self, other: &TaskKey, graph: &CompiledGraph) -> bool {
        let TaskKey::Node { node, path } = other else { return false };
        *path == self.task.path && node == self.name(graph)
    }

    pub(crate) fn id(&self, ns: &str, graph: &CompiledGraph) -> TaskId {
        *self.id.get_or_init(|| self.key(graph).id(ns, self.at.0, self.at.1))
    }

    /// Takes the calls that are to be stored.
    pub(crate) fn take_calls(&self) -> Calls {
        // A task without a state has made no call: calls are noted there.
        self.task_state.get()?.calls.take_fresh()
    }

    /// The task with its writes; `nothing` if it has not finished.
    pub(crate) fn done<'a>(&'a self, nothing: &'a TaskOutput) -> Done<'a> {
        // A task with a handled failure has no writes, and still consumes the joins that led to it.
        let output = self.record.output().map_or(nothing, |output| output);
        Done { task: &self.task, output, edges: self.record.writes.follows_edges() }
    }
}
