//! What a hosted run gives to the loop: where its writes go, and what its nodes reach.

use super::api::Drain;
use super::scope::{TaskAt, lock};
use crate::hub::Speaker;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weftwork_store::{Keep, StoreError};
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::Answer;
use weftwork_types::message::Message;
use weftwork_types::port::CallContext;
use weftwork_types::{BoxFuture, CheckpointId, InterruptId};

/// Writes what a run keeps together with what is told of it.
pub(crate) trait Claimed: Send + Sync + std::fmt::Debug {
    /// Keeps it in one transaction, unless the run has lost its claim.
    fn keep(&self, keep: Keep, told: Told) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Lets what was kept of a graph be read, if that is not so in any case.
    fn show<'a>(&'a self, ns: &'a str) -> Option<BoxFuture<'a, Result<(), StoreError>>>;
}

/// What is told of a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Its superstep.
    pub(crate) step: i64,
    /// The nodes that ran in it; none when none of the outermost graph did.
    pub(crate) ran: Option<Vec<String>>,
    /// Messages that are new or changed.
    pub(crate) messages: Vec<Message>,
    /// Whether nothing is due any more: it may be kept with the end of the run.
    pub(crate) is_last: bool,
    /// Whether a branch of the thread begins with it.
    pub(crate) begins_branch: bool,
}

/// What the nodes of a hosted run reach.
pub(crate) trait Hosting: Send + Sync + std::fmt::Debug {
    /// What model and tool calls of a task need.
    fn calls(&self, at: &TaskAt, attempt: Attempt<'_>) -> CallContext;

    /// Tells something to those who watch.
    fn tell(&self, by: &TaskAt, event: AiEvent);

    /// Whether the process is on its way out, so that the run goes no further than its superstep.
    fn stops(&self) -> bool;

    /// Waits until no commit of the run is on its way, and lets the next checkpoint that is kept
    /// have the next one: it holds what was told up to now, and nothing that is told later.
    fn reserve(&self) -> BoxFuture<'_, ()>;

    /// Lets others have the next commit if no checkpoint took it.
    fn unreserve(&self);

    /// Whether a process before this one may have gone further than what it kept, so that calls of
    /// any superstep may be on record.
    fn repeats(&self) -> bool;

    /// The answer to a question, as it was given.
    fn answer(&self, id: InterruptId) -> Option<Answer>;

    /// What the first branch of a thread is known by that begins with this run: the same in each
    /// process that executes the run.
    fn root(&self) -> CheckpointId;
}

/// An attempt of a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt<'a> {
    /// Its number, from 1.
    pub(crate) number: u32,
    /// When it last gave a sign of life.
    pub(crate) beat: &'a Arc<AtomicU64>,
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

    /// Tells what the task's node chose to tell.
    pub(crate) fn tell(&self, event: impl FnOnce() -> AiEvent) {
        if let Some(hosting) = self.scope.shared.host.hosting() {
            hosting.tell(self, event());
        }
    }

    /// The task as one who tells something.
    pub(crate) fn speaker(&self) -> Speaker {
        let outer = self.scope.outer_task.as_ref().and_then(|outer| outer.first());
        let step = outer.map_or(self.step, |(_, _, step)| *step);
        Speaker { node: Arc::clone(self.key.name()), task: self.id(), step }
    }

    /// The answer to a question of the task, as it was given; else that it was given here.
    pub(crate) fn answered(&self, id: InterruptId, value: serde_json::Value) -> Answer {
        let host = &self.scope.shared.host;
        let known = host.hosting().and_then(|hosting| hosting.answer(id));
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
        self.host.hosting().filter(|hosting| hosting.stops()).map(|_| Drain::Shutdown)
    }

    /// Says on which checkpoint of which branch the outermost graph goes on.
    pub(super) fn begins(&self, since: Option<CheckpointId>, branch: Option<CheckpointId>) {
        if let Some(since) = since {
            // Only the outermost graph comes here, and once.
            self.since.get_or_init(|| since);
        }
        self.set_branch(branch);
    }

    /// What the first branch of a thread is known by that begins with this run. No other thread
    /// has it, nor one of the same name in another store or after this one was deleted: the keys of
    /// calls are made with it, and are sent to others as idempotency keys.
    pub(super) fn root(&self) -> CheckpointId {
        let own = || CheckpointId(self.host.clock().unique());
        self.host.hosting().map_or_else(own, |hosting| hosting.root())
    }

    /// The branch of the thread the run is on.
    pub(crate) fn set_branch(&self, branch: Option<CheckpointId>) {
        *lock(&self.branch) = branch;
    }
}
