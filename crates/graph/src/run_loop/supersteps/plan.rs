//! A single superstep: plan, start, settle, close.

use super::commit::Flush;
use super::{RunLoop, Started};
use crate::error::RuntimeError;
use crate::run_loop::checkpointer::TaskWrites;
use crate::run_loop::context::RunEntry;
use crate::run_loop::event::{Modes, Source};
use crate::run_loop::node_cache::CacheKey;
use crate::run_loop::options::{LoopOutcome, LoopResult};
use crate::run_loop::spans::{record_error, superstep_span};
use crate::run_loop::sync::{lock, yield_turn};
use crate::run_loop::task::{End, Ending, OpenTask, Storage};
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tracing::{Instrument as _, Span};
use weftwork_engine::TaskOutput;
use weftwork_engine::pregel::{Path, Task};
use weftwork_types::BoxFuture;

/// Number of supersteps without a wait after which the run yields to other runs.
const STEPS_BETWEEN_YIELDS: u32 = 64;

/// A task of the open superstep that ended, by its place.
pub(crate) struct TaskEnded {
    pub(crate) index: usize,
    pub(crate) end: End,
}

pub(crate) type Running = FuturesUnordered<BoxFuture<'static, TaskEnded>>;

impl RunLoop {
    pub(crate) async fn supersteps(&mut self) -> LoopResult<LoopOutcome> {
        let mut taken = 0u32;
        loop {
            taken += 1;
            // A loop whose tasks never wait would keep other runs of its thread from being polled.
            if taken.is_multiple_of(STEPS_BETWEEN_YIELDS) {
                tokio::task::yield_now().await;
            }
            // Nested loops of tasks that run side by side advance by turns, so that none of them takes all
            // polls of the superstep around them.
            if self.loop_context.is_nested() {
                yield_turn().await;
            }
            let ended = self.plan()?;
            self.report_open_tasks();
            if let Some(ended) = ended {
                return Ok(ended);
            }
            self.emit_task_starts();
            // All starts come before the first end, as in the reference.
            self.emit_reused();
            self.use_cache()?;
            self.note_messages();
            let loop_context = &self.loop_context;
            let graph = loop_context.graph.name();
            let span = superstep_span(self.position.step(), graph, &loop_context.address.ns);
            let executed = match span.is_disabled() {
                true => self.execute_superstep().await,
                false => self.execute_within(&span).await,
            };
            if let Some(ended) = executed? {
                return Ok(ended);
            }
        }
    }

    /// Executes the superstep within its span. Boxed, so that a loop without a subscriber does not
    /// carry the future twice.
    async fn execute_within(&mut self, span: &Span) -> LoopResult<Option<LoopOutcome>> {
        let executed = Box::pin(self.execute_superstep()).instrument(span.clone()).await;
        if let Err(error) = &executed {
            record_error(span, &error.fault().code);
        }
        executed
    }

    /// Runs the planned tasks, and closes the superstep unless one of them stopped it.
    async fn execute_superstep(&mut self) -> LoopResult<Option<LoopOutcome>> {
        match self.settle_all().await? {
            None => self.close_superstep().await,
            ended => Ok(ended),
        }
    }

    /// Plans the tasks of the superstep. Returns an outcome when there is nothing to run.
    fn plan(&mut self) -> LoopResult<Option<LoopOutcome>> {
        let rule = self.loop_context.graph.settings().steps;
        let is_over = self.position.step() >= self.position.stop() + rule.beyond_stop;
        self.make_tasks()?;
        // Before the limit is checked: the checkpoint is reported with its due tasks, also if none
        // of them starts.
        self.emit_checkpoint();
        if is_over && rule.limits_finished_runs {
            return Ok(Some(LoopOutcome::LimitReached));
        }
        // Before the limit is checked again: a run that ends with its last superstep has completed.
        // The reference takes it as one that reached its limit.
        if self.open.tasks().is_empty() {
            return Ok(Some(LoopOutcome::Completed));
        }
        if is_over {
            return Ok(Some(LoopOutcome::LimitReached));
        }
        if self.open.runs_again() {
            self.restore_answers();
        } else {
            self.restore_tasks();
        }
        let graph = &self.loop_context.graph;
        let stops = self.stops.has_before() && self.machine.changed_since_passed();
        if stops && self.stops.is_before(self.open.tasks(), graph) {
            return Ok(Some(LoopOutcome::Interrupted(Vec::new())));
        }
        // After the stops, as in the reference: a run that continues passes the next stop, and one
        // that is drained in front of it would skip it.
        Ok(self.loop_context.run.drained().map(LoopOutcome::Drained))
    }

    pub(super) fn make_tasks(&mut self) -> LoopResult<()> {
        self.machine.set_managed(self.position.step(), self.position.stop());
        let single = self.single_arg();
        let tasks = self.open.clear_tasks();
        let machine = &self.machine;
        // The ids of tasks are derived from their checkpoint: on a thread without one, none is due.
        let Some(id) = self.position.id() else {
            return match machine.is_done().map_err(RuntimeError::Engine)? {
                true => Ok(()),
                false => {
                    let what = "tasks are due on a thread without a checkpoint";
                    Err(RuntimeError::broken_invariant(what))
                }
            };
        };
        let at = (id, self.position.step());
        tasks.reserve(machine.sent());
        let due = machine.each_due(|mut task: Task| {
            if single.is_some() && task.arg.is_none() {
                task.arg.clone_from(&single);
            }
            tasks.push(OpenTask::new(task, at));
        });
        due.map_err(RuntimeError::Engine)
    }

    fn emit_reused(&self) {
        for slot in self.open.tasks().iter().filter(|slot| slot.is_reused()) {
            self.loop_context.emit_task_end(slot, self.position.step(), self.machine.slots(), true);
        }
    }

    /// Uses results of nodes that got the same input before.
    fn use_cache(&mut self) -> LoopResult<()> {
        for index in 0..self.open.tasks().len() {
            let slot = self.open.task(index)?;
            let node = self.loop_context.graph.node(slot.task.node);
            let cache = node.and_then(|node| node.options.cache);
            let handler = matches!(slot.task.path, Path::Handler(_));
            let Some(cache) = cache.filter(|_| slot.is_due() && !handler) else {
                continue;
            };
            let input = self.input_json(slot);
            let host = &self.loop_context.run.host;
            let graph = &self.loop_context.graph;
            let key = CacheKey::new(graph.name(), slot.name(graph), &input, cache);
            let found = host.cached(&key);
            let slot = self.open.task_mut(index)?;
            // The result is cached under this key when the task ends.
            slot.cache = Some(Box::new(key));
            if let Some(output) = found {
                slot.record.writes = TaskWrites::Followed(output);
                slot.end(Ending::Reused, Storage::Due);
                slot.cache = None;
                let slot = &*slot;
                self.loop_context.emit_task_end(
                    slot,
                    self.position.step(),
                    self.machine.slots(),
                    true,
                );
            }
        }
        Ok(())
    }

    /// Runs the tasks that have not finished, each polled once in order, and settles each as it
    /// ends. Returns the outcome of the loop if the superstep stopped early.
    async fn settle_all(&mut self) -> LoopResult<Option<LoopOutcome>> {
        let mut ends = None;
        let mut next = 0;
        // Most supersteps are over when each task was polled once.
        while next < self.open.tasks().len() {
            let index = next;
            next += 1;
            if self.open.tasks().get(index).is_some_and(OpenTask::is_due) {
                match self.start(index).await? {
                    Started::Ended(end) => {
                        // A question names its checkpoint: it is emitted only when the checkpoint is stored, or a
                        // crash would leave a question that no thread has.
                        if end.asks() {
                            self.writer.wait_durable(&self.loop_context).await?;
                        }
                        self.settle(index, end, &mut ends)?;
                    }
                    Started::Running(future) => {
                        let running = Running::from_iter([future]);
                        self.wait_for(running, next, &mut ends).await?;
                        break;
                    }
                }
            }
        }
        self.stopped(ends).await
    }

    /// Continues with tasks of which some wait.
    async fn wait_for(
        &mut self,
        mut running: Running,
        mut next: usize,
        ends: &mut Option<LoopOutcome>,
    ) -> LoopResult<()> {
        let loop_context = &self.loop_context;
        let most = loop_context
            .run
            .options
            .concurrency
            .or(loop_context.graph.concurrency())
            .unwrap_or(usize::MAX);
        let mut parked = Vec::new();
        loop {
            while next < self.open.tasks().len() && running.len() < most {
                let index = next;
                next += 1;
                if self.open.tasks().get(index).is_some_and(OpenTask::is_due) {
                    match self.start(index).await? {
                        Started::Ended(end) => {
                            self.settle_or_hold(TaskEnded { index, end }, ends, &mut parked)?;
                        }
                        Started::Running(future) => running.push(future),
                    }
                }
            }
            while let Some(Some(ended)) = running.next().now_or_never() {
                self.settle_or_hold(ended, ends, &mut parked)?;
            }
            if !self.loop_context.is_behind() {
                // Their checkpoint is stored now, so the questions can be asked.
                for TaskEnded { index, end } in parked.drain(..) {
                    self.settle(index, end, ends)?;
                }
            }
            // A failure without a handler ends the superstep at once: the results of the other tasks
            // could not be applied without those of the failed one.
            if self.open.has_failed() || (running.is_empty() && next >= self.open.tasks().len()) {
                break;
            }
            if running.is_empty() || next < self.open.tasks().len() && running.len() < most {
                continue;
            }
            if self.writer.is_in_flight() {
                // Only the loop polls the write: it makes progress only while the loop waits for
                // it.
                let ended = self.writer.write_beside(&self.loop_context, running.next()).await?;
                if let Some(ended) = ended {
                    self.settle_or_hold(ended, ends, &mut parked)?;
                }
                continue;
            }
            match self.flushing()? {
                Some(flushed) => {
                    self.flush_beside(flushed, &mut running, ends, &mut parked).await?;
                }
                None => {
                    // Calls of tasks that still wait are stored meanwhile.
                    let loop_context = Arc::clone(&self.loop_context);
                    let noted = std::pin::pin!(loop_context.noted.notified());
                    if let Either::Left((Some(ended), _)) = select(running.next(), noted).await {
                        self.settle_or_hold(ended, ends, &mut parked)?;
                    }
                }
            }
        }
        // Dropping what still runs cuts it off at its await point.
        drop(running);
        if !parked.is_empty() {
            // No task runs any more that could hold a resource of the write.
            self.writer.wait_durable(&self.loop_context).await?;
            for TaskEnded { index, end } in parked {
                self.settle(index, end, ends)?;
            }
        }
        Ok(())
    }

    /// Records how a task ended. While the loop is behind, a task that asks a question waits: its
    /// question depends on a checkpoint that is not stored yet.
    fn settle_or_hold(
        &mut self,
        ended: TaskEnded,
        ends: &mut Option<LoopOutcome>,
        parked: &mut Vec<TaskEnded>,
    ) -> LoopResult<()> {
        if ended.end.asks() && self.loop_context.is_behind() {
            parked.push(ended);
            return Ok(());
        }
        self.settle(ended.index, ended.end, ends)
    }

    /// Flushes while the tasks run. They must: a task may hold the store's only connection.
    async fn flush_beside(
        &mut self,
        mut flushed: Flush,
        running: &mut Running,
        ends: &mut Option<LoopOutcome>,
        parked: &mut Vec<TaskEnded>,
    ) -> LoopResult<()> {
        loop {
            match select(&mut flushed, running.next()).await {
                Either::Left((done, _)) => return Ok(done?),
                Either::Right((Some(ended), _)) => self.settle_or_hold(ended, ends, parked)?,
                Either::Right((None, _)) => return Ok(flushed.await?),
            }
        }
    }

    /// Closes the superstep: applies what the tasks wrote, and makes the next checkpoint.
    async fn close_superstep(&mut self) -> LoopResult<Option<LoopOutcome>> {
        // The outputs are applied to the state that the store has, if the host asks for that.
        self.rebuild_behind().await?;
        let nothing = TaskOutput::default();
        if self.loop_context.graph.plan().counted().next().is_some() {
            self.recount_overwritten();
        }
        let mut written = self.counters.take_written();
        // After an error of `apply` the machine is invalid. At the end of the run it would be stored.
        let undoes = self.loop_context.graph.settings().undoes_failed_close;
        let before =
            (undoes && self.on_exit() && self.writer.is_on()).then(|| self.machine.clone());
        let applied = match self.open.tasks_mut().as_mut_slice() {
            [only] => {
                let ahead = only.ahead.take().map(|ahead| *ahead);
                self.machine.apply_ahead(&mut [only.done(&nothing)], ahead, &mut written)
            }
            tasks => {
                // State that is not shared is changed in place.
                tasks.iter_mut().for_each(|slot| slot.ahead = None);
                let mut done: Vec<_> = tasks.iter().map(|slot| slot.done(&nothing)).collect();
                self.machine.apply(&mut done, &mut written)
            }
        };
        if let Err(error) = applied {
            if let Some(before) = before {
                self.machine = before;
            }
            // The results of the tasks are stored although they cannot be applied: the next run
            // does not repeat their work.
            self.flush().await?;
            return Err(RuntimeError::Engine(error));
        }
        self.counters.set_written(written, self.machine.slots());
        if self.counters.written().iter().any(|index| self.loop_context.emits(*index)) {
            self.emit_output();
        }
        let loaded = self.open.begin_next();
        if loaded {
            *lock(&self.loop_context.answer) = None;
        }
        self.checkpoint(Source::Loop).await?;
        if self.loop_context.called.load(Ordering::Relaxed) || loaded {
            self.loop_context.called.store(false, Ordering::Relaxed);
            // Results of called tasks hold within their superstep: the same code in the next one calls
            // anew.
            lock(&self.loop_context.calls).clear();
        }
        let graph = &self.loop_context.graph;
        let stops = self.stops.has_after() && self.machine.changed_since_passed();
        if stops && self.stops.is_after(self.open.tasks(), graph) {
            // The next superstep, which would report the checkpoint with its due tasks, is not planned.
            self.make_tasks()?;
            self.emit_checkpoint();
            self.open.clear_tasks();
            return Ok(Some(LoopOutcome::Interrupted(Vec::new())));
        }
        // The run has left the superstep with which it started: graphs that later tasks run decide by
        // their own input whether they start or continue.
        self.loop_context.set_entry(RunEntry::Passed);
        Ok(None)
    }

    fn emit_output(&mut self) {
        if self.loop_context.is_nested() {
            self.emitted = Some(self.machine.slots().clone());
        }
        if self.loop_context.run.wants(Modes::VALUES) {
            self.loop_context.emit_values(self.machine.slots(), None);
        }
    }
}
