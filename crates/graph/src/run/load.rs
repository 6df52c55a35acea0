//! Rebuilding a thread's state from the store.

use super::Run;
use crate::error::RuntimeError;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_engine::record::{self, TaskRecord};
use weftwork_engine::{Machine, TaskOutput};
use weftwork_types::interrupt::{Answer, Interrupt};
use weftwork_types::{CheckpointId, InterruptId, TaskId};

/// A task that finished in an open superstep, and whether its error handler did it.
pub(super) type Finished = (TaskOutput, bool);

/// A thread as the store has it.
pub(super) struct Loaded {
    pub(super) machine: Machine,
    pub(super) pending: BTreeMap<TaskId, Finished>,
    pub(super) answers: BTreeMap<InterruptId, Answer>,
    pub(super) waiting: BTreeMap<TaskId, Vec<Interrupt>>,
    /// Whether a process before this one already applied the run's input.
    pub(super) begun: bool,
    /// Whether the run starts from an older checkpoint than the thread's newest.
    pub(super) branches: bool,
    /// The thread's newest checkpoint, on whatever branch.
    pub(super) newest: Option<CheckpointId>,
}

impl Run {
    pub(super) async fn load(&self) -> Result<Loaded, RuntimeError> {
        let (store, at) = (&self.host.store, &self.claim.at);
        let mut machine = Machine::new(Arc::clone(self.graph.plan()));
        let mut pending = BTreeMap::new();
        let begun = !store.events(&self.who, at, 0, 1).await?.is_empty();
        // What a process before this one committed for the run is at the head.
        let from = self.row.new.options.at.filter(|_| !begun);
        let newest = store.thread(&self.who, &at.thread).await?.head;
        let head = match from {
            Some(id) => Some(store.lineage(&self.who, &at.thread, id).await?),
            None => store.head(&self.who, &at.thread).await?,
        };
        if let Some(head) = head {
            for row in head.steps {
                let step = record::read(row.step, &row.body)?;
                machine.restore(row.id, row.step, step)?;
            }
            for row in head.pending.iter().filter(|row| Some(row.of) == machine.head()) {
                let task: TaskRecord = record::read(machine.step() + 1, &row.body)?;
                let output = machine.plan().task_output(task.left)?;
                pending.insert(row.task, (output, task.handled));
            }
        }
        let mut answers = BTreeMap::new();
        let mut waiting: BTreeMap<TaskId, Vec<Interrupt>> = BTreeMap::new();
        for row in store.interrupts(&self.who, &at.thread).await? {
            match row.answer {
                Some(answer) => {
                    answers.insert(row.interrupt.id, answer);
                }
                None if !row.closed => {
                    waiting.entry(row.interrupt.task).or_default().push(row.interrupt);
                }
                None => {}
            }
        }
        let branches = from.is_some() && from != newest;
        Ok(Loaded { machine, pending, answers, waiting, begun, branches, newest })
    }
}
