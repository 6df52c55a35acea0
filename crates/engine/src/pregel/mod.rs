//! The superstep machine: a thread's state over a plan.

mod ahead;
mod apply;
mod control;

pub use ahead::Ahead;
pub use apply::Done;
pub(crate) use control::{Control, Indices, Trigger, Updated};
pub use control::{Sent, StartInput};

use crate::error::{EngineError, THE_INPUT};
use crate::ids::cut;
use crate::plan::{ChannelIdx, NodeIdx, Plan};
use crate::task::{Arg, TaskOutput, Writes};
use crate::value::{Slots, Write};
use std::sync::Arc;

/// A thread's state, and the nodes and sends that are due.
///
/// A superstep: [`due`](Self::due) returns the tasks, the caller executes them and
/// [`apply`](Self::apply)s their outputs. A clone is a checkpoint in memory; it shares the values.
///
/// **Invariant:** after an error of `apply` the machine is invalid; continue from the last
/// checkpoint.
#[derive(Debug, Clone)]
pub struct Machine {
    plan: Arc<Plan>,
    slots: Slots,
    control: Control,
}

/// A single execution of one node in one superstep.
#[derive(Debug, Clone)]
pub struct Task {
    /// The node.
    pub node: NodeIdx,
    /// The reason it runs.
    pub path: Path,
    /// The argument of its send.
    pub arg: Option<Arc<Arg>>,
}

/// The reason a task runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// An edge, a route or a join led to the node.
    Pull,
    /// A send; the number is its position among the sends of the superstep.
    Push(u32),
    /// The error handler of its node; the number is the position of the failed task if that was a
    /// send.
    Handler(Option<u32>),
    /// An update of the state as the node; the number is the position of the update.
    Outside(u32),
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pull => f.write_str("pull"),
            Self::Push(index) => write!(f, "push:{index}"),
            Self::Handler(None) => f.write_str("handler"),
            Self::Handler(Some(index)) => write!(f, "handler:{index}"),
            Self::Outside(index) => write!(f, "outside:{index}"),
        }
    }
}

impl Machine {
    /// Creates the machine of a new thread.
    #[must_use]
    pub fn new(plan: Arc<Plan>) -> Self {
        let slots = Slots::new(plan.channels.iter().map(|c| c.channel.initial()).collect());
        let control = Control::new(&plan);
        Self { plan, slots, control }
    }

    /// Rebuilds a machine from stored parts.
    pub(crate) fn from_parts(plan: Arc<Plan>, slots: Slots, control: Control) -> Self {
        Self { plan, slots, control }
    }

    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The state between supersteps.
    #[must_use]
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// The tasks of the next superstep in the order in which they start, sends first.
    ///
    /// # Errors
    /// [`EngineError::BrokenInvariant`].
    pub fn due(&self) -> Result<Vec<Task>, EngineError> {
        Ok(self.with_sends(self.control.due(&self.plan)?).collect())
    }

    /// `true` if nothing is due.
    ///
    /// # Errors
    /// [`EngineError::BrokenInvariant`].
    pub fn is_done(&self) -> Result<bool, EngineError> {
        Ok(self.with_sends(self.control.due(&self.plan)?).next().is_none())
    }

    /// Number of pending sends.
    #[must_use]
    pub fn sent(&self) -> usize {
        self.control.sends.len()
    }

    /// Calls `take` with each task of the next superstep.
    ///
    /// # Errors
    /// [`EngineError::BrokenInvariant`].
    pub fn each_due(&self, mut take: impl FnMut(Task)) -> Result<(), EngineError> {
        let nodes = self.control.due(&self.plan)?;
        if self.control.sends.is_empty() && !self.plan.single {
            for node in nodes {
                take(Task { node, path: Path::Pull, arg: None });
            }
        } else {
            self.with_sends(nodes).for_each(take);
        }
        Ok(())
    }

    /// The same tasks, with nodes in the order in which they were added, for the inspection of a
    /// checkpoint.
    ///
    /// # Errors
    /// [`EngineError::BrokenInvariant`].
    pub fn due_in_order(&self) -> Result<Vec<Task>, EngineError> {
        Ok(self.with_sends(self.control.due_in_order(&self.plan)?).collect())
    }

    fn with_sends(&self, nodes: Indices<NodeIdx>) -> impl Iterator<Item = Task> {
        let sends = self.control.sends.iter().zip(0u32..).filter_map(|(sent, index)| {
            let arg = Some(Arc::clone(&sent.arg));
            Some(Task { node: sent.node?, path: Path::Push(index), arg })
        });
        let single = self.plan.single;
        let nodes = nodes.into_iter().map(move |node| if single { NodeIdx(0) } else { node });
        sends.chain(nodes.map(|node| Task { node, path: Path::Pull, arg: None }))
    }

    /// The pending input of the hidden first node.
    #[must_use]
    pub fn start_input(&self) -> Option<&StartInput> {
        self.control.start.as_ref()
    }

    /// `true` if nothing has changed yet.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.control.version == 0
    }

    /// `true` if anything changed since [`pass`](Self::pass).
    #[must_use]
    pub fn changed_since_passed(&self) -> bool {
        self.control.version > self.control.passed
    }

    /// Continues past an interrupt: the changes so far do not stop the run again.
    pub fn pass(&mut self) {
        self.control.passed = self.control.version;
    }

    /// The machine as it is stored: without values that are not stored, in the state and in sends.
    #[must_use]
    pub fn stored(&self) -> Self {
        let mut stored = self.clone();
        for index in &self.plan.untracked {
            stored.slots.set(*index, None);
        }
        if self.plan.has_untracked() {
            let mut sends = stored.control.sends.to_vec();
            for sent in &mut sends {
                let arg = Arc::make_mut(&mut sent.arg);
                if let serde_json::Value::Object(members) = &mut arg.json {
                    let kept = |name: &str| {
                        !self.plan.channel_idx(name).is_some_and(|i| self.plan.is_untracked(i))
                    };
                    members.retain(|name, _| kept(name));
                    arg.typed = None;
                }
            }
            stored.control.sends = sends.into();
        }
        stored
    }

    /// Clears the channels that last one superstep.
    pub fn clear_lapsing(&mut self) {
        for index in &self.plan.lapsing {
            self.slots.set(*index, None);
        }
    }

    /// Moves the machine to another build of its graph. Builds with the same nodes, joins and
    /// channels are equal for a thread.
    ///
    /// # Errors
    /// [`EngineError::OtherBuild`] if they differ.
    pub fn over(mut self, plan: &Arc<Plan>) -> Result<Self, EngineError> {
        if Arc::ptr_eq(&self.plan, plan) {
            return Ok(self);
        }
        let names = |plan: &Plan| -> Vec<String> {
            plan.triggers.iter().map(|trigger| trigger.name.clone()).collect()
        };
        let old = names(&self.plan);
        let new = names(plan);
        let what = if old != new {
            let lost = old.iter().find(|name| !new.contains(name));
            lost.or(new.iter().find(|name| !old.contains(name))).map(|name| format!("`{name}`"))
        } else if self.plan.fingerprint() != plan.fingerprint() {
            Some("a channel".to_owned())
        } else {
            self.plan = Arc::clone(plan);
            return Ok(self);
        };
        Err(EngineError::OtherBuild { what: what.unwrap_or_else(|| "the order".to_owned()) })
    }

    /// Discards the record of updated triggers, so that all nodes are checked again.
    pub fn forget_updated(&mut self) {
        self.control.updated = Updated::Unknown;
    }

    /// The node that ran last, if there is only one.
    #[must_use]
    pub fn last_node(&self) -> Option<NodeIdx> {
        self.control.last_node(&self.plan)
    }

    /// Sets the values of managed channels for superstep `step` of a run that stops before
    /// superstep `stop`.
    pub fn set_managed(&mut self, step: i64, stop: i64) {
        if self.plan.state_keys.len() == self.plan.channels.len() {
            return;
        }
        let plan = Arc::clone(&self.plan);
        for (index, channel) in plan.channels.iter().enumerate() {
            if let Some(managed) = channel.channel.managed() {
                self.slots.set(index, Some(managed.value(step, stop)));
            }
        }
    }

    /// The writes of the hidden first node: the channels of the input that input may write.
    ///
    /// # Errors
    /// [`EngineError`] if the input is not an object, or names an unknown channel that the graph
    /// does not ignore.
    pub fn start_output(&self) -> Result<Arc<TaskOutput>, EngineError> {
        match &self.control.start {
            Some(StartInput::Writes(output)) => Ok(Arc::clone(output)),
            Some(StartInput::Json(json)) => {
                let writes = self.plan.known_writes(THE_INPUT, json)?;
                let (input, other): (Writes, Writes) =
                    writes.into_iter().partition(|(index, _)| self.plan.is_input(*index));
                match other.first().filter(|_| !self.plan.ignores_unknown()) {
                    Some((index, _)) => Err(self.plan.not_input(*index)),
                    None => Ok(Arc::new(TaskOutput { writes: input, ..TaskOutput::default() })),
                }
            }
            None => Ok(Arc::default()),
        }
    }
}

impl Plan {
    /// Resolves the channels of writes by name, in order. Unknown names are an error, or left out
    /// if the graph ignores them.
    ///
    /// # Errors
    /// [`EngineError::UnknownChannel`] for an unknown name.
    pub fn find_named(&self, by: NodeIdx, output: &mut TaskOutput) -> Result<(), EngineError> {
        for (name, write) in std::mem::take(&mut output.named) {
            if let Some(index) = self.known(&name, self.node_name(by))? {
                output.writes.push((index, write));
            }
        }
        Ok(())
    }

    /// `true` if a node has edges or joins.
    #[must_use]
    pub fn has_edges(&self, node: NodeIdx) -> bool {
        match self.nodes.get(node.0) {
            Some(node) => !node.edges.is_empty() || !node.joins.is_empty(),
            None => !self.entry.is_empty(),
        }
    }

    /// Converts a write to JSON; the flag is `true` if it replaces the value.
    ///
    /// # Errors
    /// [`EngineError::BadWrite`] if it cannot be written as JSON.
    pub fn write_json(
        &self,
        index: ChannelIdx,
        write: &Write,
    ) -> Result<(serde_json::Value, bool), EngineError> {
        let channel = self.channels.get(index.0);
        Ok(match write {
            Write::Json(json) => ((**json).clone(), false),
            Write::Overwrite(json) => ((**json).clone(), true),
            Write::Typed(value) => {
                let json = channel.map(|c| c.channel.encode_write(value)).transpose();
                let json = json.map_err(|reason| EngineError::BadWrite {
                    channel: self.channel_name(index).to_owned(),
                    by: "a task".to_owned(),
                    reason,
                })?;
                (json.unwrap_or_default(), false)
            }
        })
    }

    /// Reads a state from the JSON of its channels. A channel that is missing has its initial
    /// value.
    ///
    /// # Errors
    /// [`EngineError::BadValue`] for a value that its channel does not accept.
    pub fn read_state(
        &self,
        values: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<Slots, EngineError> {
        let slots =
            self.channels.iter().map(|one| match values.get(&*one.name) {
                Some(json) => one.channel.decode(json).map(Some).map_err(|reason| {
                    EngineError::BadValue { channel: one.name.to_string(), reason }
                }),
                None => Ok(one.channel.initial()),
            });
        Ok(Slots::new(slots.collect::<Result<_, _>>()?))
    }

    /// The value of a channel as JSON, if it has one.
    #[must_use]
    pub fn value_json(&self, slots: &Slots, index: ChannelIdx) -> Option<serde_json::Value> {
        let (channel, value) = self.channels.get(index.0).zip(slots.get(index.0))?;
        channel.channel.encode(value).ok()
    }

    /// The value of a channel as JSON, by its name, if it has one.
    #[must_use]
    pub fn channel_json(&self, slots: &Slots, name: &str) -> Option<serde_json::Value> {
        self.value_json(slots, self.channel_idx(name)?)
    }

    /// Converts an object of channel values to writes. Unknown names are an error, or left out if
    /// the graph ignores them.
    ///
    /// # Errors
    /// [`EngineError`] if it is not an object, or names an unknown channel.
    pub fn known_writes(&self, by: &str, json: &serde_json::Value) -> Result<Writes, EngineError> {
        let serde_json::Value::Object(members) = json else {
            if json.is_null() {
                return Ok(Writes::new());
            }
            return Err(EngineError::NotAnObject {
                by: by.to_owned(),
                found: cut(&json.to_string()),
            });
        };
        let mut writes = Writes::with_capacity(members.len());
        for (name, json) in members {
            if let Some(index) = self.known(name, by)? {
                writes.push((index, Write::json(json.clone())));
            }
        }
        Ok(writes)
    }

    /// Finds a channel that may be written; `None` if it does not exist or is managed, and the
    /// graph ignores that.
    pub(crate) fn known(&self, name: &str, by: &str) -> Result<Option<ChannelIdx>, EngineError> {
        if !self.ignores_unknown() {
            return self.expect_channel(name, by).map(Some);
        }
        Ok(self.channel_idx(name).filter(|index| self.managed(*index).is_none()))
    }

    fn not_input(&self, index: ChannelIdx) -> EngineError {
        let names = self.channel_names().enumerate();
        let known = names.filter(|(i, _)| self.is_input(ChannelIdx(*i))).map(|(_, name)| name);
        EngineError::NotInput {
            name: self.channel_name(index).to_owned(),
            known: known.collect::<Vec<_>>().join(", "),
        }
    }

    fn managed(&self, index: ChannelIdx) -> Option<crate::channel::Managed> {
        self.channels.get(index.0).and_then(|c| c.channel.managed())
    }
}
