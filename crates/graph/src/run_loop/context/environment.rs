//! The port between the run loop and the environment it runs in.

use super::OwnCalls;
use super::TaskContext;
use crate::run_loop::call_book::CallBook;
use serde_json::Value as Json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use weftwork_types::caller::CallOrigin;
use weftwork_types::event::{AiEvent, AttemptReset};
use weftwork_types::interrupt::{Answer, Ask};
use weftwork_types::port::{Budget, Clock, Ledger};
use weftwork_types::{
    BoxFuture, CheckpointId, InterruptId, MessageId, Principal, TaskId, ThreadId,
};

/// Environment of a run: where its calls and events go, and when it must stop.
///
/// Implemented for runs within a program ([`Host`](super::Host)) and for runs under the claim of a
/// worker.
pub trait RunEnvironment: Send + Sync + std::fmt::Debug {
    /// Returns the account of a run, given its first task that needs it. A run asks once.
    fn account(&self, first: &TaskContext) -> RunAccount;

    /// Returns the book in which the calls of a task are recorded; `None` if they are not recorded.
    fn book(&self, at: &TaskContext) -> Option<Box<dyn CallBook>>;

    /// Adds an event of a task to the log of the run, if it has one.
    fn emit(&self, by: EventSource, event: AiEvent);

    /// Emits that tasks of a superstep that was open before the loop are due, unless the log of
    /// the run reports it already.
    fn resumes(&self, started: AiEvent);

    /// Returns the reports of tasks that the checkpoints of the run include. With them, each
    /// superstep has a checkpoint, also if all are stored when the run ends.
    fn task_reports(&self) -> TaskReports;

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

    /// Answer to a question, as it was given.
    fn answer(&self, id: InterruptId) -> Option<Answer>;

    /// Reports that a task takes the answer to a question. A task that runs again reports the answers
    /// that it took before again.
    fn takes(&self, question: InterruptId, ask: &Ask, given: Given<'_>);

    /// Identity of the first branch of a thread that begins with this run: the same in each process
    /// that executes the run, and in no other thread or store. Keys of calls are made with it and
    /// are sent to others as idempotency keys.
    fn branch_root(&self, clock: &dyn Clock) -> CheckpointId;
}

/// Identity of a run towards the models and tools that it calls, and its limits.
#[derive(Debug, Clone)]
pub struct RunAccount {
    /// Principal of the run.
    pub principal: Principal,
    /// Billing account, run and graph of the calls.
    pub origin: CallOrigin,
    /// Thread of the run; `None` if its name is not an id.
    pub thread: Option<ThreadId>,
    /// Remaining budget.
    pub budget: Arc<dyn Budget>,
    /// Ledger for the usage facts of the calls.
    pub ledger: Arc<dyn Ledger>,
}

/// Reports of tasks in the checkpoints of a run, for its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskReports {
    /// None: nobody reads them.
    Omitted,
    /// The tasks that are due after a change of the state from outside, and the ends of all tasks.
    Included,
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
pub(crate) struct Attempt<'a> {
    /// Its number, from 1.
    pub(crate) number: u32,
    /// Its signals.
    pub(crate) signals: &'a Arc<AttemptSignals>,
    /// The tool calls that its node makes itself.
    pub(crate) own_calls: &'a Arc<OwnCalls>,
}

/// Signals between an attempt of a task and the run loop: the time of the last heartbeat, and the
/// end of the attempt if it is cut off. Code on another thread may still run then; its calls,
/// events and questions are refused.
#[derive(Debug)]
pub(crate) struct AttemptSignals {
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
    pub(crate) fn beat(&self, now_ms: u64) {
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
    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut.load(Ordering::Acquire)
    }
}
