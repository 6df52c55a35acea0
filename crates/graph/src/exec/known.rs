//! Outcomes of an open superstep's tasks before this loop.

use super::api::{Resuming, Unanswered};
use super::cycle::Cycle;
use super::look::handler_of;
use super::saver::{TaskKey, TaskRecord};
use super::scope::{Called, Scope, lock};
use super::slot::{Slot, SlotState};
use weftwork_engine::fault_injection::{self, Bug};
use weftwork_engine::pregel::Task;

impl Cycle {
    /// Gives tasks the answers they had got and their calls, though they run again. On another
    /// branch those calls are others.
    pub(super) fn take_answers(&mut self) {
        let graph = &self.scope.graph;
        for (key, record) in &self.known {
            if let Some(slot) = self.tasks.iter_mut().find(|slot| slot.is(key, graph)) {
                slot.take_along(record);
            }
        }
    }

    /// Gives tasks what they left behind before this loop, and starts the error handlers of those
    /// that failed then.
    pub(super) fn take_known(&mut self) {
        if self.known.is_empty() {
            return;
        }
        let graph = &self.scope.graph;
        let mut handlers = Vec::new();
        for (key, record) in &self.known {
            self.scope.shared.know(&record.interrupts);
            let Some(slot) = self.tasks.iter_mut().find(|slot| slot.is(key, graph)) else {
                let counts = record.is_finished() || record.resume.is_some();
                if let (TaskKey::Call { .. }, true) = (key, counts) {
                    let (key, record) = (key.clone(), record.clone());
                    lock(&self.scope.calls).push(Called { key, record, fresh: false });
                }
                continue;
            };
            slot.take_known(record, &self.scope);
            if record.handled && record.error.is_some() {
                slot.record.error.clone_from(&record.error);
                slot.record.handled = true;
                slot.state = SlotState::Ended;
                slot.kept = true;
                handlers.push(slot.task.clone());
            }
        }
        let first = self.tasks.len();
        for task in handlers {
            self.add_handler(&task);
        }
        let exact = self.scope.graph.semantics().resuming == Resuming::Exact;
        if exact && !fault_injection::has(Bug::HandlersRerun) {
            let graph = &self.scope.graph;
            for slot in self.tasks.iter_mut().skip(first) {
                if let Some((_, record)) = self.known.iter().find(|(key, _)| slot.is(key, graph)) {
                    slot.take_known(record, &self.scope);
                }
            }
        }
    }

    /// Starts the error handler of a failed task.
    pub(super) fn add_handler(&mut self, failed: &Task) {
        let mut slot = Slot::new(handler_of(failed), (self.id, self.step));
        let graph = &self.scope.graph;
        // In a replay its task fails again, and it may have run before.
        let exact = graph.semantics().resuming == Resuming::Exact;
        let known = self.known.iter().find(|(key, _)| slot.is(key, graph));
        if let Some((_, record)) = known.filter(|_| exact) {
            slot.take_along(record);
        }
        self.tasks.push(slot);
    }
}

impl Slot {
    /// Restores the state that a task retains when it runs again: its answers and its calls.
    fn take_along(&mut self, record: &TaskRecord) {
        if record.resume.is_some() {
            self.record.resume.clone_from(&record.resume);
        }
        if !fault_injection::has(Bug::ForgetsCalls) {
            self.known_calls.clone_from(&record.calls);
        }
    }

    fn take_known(&mut self, record: &TaskRecord, scope: &Scope) {
        self.take_along(record);
        if record.output.is_some() && !fault_injection::has(Bug::ForgetsFinished) {
            self.record.output.clone_from(&record.output);
            self.record.edges = record.edges;
            self.state = SlotState::Ended;
            (self.kept, self.cached) = (true, true);
        }
        let open = record.open_questions();
        if !open.is_empty()
            && scope.graph.semantics().unanswered == Unanswered::Wait
            && scope.resuming() == Some(true)
            && !scope.may_answer(&open)
        {
            self.record.interrupts = open;
            self.state = SlotState::Ended;
            self.kept = true;
        }
    }
}
