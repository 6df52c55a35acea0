//! A task of the open superstep.

use super::kept::Calls;
use super::look::{key_of, name_of};
use super::saver::{TaskKey, TaskRecord};
use super::scope::Scratch;
use crate::compiled::CompiledGraph;
use std::sync::{Arc, OnceLock};
use weftwork_engine::TaskOutput;
use weftwork_engine::pregel::{Ahead, Done, Task};
use weftwork_types::{CheckpointId, TaskId};

/// A task of the open superstep.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(super) task: Task,
    id: OnceLock<TaskId>,
    at: (CheckpointId, i64),
    pub(super) record: TaskRecord,
    /// The calls it made before this loop.
    pub(super) known_calls: Calls,
    /// Data that the task retains across its attempts, created on first use.
    pub(super) scratch: OnceLock<Arc<Scratch>>,
    /// The state with what the task wrote.
    pub(super) ahead: Option<Box<Ahead>>,
    pub(super) state: SlotState,
    /// `true` if the record is already stored.
    pub(super) kept: bool,
    /// `true` if the task finished before, or its result was cached.
    pub(super) cached: bool,
    /// Under which key its result is cached.
    pub(super) cache: Option<Box<super::node_cache::CacheKey>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotState {
    Open,
    Running,
    Ended,
}

impl Slot {
    pub(super) fn new(task: Task, at: (CheckpointId, i64)) -> Self {
        Self {
            task,
            id: OnceLock::new(),
            at,
            record: TaskRecord::default(),
            known_calls: None,
            scratch: OnceLock::new(),
            ahead: None,
            state: SlotState::Open,
            kept: false,
            cached: false,
            cache: None,
        }
    }

    pub(super) fn name<'a>(&self, graph: &'a CompiledGraph) -> &'a Arc<str> {
        name_of(graph, &self.task)
    }

    pub(super) fn key(&self, graph: &CompiledGraph) -> TaskKey {
        key_of(graph, &self.task)
    }

    /// Returns `true` if the key is that of the task.
    pub(super) fn is(&self, other: &TaskKey, graph: &CompiledGraph) -> bool {
        let TaskKey::Node { node, path } = other else { return false };
        *path == self.task.path && node == self.name(graph)
    }

    pub(super) fn id(&self, ns: &str, graph: &CompiledGraph) -> TaskId {
        *self.id.get_or_init(|| self.key(graph).id(ns, self.at.0, self.at.1))
    }

    /// The calls that are to be kept.
    pub(super) fn take_calls(&self) -> Calls {
        self.scratch.get()?.calls.take_fresh()
    }

    /// The task with what it wrote; nothing when it has not finished.
    pub(super) fn done<'a>(&'a self, nothing: &'a TaskOutput) -> Done<'a> {
        let output = self.record.output.as_deref().unwrap_or(nothing);
        let edges = self.record.output.is_some() && self.record.edges;
        Done { task: &self.task, output, edges }
    }
}
