//! The port between the run loop and the environment it runs in.

use super::TaskContext;
use serde_json::Value as Json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use weftwork_types::event::{AiEvent, AttemptReset};
use weftwork_types::interrupt::{Answer, Ask};
use weftwork_types::port::CallContext;
use weftwork_types::{BoxFuture, CheckpointId, InterruptId, MessageId, TaskId};

/// Environment of a run: where its calls and events go, and when it must stop.
///
/// Implemented for runs within a program ([`Host`](super::Host)) and for runs under the claim of a
/// worker.
pub trait RunEnvironment: Send + Sync + std::fmt::Debug {
    /// Ports for the model and tool calls of a task.
    fn calls(&self, at: &TaskContext, attempt: Attempt<'_>) -> CallContext;

    /// Emits an event of a task.
    fn emit(&self, by: EventSource, event: AiEvent);

    /// Emits that tasks of a superstep that was open before the loop are due, unless the log of
    /// the run reports it already.
    fn resumes(&self, started: AiEvent);

    /// Returns `true` if the run has a log: its calls and events are committed with its
    /// checkpoints, and calls are not stored in the records of tasks.
    fn has_log(&self) -> bool;

    /// Returns `true` if the process shuts down, so that the run ends after its superstep.
    fn shuts_down(&self) -> bool;

    /// Returns `true` if the run was cancelled by request.
    fn is_cancelled(&self) -> bool;

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

    /// Reports that a task takes the answer to a question. A task that runs again reports the answers
    /// that it took before again.
    fn takes(&self, question: InterruptId, ask: &Ask, given: Given<'_>);

    /// Identity of the first branch of a thread that begins with this run: the same in each process
    /// that executes the run, and in no other thread or store. Keys of calls are made with it and
    /// are sent to others as idempotency keys.
    fn branch_root(&self) -> CheckpointId;
}

/// An answer that a task takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Given<'a> {
    /// The answer was given.
    Answer(&'a Json),
    /// The question expired and takes its default.
    Default(&'a Json),
}

/// Source of an event: a task of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSource {
    /// Name of the node.
    pub node: Arc<str>,
    /// Task of the node.
    pub task: TaskId,
    /// Superstep of the outermost graph that the task is part of.
    pub step: i64,
    /// Namespace of the graph of the task.
    pub ns: Arc<str>,
    /// Superstep of that graph.
    pub graph_step: i64,
    /// Message that the event is about, if it is about one.
    pub message: Option<MessageId>,
}

impl EventSource {
    /// Source of an event of the run itself, which no task emits.
    #[must_use]
    pub fn of_run() -> Self {
        let (node, ns): (Arc<str>, Arc<str>) = Default::default();
        Self { node, task: TaskId(0), step: 0, ns, graph_step: 0, message: None }
    }

    /// Returns the reset that voids the text of the source.
    #[must_use]
    pub fn reset(&self) -> AttemptReset {
        AttemptReset {
            node: self.node.to_string(),
            ns: self.ns.to_string(),
            task: Some(self.task),
            message: self.message.clone(),
        }
    }
}

/// An attempt of a task.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// Its number, from 1.
    pub number: u32,
    /// Its signals.
    pub signals: &'a Arc<AttemptSignals>,
}

/// Signals between an attempt of a task and the run loop: the time of the last heartbeat, and the
/// end of the attempt if it is cut off. Code on another thread may still run then; its calls,
/// events and questions are refused.
#[derive(Debug)]
pub struct AttemptSignals {
    /// In milliseconds of the clock's `elapsed`.
    beat_ms: AtomicU64,
    cut: AtomicBool,
}

impl AttemptSignals {
    /// Signals of an attempt that begins.
    pub(crate) fn new(now_ms: u64) -> Self {
        Self { beat_ms: now_ms.into(), cut: false.into() }
    }

    /// Records a heartbeat, at a time in milliseconds of the clock's `elapsed`.
    pub fn beat(&self, now_ms: u64) {
        self.beat_ms.store(now_ms, Ordering::Relaxed);
    }

    pub(crate) fn beat_ms(&self) -> u64 {
        self.beat_ms.load(Ordering::Relaxed)
    }

    /// Records that the attempt was cut off.
    pub(crate) fn cut_off(&self) {
        self.cut.store(true, Ordering::Release);
    }

    /// Returns `true` if the attempt was cut off.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.cut.load(Ordering::Acquire)
    }
}
