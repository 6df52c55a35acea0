//! Looking at threads: a state at a checkpoint, and how it came about.

use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork_engine::record::{self, Left, StepRecord, TaskRecord};
use weftwork_engine::{Machine, Task};
use weftwork_store::{Head, InterruptRow, Source, StepRow, Store};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::{CheckpointId, Principal, TaskId, ThreadId};

/// A thread at one of its checkpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadState {
    /// The state, as an object of channel values; channels without a value are left out.
    pub values: serde_json::Value,
    /// The nodes that are due, in task order; one that is sent to several times stands as often.
    pub next: Vec<String>,
    /// The checkpoint; `None` for a thread on which nothing ran.
    pub checkpoint: Option<CheckpointId>,
    /// The checkpoint before it.
    pub parent: Option<CheckpointId>,
    /// The number of the superstep that made it.
    pub step: i64,
    /// What made it.
    pub source: Option<Source>,
    /// The tasks that were due, and what became of them.
    pub tasks: Vec<TaskState>,
}

/// A task that was due at a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskState {
    /// Its id.
    pub id: TaskId,
    /// Its node.
    pub node: String,
    /// What it left behind, once it finished.
    pub left: Option<Left>,
    /// The questions it asked, in order, answered ones included.
    pub interrupts: Vec<Interrupt>,
}

/// Reads one thread with the graph that runs on it.
pub(crate) struct Reader<'a> {
    pub(crate) store: &'a Arc<dyn Store>,
    pub(crate) graph: &'a CompiledGraph,
    pub(crate) who: &'a Principal,
    pub(crate) thread: &'a ThreadId,
}

impl Reader<'_> {
    /// The thread as it stands: finished tasks of an open superstep have left their writes, and
    /// only the others are due.
    pub(crate) async fn newest(&self) -> Result<ThreadState, RuntimeError> {
        let Some(head) = self.store.head(self.who, self.thread).await? else {
            return Ok(self.empty());
        };
        let machine = self.fold(&head)?;
        let mut state = self.state(&machine, head.steps.last())?;
        let mut finished = BTreeMap::new();
        for row in &head.pending {
            let task: TaskRecord = record::read(machine.step() + 1, &row.body)?;
            finished.insert(row.task, task.left);
        }
        add_interrupts(&mut state, &self.store.interrupts(self.who, self.thread).await?);
        let mut ahead = machine;
        let mut done = Vec::new();
        for task in ahead.tasks() {
            if let Some(left) = finished.remove(&task.id) {
                done.push((task, ahead.plan().task_output(left)?));
            }
        }
        let ids: BTreeSet<TaskId> = done.iter().map(|(task, _)| task.id).collect();
        let open = state.tasks.iter().filter(|task| !ids.contains(&task.id));
        state.next = open.map(|task| task.node.clone()).collect();
        for task in &mut state.tasks {
            let output = done.iter().find(|(of, _)| of.id == task.id);
            if let Some((_, output)) = output {
                task.left = Some(ahead.plan().task_record(&task.node, output)?.left);
            }
        }
        if !done.is_empty() {
            ahead.close(done)?;
            state.values = ahead.plan().to_json(ahead.slots())?;
        }
        Ok(state)
    }

    /// One checkpoint as it was when its tasks were due, and what became of them.
    pub(crate) async fn at(&self, id: CheckpointId) -> Result<ThreadState, RuntimeError> {
        let all = self.all().await?;
        let found = all.into_iter().find(|state| state.checkpoint == Some(id));
        found.ok_or_else(|| weftwork_store::rule::no_checkpoint(id).into())
    }

    /// All checkpoints on all branches, newest first.
    pub(crate) async fn all(&self) -> Result<Vec<ThreadState>, RuntimeError> {
        let rows = self.store.checkpoints(self.who, self.thread, None, usize::MAX).await?;
        let mut machines: BTreeMap<CheckpointId, Machine> = BTreeMap::new();
        let mut left: BTreeMap<CheckpointId, Vec<Left>> = BTreeMap::new();
        let mut states = Vec::with_capacity(rows.len());
        for row in rows.iter().rev() {
            let parent = row.parent.and_then(|parent| machines.get(&parent).cloned());
            let mut machine = parent.unwrap_or_else(|| Machine::new(Arc::clone(self.graph.plan())));
            let step: StepRecord = record::read(row.step, &row.body)?;
            if let (Source::Loop, Some(parent)) = (row.source, row.parent) {
                left.insert(parent, step.tasks.iter().map(|task| task.left.clone()).collect());
            }
            machine.restore(row.id, row.step, step)?;
            states.push(self.state(&machine, Some(row))?);
            machines.insert(row.id, machine);
        }
        let questions = self.store.interrupts(self.who, self.thread).await?;
        for state in &mut states {
            let done = state.checkpoint.and_then(|id| left.remove(&id)).unwrap_or_default();
            for (task, left) in state.tasks.iter_mut().zip(done) {
                task.left = Some(left);
            }
            add_interrupts(state, &questions);
        }
        states.reverse();
        Ok(states)
    }

    fn empty(&self) -> ThreadState {
        ThreadState {
            values: serde_json::json!({}),
            next: Vec::new(),
            checkpoint: None,
            parent: None,
            step: -1,
            source: None,
            tasks: Vec::new(),
        }
    }

    fn fold(&self, head: &Head) -> Result<Machine, RuntimeError> {
        let mut machine = Machine::new(Arc::clone(self.graph.plan()));
        for row in &head.steps {
            machine.restore(row.id, row.step, record::read(row.step, &row.body)?)?;
        }
        Ok(machine)
    }

    fn state(&self, machine: &Machine, row: Option<&StepRow>) -> Result<ThreadState, RuntimeError> {
        let plan = machine.plan();
        let name = |task: &Task| plan.node_name(task.node).to_owned();
        let tasks: Vec<_> = machine
            .tasks()
            .iter()
            .map(|task| TaskState {
                id: task.id,
                node: name(task),
                left: None,
                interrupts: Vec::new(),
            })
            .collect();
        Ok(ThreadState {
            values: plan.to_json(machine.slots())?,
            next: tasks.iter().map(|task| task.node.clone()).collect(),
            checkpoint: machine.head(),
            parent: row.and_then(|row| row.parent),
            step: machine.step(),
            source: row.map(|row| row.source),
            tasks,
        })
    }
}

fn add_interrupts(state: &mut ThreadState, rows: &[InterruptRow]) {
    for task in &mut state.tasks {
        let asked = rows.iter().filter(|row| row.interrupt.task == task.id);
        task.interrupts = asked.map(|row| row.interrupt.clone()).collect();
    }
}
