//! Taking up how a task ended.

use super::api::{Going, LoopOutcome};
use super::cycle::Cycle;
use super::job::{End, Failed, TaskOutcome};
use super::saver::TaskRecord;
use super::slot::SlotState;
use crate::error::{NODE_CANCELLED, RuntimeError};
use std::sync::Arc;
use weftwork_engine::NodeIdx;
use weftwork_engine::planted::{self, Bug};
use weftwork_engine::pregel::Path;
use weftwork_types::code::Fault;

impl Cycle {
    pub(super) fn settle(&mut self, index: usize, end: End, ends: &mut Option<LoopOutcome>) {
        let handles = self.has_handler(index);
        let graph = &self.scope.graph;
        let Some(slot) = self.tasks.get_mut(index) else { return };
        slot.state = SlotState::Ended;
        planted::ended(index);
        let answered = end.answers.is_some();
        if answered {
            slot.record.resume = end.answers;
        }
        let mut failed = None;
        match end.what {
            TaskOutcome::Done(output, ahead) => {
                slot.ahead = ahead;
                let handler = matches!(slot.task.path, Path::Handler(_));
                slot.record.output = Some(output);
                slot.record.edges = !handler;
                let first = slot.task.node == NodeIdx::START && !handler;
                slot.record.is_input = first && graph.routes(NodeIdx::START).is_empty();
                if let (Some(key), Some(output)) = (slot.cache.take(), &slot.record.output) {
                    self.scope.shared.host.cache(*key, Arc::clone(output));
                }
            }
            TaskOutcome::Waiting(interrupts) => {
                slot.record.interrupts = interrupts;
                if slot.record.interrupts.is_empty() {
                    // Worth keeping when it went on past a question that is on record.
                    let asked = |(key, record): &(_, TaskRecord)| {
                        slot.is(key, graph) && !record.open_questions().is_empty()
                    };
                    let kept = !self.known.iter().any(asked);
                    slot.kept = kept || planted::has(Bug::StaleQuestions);
                    slot.record.stopped = true;
                    return;
                }
            }
            TaskOutcome::Failed(how) => {
                let Failed { fault, partial } = *how;
                if answered && partial.is_none() {
                    self.scope.tell_nothing(slot.name(graph));
                }
                slot.record.edges = partial.is_some();
                slot.record.output = partial.map(Arc::new);
                slot.record.error = Some(fault);
                if handles {
                    slot.record.handled = true;
                    failed = Some(slot.task.clone());
                }
            }
            TaskOutcome::Parent(output) => {
                slot.kept = true;
                slot.record.stopped = true;
                ends.get_or_insert(LoopOutcome::Parent(output));
                return;
            }
            TaskOutcome::Drained(drain) => {
                slot.kept = true;
                slot.record.stopped = true;
                ends.get_or_insert(LoopOutcome::TaskDrained(drain));
                return;
            }
        }
        if let Some(slot) = self.tasks.get(index) {
            self.scope.tell_end(slot, self.step, self.machine.slots(), false);
        }
        if let Some(task) = failed {
            self.add_handler(&task);
        }
    }

    fn has_handler(&self, index: usize) -> bool {
        let slot = self.tasks.get(index).filter(|s| !matches!(s.task.path, Path::Handler(_)));
        let node = slot.and_then(|slot| self.scope.graph.node(slot.task.node));
        node.is_some_and(|node| node.options.on_error.is_some())
    }

    /// Returns `true` if a task failed and no error handler takes over.
    pub(super) fn failed(&self) -> bool {
        self.fault().is_some()
    }

    fn fault(&self) -> Option<&Fault> {
        let fresh = self.tasks.iter().filter(|slot| !slot.record.handled && !slot.cached);
        fresh.filter(|slot| slot.state == SlotState::Ended).find_map(|s| s.record.error.as_ref())
    }

    /// Returns the outcome of the loop if the superstep stopped early: a failure, an end of the loop
    /// by a task, or questions, in this order.
    pub(super) async fn stopped(
        &mut self,
        ends: Option<LoopOutcome>,
    ) -> Going<Option<LoopOutcome>> {
        if let Some(fault) = self.fault().cloned() {
            let graph = &self.scope.graph;
            for slot in self.tasks.iter_mut().filter(|s| s.state == SlotState::Running) {
                let text = format!("node `{}` was cut off: another task failed", slot.name(graph));
                slot.record.error =
                    Some(Fault::new(NODE_CANCELLED, text).of_kind("CancelledError"));
                slot.state = SlotState::Ended;
            }
            self.flush().await?;
            return Err(RuntimeError::Node(fault));
        }
        if ends.is_some() {
            return Ok(ends);
        }
        let waiting = self.tasks.iter().filter(|slot| slot.record.output.is_none());
        let waiting = waiting.filter(|s| !s.record.interrupts.is_empty() || s.record.stopped);
        let waiting: Vec<_> = waiting.collect();
        if waiting.is_empty() {
            return Ok(None);
        }
        let all = waiting.iter().flat_map(|slot| slot.record.interrupts.iter().cloned());
        Ok(Some(LoopOutcome::Interrupted(all.collect())))
    }
}
