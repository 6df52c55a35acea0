//! Settling of tasks that ended.

use super::RunLoop;
use crate::error::{NODE_CANCELLED, RuntimeError};
use crate::run_loop::checkpointer::{TaskFailure, TaskPause, TaskRecord, TaskRecords, TaskWrites};
use crate::run_loop::context::LoopContext;
use crate::run_loop::options::{LoopOutcome, LoopResult};
use crate::run_loop::task::{End, Ending, Failed, OpenTask, Storage, TaskOutcome};
use std::sync::Arc;
use weftwork_engine::NodeIdx;
use weftwork_engine::pregel::Path;
use weftwork_types::code::Fault;
use weftwork_types::interrupt::Interrupt;

impl RunLoop {
    /// Records how a task ended, and adds its error handler to the superstep if it failed.
    pub(crate) fn settle(
        &mut self,
        index: usize,
        end: End,
        ends: &mut Option<LoopOutcome>,
    ) -> LoopResult<()> {
        let handles = self.has_handler(index)?;
        let graph = &self.loop_context.graph;
        let (tasks, recorded) = self.open.restoring();
        let missing =
            || RuntimeError::broken_invariant("a task ended that is not of the superstep");
        let slot = tasks.get_mut(index).ok_or_else(missing)?;
        slot.end(Ending::Ran, Storage::Due);
        let answered = end.answers.is_some();
        if answered {
            slot.record.details_mut().answers = end.answers;
        }
        let mut failed = None;
        let mut unhandled = false;
        match end.what {
            TaskOutcome::Done(output, ahead) => {
                slot.ahead = ahead;
                slot.record.records = end.records;
                // Results only: a failure or a question may depend on more than the input, and a result
                // that is used again writes no record.
                let cache = slot.cache.take();
                if let Some(key) = cache.filter(|_| slot.record.records.is_empty()) {
                    self.loop_context.run.host.cache(*key, Arc::clone(&output));
                }
                let handler = matches!(slot.task.path, Path::Handler(_));
                let first = slot.task.node == NodeIdx::START;
                slot.record.writes = match handler {
                    true => TaskWrites::Unfollowed(output),
                    false if first && graph.routes(NodeIdx::START).is_empty() => {
                        TaskWrites::Input(output)
                    }
                    false => TaskWrites::Followed(output),
                };
            }
            TaskOutcome::Waiting(interrupts) if interrupts.is_empty() => {
                slot.record.details_mut().pause = TaskPause::Stopped;
                // The record is stored if it closes a question that is on record.
                let task = slot.id(&self.loop_context.address.ns, graph);
                let asked = |(key, record): &(_, TaskRecord)| {
                    slot.is(key, graph) && !record.open_questions(task).is_empty()
                };
                let stored = !recorded.iter().any(asked);
                if stored {
                    slot.set_stored();
                }
                return Ok(());
            }
            TaskOutcome::Waiting(interrupts) => {
                slot.record.details_mut().pause = TaskPause::Asked(interrupts);
            }
            TaskOutcome::Failed(how) => {
                let Failed { fault, partial, open } = *how;
                // A node whose route failed runs again with its answers, and the route after it. The
                // reference takes it as finished when the run continues, and leaves the route out.
                let keeps = graph.settings().finishes_before_routes;
                let partial = partial.filter(|_| keeps);
                if !open.is_empty() {
                    slot.record.details_mut().pause = TaskPause::AskedAndDue(open);
                }
                if answered && partial.is_none() && slot.record.questions().is_empty() {
                    self.loop_context.emit_no_update(slot.name(graph));
                }
                slot.record.writes = match partial {
                    Some(output) => TaskWrites::Followed(Arc::new(output)),
                    None => TaskWrites::None,
                };
                let failure = if handles { TaskFailure::Handled } else { TaskFailure::Unhandled };
                slot.record.details_mut().failure = Some(failure(fault));
                if handles {
                    failed = Some((slot.task.clone(), slot.at()));
                } else {
                    unhandled = true;
                }
            }
            TaskOutcome::Parent(output) => {
                slot.record.details_mut().pause = TaskPause::Stopped;
                slot.set_stored();
                ends.get_or_insert(LoopOutcome::Parent(output));
                return Ok(());
            }
            TaskOutcome::Drained(drain) => {
                // No outcome is stored of the task: a run that continues the thread runs it again.
                slot.record.details_mut().pause = TaskPause::Stopped;
                slot.set_stored();
                ends.get_or_insert(LoopOutcome::TaskDrained(drain));
                return Ok(());
            }
        }
        if unhandled {
            self.open.set_failed();
        }
        let slot = self.open.task(index)?;
        self.loop_context.emit_task_end(slot, self.position.step(), self.machine.slots(), false);
        if let Some((task, at)) = failed {
            self.add_handler(&task, at);
        }
        Ok(())
    }

    /// Ends the tasks that still run beside one that failed.
    fn cut_off(&mut self) {
        let loop_context = Arc::clone(&self.loop_context);
        let (tasks, recorded) = self.open.restoring();
        for slot in tasks.iter_mut().filter(|slot| slot.is_running()) {
            let text = format!(
                "node `{}` was cut off: another task failed",
                slot.name(&loop_context.graph)
            );
            let fault = Fault::new(NODE_CANCELLED, text).of_kind("CancelledError");
            let open = open_beside(slot, recorded, &loop_context);
            let answers = slot.task_state.get().and_then(|state| state.answers());
            // The answers that it took stay with it: its questions are not asked again when it is resumed.
            let details = slot.record.details_mut();
            details.failure = Some(TaskFailure::Unhandled(fault));
            details.answers = answers.or_else(|| details.answers.take());
            if !open.is_empty() {
                details.pause = TaskPause::AskedAndDue(open);
            }
            slot.end(Ending::Ran, Storage::Due);
        }
    }

    /// Questions that are open when the loop fails, for the task around it.
    pub(crate) fn open_beside_failure(&self) -> Vec<Interrupt> {
        if !self.loop_context.graph.settings().waits_for_answers {
            return Vec::new();
        }
        let mut left = Vec::new();
        for slot in self.open.tasks().iter().filter(|slot| slot.record.output().is_none()) {
            if slot.is_due() {
                left.extend(open_beside(slot, self.open.recorded(), &self.loop_context));
            } else {
                left.extend(slot.record.questions().iter().cloned());
            }
        }
        left
    }

    fn has_handler(&self, index: usize) -> LoopResult<bool> {
        let slot = self.open.task(index)?;
        // The failure of a handler has no handler of its own. The hidden first node is no node.
        let is_handler = matches!(slot.task.path, Path::Handler(_));
        let node = self.loop_context.graph.node(slot.task.node).filter(|_| !is_handler);
        Ok(node.is_some_and(|node| node.options.on_error.is_some()))
    }

    /// The first fault in the order of tasks that no error handler takes over.
    fn fault(&self) -> Option<&Fault> {
        if !self.open.has_failed() {
            return None;
        }
        // By the order of tasks, never of time: each execution reports the same failure.
        let fresh = self.open.tasks().iter().filter(|slot| slot.has_ended_here());
        fresh.filter(|slot| !slot.record.is_handled()).find_map(|slot| slot.record.fault())
    }

    /// Returns the outcome of the loop if the superstep stopped early: a failure, an end of the loop
    /// by a task, or questions, in this order.
    pub(crate) async fn stopped(
        &mut self,
        ends: Option<LoopOutcome>,
    ) -> LoopResult<Option<LoopOutcome>> {
        if let Some(fault) = self.fault().cloned() {
            // What the other tasks left is stored with the failure: the next run does not repeat
            // finished tasks and does not ask again.
            self.cut_off();
            self.flush().await?;
            return Err(RuntimeError::Node(fault));
        }
        // After failures: a failed superstep is not left by a command of another task.
        if ends.is_some() {
            return Ok(ends);
        }
        let waiting = self.open.tasks().iter().filter(|slot| slot.record.output().is_none());
        let paused =
            |slot: &&OpenTask| !slot.record.questions().is_empty() || slot.record.is_stopped();
        let waiting = waiting.filter(paused);
        let waiting: Vec<_> = waiting.collect();
        if waiting.is_empty() {
            return Ok(None);
        }
        let all = waiting.iter().flat_map(|slot| slot.record.questions().iter().cloned());
        Ok(Some(LoopOutcome::Interrupted(all.collect())))
    }
}

/// Questions of a task that did not come to an end, or did not run, in this loop: those on record
/// that have no answer.
fn open_beside(
    slot: &OpenTask,
    recorded: &TaskRecords,
    loop_context: &LoopContext,
) -> Vec<Interrupt> {
    if !loop_context.graph.settings().waits_for_answers {
        return Vec::new();
    }
    let Some((_, record)) = recorded.iter().find(|(key, _)| slot.is(key, &loop_context.graph))
    else {
        return Vec::new();
    };
    let mut open = record.open_questions(slot.id(&loop_context.address.ns, &loop_context.graph));
    // Answers on record for the thread are taken when the task runs again.
    let environment = loop_context.run.host.environment();
    open.retain(|question| environment.answer(question.id).is_none());
    open
}
