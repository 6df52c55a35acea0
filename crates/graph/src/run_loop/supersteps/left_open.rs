//! Superstep that is left open: its thread takes new input before the superstep is closed.

use super::RunLoop;
use crate::compiled::{CompiledGraph, NodeFn};
use crate::error::RuntimeError;
use crate::run_loop::checkpointer::TaskKey;
use crate::run_loop::context::{Host, LoopContext, Purpose, RunContext, TaskContext};
use crate::run_loop::options::{LoopResult, Options};
use crate::run_loop::task::{End, Follows, OpenTask, TaskOutcome, TaskRunner, key_of};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_engine::TaskOutput;
use weftwork_engine::pregel::{Done, Task};
use weftwork_types::CheckpointId;

/// A checkpoint of a thread; `None` for the newest.
pub(crate) struct ThreadPoint {
    pub(crate) thread: Arc<str>,
    pub(crate) checkpoint: Option<CheckpointId>,
}

/// A task of an open superstep that is closed without its node, and its writes.
pub(crate) struct ClosedTask {
    pub(crate) task: Task,
    pub(crate) output: Arc<TaskOutput>,
}

impl ClosedTask {
    /// Returns `true` if the task has this key.
    pub(crate) fn is(&self, key: &TaskKey, graph: &CompiledGraph) -> bool {
        key_of(graph, &self.task) == *key
    }

    /// The task as done. It leads to no node.
    pub(crate) fn done(&self) -> Done<'_> {
        Done { task: &self.task, output: &self.output, edges: false }
    }
}

impl RunLoop {
    /// Loads the loop of a graph within a task that is left open, and closes its superstep. Returns
    /// `None` if the task has not begun the graph.
    pub(crate) async fn left_open(
        loop_context: Arc<LoopContext>,
        options: &Options,
    ) -> LoopResult<Option<Self>> {
        let mut run_loop = Self::load(loop_context, options).await?;
        let loop_context = &run_loop.loop_context;
        // A graph that stores its own state may have been run last by an earlier task.
        let other = loop_context.storage.own
            && run_loop.position.metadata().parents != loop_context.enclosing;
        if run_loop.machine.is_fresh() || other {
            return Ok(None);
        }
        run_loop.close_left_open().await?;
        Ok(Some(run_loop))
    }

    /// Closes tasks of the outermost graph that are due at a checkpoint, because a change from outside
    /// drops them. Returns their writes; nothing is stored.
    pub(crate) async fn close_dropped(
        host: Host,
        graph: &CompiledGraph,
        at: ThreadPoint,
        dropped: &[TaskKey],
    ) -> LoopResult<Vec<ClosedTask>> {
        let options = Options { thread: at.thread, at: at.checkpoint, ..Options::fresh() };
        let shared = Arc::new(RunContext::new(host, options.clone(), None));
        let loop_context = LoopContext::outermost(shared, graph.clone(), BTreeMap::new());
        let mut run_loop = Self::load(Arc::new(loop_context), &options).await?;
        run_loop.make_tasks()?;
        let tasks = run_loop.open.tasks().iter().enumerate();
        let closers: Vec<_> = tasks
            .filter(|(_, slot)| dropped.iter().any(|key| slot.is(key, graph)))
            .filter_map(|(index, slot)| {
                Some((index, slot.task.clone(), closer_of_task(graph, slot)?))
            })
            .collect();
        let mut closed = Vec::with_capacity(closers.len());
        for (index, task, closer) in closers {
            let output = run_loop.close_task(index, closer).await?;
            closed.push(ClosedTask { task, output });
        }
        Ok(closed)
    }

    /// Closes the superstep that new input leaves open, where nodes declare how. Applies the writes
    /// of their tasks, from the record or from their closers, and follows none of them. Returns
    /// `true` if there were any.
    ///
    /// Nothing is stored here: the checkpoint of the input contains both, so that a crash between
    /// them repeats the closing.
    pub(super) async fn close_left_open(&mut self) -> LoopResult<bool> {
        let graph = self.loop_context.graph.clone();
        if !graph.has_closers() {
            return Ok(false);
        }
        self.make_tasks()?;
        let closers: Vec<_> =
            self.open.tasks().iter().map(|slot| closer_of_task(&graph, slot)).collect();
        let mut outputs: Vec<Arc<TaskOutput>> = Vec::new();
        for (index, closer) in closers.into_iter().enumerate() {
            outputs.push(match closer {
                Some(closer) => self.close_task(index, closer).await?,
                None => Arc::default(),
            });
        }
        let wrote = outputs.iter().any(|output| !output.writes.is_empty());
        if wrote {
            // Without edges: the input decides what is due next.
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
    async fn close_task(&mut self, index: usize, closer: NodeFn) -> LoopResult<Arc<TaskOutput>> {
        let graph = &self.loop_context.graph;
        let (tasks, recorded) = self.open.restoring();
        let missing =
            || RuntimeError::broken_invariant("a task is closed that is not of the superstep");
        let slot = tasks.get_mut(index).ok_or_else(missing)?;
        if let Some((_, record)) = recorded.iter().find(|(key, _)| slot.is(key, graph)) {
            // A result on record is final: a closer runs only for a task without one.
            if let Some(output) = record.output() {
                return Ok(without_targets(Arc::clone(output)));
            }
            slot.restore_attempt(record);
        }
        let job = self.job(index)?;
        let at = TaskContext { purpose: Purpose::Close, ..job.at };
        let job = TaskRunner { at, node: closer, follows: Follows::Nothing, ..job };
        let End { what, .. } = Box::pin(job.attempts()).await;
        match what {
            TaskOutcome::Done(output, _) => Ok(without_targets(output)),
            // The state would lack calls that were made: the run fails, and the thread stays as it
            // is.
            TaskOutcome::Failed(failed) => Err(RuntimeError::Node(failed.fault)),
            TaskOutcome::Waiting(_) | TaskOutcome::Parent(_) | TaskOutcome::Drained(_) => {
                Ok(Arc::default())
            }
        }
    }
}

/// The closer of a task's node. Error handlers have none.
fn closer_of_task(graph: &crate::compiled::CompiledGraph, slot: &OpenTask) -> Option<NodeFn> {
    graph.node(slot.task.node)?.options.on_left_open.clone()
}

/// The writes of a task without the nodes that it leads to.
pub(crate) fn without_targets(mut output: Arc<TaskOutput>) -> Arc<TaskOutput> {
    if !output.goto.is_empty() {
        Arc::make_mut(&mut output).goto.clear();
    }
    output
}
