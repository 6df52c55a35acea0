//! Outcomes of an open superstep's tasks before this loop.

use super::RunLoop;
use crate::run_loop::checkpointer::{TaskKey, TaskPause, TaskRecord};
use crate::run_loop::context::{CalledTask, LoopContext, RunEntry};
use crate::run_loop::sync::lock;
use crate::run_loop::task::{Ending, OpenTask, Storage, handler_of};
use weftwork_engine::pregel::Task;
use weftwork_types::CheckpointId;

impl RunLoop {
    /// Gives tasks the answers they had got and their calls, though they run again. On another
    /// branch those calls are others.
    pub(crate) fn restore_answers(&mut self) {
        let graph = &self.loop_context.graph;
        let (tasks, recorded) = self.open.restoring();
        for (key, record) in recorded {
            if let Some(slot) = tasks.iter_mut().find(|slot| slot.is(key, graph)) {
                slot.restore_attempt(record);
            }
        }
    }

    /// Gives tasks what they left behind before this loop, and starts the error handlers of those
    /// that failed then.
    pub(crate) fn restore_tasks(&mut self) {
        if self.open.recorded().is_empty() {
            return;
        }
        let graph = &self.loop_context.graph;
        let mut handlers = Vec::new();
        let (tasks, recorded) = self.open.restoring();
        for (key, record) in recorded {
            // Before a task runs: the recorded expiry counts, not one that the node computes anew.
            self.loop_context.run.know(record.questions());
            let Some(slot) = tasks.iter_mut().find(|slot| slot.is(key, graph)) else {
                // The record of a call that a task made: the call returns its result when the task
                // makes it again.
                let counts = record.is_finished() || record.answers().is_some();
                if let (TaskKey::Call { .. }, true) = (key, counts) {
                    let key = key.clone();
                    let record = record.clone();
                    lock(&self.loop_context.calls).push(CalledTask { key, record, fresh: false });
                }
                continue;
            };
            slot.restore_tasks(record, &self.loop_context);
            if record.is_handled() {
                slot.record.details_mut().failure = record.failure().cloned();
                if !slot.is_reused() {
                    slot.end(Ending::Restored, Storage::Done);
                }
                handlers.push((slot.task.clone(), slot.at()));
            }
        }
        let first = tasks.len();
        // After all tasks are restored: handlers are added behind them, where records are found below.
        for (task, at) in handlers {
            self.add_handler(&task, at);
        }
        if self.loop_context.graph.settings().reuses_handlers {
            let graph = &self.loop_context.graph;
            let (tasks, recorded) = self.open.restoring();
            for slot in tasks.iter_mut().skip(first) {
                if let Some((_, record)) = recorded.iter().find(|(key, _)| slot.is(key, graph)) {
                    slot.restore_tasks(record, &self.loop_context);
                }
            }
        }
    }

    /// Adds the error handler of a failed task to the superstep.
    pub(crate) fn add_handler(&mut self, failed: &Task, at: (CheckpointId, i64)) {
        let mut slot = OpenTask::new(handler_of(failed), at);
        let graph = &self.loop_context.graph;
        // In a replay its task fails again, and it may have run before.
        let reuses = graph.settings().reuses_handlers;
        let known = self.open.recorded().iter().find(|(key, _)| slot.is(key, graph));
        if let Some((_, record)) = known.filter(|_| reuses) {
            slot.restore_attempt(record);
        }
        self.open.tasks_mut().push(slot);
    }
}

impl OpenTask {
    /// Restores the state that a task retains when it runs again: its answers and its calls.
    pub(super) fn restore_attempt(&mut self, record: &TaskRecord) {
        if let Some(answers) = record.answers() {
            self.record.details_mut().answers = Some(answers.clone());
        }
        self.recorded_calls.clone_from(&record.calls);
    }

    fn restore_tasks(&mut self, record: &TaskRecord, loop_context: &LoopContext) {
        self.restore_attempt(record);
        if record.output().is_some() {
            self.record.writes.clone_from(&record.writes);
            self.end(Ending::Reused, Storage::Done);
        }
        let open = record.open_questions(self.id(&loop_context.address.ns, &loop_context.graph));
        if !open.is_empty()
            && !record.is_due()
            && loop_context.graph.settings().waits_for_answers
            && loop_context.entry() == RunEntry::Resumes
            && !loop_context.may_answer(&open)
        {
            // The task is not started: it would ask the same questions.
            self.record.details_mut().pause = TaskPause::Asked(open);
            self.end(Ending::Restored, Storage::Done);
        }
    }
}
