//! Data that the loops of a run share, and data of each loop and each task.

use super::api::Durability;
use super::event::{Modes, StreamEvent, StreamItem};
use super::in_process::InProcess;
use super::kept::{Calls, Keeper, TaskCalls};
use super::questions::Expiries;
use super::record::{TaskKey, TaskRecord};
use super::saver::{Place, Saver};
use super::writer::Behind;
use super::{Host, tell};
use crate::compiled::CompiledGraph;
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use weftwork_engine::ids::task_id;
use weftwork_types::{CheckpointId, InterruptId, MessageId, TaskId, Timestamp};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Data that all loops of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) host: Host,
    pub(crate) thread: Arc<str>,
    pub(crate) sink: Option<Sink>,
    pub(crate) context: Json,
    pub(crate) configurable: Arc<Map<String, Json>>,
    pub(crate) concurrency: Option<usize>,
    /// Time at which the run is cut off.
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) durability: Durability,
    /// The limit of this run, for each graph in it.
    pub(crate) step_limit: Option<u32>,
    /// Why a node asked the run to stop.
    pub(crate) drain: Mutex<Option<String>>,
    pub(crate) drains: AtomicBool,
    /// Answers by the ids of their questions.
    pub(crate) answers: OnceLock<BTreeMap<InterruptId, Json>>,
    /// Lower bound of this run's checkpoint ids; `given` counts the ids issued after it.
    ids: OnceLock<u128>,
    given: AtomicU32,
    /// When questions that are on record expire.
    pub(crate) expiries: Mutex<Expiries>,
    /// The branch of the thread: the checkpoint it began with; none on the first.
    pub(crate) branch: Mutex<Option<CheckpointId>>,
    /// The checkpoint from which the outermost graph went on; none when there was none.
    pub(crate) since: OnceLock<CheckpointId>,
    /// Data that calls share in an in-process run.
    pub(crate) in_process: OnceLock<InProcess>,
    /// The messages that were emitted, or that nodes got, by their ids; of runs that stream them.
    pub(crate) messages: Mutex<BTreeSet<String>>,
}

impl Shared {
    pub(crate) fn new(host: Host, options: &super::api::Options, sink: Option<Sink>) -> Self {
        let deadline = options.deadline.map(|limit| host.clock().now().plus(limit));
        Self {
            host,
            thread: Arc::clone(&options.thread),
            sink,
            context: options.context.clone(),
            configurable: Arc::clone(&options.configurable),
            concurrency: options.concurrency,
            deadline,
            durability: options.durability,
            step_limit: options.step_limit,
            drain: Mutex::default(),
            drains: AtomicBool::new(false),
            answers: OnceLock::new(),
            ids: OnceLock::new(),
            given: AtomicU32::new(0),
            expiries: Mutex::default(),
            messages: Mutex::default(),
            branch: Mutex::default(),
            since: OnceLock::new(),
            in_process: OnceLock::new(),
        }
    }

    /// An id for a checkpoint: greater than all that the run gave before, and than all that its
    /// thread had when the run began.
    pub(crate) fn next_id(&self) -> CheckpointId {
        let before = self.ids.get_or_init(|| self.host.id_block());
        CheckpointId(before + 1 + u128::from(self.given.fetch_add(1, Ordering::Relaxed)))
    }

    pub(crate) fn answer(&self, id: InterruptId) -> Option<&Json> {
        self.answers.get()?.get(&id)
    }

    pub(crate) fn wants(&self, modes: Modes) -> bool {
        self.sink.as_ref().is_some_and(|sink| sink.modes.any_of(modes))
    }
}

/// Receiver of the events of a run, in its modes.
#[derive(Debug, Clone)]
pub(crate) struct Sink {
    pub(crate) modes: Modes,
    pub(crate) to: Destination,
}

/// Destination of the events of a run.
#[derive(Debug, Clone)]
pub(crate) enum Destination {
    /// A queue that whoever drives the run reads. Events that were not read can still be changed.
    Queue(Arc<Mutex<VecDeque<StreamItem>>>),
    /// A channel that anyone reads.
    Channel(UnboundedSender<StreamItem>),
}

impl Sink {
    pub(crate) fn push(&self, ns: &str, event: StreamEvent) {
        let item = StreamItem { ns: tell::parts(ns), event };
        match &self.to {
            Destination::Queue(queue) => lock(queue).push_back(item),
            // Fails without a receiver: nobody reads then.
            Destination::Channel(channel) => drop(channel.send(item)),
        }
    }
}

/// The replay of an older checkpoint: graphs within start from what they had before it.
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
        let stable = ns.rsplit_once(':').map_or(ns, |(stable, _)| stable);
        lock(&self.visited).insert(stable.to_owned())
    }
}

/// A single loop: a graph, its place, and its inputs from the enclosing loop.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) shared: Arc<Shared>,
    pub(crate) graph: CompiledGraph,
    pub(crate) place: Place,
    pub(crate) keep: Keeping,
    /// Tells if the run resumes rather than starts: set by the enclosing loop, or determined by the
    /// outermost one.
    resuming: AtomicU8,
    pub(crate) replay: Mutex<Option<Arc<Replay>>>,
    /// The checkpoints of the loops around this one, by their ways.
    pub(crate) around: BTreeMap<String, CheckpointId>,
    /// The task around this loop.
    pub(crate) outer: Option<Arc<Scratch>>,
    /// Where that stands, when calls are journaled.
    pub(crate) outer_task: Option<Vec<(String, String, i64)>>,
    /// Earlier attempts that may have made calls of the task around this loop.
    pub(crate) earlier: Earlier,
    /// An answer that belongs to no task yet.
    pub(crate) answer: Mutex<Option<Json>>,
    /// Outcomes of the tasks that tasks called, in the open superstep.
    pub(crate) calls: Mutex<Vec<Called>>,
    /// `true` if there are any.
    pub(crate) called: AtomicBool,
    /// The keeper that stores the calls of its tasks: the task of the outermost graph around it.
    pub(crate) keeper: Option<Arc<Keeper>>,
    /// Tells the loop, when it waits, that a task has calls to keep.
    pub(crate) noted: Notify,
    /// Progress of its writes, when they run beside its tasks.
    pub(crate) behind: Option<Behind>,
}

/// A task that another called.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) key: TaskKey,
    pub(crate) record: TaskRecord,
    /// `true` if it ended in this run.
    pub(crate) fresh: bool,
}

/// Where a loop keeps its checkpoints.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keeping {
    pub(crate) saver: Option<Arc<dyn Saver>>,
    /// The checkpointer that subgraphs may use.
    pub(crate) lent: Option<Arc<dyn Saver>>,
    /// `true` if the graph keeps its state from run to run.
    pub(crate) own: bool,
}

impl Keeping {
    fn behind(&self, shared: &Shared) -> Option<Behind> {
        let behind = shared.durability == Durability::Async && self.saver.is_some();
        behind.then(Behind::new)
    }
}

impl Scope {
    pub(crate) fn outermost(
        shared: Arc<Shared>,
        graph: CompiledGraph,
        around: BTreeMap<String, CheckpointId>,
    ) -> Self {
        let place = Place { thread: Arc::clone(&shared.thread), ns: nowhere() };
        let saver = shared.host.saver().cloned();
        let keep = Keeping { lent: saver.clone(), saver, own: false };
        Self {
            behind: keep.behind(&shared),
            shared,
            graph,
            place,
            keep,
            resuming: AtomicU8::new(0),
            replay: Mutex::default(),
            around,
            outer: None,
            outer_task: None,
            keeper: None,
            noted: Notify::new(),
            earlier: Earlier::Nobody,
            answer: Mutex::default(),
            calls: Mutex::default(),
            called: AtomicBool::new(false),
        }
    }

    pub(crate) fn within(&self, within: Within<'_>) -> Self {
        let place = Place { thread: Arc::clone(&self.place.thread), ns: within.ns };
        let scope = Self {
            behind: within.keep.behind(&self.shared),
            shared: Arc::clone(&self.shared),
            graph: within.graph.clone(),
            place,
            keep: within.keep,
            resuming: AtomicU8::new(0),
            replay: Mutex::new(lock(&self.replay).clone()),
            around: within.around,
            outer: Some(within.outer),
            outer_task: within.outer_task,
            keeper: within.keeper,
            noted: Notify::new(),
            earlier: within.earlier,
            answer: Mutex::default(),
            calls: Mutex::default(),
            called: AtomicBool::new(false),
        };
        scope.set_resuming(within.resuming);
        scope
    }

    pub(crate) fn is_nested(&self) -> bool {
        self.outer.is_some()
    }

    /// The graph around all others.
    pub(crate) fn outermost_graph(&self) -> &CompiledGraph {
        self.outer.as_ref().map_or(&self.graph, |outer| outer.scope.outermost_graph())
    }

    /// Returns `true` if this loop and those around it store checkpoints to resume from.
    pub(crate) fn is_kept(&self) -> bool {
        let around = self.outer.as_ref().is_none_or(|outer| outer.scope.is_kept());
        self.keep.saver.is_some() && around
    }

    pub(crate) fn resuming(&self) -> Option<bool> {
        match self.resuming.load(Ordering::Relaxed) {
            1 => Some(false),
            2 => Some(true),
            _ => None,
        }
    }

    pub(crate) fn set_resuming(&self, resuming: Option<bool>) {
        let value = match resuming {
            None => 0,
            Some(false) => 1,
            Some(true) => 2,
        };
        self.resuming.store(value, Ordering::Relaxed);
    }

    /// The answer that belongs to no task yet: this loop's, else that of the task around it.
    pub(crate) fn take_answer(&self) -> Option<Json> {
        lock(&self.answer).take()
    }

    /// Returns `true` if there is an answer that belongs to no task yet, here or in an enclosing
    /// loop.
    pub(crate) fn offers_answer(&self) -> bool {
        let around = || self.outer.as_ref().is_some_and(|outer| outer.scope.offers_answer());
        lock(&self.answer).is_some() || around()
    }

    pub(crate) fn tell(&self, event: StreamEvent) {
        self.tell_from(&self.place.ns, event);
    }

    pub(crate) fn tell_from(&self, ns: &str, event: StreamEvent) {
        if let Some(sink) = &self.shared.sink {
            sink.push(ns, event);
        }
    }
}

/// Inputs of a nested loop.
pub(crate) struct Within<'a> {
    pub(crate) graph: &'a CompiledGraph,
    pub(crate) ns: Arc<str>,
    pub(crate) keep: Keeping,
    pub(crate) resuming: Option<bool>,
    pub(crate) around: BTreeMap<String, CheckpointId>,
    pub(crate) outer: Arc<Scratch>,
    pub(crate) outer_task: Option<Vec<(String, String, i64)>>,
    pub(crate) keeper: Option<Arc<Keeper>>,
    pub(crate) earlier: Earlier,
}

/// Earlier attempts that may have made calls of a task, so that the calls may be on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Earlier {
    /// Nobody: its superstep was begun by this loop, and this is its first attempt.
    Nobody,
    /// An attempt of this loop.
    Attempts,
    /// A process before this one, or this one before it went on with the thread: the superstep was
    /// open when the loop began.
    Processes,
}

/// Data that a task retains across its attempts.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Answers, in the order of the questions.
    pub(crate) resume: Mutex<Vec<Json>>,
    /// `true` if a question took one of them.
    pub(crate) resumed: AtomicBool,
    pub(crate) asked: AtomicU32,
    /// The questions that something on record took, which are not asked again.
    taken: Mutex<BTreeSet<u32>>,
    pub(crate) graphs: AtomicU32,
    pub(crate) called: AtomicU32,
    pub(crate) calls: TaskCalls,
    /// The messages of which the task emitted chunks.
    pub(crate) chunked: Mutex<Vec<MessageId>>,
    /// `true` if the loop had an unassigned answer when the task began.
    offered: bool,
    /// The task's id, once somebody asked for it: most nodes do not, and it is a hash.
    id: OnceLock<TaskId>,
    scope: Arc<Scope>,
}

impl Scratch {
    pub(crate) fn new(scope: Arc<Scope>, resume: Vec<Json>, calls: &Calls) -> Self {
        let offered = lock(&scope.answer).is_some();
        Self {
            resume: Mutex::new(resume),
            resumed: false.into(),
            asked: AtomicU32::new(0),
            taken: Mutex::default(),
            graphs: AtomicU32::new(0),
            called: AtomicU32::new(0),
            calls: TaskCalls::known(calls),
            chunked: Mutex::default(),
            offered,
            id: OnceLock::new(),
            scope,
        }
    }

    /// The number of the next question.
    pub(crate) fn next_question(&self) -> u32 {
        loop {
            let index = self.asked.fetch_add(1, Ordering::Relaxed);
            if !lock(&self.taken).contains(&index) {
                return index;
            }
        }
    }

    /// Leaves out questions that something on record took.
    pub(crate) fn take_questions(&self, taken: &[u32]) {
        lock(&self.taken).extend(taken);
    }

    pub(super) fn is_taken(&self, index: usize) -> bool {
        u32::try_from(index).is_ok_and(|index| lock(&self.taken).contains(&index))
    }

    /// The loop of the task.
    pub(super) fn scope(&self) -> &Arc<Scope> {
        &self.scope
    }

    /// An answer that belongs to no task yet. It can be taken once.
    pub(crate) fn take_answer(&self) -> Option<Json> {
        if self.offered {
            return self.scope.take_answer();
        }
        self.scope.outer.as_ref()?.take_answer()
    }

    /// The answers, when a question took one.
    pub(crate) fn answers(&self) -> Option<Vec<Json>> {
        self.resumed.load(Ordering::Relaxed).then(|| lock(&self.resume).clone())
    }
}

/// A task in its loop.
#[derive(Debug, Clone)]
pub struct TaskAt {
    pub(crate) scope: Arc<Scope>,
    pub(crate) scratch: Arc<Scratch>,
    pub(crate) key: TaskKey,
    /// The way to what started it: its graph, or the task whose code or failure it serves.
    pub(crate) from: Arc<str>,
    /// The checkpoint its superstep starts from.
    pub(crate) checkpoint: CheckpointId,
    pub(crate) step: i64,
    pub(crate) resuming: Option<bool>,
    pub(crate) earlier: Earlier,
    /// The keeper that stores its calls, when it is another task: that of the outermost graph
    /// around it.
    pub(crate) keeper: Option<Arc<Keeper>>,
    /// The state its superstep starts from.
    pub(crate) slots: weftwork_engine::Slots,
}

impl TaskAt {
    /// Id of the task.
    #[must_use]
    pub fn id(&self) -> TaskId {
        let id = || self.key.id(&self.scope.place.ns, self.checkpoint, self.step);
        *self.scratch.id.get_or_init(id)
    }

    /// Checkpoint from which the outermost graph of the run continued; `None` if there was none.
    #[must_use]
    pub fn run_base(&self) -> Option<CheckpointId> {
        self.scope.shared.since.get().copied()
    }
}

impl TaskKey {
    /// Name of the node or of the called task.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        match self {
            Self::Node { node, .. } => node,
            Self::Call { name, .. } => name,
        }
    }

    pub(crate) fn path(&self) -> String {
        match self {
            Self::Node { path, .. } => path.to_string(),
            Self::Call { of, index, .. } => format!("call:{}:{}:{index}", of.name(), of.path()),
        }
    }

    /// The id of the task in the superstep that starts from a checkpoint.
    pub(crate) fn id(&self, ns: &str, checkpoint: CheckpointId, step: i64) -> TaskId {
        let name = format_args!("{ns}|{}", self.name());
        match self {
            Self::Node { path, .. } => task_id(checkpoint, step, name, path),
            Self::Call { .. } => task_id(checkpoint, step, name, self.path()),
        }
    }
}

/// The way to the outermost graph.
pub(crate) fn nowhere() -> Arc<str> {
    static NOWHERE: LazyLock<Arc<str>> = LazyLock::new(|| "".into());
    Arc::clone(&NOWHERE)
}

/// Lets the others of a superstep have a turn, in the order in which they wait for one.
pub(crate) async fn turn() {
    let mut waited = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// The way to the graph that a task runs.
pub(crate) fn task_ns(ns: &str, name: &str, id: TaskId) -> String {
    if ns.is_empty() { format!("{name}:{id}") } else { format!("{ns}|{name}:{id}") }
}
