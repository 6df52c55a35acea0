//! Looking at threads: a state at a checkpoint, and how it came about.

use super::api::{Keep, Resuming, Unanswered};
use super::call::without_tasks;
use super::event::{Config, Snapshot, SubState, TaskResult, TaskSnapshot, Written};
use super::host::Host;
use super::saver::{Place, Saved, Saver, TaskKey, TaskRecord};
use super::scope::task_ns;
use super::tell::{returned, state_json, written};
use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_engine::pregel::{Done, Path, Task};
use weftwork_engine::{NodeIdx, TaskOutput};
use weftwork_types::{BoxFuture, CheckpointId};

/// A place to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At {
    /// The thread.
    pub thread: Arc<str>,
    /// The way to the graph; empty for the outermost one.
    pub ns: Arc<str>,
    /// The checkpoint; none: as the thread stands, with what finished tasks of the open superstep
    /// wrote.
    pub checkpoint: Option<CheckpointId>,
}

impl At {
    /// A thread as it stands.
    pub fn thread(thread: impl Into<Arc<str>>) -> Self {
        Self { thread: thread.into(), ns: "".into(), checkpoint: None }
    }

    /// A place of a thread.
    pub fn config(thread: impl Into<Arc<str>>, config: &Config) -> Self {
        Self { thread: thread.into(), ns: config.ns.as_str().into(), checkpoint: config.id }
    }

    /// Another graph of the thread.
    #[must_use]
    pub fn within(mut self, ns: impl Into<Arc<str>>) -> Self {
        self.ns = ns.into();
        self
    }

    fn place(&self) -> Place {
        Place { thread: Arc::clone(&self.thread), ns: Arc::clone(&self.ns) }
    }
}

/// Which checkpoints of a history are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryFilter {
    /// Only those before this one.
    pub before: Option<CheckpointId>,
    /// At most so many.
    pub limit: usize,
    /// Only those that this made.
    pub source: Option<super::event::Source>,
    /// Only those of this superstep.
    pub step: Option<i64>,
}

impl Default for HistoryFilter {
    fn default() -> Self {
        Self { before: None, limit: usize::MAX, source: None, step: None }
    }
}

impl CompiledGraph {
    /// A thread as it stands, or at a checkpoint; with the states of graphs within, if wanted.
    ///
    /// # Errors
    /// [`RuntimeError::NoSaver`] when the host keeps no checkpoints,
    /// [`RuntimeError::UnknownNamespace`], [`RuntimeError::UnknownCheckpoint`], or what the saver
    /// said.
    pub async fn state(
        &self,
        host: &Host,
        at: &At,
        within: bool,
    ) -> Result<Snapshot, RuntimeError> {
        let saver = host.saver().ok_or(RuntimeError::NoSaver { what: "looking at a thread" })?;
        let (graph, place) = match self.at(at) {
            // The reference shows the state of no graph as that of a thread on which nothing ran.
            Err(RuntimeError::UnknownNamespace { .. }) if self.is_lenient() => {
                (Self::clone(self), at.place())
            }
            found => found?,
        };
        let look = Look { graph: &graph, saver, within };
        look.at(place, at.checkpoint).await
    }

    /// The checkpoints of a thread on all its branches, newest first.
    ///
    /// # Errors
    /// As [`state`](Self::state).
    pub async fn history(&self, host: &Host, at: &At) -> Result<Vec<Snapshot>, RuntimeError> {
        self.history_of(host, at, &HistoryFilter::default()).await
    }

    /// Returns the checkpoints that match the filter, newest first.
    ///
    /// # Errors
    /// As [`state`](Self::state).
    pub async fn history_of(
        &self,
        host: &Host,
        at: &At,
        filter: &HistoryFilter,
    ) -> Result<Vec<Snapshot>, RuntimeError> {
        let saver = host.saver().ok_or(RuntimeError::NoSaver { what: "looking at a thread" })?;
        let (graph, place) = self.at(at)?;
        let look = Look { graph: &graph, saver, within: false };
        let all = filter.source.is_none() && filter.step.is_none();
        let limit = if all { filter.limit } else { usize::MAX };
        let saved = saver.list(&place, graph.plan(), filter.before, limit).await?;
        let wanted = saved.into_iter().filter(|saved| {
            let metadata = &saved.checkpoint.metadata;
            filter.source.is_none_or(|source| metadata.source == source)
                && filter.step.is_none_or(|step| metadata.step == step)
        });
        let mut found = Vec::new();
        for saved in wanted.take(filter.limit) {
            found.push(look.snapshot(&place, saved, false).await?);
        }
        Ok(found)
    }

    /// Forgets all checkpoints of a thread but the newest `keep` of each of its graphs.
    ///
    /// # Errors
    /// [`RuntimeError::NoSaver`], or what the saver said: that the thread went on meanwhile, for
    /// one.
    pub async fn prune(&self, host: &Host, thread: &str, keep: usize) -> Result<(), RuntimeError> {
        let saver = host.saver().ok_or(RuntimeError::NoSaver { what: "pruning a thread" })?;
        for ns in saver.graphs(thread).await? {
            let (graph, _) = self.at(&At::thread(thread).within(Arc::clone(&ns)))?;
            let place = Place { thread: thread.into(), ns };
            saver.prune(&place, graph.plan(), keep).await?;
        }
        Ok(())
    }

    fn is_lenient(&self) -> bool {
        self.semantics().unknown == weftwork_engine::Unknown::Ignore
    }

    /// Refuses a checkpoint that was named and not found, unless the graph ignores such names.
    pub(super) fn known_checkpoint(
        &self,
        place: &Place,
        id: Option<CheckpointId>,
    ) -> Result<(), RuntimeError> {
        match id.filter(|_| self.semantics().unknown == weftwork_engine::Unknown::Refuse) {
            None => Ok(()),
            Some(checkpoint) => Err(RuntimeError::UnknownCheckpoint {
                thread: place.thread.to_string(),
                ns: place.ns.to_string(),
                checkpoint,
            }),
        }
    }

    fn nodes_with_graphs(&self) -> String {
        let nodes = self.plan().nodes().iter().enumerate();
        let runs = |i| self.node(NodeIdx(i)).is_some_and(|node| node.options.graph.is_some());
        let names: Vec<_> = nodes.filter(|(i, _)| runs(*i)).map(|(_, node)| &*node.name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    /// The graph at a place, and where it keeps its checkpoints.
    pub(super) fn at(&self, at: &At) -> Result<(Self, Place), RuntimeError> {
        let mut place = at.place();
        if at.ns.is_empty() {
            return Ok((self.clone(), place));
        }
        let mut graph = self.clone();
        let mut own = false;
        for part in at.ns.split('|').filter(|part| !part.bytes().all(|b| b.is_ascii_digit())) {
            let name = part.split(':').next().unwrap_or_default();
            let known = graph.clone();
            let unknown = || RuntimeError::UnknownNamespace {
                ns: at.ns.to_string(),
                known: known.nodes_with_graphs(),
            };
            let index = graph.plan().node_idx(name).ok_or_else(unknown)?;
            let inner = graph.node(index).and_then(|node| node.options.graph.clone());
            let (inner, keep) = inner.ok_or_else(unknown)?;
            own = keep == Keep::Own;
            graph = inner;
        }
        if own {
            place.ns = without_tasks(&place.ns).into();
        }
        Ok((graph, place))
    }
}

pub(super) struct Look<'a> {
    pub(super) graph: &'a CompiledGraph,
    pub(super) saver: &'a Arc<dyn Saver>,
    pub(super) within: bool,
}

impl Look<'_> {
    fn at(
        &self,
        place: Place,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'_, Result<Snapshot, RuntimeError>> {
        Box::pin(async move {
            match self.saver.load(&place, self.graph.plan(), id).await? {
                Some(saved) => self.snapshot(&place, saved, id.is_none()).await,
                None => {
                    self.graph.known_checkpoint(&place, id)?;
                    Ok(Snapshot {
                        values: serde_json::json!({}),
                        config: Some(Config { ns: place.ns.to_string(), id, map: BTreeMap::new() }),
                        ..Snapshot::default()
                    })
                }
            }
        })
    }

    /// A checkpoint: as a record of its superstep, or, `live`, as it stands.
    async fn snapshot(
        &self,
        place: &Place,
        saved: Saved,
        live: bool,
    ) -> Result<Snapshot, RuntimeError> {
        let Saved { checkpoint, tasks: records, outside, .. } = saved;
        let step = checkpoint.metadata.step + 1;
        let mut machine = checkpoint.machine.over(self.graph.plan())?;
        let due = machine.due_in_order();
        machine.apply_beside(&outside.output)?;
        let mut tasks = Vec::with_capacity(due.len());
        let mut next = Vec::new();
        for task in &due {
            let key = key_of(self.graph, task);
            let record = record_of(&records, &key);
            let id = key.id(&place.ns, checkpoint.id, step);
            if !(live && self.is_over(task, record, &records)) {
                next.push(key.name().to_string());
            }
            let state = self.state_of(place, task.node, &key, id).await?;
            tasks.push(self.task(task, &key, id, record, live, state));
        }
        if live {
            self.apply_finished(&mut machine, &due, &records)?;
        }
        let metadata = checkpoint.metadata;
        let config = |id| Config::of(&place.ns, Some(id), &metadata);
        Ok(Snapshot {
            values: state_json(self.graph.plan(), machine.slots()),
            next,
            config: Some(config(checkpoint.id)),
            parent: checkpoint.parent.map(config),
            interrupts: tasks.iter().flat_map(|t| t.interrupts.iter().cloned()).collect(),
            tasks,
            metadata: Some(metadata.clone()),
        })
    }

    /// Returns `true` if nothing is left to do for a task: it finished, or its error handler did.
    fn is_over(
        &self,
        task: &Task,
        record: Option<&TaskRecord>,
        records: &[(TaskKey, TaskRecord)],
    ) -> bool {
        let handled = record.is_some_and(|record| record.handled) && self.keeps_handlers();
        let handler = || record_of(records, &key_of(self.graph, &handler_of(task)));
        record.is_some_and(TaskRecord::is_finished)
            || handled && handler().is_some_and(TaskRecord::is_finished)
    }

    fn keeps_handlers(&self) -> bool {
        self.graph.semantics().resuming == Resuming::Exact
    }

    fn apply_finished(
        &self,
        machine: &mut weftwork_engine::pregel::Machine,
        due: &[Task],
        records: &[(TaskKey, TaskRecord)],
    ) -> Result<(), RuntimeError> {
        let handlers = due.iter().filter(|_| self.keeps_handlers()).map(handler_of);
        let tasks: Vec<Task> = due.iter().cloned().chain(handlers).collect();
        let finished = tasks.iter().filter_map(|task| {
            let record = record_of(records, &key_of(self.graph, task))?;
            Some(Done { task, output: record.output.as_deref()?, edges: record.edges })
        });
        let mut done: Vec<_> = finished.collect();
        if !done.is_empty() {
            machine.apply(&mut done, &mut Vec::new())?;
            // TaskOutcome lasts one superstep is not shown beyond the one it was written in.
            machine.clear_lapsing();
        }
        Ok(())
    }

    async fn state_of(
        &self,
        place: &Place,
        node: NodeIdx,
        key: &TaskKey,
        id: weftwork_types::TaskId,
    ) -> Result<Option<SubState>, RuntimeError> {
        let Some((graph, keep)) = self.graph.node(node).and_then(|n| n.options.kept_graph()) else {
            return Ok(None);
        };
        let ns = task_ns(&place.ns, key.name(), id);
        if !self.within {
            return Ok(Some(SubState::Config(Config { ns, ..Config::default() })));
        }
        let ns = if *keep == Keep::Own { without_tasks(&ns) } else { ns };
        let place = Place { thread: Arc::clone(&place.thread), ns: ns.into() };
        let look = Look { graph, saver: self.saver, within: true };
        let snapshot = Look::at(&look, place, None).await?;
        Ok(Some(SubState::Snapshot(Box::new(snapshot))))
    }

    fn task(
        &self,
        task: &Task,
        key: &TaskKey,
        id: weftwork_types::TaskId,
        record: Option<&TaskRecord>,
        live: bool,
        state: Option<SubState>,
    ) -> TaskSnapshot {
        let finished = record.is_some_and(TaskRecord::is_finished);
        let waits = self.graph.semantics().unanswered == Unanswered::Wait;
        let asked = |record: &TaskRecord| {
            if waits && live && !record.is_finished() {
                return record.open_questions();
            }
            record.interrupts.clone()
        };
        let asked = record.map(asked).unwrap_or_default();
        TaskSnapshot {
            id,
            name: key.name().to_string(),
            path: task.path,
            error: record.and_then(|record| record.error.clone()),
            interrupts: if live && finished { Vec::new() } else { asked },
            result: record.and_then(|record| record.output.as_deref()).map(|o| self.result(o)),
            state,
        }
    }

    fn result(&self, output: &TaskOutput) -> TaskResult {
        let plan = self.graph.plan();
        if plan.is_single() {
            return TaskResult::Returned(returned(plan, output).unwrap_or_default());
        }
        TaskResult::Writes(written(plan, output, |_| true))
    }
}

/// A task's key.
pub(super) fn key_of(graph: &CompiledGraph, task: &Task) -> TaskKey {
    TaskKey::Node { node: Arc::clone(name_of(graph, task)), path: task.path }
}

/// A task's name: its node's, or that of the error handler.
pub(super) fn name_of<'a>(graph: &'a CompiledGraph, task: &Task) -> &'a Arc<str> {
    let handler = match task.path {
        Path::Handler(_) => graph.handler_name(task.node),
        _ => None,
    };
    handler.unwrap_or_else(|| graph.plan().shared_name(task.node))
}

/// The task that handles another one's failure.
pub(super) fn handler_of(failed: &Task) -> Task {
    let path = Path::Handler(match failed.path {
        Path::Push(index) => Some(index),
        _ => None,
    });
    Task { node: failed.node, path, arg: failed.arg.clone() }
}

fn record_of<'r>(records: &'r [(TaskKey, TaskRecord)], key: &TaskKey) -> Option<&'r TaskRecord> {
    records.iter().find(|(known, _)| known == key).map(|(_, record)| record)
}

/// Writes as an object, the last one of each channel.
#[must_use]
pub fn last_writes(writes: &[(String, Written)]) -> serde_json::Value {
    let members = writes.iter().map(|(name, write)| {
        let (Written::Put(json) | Written::Overwrite(json)) = write;
        (name.clone(), json.clone())
    });
    serde_json::Value::Object(members.collect())
}
