//! The port between the run loop and the environment it runs in.

use super::api::Drain;
use super::scope::{TaskAt, lock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::Answer;
use weftwork_types::port::{CallContext, Dependencies};
use weftwork_types::{BoxFuture, CheckpointId, InterruptId, TaskId};

/// Environment of a run: where its calls and events go, and when it must stop.
///
/// Implemented for runs within a program ([`Host`](super::Host)) and for runs under the claim of a
/// worker.
pub trait RunEnvironment: Send + Sync + std::fmt::Debug {
    /// Ports for the model and tool calls of a task.
    fn calls(&self, at: &TaskAt, attempt: Attempt<'_>) -> CallContext;

    /// Emits an event of a task.
    fn emit(&self, by: &TaskAt, event: AiEvent);

    /// Returns `true` if the run has a log: its calls and events are committed with its
    /// checkpoints, and calls are not stored in the records of tasks.
    fn has_log(&self) -> bool;

    /// Returns `true` if the process shuts down, so that the run ends after its superstep.
    fn shuts_down(&self) -> bool;

    /// Waits until no commit of the run is in flight, and reserves the next one for the next
    /// checkpoint: it contains what was emitted up to now, and nothing that is emitted later.
    /// `None` if commits carry no events.
    fn reserve(&self) -> Option<BoxFuture<'_, ()>>;

    /// Releases a reserved commit that no checkpoint took.
    fn unreserve(&self);

    /// Returns `true` if an earlier process may have progressed beyond its last stored checkpoint,
    /// so that calls of any superstep may be on record.
    fn repeats(&self) -> bool;

    /// Answer to a question, as it was given.
    fn answer(&self, id: InterruptId) -> Option<Answer>;

    /// Identity of the first branch of a thread that begins with this run: the same in each process
    /// that executes the run, and in no other thread or store. Keys of calls are made with it and
    /// are sent to others as idempotency keys.
    fn branch_root(&self) -> CheckpointId;
}

/// Source of an event: a task of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speaker {
    /// Name of the node.
    pub node: Arc<str>,
    /// Task of the node.
    pub task: TaskId,
    /// Superstep of the outermost graph that the task is part of.
    pub step: i64,
}

/// An attempt of a task.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// Its number, from 1.
    pub number: u32,
    /// When it last gave a sign of life.
    pub beat: &'a Arc<AtomicU64>,
}

impl TaskAt {
    /// Where the task stands, from the outermost graph on: nodes, paths and supersteps, never ids
    /// that another attempt of the run would make anew.
    pub(crate) fn way(&self) -> Vec<(String, String, i64)> {
        let mut way = match &self.scope.outer_task {
            Some(outer) => outer.clone(),
            None => Vec::new(),
        };
        way.push((self.key.name().to_string(), self.key.path(), self.step));
        way
    }

    /// The way to the graph that an attempt calls after `nth` others: graphs that it calls with the
    /// same input are told apart.
    pub(crate) fn way_to(&self, nth: u32) -> Vec<(String, String, i64)> {
        let mut way = self.way();
        if let Some((_, path, _)) = way.last_mut().filter(|_| nth > 0) {
            path.push_str(&format!("|{nth}"));
        }
        way
    }

    /// Returns the values of the run that nodes take before those of their graph.
    pub(crate) fn dependencies(&self) -> &Dependencies {
        self.scope.shared.host.dependencies()
    }

    /// Tells what the task's node chose to tell.
    pub(crate) fn tell(&self, event: impl FnOnce() -> AiEvent) {
        let environment = self.scope.shared.host.environment();
        if environment.has_log() {
            environment.emit(self, event());
        }
    }

    /// The task as one who tells something.
    #[must_use]
    pub fn speaker(&self) -> Speaker {
        let outer = self.scope.outer_task.as_ref().and_then(|outer| outer.first());
        let step = outer.map_or(self.step, |(_, _, step)| *step);
        Speaker { node: Arc::clone(self.key.name()), task: self.id(), step }
    }

    /// The answer to a question of the task, as it was given; else that it was given here.
    pub(crate) fn answered(&self, id: InterruptId, value: serde_json::Value) -> Answer {
        let host = &self.scope.shared.host;
        let known = host.environment().answer(id);
        known.filter(|known| known.value == value).unwrap_or_else(|| Answer {
            value,
            answered_by: "local".to_owned(),
            answered_at: host.clock().now(),
        })
    }
}

impl super::scope::Shared {
    /// Reason to stop after the superstep, when a node or its process asked for that.
    pub(super) fn drained(&self) -> Option<Drain> {
        if self.drains.load(Ordering::Relaxed) {
            return lock(&self.drain).clone().map(Drain::Requested);
        }
        self.host.environment().shuts_down().then_some(Drain::Shutdown)
    }

    /// Says on which checkpoint of which branch the outermost graph goes on.
    pub(super) fn begins(&self, since: Option<CheckpointId>, branch: Option<CheckpointId>) {
        if let Some(since) = since {
            // Only the outermost graph comes here, and once.
            self.since.get_or_init(|| since);
        }
        self.set_branch(branch);
    }

    /// The branch of the thread the run is on.
    pub(crate) fn set_branch(&self, branch: Option<CheckpointId>) {
        *lock(&self.branch) = branch;
    }
}
