//! Creation of events.

use super::frames;
use crate::run_loop::checkpointer::TaskRecord;
use crate::run_loop::context::{EventSource, LoopContext, TaskContext};
use crate::run_loop::event::{Metadata, Modes, StreamEvent};
use crate::run_loop::sink::Destination;
use crate::run_loop::sync::lock;
use crate::run_loop::task::OpenTask;
use serde_json::Value as Json;
use weftwork_engine::{ChannelIdx, NodeIdx, Slots};
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::Interrupt;

impl LoopContext {
    pub(crate) fn emit_task(&self, step: i64, event: StreamEvent) {
        let Some(sink) = &self.run.sink else { return };
        if sink.modes.any_of(Modes::TASKS) {
            self.emit(event.clone());
        }
        if sink.modes.any_of(Modes::DEBUG) {
            self.emit(StreamEvent::Debug { step, event: Box::new(event) });
        }
    }

    /// Updates the metadata of a checkpoint that was emitted and is stored only now, in events that
    /// were not read yet.
    pub(crate) fn emit_again(&self, id: weftwork_types::CheckpointId, metadata: &Metadata) {
        let to = self.run.sink.as_ref().map(|sink| &sink.to);
        // Events that were sent to a channel may have been read.
        let Some(Destination::Queue(queue)) = to else { return };
        for item in lock(queue).iter_mut() {
            let event = match &mut item.event {
                StreamEvent::Debug { event, .. } => event,
                event => event,
            };
            if let StreamEvent::Checkpoint(snapshot) = event
                && snapshot.config.as_ref().is_some_and(|config| config.id == Some(id))
            {
                snapshot.metadata = Some(metadata.clone());
            }
        }
    }

    /// Returns `true` if a channel is emitted.
    pub(crate) fn emits(&self, channel: ChannelIdx) -> bool {
        frames::shows_channel(self.graph.plan(), self.is_nested(), channel)
    }

    pub(crate) fn emit_values(&self, slots: &Slots, interrupts: Option<Vec<Interrupt>>) {
        if self.run.wants(Modes::VALUES) {
            let values = frames::shown_values(self.graph.plan(), self.is_nested(), slots);
            self.emit(StreamEvent::Values { values, interrupts });
        }
    }

    /// Emits the outcome of a task of a node.
    pub(crate) fn emit_task_end(&self, slot: &OpenTask, step: i64, slots: &Slots, cached: bool) {
        if self.run.sink.is_none() || slot.task.node == NodeIdx::START {
            return;
        }
        let plan = self.graph.plan();
        let record = &slot.record;
        let name = slot.name(&self.graph);
        // In the order of the reference: updates, values with the questions, the result of the
        // task.
        if record.output().is_none() && !record.questions().is_empty() {
            self.emit_questions(record, slots);
        } else if let Some(output) = record.output()
            && self.run.wants(Modes::UPDATES)
        {
            self.emit(frames::update_event(plan, self.is_nested(), name, output, cached));
        }
        // As in the reference, a task that is not run has no result event.
        if !cached && self.run.wants(Modes::TASKS | Modes::DEBUG) {
            let id = slot.id(&self.address.ns, &self.graph);
            let ended = frames::task_ended(plan, id, name, record);
            self.emit_task(step, StreamEvent::TaskEnded(ended));
        }
    }

    /// Emits an empty update of a task that got an answer and failed after it.
    pub(crate) fn emit_no_update(&self, node: &str) {
        if self.run.wants(Modes::UPDATES) {
            let node = node.to_owned();
            let updates = Vec::new();
            let returned = None;
            self.emit(StreamEvent::Updates { node, updates, returned, cached: false });
        }
    }

    /// Emits the questions that are open as before the run, when it stops.
    pub(crate) fn emit_still_open(&self, questions: Vec<Interrupt>, slots: &Slots) {
        if self.run.wants(Modes::UPDATES) {
            self.emit(StreamEvent::Interrupts(questions.clone()));
        }
        self.emit_values(slots, Some(questions));
    }

    fn emit_questions(&self, record: &TaskRecord, slots: &Slots) {
        if self.run.wants(Modes::UPDATES) {
            self.emit(StreamEvent::Interrupts(record.questions().to_vec()));
        }
        self.emit_values(slots, Some(record.questions().to_vec()));
    }
}

impl TaskContext {
    /// Emits a value of the task's node.
    pub(crate) fn emit(&self, value: Json) {
        let by = self.event_source();
        let ns = by.ns.to_string();
        let node = by.node.to_string();
        self.emit_event(by, AiEvent::Custom { ns, node, tool_call_id: None, value });
    }

    /// Emits an event to the log of the run, and a value to its stream too.
    pub(crate) fn emit_event(&self, by: EventSource, event: AiEvent) {
        let run = &self.loop_context.run;
        if let AiEvent::Custom { ns, value, .. } = &event
            && run.wants(Modes::CUSTOM)
        {
            self.loop_context.emit_from(ns, StreamEvent::Custom(value.clone()));
        }
        run.host.environment().emit(by, event);
    }
}
