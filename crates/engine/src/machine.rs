//! The superstep machine: a thread's state over a plan.

use crate::error::EngineError;
use crate::fold::Batch;
use crate::ids::{did_you_mean, task_id};
use crate::plan::{ChannelIdx, NodeIdx, Plan};
use crate::record::{StepRecord, StoredChange};
use crate::task::{Arg, Goto, Task, TaskOutput, TaskPath};
use crate::value::{Slots, Value, Write};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork_types::CheckpointId;

/// A thread's state, and what is due next.
///
/// One superstep: [`tasks`](Self::tasks) names the tasks; the host runs them and
/// [`close`](Self::close)s the step with their outputs. An input comes before the first step and
/// shares its checkpoint.
///
/// **Invariant:** after an error of `close` or `input` the machine is void; rebuild it from the
/// store, where nothing of the failed step was written.
#[derive(Debug, Clone)]
pub struct Machine {
    plan: Arc<Plan>,
    slots: Slots,
    due: Due,
    step: i64,
    head: Option<CheckpointId>,
}

/// What is due in the next superstep.
#[derive(Debug, Clone, Default)]
pub struct Due {
    /// Nodes that edges, routes and joins lead to, by name.
    pub pull: Vec<NodeIdx>,
    /// Tasks that were sent.
    pub sends: Vec<(NodeIdx, Arg)>,
    /// The sources each join has seen, in the plan's order of joins.
    pub joins: Vec<BTreeSet<NodeIdx>>,
}

/// A change of one channel.
#[derive(Debug, Clone)]
pub enum Change {
    /// Its new value.
    Value(Option<Value>),
    /// The writes that were applied.
    Writes(Vec<Write>),
}

/// A closed superstep.
#[derive(Debug, Clone)]
pub struct Closed {
    /// Its number.
    pub step: i64,
    /// What changed.
    pub changes: Vec<(ChannelIdx, Change)>,
    /// What is due next.
    pub due: Due,
}

impl Machine {
    /// A fresh thread.
    #[must_use]
    pub fn new(plan: Arc<Plan>) -> Self {
        let slots = Slots::new(plan.channels.iter().map(|c| c.channel.initial()).collect());
        let due = Due { joins: vec![BTreeSet::new(); plan.joins.len()], ..Due::default() };
        Self { plan, slots, due, step: -1, head: None }
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

    /// The number of the last closed superstep; -1 before the first input.
    #[must_use]
    pub fn step(&self) -> i64 {
        self.step
    }

    /// The checkpoint the next superstep starts from.
    #[must_use]
    pub fn head(&self) -> Option<CheckpointId> {
        self.head
    }

    /// Whether nothing is due.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.due.pull.is_empty() && self.due.sends.is_empty()
    }

    /// Names the checkpoint that holds the last closed superstep.
    pub fn set_head(&mut self, head: CheckpointId) {
        self.head = Some(head);
    }

    /// Takes new input: what was due before is dropped, the writes are applied, and what follows
    /// the start is due.
    ///
    /// # Errors
    /// [`EngineError`] when a write cannot be applied or a route leads nowhere.
    pub fn input(
        &mut self,
        writes: Vec<(ChannelIdx, Write)>,
        routes: Vec<Goto>,
    ) -> Result<Closed, EngineError> {
        self.due = Due { joins: vec![BTreeSet::new(); self.plan.joins.len()], ..Due::default() };
        let entry = self.plan.entry.clone();
        let output = TaskOutput { writes, goto: routes };
        self.advance(&[("the input", entry.as_slice(), None, &output)])
    }

    /// The tasks of the next superstep in the order in which their writes apply.
    #[must_use]
    pub fn tasks(&self) -> Vec<Task> {
        let checkpoint = self.head.unwrap_or(CheckpointId(0));
        let make = |node: NodeIdx, path: TaskPath, arg: Option<Arg>| Task {
            id: task_id(checkpoint, self.step + 1, self.plan.node_name(node), &path.to_string()),
            node,
            path,
            arg,
        };
        let pulls = self.due.pull.iter().map(|node| make(*node, TaskPath::Pull, None));
        let sends = self
            .due
            .sends
            .iter()
            .zip(0u32..)
            .map(|((node, arg), index)| make(*node, TaskPath::Push(index), Some(arg.clone())));
        pulls.chain(sends).collect()
    }

    /// The state as a router of a finished task sees it: the state at the start of the step with
    /// that task's own writes.
    ///
    /// # Errors
    /// [`EngineError`] when a write cannot be applied.
    pub fn preview(&self, by: &str, output: &TaskOutput) -> Result<Slots, EngineError> {
        let mut slots = self.slots.clone();
        for (index, batch) in batches(std::iter::once(output)) {
            self.plan.fold(&mut slots, index, &batch, &|_| by.to_owned())?;
        }
        Ok(slots)
    }

    /// Closes the superstep: applies the outputs of all its tasks, which are given in the order of
    /// [`tasks`](Self::tasks), and decides what is due next.
    ///
    /// # Errors
    /// [`EngineError`] when a write cannot be applied or a route leads nowhere.
    pub fn close(&mut self, done: &[(Task, TaskOutput)]) -> Result<Closed, EngineError> {
        let plan = Arc::clone(&self.plan);
        self.due.pull.clear();
        self.due.sends.clear();
        let outputs: Vec<_> = done
            .iter()
            .filter_map(|(task, output)| {
                let node = plan.nodes.get(task.node.0)?;
                Some((node.name.as_str(), node.edges.as_slice(), Some(task.node), output))
            })
            .collect();
        self.advance(&outputs)
    }

    fn advance(
        &mut self,
        outputs: &[(&str, &[NodeIdx], Option<NodeIdx>, &TaskOutput)],
    ) -> Result<Closed, EngineError> {
        let plan = Arc::clone(&self.plan);
        let mut changes = Vec::new();
        let name_of =
            |task: usize| outputs.get(task).map_or_else(String::new, |(n, ..)| (*n).to_owned());
        for (index, batch) in batches(outputs.iter().map(|(.., output)| *output)) {
            let value = plan.fold(&mut self.slots, index, &batch, &name_of)?;
            let change = if plan.keeps_writes(index) {
                Change::Writes(batch.writes)
            } else {
                Change::Value(value)
            };
            changes.push((ChannelIdx(index), change));
        }
        let mut pull = BTreeSet::new();
        for (name, edges, node, output) in outputs {
            pull.extend(edges.iter().copied());
            for goto in &output.goto {
                self.follow(name, goto, &mut pull)?;
            }
            if let Some(node) = node {
                self.arrive(*node, &mut pull);
            }
        }
        self.due.pull = pull.into_iter().collect();
        self.due.pull.sort_by(|a, b| plan.node_name(*a).cmp(plan.node_name(*b)));
        self.step += 1;
        Ok(Closed { step: self.step, changes, due: self.due.clone() })
    }

    fn follow(
        &mut self,
        from: &str,
        goto: &Goto,
        pull: &mut BTreeSet<NodeIdx>,
    ) -> Result<(), EngineError> {
        let (name, arg) = match goto {
            Goto::End => return Ok(()),
            Goto::Node(name) => (name, None),
            Goto::Send { node, arg } => (node, Some(arg)),
        };
        let Some(target) = self.plan.node_idx(name) else {
            let known = self.plan.by_name.keys().map(String::as_str);
            return Err(EngineError::UnknownTarget {
                from: from.to_owned(),
                to: name.clone(),
                did_you_mean: did_you_mean(name, known),
            });
        };
        match arg {
            None => {
                pull.insert(target);
            }
            Some(arg) => self.due.sends.push((target, arg.clone())),
        }
        Ok(())
    }

    /// Tells the joins of a node that it has finished; a full join makes its target due.
    fn arrive(&mut self, node: NodeIdx, pull: &mut BTreeSet<NodeIdx>) {
        let Some(plan) = self.plan.nodes.get(node.0) else { return };
        for index in &plan.joins {
            let (Some(join), Some(seen)) =
                (self.plan.joins.get(*index), self.due.joins.get_mut(*index))
            else {
                continue;
            };
            seen.insert(node);
            if join.sources.iter().all(|source| seen.contains(source)) {
                seen.clear();
                pull.insert(join.target);
            }
        }
    }

    /// Applies a stored step when a thread is loaded.
    ///
    /// # Errors
    /// [`EngineError`] when the record does not fit the graph.
    pub fn restore(
        &mut self,
        id: CheckpointId,
        step: i64,
        record: StepRecord,
    ) -> Result<(), EngineError> {
        for (name, change) in record.changes {
            let index = self.plan.expect_channel(&name)?.0;
            match change {
                StoredChange::Set(json) => {
                    let value = self.decode(step, index, &name, &json)?;
                    self.slots.set(index, value);
                }
                StoredChange::Writes(writes) => {
                    let by = vec![0; writes.len()];
                    let writes = writes.into_iter().map(Write::from).collect();
                    let batch = Batch { writes, by };
                    let named = |_| format!("stored step {step}");
                    self.plan.fold(&mut self.slots, index, &batch, &named)?;
                }
            }
        }
        let lost = |node: &str| EngineError::LostNode { node: node.to_owned() };
        let find = |node: &String| self.plan.node_idx(node).ok_or_else(|| lost(node));
        let pull = record.next.iter().map(find).collect::<Result<_, _>>()?;
        let sends = record
            .sends
            .into_iter()
            .map(|send| Ok((find(&send.node)?, Arg { typed: None, json: send.arg })))
            .collect::<Result<_, EngineError>>()?;
        let mut joins = vec![BTreeSet::new(); self.plan.joins.len()];
        for (join, seen) in self.plan.joins.iter().zip(&mut joins) {
            for name in record.joins.get(&join.name).into_iter().flatten() {
                seen.insert(find(name)?);
            }
        }
        self.due = Due { pull, sends, joins };
        self.step = step;
        self.head = Some(id);
        Ok(())
    }

    fn decode(
        &self,
        step: i64,
        index: usize,
        name: &str,
        json: &serde_json::Value,
    ) -> Result<Option<Value>, EngineError> {
        let Some(channel) = self.plan.channels.get(index) else { return Ok(None) };
        channel.channel.decode(json).map(Some).map_err(|reason| EngineError::BadRecord {
            step,
            reason: format!("channel `{name}`: {reason}"),
        })
    }
}

/// The writes of a superstep by channel, in task order.
fn batches<'a>(outputs: impl Iterator<Item = &'a TaskOutput>) -> BTreeMap<usize, Batch> {
    let mut batches: BTreeMap<usize, Batch> = BTreeMap::new();
    for (task, output) in outputs.enumerate() {
        for (channel, write) in &output.writes {
            let batch = batches.entry(channel.0).or_default();
            batch.writes.push(write.clone());
            batch.by.push(task);
        }
    }
    batches
}

impl Plan {
    /// The channel of a name, or an error that suggests one.
    pub(crate) fn expect_channel(&self, name: &str) -> Result<ChannelIdx, EngineError> {
        self.channel_idx(name).ok_or_else(|| EngineError::UnknownChannel {
            name: name.to_owned(),
            did_you_mean: did_you_mean(name, self.channel_names()),
            known: self.channel_names().collect::<Vec<_>>().join(", "),
        })
    }

    /// Input from outside as writes: an object of channel values.
    ///
    /// # Errors
    /// [`EngineError::UnknownChannel`] for a name the graph does not have,
    /// [`EngineError::BadWrite`] when the input is not an object.
    pub fn input_writes(
        &self,
        input: serde_json::Value,
    ) -> Result<Vec<(ChannelIdx, Write)>, EngineError> {
        match input {
            serde_json::Value::Object(map) => map
                .into_iter()
                .map(|(name, json)| Ok((self.expect_channel(&name)?, Write::Json(json))))
                .collect(),
            serde_json::Value::Null => Ok(Vec::new()),
            other => Err(EngineError::BadWrite {
                channel: self.channel_names().collect::<Vec<_>>().join(", "),
                by: "the input".to_owned(),
                reason: format!("the input must be an object of channel values, found {other}"),
            }),
        }
    }
}
