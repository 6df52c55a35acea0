//! Making events of what happened.

use super::cycle::Cycle;
use super::event::{
    Config, Modes, Snapshot, StreamEvent, SubState, TaskEnded, TaskSnapshot, TaskStarted, Written,
};
use super::record::TaskRecord;
use super::scope::Destination;
use super::scope::{Scope, task_ns};
use super::slot::Slot;
use serde_json::Value as Json;
use weftwork_engine::pregel::Path;
use weftwork_engine::{ChannelIdx, NodeIdx, Plan, Slots, TaskOutput};
use weftwork_types::interrupt::Interrupt;

/// The parts of a way to a graph.
pub(super) fn parts(ns: &str) -> Vec<String> {
    if ns.is_empty() { Vec::new() } else { ns.split('|').map(str::to_owned).collect() }
}

/// Returns the readable channels of a node that have a value, as an object.
pub(crate) fn read_json(plan: &Plan, slots: &Slots, node: NodeIdx) -> Json {
    let read = plan.reads(node);
    object(plan, slots, read)
}

fn object(plan: &Plan, slots: &Slots, channels: impl Iterator<Item = ChannelIdx>) -> Json {
    let mut members = serde_json::Map::new();
    for index in channels {
        if let Some(json) = plan.value_json(slots, index) {
            members.insert(plan.channel_name(index).to_owned(), json);
        }
    }
    Json::Object(members)
}

/// The output of a graph as it stands.
pub(super) fn output_json(plan: &Plan, slots: &Slots) -> Json {
    if plan.is_single() {
        return plan.value_json(slots, ChannelIdx(0)).unwrap_or_default();
    }
    object(plan, slots, plan.output_keys())
}

/// The state of a graph as it stands.
pub(super) fn state_json(plan: &Plan, slots: &Slots) -> Json {
    if plan.is_single() {
        return plan.value_json(slots, ChannelIdx(0)).unwrap_or_default();
    }
    object(plan, slots, plan.state_keys())
}

/// Writes as they are shown.
pub(super) fn written(
    plan: &Plan,
    output: &TaskOutput,
    keep: impl Fn(ChannelIdx) -> bool,
) -> Vec<(String, Written)> {
    let kept = output.writes.iter().filter(|(index, _)| keep(*index));
    kept.map(|(index, write)| {
        let shown = match plan.write_json(*index, write) {
            Ok((json, false)) => Written::Put(json),
            Ok((json, true)) => Written::Overwrite(json),
            Err(error) => Written::Put(Json::String(error.to_string())),
        };
        (plan.channel_name(*index).to_owned(), shown)
    })
    .collect()
}

/// The updates of a task as the stream groups them: one object, or one for each write when it
/// wrote a channel more than once.
pub(super) fn grouped(writes: Vec<(String, Written)>) -> Vec<Vec<(String, Written)>> {
    let twice = writes
        .iter()
        .enumerate()
        .any(|(i, (name, _))| writes.iter().take(i).any(|(other, _)| other == name));
    if writes.is_empty() {
        Vec::new()
    } else if twice {
        writes.into_iter().map(|write| vec![write]).collect()
    } else {
        vec![writes]
    }
}

impl Scope {
    pub(super) fn tell_task(&self, step: i64, event: StreamEvent) {
        let Some(sink) = &self.shared.sink else { return };
        if sink.modes.any_of(Modes::TASKS) {
            self.tell(event.clone());
        }
        if sink.modes.any_of(Modes::DEBUG) {
            self.tell(StreamEvent::Debug { step, event: Box::new(event) });
        }
    }

    /// A checkpoint that was told and is kept only now is told as it is kept, as far as nobody has
    /// read it yet.
    pub(super) fn retell(&self, id: weftwork_types::CheckpointId, metadata: &super::Metadata) {
        let to = self.shared.sink.as_ref().map(|sink| &sink.to);
        let Some(Destination::Queue(queue)) = to else { return };
        for item in super::scope::lock(queue).iter_mut() {
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

    /// Returns `true` if a channel is emitted: the outermost graph emits its whole state, subgraphs
    /// their output.
    pub(super) fn tells(&self, channel: ChannelIdx) -> bool {
        let plan = self.graph.plan();
        if self.is_nested() { plan.is_output(channel) } else { plan.is_state(channel) }
    }

    pub(super) fn tell_values(&self, slots: &Slots, interrupts: Option<Vec<Interrupt>>) {
        if self.shared.wants(Modes::VALUES) {
            let plan = self.graph.plan();
            let nested = self.is_nested();
            let values = if nested { output_json(plan, slots) } else { state_json(plan, slots) };
            self.tell(StreamEvent::Values { values, interrupts });
        }
    }

    /// Tells what became of a task of a node.
    pub(super) fn tell_end(&self, slot: &Slot, step: i64, slots: &Slots, cached: bool) {
        if self.shared.sink.is_none() || slot.task.node == NodeIdx::START {
            return;
        }
        let (plan, record) = (self.graph.plan(), &slot.record);
        if record.output().is_none() && !record.questions().is_empty() {
            self.tell_questions(record, slots);
        } else if let Some(output) = record.output()
            && self.shared.wants(Modes::UPDATES)
        {
            let writes = written(plan, output, |index| self.tells(index));
            let returned = returned(plan, output);
            let updates = if returned.is_some() { Vec::new() } else { grouped(writes) };
            let node = slot.name(&self.graph).to_string();
            self.tell(StreamEvent::Updates { node, updates, returned, cached });
        }
        if !cached && self.shared.wants(Modes::TASKS | Modes::DEBUG) {
            let result = record.output().map(|output| {
                written(plan, output, |index| !plan.is_single() || index == ChannelIdx(0))
            });
            let ended = TaskEnded {
                id: slot.id(&self.place.ns, &self.graph),
                name: slot.name(&self.graph).to_string(),
                result: result.unwrap_or_default(),
                error: record.fault().cloned(),
                interrupts: if record.output().is_some() {
                    Vec::new()
                } else {
                    record.questions().to_vec()
                },
            };
            self.tell_task(step, StreamEvent::TaskEnded(ended));
        }
    }

    /// Tells that a task left nothing behind: it got an answer, and failed after it.
    pub(super) fn tell_nothing(&self, node: &str) {
        if self.shared.wants(Modes::UPDATES) {
            let node = node.to_owned();
            let (updates, returned) = (Vec::new(), None);
            self.tell(StreamEvent::Updates { node, updates, returned, cached: false });
        }
    }

    fn tell_questions(&self, record: &TaskRecord, slots: &Slots) {
        if self.shared.wants(Modes::UPDATES) {
            self.tell(StreamEvent::Interrupts(record.questions().to_vec()));
        }
        self.tell_values(slots, Some(record.questions().to_vec()));
    }
}

/// Returns the result of a flow's node.
pub(super) fn returned(plan: &Plan, output: &TaskOutput) -> Option<Json> {
    if !plan.is_single() {
        return None;
    }
    let (index, write) = output.writes.iter().find(|(index, _)| *index == ChannelIdx(0))?;
    plan.write_json(*index, write).ok().map(|(json, _)| json)
}

impl Cycle {
    /// Tells that the tasks start that have not finished before.
    pub(super) fn tell_start(&self) {
        if !self.scope.shared.wants(Modes::TASKS | Modes::DEBUG) {
            return;
        }
        let plan = self.scope.graph.plan();
        for slot in self.open.tasks().iter().filter(|slot| slot.task.node != NodeIdx::START) {
            let triggers = match slot.task.path {
                Path::Pull => plan.triggers_of(slot.task.node),
                _ => vec!["__pregel_push"],
            };
            let single = vec![weftwork_engine::plan::START_NAME];
            let triggers = if plan.is_single() { single } else { triggers };
            let started = TaskStarted {
                id: slot.id(&self.scope.place.ns, &self.scope.graph),
                name: slot.name(&self.scope.graph).to_string(),
                input: self.input_json(slot),
                triggers: triggers.into_iter().map(str::to_owned).collect(),
                call: false,
            };
            self.scope.tell_task(self.position.step(), StreamEvent::TaskStarted(started));
        }
    }

    /// Returns the input of a task as JSON.
    pub(super) fn input_json(&self, slot: &Slot) -> Json {
        match &slot.task.arg {
            Some(arg) => arg.json.clone(),
            None => read_json(self.scope.graph.plan(), self.machine.slots(), slot.task.node),
        }
    }

    /// Tells the checkpoint that the next superstep starts from.
    pub(super) fn tell_checkpoint(&self) {
        let keeps = self.scope.keep.saver.is_some();
        if !keeps || !self.scope.shared.wants(Modes::CHECKPOINTS | Modes::DEBUG) {
            return;
        }
        let graph = &self.scope.graph;
        let ns = &self.scope.place.ns;
        let tasks = self.open.tasks().iter().map(|slot| {
            let within =
                graph.node(slot.task.node).is_some_and(|n| n.options.kept_graph().is_some());
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
