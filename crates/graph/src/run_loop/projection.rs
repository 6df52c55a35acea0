//! Events of a stream from stored checkpoints: the frames that a run emits, computed from its log.

use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use crate::run_loop::checkpointer::{Checkpoint, TaskKey, TaskRecord, TaskRecords, TaskWrites};
use crate::run_loop::context::Host;
use crate::run_loop::event::{Snapshot, Source, StreamEvent, TaskEnded, TaskStarted, Written};
use crate::run_loop::namespace::task_ns;
use crate::run_loop::stream::frames;
use crate::run_loop::supersteps::{StopPoints, single_arg};
use crate::run_loop::task::{handler_of, key_of, name_of};
use crate::run_loop::thread::StateQuery;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork_engine::channel::MessageWrite;
use weftwork_engine::pregel::{Done, Path, Task};
use weftwork_engine::{EngineError, NodeIdx, TaskOutput};
use weftwork_types::TaskId;
use weftwork_types::code::Fault;
use weftwork_types::event::OutsideWrites;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::Stops;

/// A superstep of a graph as it is stored: the checkpoint that it starts from, and the records of
/// its tasks.
#[derive(Debug, Clone)]
pub struct StoredStep {
    graph: CompiledGraph,
    ns: Arc<str>,
    checkpoint: Checkpoint,
    records: TaskRecords,
    origin: StepOrigin,
    /// The tasks that are due, in the order in which they start.
    due: Vec<Task>,
}

/// Beginning of the superstep in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepOrigin {
    /// The run made the checkpoint.
    Made,
    /// The run continued from the checkpoint, with a part of the writes from outside that are
    /// stored with it.
    Continued(OutsideWrites),
}

/// Bounds of a loop: the superstep before which it stops, and the nodes at which it stops.
#[derive(Debug)]
pub struct LoopBounds {
    stop: i64,
    stops: StopPoints,
}

/// A task of a superstep.
enum Found<'a> {
    /// A task of a node, or the handler of its failure.
    Node(Task, TaskKey),
    /// A task that the code of another one called.
    Called(&'a TaskKey, &'a TaskRecord),
}

impl StoredStep {
    /// Loads the superstep that starts from a checkpoint; `None` if the checkpoint is not stored.
    ///
    /// # Errors
    /// [`RuntimeError::NoCheckpointer`], [`RuntimeError::UnknownNamespace`] for a graph that is no
    /// declared subgraph, or the error of the checkpointer.
    pub async fn load(
        graph: &CompiledGraph,
        host: &Host,
        at: &StateQuery,
        origin: StepOrigin,
    ) -> Result<Option<Self>, RuntimeError> {
        let checkpointer =
            host.checkpointer().ok_or(RuntimeError::NoCheckpointer { what: "a stream" })?;
        let (graph, place) = graph.at(at)?;
        let Some(found) = checkpointer.load(&place, graph.plan(), at.checkpoint).await? else {
            return Ok(None);
        };
        let mut checkpoint = found.checkpoint;
        checkpoint.machine = checkpoint.machine.over(graph.plan())?;
        if let StepOrigin::Continued(part) = origin {
            // Later commands have added theirs to the record: the run saw only the first ones.
            let mut output = found.outside.output;
            output.writes.truncate(part.writes);
            output.goto.truncate(part.targets);
            checkpoint.machine.apply_beside(&output)?;
            checkpoint.machine.pass();
        }
        let ns = place.ns;
        let records = found.tasks;
        let mut step = Self { graph, ns, checkpoint, records, origin, due: Vec::new() };
        step.due = step.due_tasks()?;
        Ok(Some(step))
    }

    fn due_tasks(&self) -> Result<Vec<Task>, EngineError> {
        let plan = self.graph.plan();
        let single = plan.is_single().then(|| single_arg(&self.checkpoint.machine)).flatten();
        let mut due = Vec::new();
        self.checkpoint.machine.each_due(|mut task| {
            if task.arg.is_none() {
                task.arg.clone_from(&single);
            }
            due.push(task);
        })?;
        Ok(due)
    }

    /// Operation that made the checkpoint.
    #[must_use]
    pub fn source(&self) -> Source {
        self.checkpoint.metadata.source
    }

    /// Number of the superstep.
    #[must_use]
    pub fn step(&self) -> i64 {
        self.checkpoint.metadata.step + 1
    }

    /// Returns the superstep with the managed values that its tasks get.
    #[must_use]
    pub fn within(mut self, bounds: &LoopBounds) -> Self {
        let step = self.step();
        self.checkpoint.machine.set_managed(step, bounds.stop);
        self
    }

    /// Returns the superstep with its tasks in the order of these ids, after all others.
    #[must_use]
    pub fn in_order<'a>(mut self, ids: impl Iterator<Item = &'a TaskId>) -> Self {
        let places: BTreeMap<_, _> = ids.zip(1usize..).collect();
        let mut due = std::mem::take(&mut self.due);
        // The tasks of a branch start in the order of the checkpoint that it leaves, which only the
        // event has.
        due.sort_by_key(|task| places.get(&self.id_of(task)).copied().unwrap_or_default());
        self.due = due;
        self
    }

    fn is_nested(&self) -> bool {
        !self.ns.is_empty()
    }

    fn id(&self, key: &TaskKey) -> TaskId {
        key.id(&self.ns, self.checkpoint.id, self.step())
    }

    fn find_record(&self, key: &TaskKey) -> Option<&TaskRecord> {
        self.records.iter().find(|(known, _)| known == key).map(|(_, record)| record)
    }

    /// Finds a task by its id.
    fn find(&self, id: TaskId) -> Option<Found<'_>> {
        // The handler of a failure is due nowhere: it is derived from the task that may have
        // failed.
        let tasks = self.due.iter().flat_map(|task| [task.clone(), handler_of(task)]);
        for task in tasks {
            let key = key_of(&self.graph, &task);
            if self.id(&key) == id {
                return Some(Found::Node(task, key));
            }
        }
        let called = self.records.iter().filter(|(key, _)| matches!(key, TaskKey::Call { .. }));
        let mut called = called.filter(|(key, _)| self.id(key) == id);
        called.next().map(|(key, record)| Found::Called(key, record))
    }

    /// The output at the checkpoint.
    #[must_use]
    pub fn values(&self) -> Json {
        let slots = self.checkpoint.machine.slots();
        frames::shown_values(self.graph.plan(), self.is_nested(), slots)
    }

    /// The output with the writes of tasks that finished; `None` if they wrote nothing that is
    /// shown.
    ///
    /// # Errors
    /// [`RuntimeError::Engine`] if the writes cannot be applied.
    pub fn values_after(&self, finished: &BTreeSet<TaskId>) -> Result<Option<Json>, RuntimeError> {
        let nothing = TaskOutput::default();
        let handlers = self.due.iter().map(handler_of);
        let handlers = handlers.filter(|task| finished.contains(&self.id_of(task)));
        let tasks: Vec<Task> = self.due.iter().cloned().chain(handlers).collect();
        let mut done: Vec<_> = tasks
            .iter()
            .map(|task| {
                let key = key_of(&self.graph, task);
                // No event reports the hidden first node; it has a record only if it finished.
                let has_finished = task.node == NodeIdx::START || finished.contains(&self.id(&key));
                let record = self.find_record(&key).filter(|_| has_finished);
                let output = record.and_then(TaskRecord::output);
                let edges = record.is_some_and(|record| record.writes.follows_edges());
                Done { task, output: output.map_or(&nothing, |output| output), edges }
            })
            .collect();
        let mut machine = self.checkpoint.machine.clone();
        let mut written = Vec::new();
        machine.apply(&mut done, &mut written)?;
        let plan = self.graph.plan();
        let nested = self.is_nested();
        let slots = machine.slots();
        written.retain(|index| slots.get(index.0).is_some());
        let shown = written.iter().any(|index| frames::shows_channel(plan, nested, *index));
        Ok(shown.then(|| frames::shown_values(plan, nested, slots)))
    }

    fn id_of(&self, task: &Task) -> TaskId {
        self.id(&key_of(&self.graph, task))
    }

    /// The checkpoint, with the tasks that are due.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let Checkpoint { id, parent, metadata, machine } = &self.checkpoint;
        let at = frames::ShownAt { ns: &self.ns, id: Some(*id), parent: *parent, metadata };
        let tasks = self.due.iter().map(|task| (task, self.id_of(task)));
        frames::checkpoint_snapshot(&self.graph, machine.slots(), &at, tasks)
    }

    /// The start of a task; `None` for the hidden first node and for tasks that are called by the
    /// code of others, whose arguments are not stored.
    #[must_use]
    pub fn started(&self, id: TaskId) -> Option<TaskStarted> {
        let Found::Node(task, _) = self.find(id)? else { return None };
        if task.node == NodeIdx::START {
            return None;
        }
        let input = frames::task_input(&self.graph, &self.checkpoint.machine, &task);
        Some(frames::task_started(&self.graph, &task, id, input))
    }

    /// The writes of a task that finished.
    #[must_use]
    pub fn updates(&self, id: TaskId, cached: bool) -> Option<StreamEvent> {
        match self.find(id)? {
            Found::Node(task, _) if task.node == NodeIdx::START => None,
            Found::Node(task, key) => {
                let output = self.find_record(&key)?.output()?;
                let name = name_of(&self.graph, &task);
                let plan = self.graph.plan();
                Some(frames::update_event(plan, self.is_nested(), name, output, cached))
            }
            Found::Called(key, record) => Some(StreamEvent::Updates {
                node: key.name().to_string(),
                updates: Vec::new(),
                returned: record.returned().cloned(),
                cached,
            }),
        }
    }

    /// The empty update of a task of a node that failed after it had taken an answer.
    #[must_use]
    pub fn no_update(&self, id: TaskId) -> Option<StreamEvent> {
        let Found::Node(task, _) = self.find(id)? else { return None };
        let node = name_of(&self.graph, &task).to_string();
        Some(StreamEvent::Updates { node, updates: Vec::new(), returned: None, cached: false })
    }

    /// The outcome of a task that ended: with its writes if it finished, otherwise with its failure
    /// and its questions at that time.
    #[must_use]
    pub fn ended(
        &self,
        id: TaskId,
        finished: bool,
        fault: Option<&Fault>,
        questions: &[Interrupt],
    ) -> Option<TaskEnded> {
        let plan = self.graph.plan();
        match self.find(id)? {
            Found::Node(task, _) if task.node == NodeIdx::START => None,
            Found::Node(task, key) => {
                let mut record = self.find_record(&key)?.clone();
                // A later attempt may have finished the task: at the time of this event it had not.
                if !finished {
                    record.writes = TaskWrites::None;
                }
                let ended = frames::task_ended(plan, id, name_of(&self.graph, &task), &record);
                // Those on record may be of another attempt.
                let error = fault.cloned();
                let interrupts = questions.to_vec();
                Some(TaskEnded { error, interrupts, ..ended })
            }
            Found::Called(key, record) => {
                let result = record.returned().filter(|_| finished).cloned();
                let result = result.map(|json| ("__return__".to_owned(), Written::Put(json)));
                Some(TaskEnded {
                    id,
                    name: key.name().to_string(),
                    result: result.into_iter().collect(),
                    error: fault.cloned(),
                    interrupts: Vec::new(),
                })
            }
        }
    }

    /// The questions on record of a task.
    #[must_use]
    pub fn questions(&self, id: TaskId) -> &[Interrupt] {
        match self.find(id) {
            Some(Found::Node(_, key)) => self.find_record(&key).map_or(&[], TaskRecord::questions),
            _ => &[],
        }
    }

    /// Returns `true` if a task failed only because another task failed first.
    #[must_use]
    pub fn was_cut_off(fault: &Fault) -> bool {
        fault.code == crate::error::NODE_CANCELLED.to_string()
    }

    /// The messages that a task returned, after the namespace and the name of their source.
    #[must_use]
    pub fn messages(&self, id: TaskId) -> (String, String, Vec<MessageWrite>) {
        let Some(Found::Node(task, key)) = self.find(id) else { return Default::default() };
        let output = self.find_record(&key).and_then(TaskRecord::output);
        let messages = output.map(|output| self.graph.plan().messages_in(output));
        let node = name_of(&self.graph, &task).to_string();
        (self.source_of(&task), node, messages.unwrap_or_default())
    }

    /// The namespace of the origin of a task: its graph, or the task whose failure it handles.
    fn source_of(&self, task: &Task) -> String {
        let Path::Handler(index) = task.path else { return self.ns.to_string() };
        let path = index.map_or(Path::Pull, Path::Push);
        let failed = Task { path, ..task.clone() };
        task_ns(&self.ns, name_of(&self.graph, &failed), self.id_of(&failed))
    }

    /// Calls `found` with the ids of the messages that a task gets.
    pub fn message_ids(&self, id: TaskId, found: impl FnMut(&str)) {
        if let Some(Found::Node(task, _)) = self.find(id) {
            let machine = &self.checkpoint.machine;
            frames::message_ids_in(&self.graph, machine, &task, found);
        }
    }

    /// The bounds of a loop that begins with this superstep in a run: with the limit and the stops
    /// of the request, or those of the graph.
    #[must_use]
    pub fn bounds(
        &self,
        limit: Option<u32>,
        before: Option<Stops>,
        after: Option<Stops>,
    ) -> LoopBounds {
        let graph = &self.graph;
        let limit = i64::from(limit.unwrap_or(graph.step_limit()));
        let step = self.step();
        let machine = &self.checkpoint.machine;
        let stop = if graph.settings().steps.counts_from_loaded {
            // The checkpoint of the input or of the fork counts.
            let made = i64::from(self.origin == StepOrigin::Made);
            step.saturating_sub(made).saturating_add(limit).saturating_add(1)
        } else {
            let hidden = machine.start_input().is_some() && !graph.plan().is_single();
            step.saturating_add(limit).saturating_add(i64::from(hidden))
        };
        let outermost = !self.is_nested();
        let stops = StopPoints::of(
            before.filter(|_| outermost).unwrap_or_else(|| graph.before().clone()),
            after.filter(|_| outermost).unwrap_or_else(|| graph.after().clone()),
        );
        LoopBounds { stop, stops }
    }

    /// Returns `true` if the tasks that are due start: the loop neither reached its limit nor stops
    /// before one of them, or after one of the nodes that `ran`.
    #[must_use]
    pub fn starts(&self, bounds: &LoopBounds, ran: &[String]) -> bool {
        let machine = &self.checkpoint.machine;
        let beyond = self.graph.settings().steps.beyond_stop;
        let within = self.step() < bounds.stop.saturating_add(beyond);
        let mut names = self.due.iter().map(|task| name_of(&self.graph, task));
        let stops = &bounds.stops;
        let stopped = machine.changed_since_passed()
            && (stops.is_after_any(ran) || names.any(|name| stops.is_before_node(name)));
        // A run that makes a change from outside ends with it.
        let changed = self.origin == StepOrigin::Made && self.source() == Source::Update;
        within && !stopped && !changed
    }
}
