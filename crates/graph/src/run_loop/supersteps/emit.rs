//! Events of the supersteps of a loop.

use super::RunLoop;
use crate::run_loop::event::{
    Config, Modes, Snapshot, StreamEvent, SubState, TaskSnapshot, TaskStarted,
};
use crate::run_loop::namespace::task_ns;
use crate::run_loop::sync::lock;
use crate::run_loop::task::{OpenTask, triggers};
use crate::run_loop::values::{read_json, state_json};
use serde_json::Value as Json;
use weftwork_engine::NodeIdx;
use weftwork_engine::channel::{ids_in, ids_in_json};
use weftwork_types::event::AiEvent;
impl RunLoop {
    /// Emits the start of the tasks that have not finished before.
    pub(crate) fn emit_task_starts(&self) {
        if !self.scope.shared.wants(Modes::TASKS | Modes::DEBUG) {
            return;
        }
        let plan = self.scope.graph.plan();
        for slot in self.open.tasks().iter().filter(|slot| slot.task.node != NodeIdx::START) {
            let started = TaskStarted {
                id: slot.id(&self.scope.place.ns, &self.scope.graph),
                name: slot.name(&self.scope.graph).to_string(),
                input: self.input_json(slot),
                triggers: triggers(plan, slot.task.node, slot.task.path),
                call: false,
            };
            self.scope.emit_task(self.position.step(), StreamEvent::TaskStarted(started));
        }
    }

    /// Reports to the log the tasks of a superstep that was open before this loop. The checkpoint
    /// of another superstep has reported its tasks.
    pub(crate) fn report_open_tasks(&self) {
        let environment = self.scope.shared.host.environment();
        let resumes = self.open.is_loaded() && !self.position.has_moved();
        let checkpoint = self.position.id().filter(|_| resumes && self.writer.is_on());
        let Some(checkpoint) = checkpoint.filter(|_| environment.has_log()) else { return };
        let (ns, graph) = (&self.scope.place.ns, &self.scope.graph);
        let shown = self.open.tasks().iter().filter(|slot| slot.is_shown());
        let tasks: Vec<_> = shown.map(|slot| slot.due(ns, graph)).collect();
        if !tasks.is_empty() {
            let ns = ns.to_string();
            environment.resumes(AiEvent::TasksStarted { ns, checkpoint, tasks });
        }
    }

    /// Returns the input of a task as JSON.
    pub(crate) fn input_json(&self, slot: &OpenTask) -> Json {
        match &slot.task.arg {
            Some(arg) => arg.json.clone(),
            None => read_json(self.scope.graph.plan(), self.machine.slots(), slot.task.node),
        }
    }

    /// Emits the checkpoint that the next superstep starts from.
    pub(crate) fn emit_checkpoint(&self) {
        let keeps = self.scope.keep.checkpointer.is_some();
        if !keeps || !self.scope.shared.wants(Modes::CHECKPOINTS | Modes::DEBUG) {
            return;
        }
        let graph = &self.scope.graph;
        let ns = &self.scope.place.ns;
        let tasks = self.open.tasks().iter().map(|slot| {
            let within =
                graph.node(slot.task.node).is_some_and(|n| n.options.stored_subgraph().is_some());
            let state = within.then(|| {
                let ns = task_ns(ns, slot.name(graph), slot.id(ns, graph));
                SubState::Config(Config { ns, ..Config::default() })
            });
            TaskSnapshot {
                id: slot.id(ns, graph),
                name: slot.name(graph).to_string(),
                path: slot.task.path,
                error: None,
                interrupts: Vec::new(),
                result: None,
                state,
            }
        });
        let metadata = self.position.metadata();
        let config = |id| Config::of(ns, id, metadata);
        let snapshot = Snapshot {
            values: state_json(graph.plan(), self.machine.slots()),
            next: self.open.tasks().iter().map(|slot| slot.name(graph).to_string()).collect(),
            config: Some(config(self.position.id())),
            parent: self.position.parent().map(|id| config(Some(id))),
            metadata: Some(metadata.clone()),
            tasks: tasks.collect(),
            interrupts: Vec::new(),
            run: None,
        };
        let event = StreamEvent::Checkpoint(Box::new(snapshot));
        if self.scope.shared.wants(Modes::CHECKPOINTS) {
            self.scope.tell(event.clone());
        }
        if self.scope.shared.wants(Modes::DEBUG) {
            let (step, event) = (self.position.step() - 1, Box::new(event));
            self.scope.tell(StreamEvent::Debug { step, event });
        }
    }
}

impl RunLoop {
    /// Marks the messages that the tasks of the superstep get as known: a run does not emit them
    /// when a node returns them.
    pub(crate) fn note_messages(&self) {
        if !self.scope.shared.wants(Modes::MESSAGES) {
            return;
        }
        let mut known = lock(&self.scope.shared.messages);
        let mut know = |id: &str| {
            if !known.contains(id) {
                known.insert(id.to_owned());
            }
        };
        let (plan, slots) = (self.scope.graph.plan(), self.machine.slots());
        let starts = |slot: &&OpenTask| slot.is_due() && slot.task.node != NodeIdx::START;
        for slot in self.open.tasks().iter().filter(starts) {
            if let Some(arg) = &slot.task.arg {
                let members = arg.json.as_object().into_iter().flat_map(|members| members.values());
                members.for_each(|value| ids_in_json(value, &mut know));
            } else {
                let values = plan.reads(slot.task.node).filter_map(|index| slots.get(index.0));
                values.for_each(|value| ids_in(value, &mut know));
            }
        }
    }
}
