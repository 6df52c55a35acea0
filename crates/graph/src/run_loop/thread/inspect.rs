//! Inspection of threads: the state at a checkpoint, and its origin.

use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use crate::run_loop::checkpointer::{
    CheckpointAddress, Checkpointer, StoredCheckpoint, TaskKey, TaskRecord,
};
use crate::run_loop::context::Host;
use crate::run_loop::event::{CheckpointRef, Snapshot, SubState, TaskResult, TaskSnapshot};
use crate::run_loop::namespace::{task_ns, without_tasks};
use crate::run_loop::task::{handler_of, key_of};
use crate::run_loop::values::{flow_result, shown_writes, state_json};
use crate::semantics::SubgraphState;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_engine::pregel::{Done, Task};
use weftwork_engine::{NodeIdx, TaskOutput};
use weftwork_types::secret::HiddenValues;
use weftwork_types::shown::StateForm;
use weftwork_types::{BoxFuture, CheckpointId};

/// A place to inspect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateQuery {
    /// The thread.
    pub thread: Arc<str>,
    /// The namespace of the graph; empty for the outermost one.
    pub ns: Arc<str>,
    /// The checkpoint; none: the current state of the thread, with the writes of finished tasks of
    /// the open superstep.
    pub checkpoint: Option<CheckpointId>,
    /// The form of the state.
    pub form: StateForm,
}

impl StateQuery {
    /// The current state of a thread.
    pub fn thread(thread: impl Into<Arc<str>>) -> Self {
        let form = StateForm::Shown;
        Self { thread: thread.into(), ns: "".into(), checkpoint: None, form }
    }

    /// A place of a thread.
    pub fn config(thread: impl Into<Arc<str>>, config: &CheckpointRef) -> Self {
        let ns = config.ns.as_str().into();
        Self { ns, checkpoint: config.id, ..Self::thread(thread) }
    }

    /// Another graph of the thread.
    #[must_use]
    pub fn within(mut self, ns: impl Into<Arc<str>>) -> Self {
        self.ns = ns.into();
        self
    }

    /// Reads the whole state: also the values of results of tools that only models read.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.form = StateForm::Whole;
        self
    }

    fn address(&self) -> CheckpointAddress {
        CheckpointAddress { thread: Arc::clone(&self.thread), ns: Arc::clone(&self.ns) }
    }
}

impl CompiledGraph {
    /// The current state of a thread, or that at a checkpoint; with the states of subgraphs, if
    /// wanted. Results of tools have their shown form, unless the query is for the
    /// [whole](StateQuery::whole) state.
    ///
    /// # Errors
    /// [`RuntimeError::NoCheckpointer`] when the host has no checkpointer,
    /// [`RuntimeError::UnknownNamespace`], [`RuntimeError::UnknownCheckpoint`], or an error of the
    /// checkpointer.
    pub async fn state(
        &self,
        host: &Host,
        at: &StateQuery,
        within: bool,
    ) -> Result<Snapshot, RuntimeError> {
        let checkpointer = host
            .checkpointer()
            .ok_or(RuntimeError::NoCheckpointer { what: "looking at a thread" })?;
        let (graph, place) = match self.at(at) {
            // The reference shows the state of no graph as that of a thread on which nothing ran.
            Err(RuntimeError::UnknownNamespace { .. }) if self.is_lenient() => {
                (Self::clone(self), at.address())
            }
            found => found?,
        };
        let look = Inspection { graph: &graph, checkpointer, within };
        Ok(look.at(place, at.checkpoint).await?.in_form(at.form))
    }

    pub(super) fn is_lenient(&self) -> bool {
        self.settings().ignores_unknown
    }

    /// Refuses a checkpoint that was named and not found, unless the graph ignores such names.
    pub(crate) fn check_checkpoint(
        &self,
        place: &CheckpointAddress,
        id: Option<CheckpointId>,
    ) -> Result<(), RuntimeError> {
        match id.filter(|_| !self.settings().ignores_unknown) {
            None => Ok(()),
            Some(checkpoint) => Err(RuntimeError::UnknownCheckpoint {
                thread: place.thread.to_string(),
                ns: place.ns.to_string(),
                checkpoint,
            }),
        }
    }

    /// Returns `true` if a part of a namespace is the number of a graph that a task calls. The name
    /// of a node may consist of digits, too: of a node that runs a graph, the part is its name.
    pub(super) fn is_call_number(&self, part: &str) -> bool {
        let node = self.plan().node_idx(part).and_then(|index| self.node(index));
        let is_node = node.is_some_and(|node| node.options.graph.is_some());
        !is_node && part.bytes().all(|byte| byte.is_ascii_digit())
    }

    fn nodes_with_graphs(&self) -> String {
        let nodes = self.plan().nodes().iter().enumerate();
        let runs = |i| self.node(NodeIdx(i)).is_some_and(|node| node.options.graph.is_some());
        let names: Vec<_> = nodes.filter(|(i, _)| runs(*i)).map(|(_, node)| &*node.name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    /// Returns the graph at a namespace of a thread: this graph, or one of its subgraphs.
    ///
    /// # Errors
    /// [`RuntimeError::UnknownNamespace`].
    pub fn graph_at(&self, ns: &str) -> Result<Self, RuntimeError> {
        self.at(&StateQuery::thread("").within(ns)).map(|(graph, _)| graph)
    }

    /// The graph at a place, and the address of its checkpoints.
    pub(crate) fn at(&self, at: &StateQuery) -> Result<(Self, CheckpointAddress), RuntimeError> {
        let mut place = at.address();
        if at.ns.is_empty() {
            return Ok((self.clone(), place));
        }
        let mut graph = self.clone();
        let mut own = false;
        for part in at.ns.split('|') {
            if graph.is_call_number(part) {
                continue;
            }
            let name = part.split(':').next().unwrap_or_default();
            let known = graph.clone();
            let unknown = || RuntimeError::UnknownNamespace {
                ns: at.ns.to_string(),
                known: known.nodes_with_graphs(),
            };
            let index = graph.plan().node_idx(name).ok_or_else(unknown)?;
            let inner = graph.node(index).and_then(|node| node.options.graph.clone());
            let (inner, keep) = inner.ok_or_else(unknown)?;
            own = keep == SubgraphState::PerThread;
            graph = inner;
        }
        if own {
            // State that lasts as long as the thread is stored under its node, whichever task runs
            // the graph.
            place.ns = without_tasks(&place.ns).into();
        }
        Ok((graph, place))
    }
}

pub(crate) struct Inspection<'a> {
    pub(crate) graph: &'a CompiledGraph,
    pub(crate) checkpointer: &'a Arc<dyn Checkpointer>,
    pub(crate) within: bool,
}

impl Inspection<'_> {
    fn at(
        &self,
        place: CheckpointAddress,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'_, Result<Snapshot, RuntimeError>> {
        Box::pin(async move {
            match self.checkpointer.load(&place, self.graph.plan(), id).await? {
                Some(saved) => self.snapshot(&place, saved, id.is_none()).await,
                None => {
                    self.graph.check_checkpoint(&place, id)?;
                    Ok(Snapshot {
                        values: serde_json::json!({}),
                        config: Some(CheckpointRef {
                            ns: place.ns.to_string(),
                            id,
                            map: BTreeMap::new(),
                        }),
                        ..Snapshot::default()
                    })
                }
            }
        })
    }

    /// A snapshot of a checkpoint: the record of its superstep, or, if `live`, the current state.
    pub(super) async fn snapshot(
        &self,
        place: &CheckpointAddress,
        saved: StoredCheckpoint,
        live: bool,
    ) -> Result<Snapshot, RuntimeError> {
        let StoredCheckpoint { checkpoint, tasks: records, outside, .. } = saved;
        let step = checkpoint.metadata.step + 1;
        let mut machine = checkpoint.machine.over(self.graph.plan())?;
        let mut due = machine.due_in_order()?;
        machine.apply_beside(&outside.output)?;
        if live && self.graph.settings().shows_command_targets {
            // The reference leaves out the targets of commands.
            due = machine.due_in_order()?;
        }
        let mut tasks = Vec::with_capacity(due.len());
        let mut next = Vec::new();
        for task in &due {
            let key = key_of(self.graph, task);
            let record = record_of(&records, &key);
            let id = key.id(&place.ns, checkpoint.id, step);
            // A checkpoint of the history names all tasks that were due there, as in the reference.
            if !(live && self.is_over(task, record, &records)) {
                next.push(key.name().to_string());
            }
            let state = self.state_of(place, task.node, &key, id).await?;
            tasks.push(self.task_snapshot(task, &key, id, record, live, state));
        }
        // Results of the open superstep count in the current state only, as in the reference.
        if live {
            self.apply_finished(&mut machine, &due, &records)?;
        }
        let metadata = checkpoint.metadata;
        let config = |id| CheckpointRef::of(&place.ns, Some(id), &metadata);
        Ok(Snapshot {
            values: state_json(self.graph.plan(), machine.slots()),
            next,
            config: Some(config(checkpoint.id)),
            parent: checkpoint.parent.map(config),
            interrupts: tasks.iter().flat_map(|t| t.interrupts.iter().cloned()).collect(),
            tasks,
            metadata: Some(metadata.clone()),
            run: None,
            error: None,
        })
    }

    /// Returns `true` if nothing is left to do for a task: it finished, or its error handler did.
    fn is_over(
        &self,
        task: &Task,
        record: Option<&TaskRecord>,
        records: &[(TaskKey, TaskRecord)],
    ) -> bool {
        let handled = record.is_some_and(TaskRecord::is_handled) && self.keeps_handlers();
        let handler = || record_of(records, &key_of(self.graph, &handler_of(task)));
        record.is_some_and(TaskRecord::is_finished)
            || handled && handler().is_some_and(TaskRecord::is_finished)
    }

    fn keeps_handlers(&self) -> bool {
        self.graph.settings().reuses_handlers
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
            let edges = record.writes.follows_edges();
            Some(Done { task, output: record.output()?, edges })
        });
        let mut done: Vec<_> = finished.collect();
        if done.is_empty() {
            return Ok(());
        }
        let mut ahead = machine.clone();
        if let Err(error) = ahead.apply(&mut done, &mut Vec::new()) {
            // The superstep cannot be closed: the run that tried it failed with this error. The state
            // at its start stays readable, which it is not in the reference.
            if !self.graph.settings().undoes_failed_close {
                let hidden = HiddenValues::default();
                hidden.add_messages(&state_json(self.graph.plan(), machine.slots()));
                return Err(RuntimeError::from(error).shaped(&hidden));
            }
            let code = error.code().0;
            tracing::debug!(code, "results on record are left out of the state");
            return Ok(());
        }
        // What lasts one superstep is not shown beyond the one it was written in.
        ahead.clear_lapsing();
        *machine = ahead;
        Ok(())
    }

    async fn state_of(
        &self,
        place: &CheckpointAddress,
        node: NodeIdx,
        key: &TaskKey,
        id: weftwork_types::TaskId,
    ) -> Result<Option<SubState>, RuntimeError> {
        let Some((graph, keep)) = self.graph.node(node).and_then(|n| n.options.stored_subgraph())
        else {
            return Ok(None);
        };
        let ns = task_ns(&place.ns, key.name(), id);
        if !self.within {
            return Ok(Some(SubState::Checkpoint(CheckpointRef {
                ns,
                ..CheckpointRef::default()
            })));
        }
        let ns = if *keep == SubgraphState::PerThread { without_tasks(&ns) } else { ns };
        let place = CheckpointAddress { thread: Arc::clone(&place.thread), ns: ns.into() };
        let look = Inspection { graph, checkpointer: self.checkpointer, within: true };
        let snapshot = Inspection::at(&look, place, None).await?;
        Ok(Some(SubState::Snapshot(Box::new(snapshot))))
    }

    fn task_snapshot(
        &self,
        task: &Task,
        key: &TaskKey,
        id: weftwork_types::TaskId,
        record: Option<&TaskRecord>,
        live: bool,
        state: Option<SubState>,
    ) -> TaskSnapshot {
        let finished = record.is_some_and(TaskRecord::is_finished);
        let waits = self.graph.settings().waits_for_answers;
        let asked = |record: &TaskRecord| {
            if waits && live && !record.is_finished() {
                return record.open_questions(id);
            }
            record.questions().to_vec()
        };
        let asked = record.map(asked).unwrap_or_default();
        TaskSnapshot {
            id,
            name: key.name().to_string(),
            path: task.path,
            error: record.and_then(|record| record.fault().cloned()),
            interrupts: if live && finished { Vec::new() } else { asked },
            result: record.and_then(TaskRecord::output).map(|output| self.task_result(output)),
            state,
        }
    }

    fn task_result(&self, output: &TaskOutput) -> TaskResult {
        let plan = self.graph.plan();
        if plan.is_single() {
            return TaskResult::Returned(flow_result(plan, output).unwrap_or_default());
        }
        TaskResult::Writes(shown_writes(plan, output, |_| true))
    }
}

fn record_of<'r>(records: &'r [(TaskKey, TaskRecord)], key: &TaskKey) -> Option<&'r TaskRecord> {
    records.iter().find(|(known, _)| known == key).map(|(_, record)| record)
}
