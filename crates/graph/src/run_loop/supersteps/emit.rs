//! Events of the supersteps of a loop.

use super::RunLoop;
use crate::run_loop::event::{Modes, StreamEvent};
use crate::run_loop::stream::frames;
use crate::run_loop::sync::lock;
use crate::run_loop::task::OpenTask;
use serde_json::Value as Json;
use weftwork_engine::NodeIdx;
use weftwork_types::CheckpointId;
use weftwork_types::event::{AiEvent, OutsideWrites};

impl RunLoop {
    /// Emits the start of the tasks. As in the reference, a task that finished before has a start too,
    /// and no end.
    pub(crate) fn emit_task_starts(&self) {
        if !self.loop_context.run.wants(Modes::TASKS | Modes::DEBUG) {
            return;
        }
        let graph = &self.loop_context.graph;
        let ns = &self.loop_context.address.ns;
        for slot in self.open.tasks().iter().filter(|slot| slot.task.node != NodeIdx::START) {
            let input = self.input_json(slot);
            let started = frames::task_started(graph, &slot.task, slot.id(ns, graph), input);
            self.loop_context.emit_task(self.position.step(), StreamEvent::TaskStarted(started));
        }
    }

    /// Reports to the log that the loop continues at a checkpoint that was stored before, with the
    /// tasks of its superstep, if any. The checkpoint of another superstep has reported its tasks.
    pub(crate) fn report_open_tasks(&self) {
        let run = &self.loop_context.run;
        let resumes = self.open.is_loaded() && !self.position.has_moved();
        let checkpoint = self.position.id().filter(|_| resumes && self.writer.is_on());
        let Some(checkpoint) = checkpoint else { return };
        if let Some(started) = run.report(|| self.open_tasks(checkpoint)) {
            run.host.environment().resumes(started);
        }
    }

    /// Returns the event that the tasks of the open superstep are due.
    fn open_tasks(&self, checkpoint: CheckpointId) -> AiEvent {
        let ns = &self.loop_context.address.ns;
        let graph = &self.loop_context.graph;
        let shown = self.open.tasks().iter().filter(|slot| slot.is_shown());
        let tasks: Vec<_> = shown.map(|slot| slot.due(ns, graph)).collect();
        let ns = ns.to_string();
        let output = &self.open.outside().output;
        let outside = OutsideWrites { writes: output.writes.len(), targets: output.goto.len() };
        AiEvent::TasksStarted { ns, checkpoint, tasks, outside }
    }

    /// Returns the input of a task as JSON.
    pub(crate) fn input_json(&self, slot: &OpenTask) -> Json {
        frames::task_input(&self.loop_context.graph, &self.machine, &slot.task)
    }

    /// Emits the checkpoint that the next superstep starts from.
    pub(crate) fn emit_checkpoint(&self) {
        // As in the reference: without a checkpointer no checkpoint is emitted.
        let keeps = self.loop_context.storage.checkpointer.is_some();
        if !keeps || !self.loop_context.run.wants(Modes::CHECKPOINTS | Modes::DEBUG) {
            return;
        }
        let graph = &self.loop_context.graph;
        let ns = &*self.loop_context.address.ns;
        let at = frames::ShownAt {
            ns,
            id: self.position.id(),
            parent: self.position.parent(),
            metadata: self.position.metadata(),
        };
        let tasks = self.open.tasks().iter().map(|slot| (&slot.task, slot.id(ns, graph)));
        let snapshot = frames::checkpoint_snapshot(graph, self.machine.slots(), &at, tasks);
        let event = StreamEvent::Checkpoint(Box::new(snapshot));
        if self.loop_context.run.wants(Modes::CHECKPOINTS) {
            self.loop_context.emit(event.clone());
        }
        if self.loop_context.run.wants(Modes::DEBUG) {
            let step = self.position.step() - 1;
            let event = Box::new(event);
            self.loop_context.emit(StreamEvent::Debug { step, event });
        }
    }
}

impl RunLoop {
    /// Marks the messages that the tasks of the superstep get as known: a run does not emit them
    /// when a node returns them.
    pub(crate) fn note_messages(&self) {
        if !self.loop_context.run.wants(Modes::MESSAGES) {
            return;
        }
        let mut known = lock(&self.loop_context.run.messages);
        let mut know = |id: &str| {
            if !known.contains(id) {
                known.insert(id.to_owned());
            }
        };
        let starts = |slot: &&OpenTask| slot.is_due() && slot.task.node != NodeIdx::START;
        for slot in self.open.tasks().iter().filter(starts) {
            frames::message_ids_in(&self.loop_context.graph, &self.machine, &slot.task, &mut know);
        }
    }
}
