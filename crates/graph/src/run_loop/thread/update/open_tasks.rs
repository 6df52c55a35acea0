//! Changes of a state beside tasks of an open superstep: what is on record of them is kept.

use super::{From, ThreadUpdate};
use crate::compiled::NodeOptions;
use crate::error::RuntimeError;
use crate::run_loop::checkpointer::{TaskKey, TaskRecord};
use crate::run_loop::supersteps::unfollowed;
use crate::run_loop::task::key_of;
use std::sync::Arc;
use weftwork_engine::pregel::{Done, Task};
use weftwork_engine::{ChannelIdx, NodeIdx};

impl ThreadUpdate<'_> {
    /// Refuses a change beside a task that has called a graph, has not finished, and is closed when it
    /// is left open. The task is another one after the change: what that graph did would have no
    /// result, and be done again. A branch of an older checkpoint begins anew.
    pub(super) fn check_open_work(&self, from: &From) -> Result<(), RuntimeError> {
        if from.superseded || !self.graph.has_closers() {
            return Ok(());
        }
        match from.machine.due_in_order().iter().any(|task| self.has_open_work(from, task)) {
            true => Err(RuntimeError::BadUpdate {
                reason: "a task that has called a graph is open, and the change would drop what was done there; answer its question, give new input, or change the state of that graph",
            }),
            false => Ok(()),
        }
    }

    fn has_open_work(&self, from: &From, task: &Task) -> bool {
        let Some(options) = self.options(task) else { return false };
        let record = self.record(from, task).filter(|record| !record.is_finished());
        let Some(record) = record.filter(|_| options.on_left_open.is_some()) else { return false };
        let step = from.metadata.step + 1;
        let id = from.id.map(|at| key_of(self.graph, task).id(&self.place.ns, at, step));
        let asks_within = record.questions().iter().any(|question| Some(question.task) != id);
        asks_within || options.graph.is_some()
    }

    /// Returns the due tasks in whose name changes of these nodes are made, none where no task of the
    /// node is due.
    pub(super) fn named(&self, from: &From, nodes: &[NodeIdx]) -> Vec<Option<TaskKey>> {
        let mut due = from.machine.due_in_order();
        if self.graph.has_closers() {
            // A result on record is not replaced while another task of the node has none.
            due.sort_by_key(|task| self.record(from, task).is_some_and(TaskRecord::is_finished));
        }
        let named = nodes.iter().map(|node| {
            let index = due.iter().position(|task| task.node == *node)?;
            Some(key_of(self.graph, &due.remove(index)))
        });
        named.collect()
    }

    /// Applies results on record of tasks that a change drops, where their nodes close tasks that are
    /// left open. Returns the channels that changed.
    pub(super) fn keep_results(
        &self,
        from: &mut From,
        is_dropped: impl Fn(&Task) -> bool,
    ) -> Result<Vec<ChannelIdx>, RuntimeError> {
        let mut written = Vec::new();
        if !self.graph.has_closers() {
            return Ok(written);
        }
        let mut results = Vec::new();
        for task in from.machine.due_in_order().into_iter().filter(is_dropped) {
            let closes = self.options(&task).is_some_and(|node| node.on_left_open.is_some());
            let output = self.record(from, &task).filter(|_| closes).and_then(TaskRecord::output);
            results.extend(output.map(|output| (unfollowed(Arc::clone(output)), task)));
        }
        let mut done: Vec<_> =
            results.iter().map(|(output, task)| Done { task, output, edges: false }).collect();
        if !done.is_empty() {
            from.machine.apply(&mut done, &mut written)?;
        }
        Ok(written)
    }

    fn options(&self, task: &Task) -> Option<&NodeOptions> {
        self.graph.node(task.node).map(|node| &*node.options)
    }

    fn record<'f>(&self, from: &'f From, task: &Task) -> Option<&'f TaskRecord> {
        let key = key_of(self.graph, task);
        from.tasks.iter().find(|(known, _)| *known == key).map(|(_, record)| record)
    }
}
