//! Context of a single loop.

use super::{Earlier, RunContext, TaskRecorder, TaskState, WriteProgress};
use crate::compiled::CompiledGraph;
use crate::run_loop::checkpointer::{CheckpointAddress, Checkpointer, TaskKey, TaskRecord};
use crate::run_loop::event::StreamEvent;
use crate::run_loop::namespace::nowhere;
use crate::run_loop::sync::lock;
use crate::run_loop::values::state_json;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use weftwork_engine::Slots;
use weftwork_types::CheckpointId;
use weftwork_types::code::Fault;
use weftwork_types::run::Durability;

/// The replay of an older checkpoint: subgraphs start from the checkpoints they had before it.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) before: CheckpointId,
    visited: Mutex<BTreeSet<String>>,
}

impl Replay {
    pub(crate) fn new(before: CheckpointId) -> Self {
        Self { before, visited: Mutex::default() }
    }

    /// Returns `true` if a graph is run for the first time, whatever task runs it.
    pub(crate) fn first_visit(&self, ns: &str) -> bool {
        // Without the last task, whose id is another on the branch.
        let stable = ns.rsplit_once(':').map_or(ns, |(stable, _)| stable);
        lock(&self.visited).insert(stable.to_owned())
    }
}

/// Entry of a run into the open superstep. The loops of graphs that its tasks run start as the run
/// did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RunEntry {
    /// The superstep follows the first one of the run: each nested loop decides by its own input.
    Passed,
    /// The run started here with new input.
    Starts,
    /// The run continues here from a checkpoint.
    Resumes,
}

/// A single loop: a graph, its place, and its inputs from the enclosing loop.
#[derive(Debug)]
pub(crate) struct LoopContext {
    pub(crate) run: Arc<RunContext>,
    pub(crate) graph: CompiledGraph,
    pub(crate) address: CheckpointAddress,
    pub(crate) storage: LoopStorage,
    /// Entry of the run into the open superstep: set by the enclosing loop, or determined by the
    /// outermost one.
    entry: AtomicU8,
    pub(crate) replay: Mutex<Option<Arc<Replay>>>,
    /// The checkpoints of the loops around this one, by their namespaces.
    pub(crate) enclosing: BTreeMap<String, CheckpointId>,
    /// The task around this loop.
    pub(crate) outer: Option<Arc<TaskState>>,
    /// Path of that task.
    pub(crate) outer_path: Option<Vec<(String, String, i64)>>,
    /// Earlier attempts that may have made calls of the task around this loop.
    pub(crate) earlier: Earlier,
    /// An answer that belongs to no task yet.
    pub(crate) answer: Mutex<Option<Json>>,
    /// `true` if an answer that an earlier process of the run has taken is not taken again here: the
    /// loop, or one around it, continues where that process had closed supersteps.
    pub(crate) begun: AtomicBool,
    /// Outcomes of the tasks that tasks called, in the open superstep.
    pub(crate) calls: Mutex<Vec<CalledTask>>,
    /// `true` if there are any.
    pub(crate) called: AtomicBool,
    /// Recorder of the calls of its tasks: the task of the outermost graph around it.
    pub(crate) recorder: Option<Arc<TaskRecorder>>,
    /// Notifies the loop, when it waits, that a task has calls to store.
    pub(crate) noted: Notify,
    /// Progress of its writes, when they run beside its tasks.
    pub(crate) write_progress: Option<WriteProgress>,
}

/// A task that another called.
#[derive(Debug)]
pub(crate) struct CalledTask {
    pub(crate) key: TaskKey,
    pub(crate) record: TaskRecord,
    /// `true` if it ended in this run.
    pub(crate) fresh: bool,
}

/// Storage of a loop's checkpoints.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoopStorage {
    pub(crate) checkpointer: Option<Arc<dyn Checkpointer>>,
    /// The checkpointer that subgraphs may use.
    pub(crate) lent: Option<Arc<dyn Checkpointer>>,
    /// `true` if the graph stores its state across runs.
    pub(crate) own: bool,
}

impl LoopStorage {
    fn new_progress(&self, shared: &RunContext) -> Option<WriteProgress> {
        let writes_beside =
            shared.options.durability == Durability::Async && self.checkpointer.is_some();
        writes_beside.then(WriteProgress::new)
    }
}

impl LoopContext {
    /// Removes what the run hides from a fault of a task. The task has read the state, so that its
    /// error may repeat hidden results of earlier runs too.
    pub(crate) fn shape_fault(&self, state: &Slots, fault: &mut Fault) {
        let hidden = &self.run.hidden;
        hidden.add_messages(&state_json(self.graph.plan(), state));
        hidden.shape_fault(fault);
    }

    pub(crate) fn outermost(
        shared: Arc<RunContext>,
        graph: CompiledGraph,
        enclosing: BTreeMap<String, CheckpointId>,
    ) -> Self {
        let address =
            CheckpointAddress { thread: Arc::clone(&shared.options.thread), ns: nowhere() };
        let checkpointer = shared.host.checkpointer().cloned();
        let storage = LoopStorage { lent: checkpointer.clone(), checkpointer, own: false };
        Self {
            write_progress: storage.new_progress(&shared),
            run: shared,
            graph,
            address,
            storage,
            entry: AtomicU8::new(RunEntry::Passed as u8),
            replay: Mutex::default(),
            enclosing,
            outer: None,
            outer_path: None,
            recorder: None,
            noted: Notify::new(),
            earlier: Earlier::Nobody,
            answer: Mutex::default(),
            begun: AtomicBool::new(false),
            calls: Mutex::default(),
            called: AtomicBool::new(false),
        }
    }

    pub(crate) fn within(&self, within: NestedLoop<'_>) -> Self {
        let address = CheckpointAddress { thread: Arc::clone(&self.address.thread), ns: within.ns };
        let loop_context = Self {
            write_progress: within.storage.new_progress(&self.run),
            run: Arc::clone(&self.run),
            graph: within.graph.clone(),
            address,
            storage: within.storage,
            entry: AtomicU8::new(RunEntry::Passed as u8),
            // One set of visits for all loops of the run: a graph goes back to its old state once.
            replay: Mutex::new(lock(&self.replay).clone()),
            enclosing: within.enclosing,
            outer: Some(within.outer),
            outer_path: within.outer_path,
            recorder: within.recorder,
            noted: Notify::new(),
            earlier: within.earlier,
            answer: Mutex::default(),
            begun: AtomicBool::new(self.begun.load(Ordering::Relaxed)),
            calls: Mutex::default(),
            called: AtomicBool::new(false),
        };
        loop_context.set_entry(within.entry);
        loop_context
    }

    /// Returns `true` if records that its tasks write are stored with their results.
    pub(crate) fn stores_records(&self) -> bool {
        self.run.reports_tasks() && self.storage.checkpointer.is_some()
    }

    pub(crate) fn is_nested(&self) -> bool {
        self.outer.is_some()
    }

    /// The graph around all others.
    pub(crate) fn outermost_graph(&self) -> &CompiledGraph {
        self.outer.as_ref().map_or(&self.graph, |outer| outer.loop_context.outermost_graph())
    }

    /// Returns `true` if this loop and those around it store checkpoints to resume from.
    pub(crate) fn is_durable(&self) -> bool {
        // If a loop around stores nothing, a resumed run starts it over, and this one with it.
        let around = self.outer.as_ref().is_none_or(|outer| outer.loop_context.is_durable());
        self.storage.checkpointer.is_some() && around
    }

    pub(crate) fn entry(&self) -> RunEntry {
        match self.entry.load(Ordering::Relaxed) {
            entry if entry == RunEntry::Starts as u8 => RunEntry::Starts,
            entry if entry == RunEntry::Resumes as u8 => RunEntry::Resumes,
            _ => RunEntry::Passed,
        }
    }

    pub(crate) fn set_entry(&self, entry: RunEntry) {
        self.entry.store(entry as u8, Ordering::Relaxed);
    }

    /// Takes the answer of this loop that belongs to no task yet.
    pub(crate) fn take_answer(&self) -> Option<Json> {
        // Taken, not read: it is for one question only, as in the reference.
        lock(&self.answer).take()
    }

    /// Returns `true` if there is an answer that belongs to no task yet, here or in an enclosing
    /// loop.
    pub(crate) fn offers_answer(&self) -> bool {
        let around = || self.outer.as_ref().is_some_and(|outer| outer.loop_context.offers_answer());
        lock(&self.answer).is_some() || around()
    }

    pub(crate) fn emit(&self, event: StreamEvent) {
        self.emit_from(&self.address.ns, event);
    }

    pub(crate) fn emit_from(&self, ns: &str, event: StreamEvent) {
        if let Some(sink) = &self.run.sink {
            sink.push(ns, event);
        }
    }
}

/// Inputs of a nested loop.
pub(crate) struct NestedLoop<'a> {
    pub(crate) graph: &'a CompiledGraph,
    pub(crate) ns: Arc<str>,
    pub(crate) storage: LoopStorage,
    pub(crate) entry: RunEntry,
    pub(crate) enclosing: BTreeMap<String, CheckpointId>,
    pub(crate) outer: Arc<TaskState>,
    pub(crate) outer_path: Option<Vec<(String, String, i64)>>,
    pub(crate) recorder: Option<Arc<TaskRecorder>>,
    pub(crate) earlier: Earlier,
}
