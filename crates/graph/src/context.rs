//! The context of a node: its view of the run.

use crate::clock::millis;
use crate::error::{NodeError, Stop, cut_off};
use crate::extract::{CtxSource, FromTask, Reads, TaskInput};
use crate::output::NodeResult;
use crate::run_loop::TaskContext;
use crate::run_loop::context::{Attempt, AttemptSignals, OwnCalls};
use std::any::Any;
use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use weftwork_engine::Write;
use weftwork_engine::ids::interrupt_id;
use weftwork_types::code::Fault;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::port::{CallContext, Clock, Dependencies};
use weftwork_types::sequence::SequenceWrite;
use weftwork_types::{MessageId, TaskId, ThreadId, ToolCallId};

/// The run as a node sees it: access to calls, to questions, and to the event stream.
///
/// Nodes reach models and tools only with [`Ctx::calls`]; they open no socket and no file.
///
/// ```
/// use serde_json::json;
/// use weftwork_graph::{Ctx, Graph, List, NodeResult, START, State};
///
/// #[derive(State)]
/// struct Order {
///     #[channel(append)]
///     log: List<String>,
/// }
///
/// async fn ship(ctx: Ctx) -> NodeResult<OrderUpdate> {
///     // The run ends here with a question, and the answer starts the node again.
///     let answer = ctx.interrupt(json!("Ship it?"))?;
///     Ok(OrderUpdate::new().log([format!("{} said {answer}", ctx.node())]))
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<Order>::new("order").node("ship", ship).edge(START, "ship").build()?;
/// let ended = graph.invoke(json!({})).await?;
/// assert_eq!(ended.questions().len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Ctx(pub(crate) Arc<AttemptContext>);

#[derive(Debug)]
pub(crate) struct AttemptContext {
    pub(crate) node: Arc<str>,
    pub(crate) step: i64,
    pub(crate) attempt: u32,
    /// The failure that the error handler handles.
    pub(crate) failure: Option<Fault>,
    pub(crate) signals: Arc<AttemptSignals>,
    pub(crate) messages: AtomicU32,
    /// Tool calls that the attempt makes itself.
    pub(crate) own_calls: OnceLock<Arc<OwnCalls>>,
    /// `true` if streams omit the messages that the attempt returns.
    pub(crate) muted: AtomicBool,
    /// Number of graphs that the attempt called.
    pub(crate) graphs: AtomicU32,
    /// Questions of the task, grouped by the call that asked them.
    pub(crate) open: Mutex<Vec<Vec<Interrupt>>>,
    /// Writes besides those that the node returns.
    pub(crate) writes: OnceLock<Mutex<Vec<(String, Write)>>>,
    /// Writes of records.
    pub(crate) records: OnceLock<Mutex<Vec<SequenceWrite>>>,
    pub(crate) run: Local,
}

#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) at: TaskContext,
    pub(crate) calls: OnceLock<CallContext>,
}

/// Source of the context of a task: created for the first argument that needs it.
pub(crate) struct LazyCtx<'a> {
    pub(crate) cell: &'a OnceCell<Ctx>,
    pub(crate) make: &'a dyn Fn() -> Ctx,
}

impl LazyCtx<'_> {
    fn get(&self) -> &Ctx {
        self.cell.get_or_init(self.make)
    }
}

impl CtxSource for LazyCtx<'_> {
    fn ctx(&self) -> &dyn Any {
        self.get()
    }

    fn dependencies(&self) -> [&Dependencies; 2] {
        let at = self.get().at();
        [at.dependencies(), at.loop_context.graph.dependencies()]
    }

    fn failure(&self) -> Option<&Fault> {
        self.get().0.failure.as_ref()
    }
}

impl FromTask for Ctx {
    fn from_task(input: &TaskInput<'_>) -> Result<Self, NodeError> {
        let ctx = input.source.ctx().downcast_ref::<Self>();
        ctx.cloned().ok_or_else(|| NodeError::message("the task has no context"))
    }

    fn reads() -> Reads {
        Reads::Nothing
    }
}

impl Ctx {
    /// The node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.0.node
    }

    /// The number of the superstep.
    #[must_use]
    pub fn step(&self) -> i64 {
        self.0.step
    }

    /// The number of this attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// Records a heartbeat, so that a [`Timeout::idle`](crate::Timeout::idle) starts over.
    pub fn heartbeat(&self) {
        let now = millis(self.clock().elapsed());
        self.0.signals.beat(now);
    }

    pub(crate) fn last_beat(&self) -> Duration {
        Duration::from_millis(self.0.signals.beat_ms())
    }

    pub(crate) fn at(&self) -> &TaskContext {
        &self.0.run.at
    }

    /// The thread. In a run of this process whose thread has no name, or one that is no
    /// [`ThreadId`], it is an id of the task's own.
    #[must_use]
    pub fn thread(&self) -> &ThreadId {
        &self.calls().thread
    }

    /// Returns what model and tool calls need from the run. An in-process run has no billing and no
    /// limits, and it journals calls if its checkpoints are stored: without a checkpointer, a node
    /// that runs again repeats its calls.
    #[must_use]
    pub fn calls(&self) -> &CallContext {
        let Local { at, calls } = &self.0.run;
        let AttemptContext { attempt, signals, .. } = &*self.0;
        let attempt = Attempt { number: *attempt, signals, own_calls: self.own_calls() };
        calls.get_or_init(|| at.call_context(attempt))
    }

    /// Time.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        self.at().loop_context.run.host.clock()
    }

    /// Emits a value to the observers of the run. A value nested deeper than
    /// [`DEPTH_MAX`](weftwork_types::canonical::DEPTH_MAX) is not emitted: the log could not be
    /// read.
    pub fn emit(&self, value: serde_json::Value) {
        self.heartbeat();
        if self.check_running().is_ok() {
            self.at().emit(value);
        }
    }

    /// Adds a write to those that the node returns. It is applied after them if the node succeeds, and
    /// dropped if it fails or asks. A channel that the graph does not have fails the task, as in any
    /// other update. For arguments that record something in the state of graphs of any type; nodes
    /// return their own writes.
    pub fn write_also(&self, channel: impl Into<String>, value: serde_json::Value) {
        let writes = self.0.writes.get_or_init(Mutex::default);
        let mut writes = writes.lock().unwrap_or_else(PoisonError::into_inner);
        writes.push((channel.into(), Write::json(value)));
    }

    /// Adds a write of a record to the commit that stores the result of the node: both are stored, or
    /// neither. It is dropped if the node fails or asks, and made again if the node is executed
    /// again.
    ///
    /// If the sequence does not have the expected version by then, the commit is refused and the run
    /// fails; a run that continues the thread executes the node again. A node of a run whose
    /// checkpoints are not stored by a runtime, or only when the run ends, fails with
    /// [`RECORDS_NOT_STORED`](crate::RECORDS_NOT_STORED).
    pub fn write_record(&self, write: SequenceWrite) {
        let records = self.0.records.get_or_init(Mutex::default);
        records.lock().unwrap_or_else(PoisonError::into_inner).push(write);
    }

    /// Takes the writes of records.
    pub(crate) fn take_records(&self) -> Vec<SequenceWrite> {
        let Some(records) = self.0.records.get() else { return Vec::new() };
        std::mem::take(&mut *records.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the writes besides those that the node returned.
    pub(crate) fn take_writes(&self) -> Vec<(String, Write)> {
        let Some(writes) = self.0.writes.get() else { return Vec::new() };
        std::mem::take(&mut *writes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Refuses an attempt that was cut off while its code ran on another thread.
    pub(crate) fn check_running(&self) -> NodeResult<()> {
        match self.0.signals.is_cut_off() {
            true => Err(NodeError(Stop::Failed(cut_off(self.node())))),
            false => Ok(()),
        }
    }

    /// An id for a message this task makes: the same ones in the same order when the task is run
    /// again after a pause or a crash.
    #[must_use]
    pub fn message_id(&self) -> MessageId {
        let index = self.0.messages.fetch_add(1, Ordering::Relaxed);
        let bits = interrupt_id(self.task_id(), index).0 ^ u128::from(u64::MAX);
        MessageId::from_uuid(uuid::Uuid::from_u128(bits))
    }

    /// Returns an id for the next call of a tool that this task makes itself: a UUID derived from the
    /// position of the task in the history of its thread, the tool, and the number of earlier ids for the
    /// tool. A task that is executed again, in any process, gets the same ids.
    #[must_use]
    pub fn tool_call_id(&self, tool: &str) -> ToolCallId {
        self.own_calls().next_id(self.at(), tool)
    }

    fn own_calls(&self) -> &Arc<OwnCalls> {
        self.0.own_calls.get_or_init(Arc::default)
    }

    pub(crate) fn task_id(&self) -> TaskId {
        self.at().id()
    }

    /// Questions that stay open beside a failure.
    pub(crate) fn open_again(&self, interrupts: Vec<Interrupt>) {
        if !interrupts.is_empty() {
            self.open(interrupts);
        }
    }

    pub(crate) fn open(&self, interrupts: Vec<Interrupt>) {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner).push(interrupts);
    }

    /// Withdraws questions by their numbers, or else the last questions asked: those of a subgraph.
    pub(crate) fn withdraw_questions(&self, numbers: std::ops::Range<u32>) {
        let ids: Vec<_> = numbers.map(|number| interrupt_id(self.task_id(), number)).collect();
        let mut open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = open.len();
        open.retain(|together| !together.iter().any(|question| ids.contains(&question.id)));
        if open.len() == asked {
            open.pop();
        }
    }

    /// Takes all open questions.
    pub(crate) fn take_open(&self) -> Vec<Interrupt> {
        let open = std::mem::take(&mut *self.0.open.lock().unwrap_or_else(PoisonError::into_inner));
        open.into_iter().flatten().collect()
    }

    /// Takes the first group of questions.
    pub(crate) fn take_first_open(&self) -> Vec<Interrupt> {
        let open = std::mem::take(&mut *self.0.open.lock().unwrap_or_else(PoisonError::into_inner));
        open.into_iter().next().unwrap_or_default()
    }
}
