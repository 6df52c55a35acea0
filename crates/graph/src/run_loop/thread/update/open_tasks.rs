//! Changes of a state beside tasks of an open superstep: what is on record of them is kept.

use super::{From, StateUpdate, ThreadUpdate};
use crate::compiled::NodeOptions;
use crate::error::RuntimeError;
use crate::run_loop::checkpointer::{TaskKey, TaskRecord};
use crate::run_loop::event::CheckpointRef;
use crate::run_loop::supersteps::{ClosedTask, RunLoop, ThreadPoint, without_targets};
use crate::run_loop::task::key_of;
use std::sync::Arc;
use weftwork_engine::pregel::Task;
use weftwork_engine::{ChannelIdx, Goto, NodeIdx, TaskOutput, Write};

impl ThreadUpdate<'_> {
    /// Applies writes beside what is due. Where nothing is due, they make a checkpoint; otherwise they
    /// join the input from outside of the open superstep, because the next checkpoint would have other
    /// tasks and other questions.
    pub(super) async fn write_beside(
        &self,
        mut from: From,
        updates: Vec<StateUpdate>,
    ) -> Result<CheckpointRef, RuntimeError> {
        if from.superseded || !self.address.ns.is_empty() {
            let reason = "a change beside what is due is made at the newest checkpoint of the outermost graph";
            return Err(RuntimeError::BadUpdate { reason });
        }
        let due = from.machine.due_in_order()?;
        let Some(id) = from.id.filter(|_| !due.is_empty()) else {
            return self.write_state(from, updates).await;
        };
        let plan = self.graph.plan();
        let values = updates.into_iter().next().and_then(|update| update.values);
        let named = values.unwrap_or_default().into_iter();
        let named = named.map(|(name, json)| (name, Write::json(json))).collect();
        let mut output = TaskOutput { named, ..TaskOutput::default() };
        plan.find_named(NodeIdx::START, &mut output)?;
        from.machine.apply_beside(&from.outside.output)?;
        // A change that cannot be applied must not be stored: the thread could not be read with it.
        from.machine.check_beside(&output)?;
        from.outside.output.writes.extend(output.writes);
        self.checkpointer.put_outside(self.address, plan, id, from.outside).await?;
        Ok(CheckpointRef::of(&self.address.ns, Some(id), &from.metadata))
    }

    /// Refuses a change beside a task that has called a graph, has not finished, and is closed when it
    /// is left open. The task is another one after the change: what that graph did would have no
    /// result, and be done again. A branch of an older checkpoint begins anew.
    pub(super) fn check_open_work(&self, from: &From) -> Result<(), RuntimeError> {
        if from.superseded || !self.graph.has_closers() {
            return Ok(());
        }
        match from.machine.due_in_order()?.iter().any(|task| self.has_open_work(from, task)) {
            true => Err(RuntimeError::BadUpdate {
                reason: "a task that has called a graph is open, and the change would drop what was done there; answer its question, give new input, or change the state of that graph",
            }),
            false => Ok(()),
        }
    }

    fn has_open_work(&self, from: &From, task: &Task) -> bool {
        let Some(options) = self.node_options(task) else { return false };
        let record = self.record(from, task).filter(|record| !record.is_finished());
        let Some(record) = record.filter(|_| options.on_left_open.is_some()) else { return false };
        let step = from.metadata.step + 1;
        let id = from.id.map(|at| key_of(self.graph, task).id(&self.address.ns, at, step));
        let asks_within = record.questions().iter().any(|question| Some(question.task) != id);
        asks_within || options.graph.is_some()
    }

    /// Returns the due tasks in whose name changes of these nodes are made, none where no task of the
    /// node is due.
    pub(super) fn named(
        &self,
        from: &From,
        nodes: &[NodeIdx],
    ) -> Result<Vec<Option<TaskKey>>, RuntimeError> {
        let mut due = from.machine.due_in_order()?;
        if self.graph.has_closers() {
            // A result on record is not replaced while another task of the node has none.
            due.sort_by_key(|task| self.record(from, task).is_some_and(TaskRecord::is_finished));
        }
        let named = nodes.iter().map(|node| {
            let index = due.iter().position(|task| task.node == *node)?;
            Some(key_of(self.graph, &due.remove(index)))
        });
        Ok(named.collect())
    }

    /// Applies the writes with which tasks are closed that a change drops. Returns the channels that
    /// changed.
    pub(super) fn apply_closed(
        &self,
        from: &mut From,
        closed: &[ClosedTask],
    ) -> Result<Vec<ChannelIdx>, RuntimeError> {
        let mut written = Vec::new();
        if !closed.is_empty() {
            let mut done: Vec<_> = closed.iter().map(ClosedTask::done).collect();
            from.machine.apply(&mut done, &mut written)?;
        }
        Ok(written)
    }

    /// Returns the writes on record of tasks that a change drops, where their nodes close tasks that
    /// are left open.
    pub(super) fn on_record(&self, from: &From, dropped: &[Task]) -> Vec<ClosedTask> {
        let closes = |task: &&Task| {
            self.node_options(task).is_some_and(|options| options.on_left_open.is_some())
        };
        let closed = dropped.iter().filter(closes).filter_map(|task| {
            let output = self.record(from, task)?.output()?;
            Some(ClosedTask { task: task.clone(), output: without_targets(Arc::clone(output)) })
        });
        closed.collect()
    }

    /// Returns the writes with which tasks are closed that a change drops: those on record, or else
    /// those of their closers. Tasks of nodes without closers are left out.
    ///
    /// A subgraph that is changed by itself has no run around it in which closers could read the
    /// record, so that only writes on record are kept there.
    pub(super) async fn closed(
        &self,
        from: &From,
        mut dropped: Vec<Task>,
    ) -> Result<Vec<ClosedTask>, RuntimeError> {
        dropped
            .retain(|task| self.node_options(task).is_some_and(|node| node.on_left_open.is_some()));
        if !self.address.ns.is_empty() || dropped.is_empty() {
            return Ok(self.on_record(from, &dropped));
        }
        let dropped: Vec<_> = dropped.iter().map(|task| key_of(self.graph, task)).collect();
        let host = self.host.clone();
        let at = ThreadPoint { thread: Arc::clone(&self.address.thread), checkpoint: from.id };
        Box::pin(RunLoop::close_dropped(host, self.graph, at, &dropped)).await
    }

    /// Returns `true` if an output sends the task of a dropped send again.
    pub(super) fn is_sent_again(&self, task: &Task, output: &TaskOutput) -> bool {
        output.goto.iter().any(|goto| match goto {
            Goto::Send { node, arg } => {
                // By value: a send has no identity beyond its superstep.
                self.graph.plan().node_idx(node) == Some(task.node)
                    && task.arg.as_ref().is_some_and(|sent| sent.json == arg.json)
            }
            Goto::Node(_) | Goto::End => false,
        })
    }

    fn node_options(&self, task: &Task) -> Option<&NodeOptions> {
        self.graph.node(task.node).map(|node| &*node.options)
    }

    pub(super) fn record<'f>(&self, from: &'f From, task: &Task) -> Option<&'f TaskRecord> {
        let key = key_of(self.graph, task);
        from.tasks.iter().find(|(known, _)| *known == key).map(|(_, record)| record)
    }
}
