//! Changing threads from outside.

mod open_tasks;
mod state_update;

use super::StateQuery;
use super::within::AskedWithin;
use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use crate::output::IntoOutput;
use crate::run_loop::checkpointer::{
    Checkpoint, CheckpointAddress, CheckpointWrite, CheckpointWrites, Checkpointer, ExternalInput,
    StoredCheckpoint, TaskRecord, TaskRecords, WriteHint,
};
use crate::run_loop::context::Host;
use crate::run_loop::event::{CheckpointRef, Metadata, Source};
use crate::run_loop::panics::out_of_node;
use crate::run_loop::supersteps::{ClosedTask, counted_channels};
use crate::run_loop::task::{TaskOutcome, key_of, routed_after};
use serde_json::Value as Json;
pub use state_update::{AsNode, StateUpdate};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use weftwork_engine::plan::START_NAME;
use weftwork_engine::pregel::{Done, Machine, Path, StartInput, Task};
use weftwork_engine::{ChannelIdx, NodeIdx, Plan, TaskOutput, Write};
use weftwork_types::CheckpointId;

impl CompiledGraph {
    /// Changes a thread, one superstep for each list, and returns its position.
    ///
    /// # Errors
    /// [`RuntimeError::AmbiguousUpdate`], [`RuntimeError::UnknownNode`],
    /// [`RuntimeError::BadUpdate`], [`RuntimeError::NoUpdates`], or an error of the graph or the
    /// checkpointer. Supersteps before the failing one stay.
    pub async fn update(
        &self,
        host: &Host,
        at: &StateQuery,
        supersteps: Vec<Vec<StateUpdate>>,
    ) -> Result<CheckpointRef, RuntimeError> {
        let checkpointer =
            host.checkpointer().ok_or(RuntimeError::NoCheckpointer { what: "a change" })?;
        if supersteps.is_empty() || supersteps.iter().any(Vec::is_empty) {
            return Err(RuntimeError::NoUpdates);
        }
        let (graph, place) = self.at(at)?;
        let mut asked = None;
        if !place.ns.is_empty() {
            asked = Some(AskedWithin::read(&graph, checkpointer.as_ref(), &place).await?);
            // Before the change: a process that dies in between leaves tasks that run once more,
            // and never a change that nothing takes up.
            self.wake_around(checkpointer, at, &BTreeSet::new()).await?;
        }
        let mut id = at.checkpoint;
        let mut config = CheckpointRef::default();
        for (index, updates) in supersteps.into_iter().enumerate() {
            let change = ThreadUpdate {
                graph: &graph,
                host,
                checkpointer,
                address: &place,
                first: index == 0,
            };
            config = change.apply(id, updates).await?;
            // Each superstep of the change follows the checkpoint of the one before it.
            id = config.id;
        }
        if let Some(asked) = asked {
            // Not before the change: it decides which questions are closed.
            let closed = asked.closed_by_change(&graph, checkpointer.as_ref(), &place).await?;
            self.wake_around(checkpointer, at, &closed).await?;
        }
        Ok(config)
    }
}

impl CompiledGraph {
    /// Checks the writes of a change that makes the first state of a thread, in the name of no node
    /// ([`AsNode::State`]): an object of channel values, or null for none. Nothing is stored.
    ///
    /// # Errors
    /// As [`update`](Self::update), also for a type of the state that panics.
    pub fn check_state(&self, writes: Json) -> Result<(), RuntimeError> {
        let values = StateUpdate::read(writes, AsNode::State)?.values;
        let applied = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let mut machine = Machine::new(Arc::clone(self.plan()));
            apply_state(self.plan(), &mut machine, values).map(drop)
        }));
        applied.unwrap_or_else(|panic| Err(out_of_node(panic.as_ref())))
    }
}

/// Applies writes in the name of no node, and returns the channels that changed. What is due is
/// dropped with its results.
fn apply_state(
    plan: &Plan,
    machine: &mut Machine,
    values: Option<Vec<(String, Json)>>,
) -> Result<Vec<ChannelIdx>, RuntimeError> {
    let named = values.unwrap_or_default().into_iter();
    let named = named.map(|(name, json)| (name, Write::json(json))).collect();
    let mut output = TaskOutput { named, ..TaskOutput::default() };
    plan.find_named(NodeIdx::START, &mut output)?;
    let task = Task { node: NodeIdx::START, path: Path::Outside(0), arg: None };
    let due = machine.due_in_order()?;
    let nothing = TaskOutput::default();
    let dropped = due.iter().filter(|task| task.node != NodeIdx::START);
    let mut done = vec![Done { task: &task, output: &output, edges: false }];
    done.extend(dropped.map(|task| Done { task, output: &nothing, edges: false }));
    let mut written = Vec::new();
    machine.apply(&mut done, &mut written)?;
    Ok(written)
}

struct ThreadUpdate<'a> {
    graph: &'a CompiledGraph,
    host: &'a Host,
    checkpointer: &'a Arc<dyn Checkpointer>,
    address: &'a CheckpointAddress,
    first: bool,
}

/// Starting point of a change.
struct From {
    machine: Machine,
    id: Option<CheckpointId>,
    parent: Option<CheckpointId>,
    metadata: Metadata,
    tasks: TaskRecords,
    outside: ExternalInput,
    hint: WriteHint,
    /// Counted channels whose counts start over.
    recount: BTreeSet<ChannelIdx>,
    superseded: bool,
}

impl ThreadUpdate<'_> {
    async fn load(&self, id: Option<CheckpointId>) -> Result<From, RuntimeError> {
        let plan = self.graph.plan();
        let Some(saved) = self.checkpointer.load(self.address, plan, id).await? else {
            self.graph.check_checkpoint(self.address, id)?;
            return Ok(From {
                machine: Machine::new(Arc::clone(plan)),
                id: None,
                parent: None,
                metadata: Metadata { step: -1, ..Metadata::default() },
                tasks: TaskRecords::new(),
                outside: ExternalInput::default(),
                hint: WriteHint::default(),
                recount: BTreeSet::new(),
                superseded: false,
            });
        };
        let newest = self.checkpointer.newest(self.address).await?;
        let StoredCheckpoint { checkpoint, tasks, outside, hint } = saved;
        let mut recount = BTreeSet::new();
        if self.first {
            let outputs = tasks.iter().filter_map(|(_, record)| record.output());
            recount.extend(outputs.flat_map(|output| counted_channels(plan, output)));
            recount.extend(counted_channels(plan, &outside.output));
        }
        Ok(From {
            machine: checkpoint.machine.over(plan)?,
            id: Some(checkpoint.id),
            parent: checkpoint.parent,
            metadata: checkpoint.metadata,
            tasks,
            outside,
            hint,
            recount,
            superseded: newest.is_some_and(|newest| newest != checkpoint.id),
        })
    }

    async fn apply(
        &self,
        id: Option<CheckpointId>,
        updates: Vec<StateUpdate>,
    ) -> Result<CheckpointRef, RuntimeError> {
        let from = self.load(id).await?;
        let updates = self.with_messages(&from, updates)?;
        let several = updates.len() > 1;
        let first = updates.first().map(|update| (update.values.is_some(), update.as_node.clone()));
        let alone = |what: &'static str| {
            if several { Err(RuntimeError::BadUpdate { reason: what }) } else { Ok(()) }
        };
        match first {
            Some((false, AsNode::End)) => {
                alone(
                    "clearing what is due is a change of its own; give it a superstep of its own",
                )?;
                self.clear_due(from).await
            }
            Some((_, AsNode::Input)) => {
                alone("new input is a change of its own; give it a superstep of its own")?;
                self.write_input(from, updates).await
            }
            Some((_, AsNode::Copy)) => {
                alone(
                    "copying a checkpoint is a change of its own; give it a superstep of its own",
                )?;
                self.copy_checkpoint(from).await
            }
            Some((_, AsNode::State)) => {
                alone(
                    "a change of the state alone is a change of its own; give it a superstep of its own",
                )?;
                self.write_state(from, updates).await
            }
            Some((_, AsNode::Beside)) => {
                alone(
                    "a change beside what is due is a change of its own; give it a superstep of its own",
                )?;
                Box::pin(self.write_beside(from, updates)).await
            }
            _ => self.write_as_node(from, updates).await,
        }
    }

    /// Gives messages in the changes the form of the conversation, and ids of their own.
    fn with_messages(
        &self,
        from: &From,
        updates: Vec<StateUpdate>,
    ) -> Result<Vec<StateUpdate>, RuntimeError> {
        let complete = |(number, update): (usize, StateUpdate)| {
            let CheckpointAddress { thread, ns, .. } = self.address;
            let place = format!("{thread}\u{0}{ns}\u{0}update {number}\u{0}{:?}", from.id);
            let values = update.values.map(|values| self.graph.with_whole_messages(values, &place));
            Ok(StateUpdate { values: values.transpose()?, ..update })
        };
        updates.into_iter().enumerate().map(complete).collect()
    }

    async fn clear_due(&self, mut from: From) -> Result<CheckpointRef, RuntimeError> {
        let mut written = Vec::new();
        if from.id.is_some() {
            let due = from.machine.due_in_order()?;
            let is_finished =
                |task: &Task| self.record(&from, task).is_some_and(TaskRecord::is_finished);
            let dropped = due.iter().filter(|task| !is_finished(task)).cloned().collect();
            let closed = self.closed(&from, dropped).await?;
            from.machine.apply_beside(&from.outside.output)?;
            let nothing = TaskOutput::default();
            let mut done: Vec<_> = due
                .iter()
                .map(|task| {
                    let key = key_of(self.graph, task);
                    let record = from.tasks.iter().find(|(known, _)| *known == key);
                    let output = record.and_then(|(_, record)| record.output());
                    let closed = || {
                        let closed = closed.iter().find(|closed| closed.is(&key, self.graph));
                        closed.map(|closed| &closed.output)
                    };
                    let output = output.or_else(closed);
                    let edges = record.is_some_and(|(_, record)| record.writes.follows_edges());
                    Done { task, output: output.map_or(&nothing, |output| output), edges }
                })
                .collect();
            if !done.is_empty() {
                from.machine.apply(&mut done, &mut written)?;
            }
        }
        self.put(from, Source::Update, &written, TaskRecords::new()).await
    }

    async fn write_input(
        &self,
        mut from: From,
        updates: Vec<StateUpdate>,
    ) -> Result<CheckpointRef, RuntimeError> {
        let values = updates.into_iter().next().and_then(|update| update.values);
        let Some(values) = values else {
            return Err(RuntimeError::BadUpdate {
                reason: "new input needs values: give the channels that it writes",
            });
        };
        // Under the next checkpoint their tasks would be others, without the record of these.
        let closed = self.closed(&from, from.machine.due_in_order()?).await?;
        let kept = self.apply_closed(&mut from, &closed)?;
        let json = Json::Object(values.into_iter().collect());
        from.machine.add_input(StartInput::Json(Arc::new(json)));
        self.put(from, Source::Input, &kept, TaskRecords::new()).await
    }

    async fn copy_checkpoint(&self, from: From) -> Result<CheckpointRef, RuntimeError> {
        if from.id.is_none() {
            let reason = "there is no checkpoint to copy, for nothing ran on this thread; give it input first";
            return Err(RuntimeError::BadUpdate { reason });
        }
        let id = self.next_id().await?;
        let metadata = Metadata {
            branch: Some(id),
            source: Source::Fork,
            step: from.metadata.step + 1,
            parents: from.metadata.parents.clone(),
            delta: from.metadata.delta.clone(),
        };
        let mut machine = from.machine;
        machine.forget_updated();
        let checkpoint = Checkpoint { id, parent: from.parent, metadata, machine };
        self.store_checkpoint(checkpoint, None, TaskRecords::new(), &from.metadata, &from.hint)
            .await
    }

    /// Applies writes in the name of no node. What is due is dropped with its results.
    async fn write_state(
        &self,
        mut from: From,
        updates: Vec<StateUpdate>,
    ) -> Result<CheckpointRef, RuntimeError> {
        let values = updates.into_iter().next().and_then(|update| update.values);
        self.check_open_work(&from)?;
        let closed = self.closed(&from, from.machine.due_in_order()?).await?;
        let kept = self.apply_closed(&mut from, &closed)?;
        let mut written = apply_state(self.graph.plan(), &mut from.machine, values)?;
        written.extend(kept);
        self.put(from, Source::Update, &written, TaskRecords::new()).await
    }

    async fn write_as_node(
        &self,
        mut from: From,
        updates: Vec<StateUpdate>,
    ) -> Result<CheckpointRef, RuntimeError> {
        let several = updates.len() > 1;
        let nodes = updates.iter().map(|update| self.choose_node(&from, &update.as_node, several));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        self.check_open_work(&from)?;
        let named = self.named(&from, &nodes)?;
        let mut dropped = from.machine.due_in_order()?;
        dropped.retain(|task| !named.contains(&Some(key_of(self.graph, task))));
        // Before the routes, which lead to what has no result.
        let on_record = self.on_record(&from, &dropped);
        let kept = self.apply_closed(&mut from, &on_record)?;
        let mut tasks = Vec::with_capacity(updates.len());
        let mut records = TaskRecords::new();
        for (((update, node), key), index) in updates.into_iter().zip(nodes).zip(named).zip(0u32..)
        {
            let output = self.output(&from, node, update.values.unwrap_or_default())?;
            records.extend(key.map(|key| (key, TaskRecord::finished(Arc::new(output.clone())))));
            tasks.push((Task { node, path: Path::Outside(index), arg: None }, output));
        }
        let plan = self.graph.plan();
        for (_, output) in &tasks {
            let overwritten =
                output.writes.iter().filter(|(_, w)| matches!(w, Write::Overwrite(_)));
            let overwritten: BTreeSet<_> = overwritten.map(|(index, _)| *index).collect();
            let all = counted_channels(plan, output).into_iter();
            let superseded = self.first && from.superseded;
            from.recount.extend(all.filter(|index| superseded || overwritten.contains(index)));
        }
        // Without a result, those of sends are closed: what an edge leads to may be due again.
        dropped.retain(|task| {
            let is_sent = |(_, output): &(Task, TaskOutput)| self.is_sent_again(task, output);
            matches!(task.path, Path::Push(_))
                && self.record(&from, task).is_none_or(|record| !record.is_finished())
                && !tasks.iter().any(is_sent)
        });
        let closed = self.closed(&from, dropped).await?;
        let mut done: Vec<_> =
            tasks.iter().map(|(task, output)| Done { task, output, edges: true }).collect();
        done.extend(closed.iter().map(ClosedTask::done));
        let mut written = Vec::new();
        from.machine.apply(&mut done, &mut written)?;
        written.extend(kept);
        // Tasks of an older checkpoint keep the records that they have: the change begins a branch.
        let records = if self.first && from.superseded { TaskRecords::new() } else { records };
        self.put(from, Source::Update, &written, records).await
    }

    fn choose_node(
        &self,
        from: &From,
        as_node: &AsNode,
        several: bool,
    ) -> Result<NodeIdx, RuntimeError> {
        let name = match as_node {
            AsNode::Infer if several => {
                let reason = "several changes of one superstep must each name their node";
                return Err(RuntimeError::BadUpdate { reason });
            }
            AsNode::Infer => return from.machine.last_node().ok_or(RuntimeError::AmbiguousUpdate),
            AsNode::Start => return Ok(NodeIdx::START),
            AsNode::Node(name) if name == START_NAME => return Ok(NodeIdx::START),
            AsNode::Node(name) => name.as_str(),
            AsNode::End => "END",
            AsNode::Input => "__input__",
            AsNode::Copy => "__copy__",
            AsNode::State => "__state__",
            AsNode::Beside => "__beside__",
        };
        let plan = self.graph.plan();
        plan.node_idx(name).ok_or_else(|| RuntimeError::unknown_node("the change", name, plan))
    }

    /// The writes, and where the routes of the node lead after them.
    fn output(
        &self,
        from: &From,
        node: NodeIdx,
        values: Vec<(String, Json)>,
    ) -> Result<TaskOutput, RuntimeError> {
        let plan = self.graph.plan();
        if plan.is_single() {
            let value = Json::Object(values.into_iter().collect());
            return crate::flow::Finish::value(value)
                .into_output()
                .map_err(|error| RuntimeError::Node(error.into_fault()));
        }
        let lenient = self.graph.settings().ignores_unknown;
        let returned = lenient.then(|| Arc::new(values.iter().cloned().collect()));
        let named = values.into_iter().map(|(name, json)| (name, Write::json(json))).collect();
        let mut output = TaskOutput { named, ..TaskOutput::default() };
        plan.find_named(node, &mut output)?;
        if node == NodeIdx::START {
            output.writes.retain(|(index, _)| plan.is_input(*index));
        }
        match routed_after(self.graph, node, from.machine.slots(), output, returned) {
            TaskOutcome::Done(output, _) => Ok(Arc::unwrap_or_clone(output)),
            TaskOutcome::Failed(failed) => Err(RuntimeError::Node(failed.fault)),
            TaskOutcome::Waiting(_) | TaskOutcome::Parent(_) | TaskOutcome::Drained(_) => {
                Ok(TaskOutput::default())
            }
        }
    }

    async fn next_id(&self) -> Result<CheckpointId, RuntimeError> {
        // The clock may be behind that of the process which made the newest checkpoint.
        let newest = self.checkpointer.newest_of_all(&self.address.thread).await?;
        newest.into_iter().for_each(|id| self.host.seen_id(id));
        Ok(self.host.next_id())
    }

    async fn put(
        &self,
        from: From,
        source: Source,
        written: &[ChannelIdx],
        records: TaskRecords,
    ) -> Result<CheckpointRef, RuntimeError> {
        let fresh = from.id.is_none();
        let delta = if fresh { BTreeMap::new() } else { self.count_written(&from, written) };
        // The first change of a thread is its superstep 0, its first input -1.
        let step = if fresh && source == Source::Input { -1 } else { from.metadata.step + 1 };
        let parents = from.metadata.parents.clone();
        let id = self.next_id().await?;
        // Keys of calls after the change must not find the calls of the branch that it leaves.
        let branch = if fresh || from.superseded { Some(id) } else { from.metadata.branch };
        let metadata = Metadata { source, step, parents, branch, delta };
        let mut machine = from.machine;
        // As in the reference: who loads the change starts its tasks in the order of the graph.
        machine.forget_updated();
        let checkpoint = Checkpoint { id, parent: from.id, metadata, machine };
        self.store_checkpoint(checkpoint, from.id, records, &from.metadata, &from.hint).await
    }

    async fn store_checkpoint(
        &self,
        checkpoint: Checkpoint,
        of: Option<CheckpointId>,
        tasks: TaskRecords,
        before: &Metadata,
        hint: &WriteHint,
    ) -> Result<CheckpointRef, RuntimeError> {
        let id = checkpoint.id;
        let puts = CheckpointWrites::from_iter([Box::new(CheckpointWrite {
            checkpoint,
            of,
            tasks,
            ended: Vec::new(),
            due: None,
        })]);
        self.checkpointer.put(self.address, hint, puts).done().await?;
        Ok(CheckpointRef::of(&self.address.ns, Some(id), before))
    }

    fn count_written(&self, from: &From, written: &[ChannelIdx]) -> BTreeMap<String, (u64, u64)> {
        let plan = self.graph.plan();
        let counted = plan.counted().filter_map(|(index, every)| {
            let name = plan.channel_name(index);
            let (updates, steps) = from.metadata.delta.get(name).copied().unwrap_or_default();
            let updates = updates + u64::from(written.contains(&index));
            let steps = steps + 1;
            let over = updates >= every || from.recount.contains(&index);
            (!over).then(|| (name.to_owned(), (updates, steps)))
        });
        counted.collect()
    }
}
