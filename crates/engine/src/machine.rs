//! The superstep machine: a thread's state over a plan.

use crate::board::{Board, Moves};
use crate::error::{EngineError, THE_INPUT};
use crate::fold::Batch;
use crate::ids::{cut, did_you_mean, task_id};
use crate::plan::{ChannelIdx, NodeIdx, Plan};
use crate::task::{Goto, Task, TaskOutput, TaskPath};
use crate::value::{Slots, Value, Write};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork_types::CheckpointId;

/// A thread's state, and what is due next.
///
/// One superstep: [`tasks`](Self::tasks) names the tasks; the host runs them and
/// [`close`](Self::close)s the step with their outputs. An input comes before the first step and
/// shares its checkpoint. Cloning keeps a checkpoint in memory: values are shared.
///
/// **Invariant:** after an error of `close` or `input` the machine is void; rebuild it from the
/// store, where nothing of the failed step was written.
#[derive(Debug, Clone)]
pub struct Machine {
    pub(crate) plan: Arc<Plan>,
    pub(crate) slots: Slots,
    pub(crate) board: Board,
    pub(crate) step: i64,
    pub(crate) head: Option<CheckpointId>,
    /// The checkpoint with which this branch of the thread began; none on the first branch.
    pub(crate) branch: Option<CheckpointId>,
}

/// A closed superstep.
#[derive(Debug, Clone)]
pub struct Closed {
    /// Its number.
    pub step: i64,
    /// The outputs in the order in which they were applied; without a task: the input.
    pub outputs: Vec<(Option<Task>, TaskOutput)>,
    /// The channels whose values changed, and their new values.
    pub changed: Vec<(ChannelIdx, Option<Value>)>,
    pub(crate) board: Board,
}

impl Machine {
    /// A fresh thread.
    #[must_use]
    pub fn new(plan: Arc<Plan>) -> Self {
        let slots = Slots::new(plan.channels.iter().map(|c| c.channel.initial()).collect());
        let board = Board::new(&plan);
        Self { plan, slots, board, step: -1, head: None, branch: None }
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
        self.board.sends().is_empty() && self.board.due(&self.plan).is_empty()
    }

    /// Names the checkpoint that holds the last closed superstep.
    pub fn set_head(&mut self, head: CheckpointId) {
        self.head = Some(head);
    }

    /// The checkpoint with which this branch of the thread began; none on the first branch.
    #[must_use]
    pub fn branch(&self) -> Option<CheckpointId> {
        self.branch
    }

    /// Says that the next checkpoint, of this id, begins a branch of its own.
    pub fn begin_branch(&mut self, id: CheckpointId) {
        self.branch = Some(id);
    }

    /// The one node that ran last, when there is only one.
    #[must_use]
    pub fn ran_last(&self) -> Option<NodeIdx> {
        match self.board.last() {
            [node] => Some(*node),
            [] if self.plan.nodes.len() == 1 => Some(NodeIdx(0)),
            _ => None,
        }
    }

    /// Takes new input: what was due before is dropped, the writes are applied, and what follows
    /// the start is due. Joins keep the sources that already arrived.
    ///
    /// # Errors
    /// [`EngineError`] when a write cannot be applied or a route leads nowhere.
    pub fn input(
        &mut self,
        writes: Vec<(ChannelIdx, Write)>,
        routes: Vec<Goto>,
    ) -> Result<Closed, EngineError> {
        let dropped = self.tasks();
        if !dropped.is_empty() {
            let consumed = dropped.into_iter().flat_map(|task| task.triggers).collect();
            self.lapse(&BTreeSet::new());
            let plan = Arc::clone(&self.plan);
            self.board.advance(&plan, Moves { consumed, bump: true, ..Moves::default() });
        }
        let output = TaskOutput { writes, goto: routes, named: Vec::new() };
        self.advance(vec![(None, output)])
    }

    /// Applies a change from outside as if a node had made it: what follows the node is due
    /// afterwards instead of what was due before. Joins keep the sources that already arrived.
    ///
    /// # Errors
    /// [`EngineError`] when a write cannot be applied or a route leads nowhere.
    pub fn update(&mut self, node: NodeIdx, output: TaskOutput) -> Result<Closed, EngineError> {
        let checkpoint = self.head.unwrap_or(CheckpointId(0));
        let path = TaskPath::Update;
        let name = self.plan.node_name(node);
        let id = task_id(checkpoint, self.step + 1, name, &path.to_string());
        let task = Task { id, node, path, triggers: Vec::new(), arg: None };
        self.advance(vec![(Some(task), output)])
    }

    /// A step that changes nothing: the first checkpoint of a branch on which what is due is done
    /// again.
    pub fn fork(&mut self) -> Closed {
        self.step += 1;
        let board = self.board.clone();
        Closed { step: self.step, outputs: Vec::new(), changed: Vec::new(), board }
    }

    /// The tasks of the next superstep in the order in which their writes apply.
    #[must_use]
    pub fn tasks(&self) -> Vec<Task> {
        let checkpoint = self.head.unwrap_or(CheckpointId(0));
        let id = |node: NodeIdx, path: TaskPath| {
            task_id(checkpoint, self.step + 1, self.plan.node_name(node), &path.to_string())
        };
        let pulls = self.board.due(&self.plan).into_iter().map(|(node, triggers)| Task {
            id: id(node, TaskPath::Pull),
            node,
            path: TaskPath::Pull,
            triggers,
            arg: None,
        });
        let sends = self.board.sends().iter().zip(0u32..).map(|((node, arg), index)| Task {
            id: id(*node, TaskPath::Push(index)),
            node: *node,
            path: TaskPath::Push(index),
            triggers: Vec::new(),
            arg: Some(arg.clone()),
        });
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
    pub fn close(&mut self, done: Vec<(Task, TaskOutput)>) -> Result<Closed, EngineError> {
        self.advance(done.into_iter().map(|(task, output)| (Some(task), output)).collect())
    }

    fn advance(&mut self, outputs: Vec<(Option<Task>, TaskOutput)>) -> Result<Closed, EngineError> {
        let plan = Arc::clone(&self.plan);
        let mut changed = Vec::new();
        let name_of = |index: usize| match outputs.get(index) {
            Some((Some(task), _)) => plan.node_name(task.node).to_owned(),
            _ => THE_INPUT.to_owned(),
        };
        let batches = batches(outputs.iter().map(|(_, output)| output));
        for (index, batch) in &batches {
            let value = plan.fold(&mut self.slots, *index, batch, &name_of)?;
            changed.push((ChannelIdx(*index), value));
        }
        self.lapse(&batches.keys().copied().collect());
        let moves = self.moves(&outputs, &name_of)?;
        self.board.advance(&plan, moves);
        self.step += 1;
        Ok(Closed { step: self.step, outputs, changed, board: self.board.clone() })
    }

    /// Clears the channels that last one superstep and were not written in this one.
    fn lapse(&mut self, written: &BTreeSet<usize>) {
        for index in &self.plan.lapsing {
            if !written.contains(index) {
                self.slots.set(*index, None);
            }
        }
    }

    fn moves(
        &self,
        outputs: &[(Option<Task>, TaskOutput)],
        name_of: &dyn Fn(usize) -> String,
    ) -> Result<Moves, EngineError> {
        let mut moves = Moves { bump: !outputs.is_empty(), ..Moves::default() };
        for (index, (task, output)) in outputs.iter().enumerate() {
            match task {
                Some(task) => {
                    moves.outside |= task.path == TaskPath::Update;
                    moves.consumed.extend(task.triggers.iter().copied());
                    if task.path == TaskPath::Handled {
                        self.follow(&output.goto, &mut moves, || name_of(index))?;
                        continue;
                    }
                    let edges = self.plan.nodes.get(task.node.0).map(|node| node.edges.iter());
                    moves.branches.extend(edges.into_iter().flatten());
                    moves.arrivals.push(task.node);
                }
                None => moves.branches.extend(&self.plan.entry),
            }
            self.follow(&output.goto, &mut moves, || name_of(index))?;
        }
        Ok(moves)
    }

    fn follow(
        &self,
        gotos: &[Goto],
        moves: &mut Moves,
        from: impl Fn() -> String,
    ) -> Result<(), EngineError> {
        for goto in gotos {
            match goto {
                Goto::End => {}
                Goto::Node(name) => moves.branches.push(self.target(name, &from)?),
                Goto::Send { node, arg } => {
                    moves.sends.push((self.target(node, &from)?, arg.clone()));
                }
            }
        }
        Ok(())
    }

    fn target(&self, name: &str, from: impl Fn() -> String) -> Result<NodeIdx, EngineError> {
        self.plan.node_idx(name).ok_or_else(|| EngineError::UnknownTarget {
            from: from(),
            to: name.to_owned(),
            known: self.plan.node_names(),
            did_you_mean: did_you_mean(name, self.plan.by_name.keys().map(String::as_str)),
        })
    }
}

/// The writes of a superstep by channel, in task order.
pub(crate) fn batches<'a>(outputs: impl Iterator<Item = &'a TaskOutput>) -> BTreeMap<usize, Batch> {
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
    pub(crate) fn expect_channel(&self, name: &str, by: &str) -> Result<ChannelIdx, EngineError> {
        self.channel_idx(name).ok_or_else(|| EngineError::UnknownChannel {
            by: by.to_owned(),
            name: name.to_owned(),
            did_you_mean: did_you_mean(name, self.channel_names()),
            known: self.channel_names().collect::<Vec<_>>().join(", "),
        })
    }

    pub(crate) fn node_names(&self) -> String {
        self.nodes().iter().map(|node| &*node.name).collect::<Vec<_>>().join(", ")
    }

    /// Finds the channels of writes by name, for the node that wrote them.
    ///
    /// # Errors
    /// [`EngineError::UnknownChannel`] for a name the graph does not have.
    pub fn resolve(&self, output: &mut TaskOutput, by: &str) -> Result<(), EngineError> {
        for (name, write) in std::mem::take(&mut output.named) {
            output.writes.push((self.expect_channel(&name, by)?, write));
        }
        Ok(())
    }

    /// Input from outside as writes: an object of channel values.
    ///
    /// # Errors
    /// [`EngineError::UnknownChannel`] for a name the graph does not have,
    /// [`EngineError::NotAnObject`] when the input is none.
    pub fn input_writes(
        &self,
        input: serde_json::Value,
    ) -> Result<Vec<(ChannelIdx, Write)>, EngineError> {
        match input {
            serde_json::Value::Object(map) => map
                .into_iter()
                .map(|(name, json)| Ok((self.expect_channel(&name, THE_INPUT)?, Write::Json(json))))
                .collect(),
            serde_json::Value::Null => Ok(Vec::new()),
            other => Err(EngineError::NotAnObject {
                by: THE_INPUT.to_owned(),
                found: cut(&other.to_string()),
            }),
        }
    }
}
