//! Superstep that is left open: its thread takes new input before the superstep is closed.

use super::RunLoop;
use crate::compiled::NodeFn;
use crate::error::RuntimeError;
use crate::run_loop::context::{LoopContext, Purpose, TaskContext};
use crate::run_loop::options::{Going, Options};
use crate::run_loop::task::{End, Follows, OpenTask, TaskOutcome, TaskRunner};
use std::sync::Arc;
use weftwork_engine::TaskOutput;
use weftwork_engine::pregel::Done;

impl RunLoop {
    /// Loads the loop of a graph within a task that is left open, and closes its superstep. Returns
    /// `None` if the task has not begun the graph.
    pub(crate) async fn left_open(
        scope: Arc<LoopContext>,
        options: &Options,
    ) -> Going<Option<Self>> {
        let mut cycle = Self::load(scope, options).await?;
        let scope = &cycle.scope;
        // A graph that stores its own state may have been run last by an earlier task.
        let other = scope.keep.own && cycle.position.metadata().parents != scope.around;
        if cycle.machine.is_fresh() || other {
            return Ok(None);
        }
        cycle.close_left_open().await?;
        Ok(Some(cycle))
    }

    /// Closes the superstep that new input leaves open, where nodes declare how. Applies the writes
    /// of their tasks, from the record or from their closers, and follows none of them. Returns
    /// `true` if there were any.
    ///
    /// Nothing is stored here: the checkpoint of the input contains both, so that a crash between
    /// them repeats the closing.
    pub(super) async fn close_left_open(&mut self) -> Going<bool> {
        let graph = self.scope.graph.clone();
        if !graph.has_closers() {
            return Ok(false);
        }
        self.make_tasks();
        let closers: Vec<_> = self.open.tasks().iter().map(|slot| closer(&graph, slot)).collect();
        let mut outputs: Vec<Arc<TaskOutput>> = Vec::new();
        for (index, closer) in closers.into_iter().enumerate() {
            outputs.push(match closer {
                Some(closer) => self.close_task(index, closer).await?,
                None => Arc::default(),
            });
        }
        let wrote = outputs.iter().any(|output| !output.writes.is_empty());
        if wrote {
            let tasks = self.open.tasks().iter().zip(&outputs);
            let mut done: Vec<_> = tasks
                .map(|(slot, output)| Done { task: &slot.task, output, edges: false })
                .collect();
            let mut written = self.counters.take_written();
            self.machine.apply(&mut done, &mut written).map_err(RuntimeError::Engine)?;
            self.counters.set_written(written, self.machine.slots());
        }
        self.open.clear_tasks();
        Ok(wrote)
    }

    /// Returns the writes of a task that is left open, without the nodes that it leads to.
    async fn close_task(&mut self, index: usize, closer: NodeFn) -> Going<Arc<TaskOutput>> {
        let graph = &self.scope.graph;
        let (tasks, recorded) = self.open.restoring();
        let Some(slot) = tasks.get_mut(index) else { return Ok(Arc::default()) };
        if let Some((_, record)) = recorded.iter().find(|(key, _)| slot.is(key, graph)) {
            if let Some(output) = record.output() {
                return Ok(unfollowed(Arc::clone(output)));
            }
            slot.restore_attempt(record);
        }
        let Some(job) = self.job(index) else { return Ok(Arc::default()) };
        let at = TaskContext { purpose: Purpose::Close, ..job.at };
        let job = TaskRunner { at, node: closer, follows: Follows::Nothing, ..job };
        let End { what, .. } = Box::pin(job.attempts()).await;
        match what {
            TaskOutcome::Done(output, _) => Ok(unfollowed(output)),
            TaskOutcome::Failed(failed) => Err(RuntimeError::Node(failed.fault)),
            TaskOutcome::Waiting(_) | TaskOutcome::Parent(_) | TaskOutcome::Drained(_) => {
                Ok(Arc::default())
            }
        }
    }
}

/// The closer of a task's node. Error handlers have none.
fn closer(graph: &crate::compiled::CompiledGraph, slot: &OpenTask) -> Option<NodeFn> {
    graph.node(slot.task.node)?.options.on_left_open.clone()
}

/// The writes of a task without the nodes that it leads to.
pub(crate) fn unfollowed(mut output: Arc<TaskOutput>) -> Arc<TaskOutput> {
    if !output.goto.is_empty() {
        Arc::make_mut(&mut output).goto.clear();
    }
    output
}
