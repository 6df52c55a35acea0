//! Tasks around a subgraph that was changed from outside.

use super::StateQuery;
use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use crate::run_loop::checkpointer::{
    CheckpointAddress, Checkpointer, StoredCheckpoint, TaskDetails, TaskKey, TaskPause, TaskRecord,
    TaskRecords,
};
use crate::run_loop::namespace::{task_ns, without_tasks};
use crate::run_loop::task::key_of;
use crate::semantics::SubgraphState;
use std::collections::BTreeSet;
use std::sync::Arc;
use weftwork_engine::pregel::Task;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::{CheckpointId, InterruptId};

/// The newest checkpoint of a graph, with the tasks that are due there.
struct Newest {
    id: CheckpointId,
    step: i64,
    due: Vec<Task>,
    records: TaskRecords,
}

impl Newest {
    async fn load(
        graph: &CompiledGraph,
        checkpointer: &dyn Checkpointer,
        place: &CheckpointAddress,
    ) -> Result<Option<Self>, RuntimeError> {
        let plan = graph.plan();
        let Some(saved) = checkpointer.load(place, plan, None).await? else { return Ok(None) };
        let StoredCheckpoint { checkpoint, tasks: records, .. } = saved;
        let step = checkpoint.metadata.step + 1;
        let due = checkpoint.machine.over(plan)?.due_in_order()?;
        Ok(Some(Self { id: checkpoint.id, step, due, records }))
    }
}

/// Open questions of a subgraph before a change of it.
pub(super) struct AskedWithin {
    asked: Vec<(TaskKey, Vec<InterruptId>)>,
}

impl AskedWithin {
    /// Reads the questions at the newest checkpoint of a subgraph.
    pub(super) async fn read(
        graph: &CompiledGraph,
        checkpointer: &dyn Checkpointer,
        place: &CheckpointAddress,
    ) -> Result<Self, RuntimeError> {
        let newest = Newest::load(graph, checkpointer, place).await?;
        let records = newest.map(|newest| newest.records).unwrap_or_default();
        // A task of a node has the questions of the tasks that it called on its record too.
        let of_nodes = records.into_iter().filter(|(key, _)| matches!(key, TaskKey::Node { .. }));
        let asked = of_nodes.map(|(key, record)| {
            let ids = record.questions().iter().map(|question| question.id).collect();
            (key, ids)
        });
        Ok(Self { asked: asked.collect() })
    }

    /// Returns the questions whose tasks are not due any more after the change.
    pub(super) async fn closed_by_change(
        self,
        graph: &CompiledGraph,
        checkpointer: &dyn Checkpointer,
        place: &CheckpointAddress,
    ) -> Result<BTreeSet<InterruptId>, RuntimeError> {
        let newest = Newest::load(graph, checkpointer, place).await?;
        let due = newest.map(|newest| newest.due).unwrap_or_default();
        let due: Vec<_> = due.iter().map(|task| key_of(graph, task)).collect();
        let over = self.asked.into_iter().filter(|(key, _)| !due.contains(key));
        Ok(over.flat_map(|(_, ids)| ids).collect())
    }
}

impl CompiledGraph {
    /// Makes the tasks around a changed subgraph due, from the outermost graph on. Their questions
    /// stay open, except those that the change has closed.
    pub(super) async fn wake_around(
        &self,
        checkpointer: &Arc<dyn Checkpointer>,
        at: &StateQuery,
        closed: &BTreeSet<InterruptId>,
    ) -> Result<(), RuntimeError> {
        if !self.settings().waits_for_answers {
            // All tasks that wait run again.
            return Ok(());
        }
        let mut graph = self.clone();
        let mut place = CheckpointAddress { thread: Arc::clone(&at.thread), ns: "".into() };
        for part in at.ns.split('|') {
            if graph.is_call_number(part) {
                continue;
            }
            let (name, task) = match part.split_once(':') {
                Some((name, task)) => (name, Some(task)),
                None => (part, None),
            };
            let Some(newest) = Newest::load(&graph, checkpointer.as_ref(), &place).await? else {
                return Ok(());
            };
            let Newest { id, step, due, records } = newest;
            let keys = due.iter().map(|due| key_of(&graph, due));
            let around = keys.filter(|key| &**key.name() == name).find(|key| {
                task.is_none_or(|task| key.id(&place.ns, id, step).to_string() == task)
            });
            // No due task runs this graph: there is nothing to wake.
            let Some(key) = around else { return Ok(()) };
            let task = key.id(&place.ns, id, step);
            let inner = graph.plan().node_idx(name);
            let inner = inner.and_then(|index| graph.node(index)?.options.graph.clone());
            let record = records.iter().find(|(known, _)| *known == key);
            let mut open =
                record.map(|(_, record)| record.open_questions(task)).unwrap_or_default();
            // A task that does not wait runs again anyway.
            if !open.is_empty() {
                open.retain(|question: &Interrupt| !closed.contains(&question.id));
                let pause = match open.is_empty() {
                    true => TaskPause::Stopped,
                    false => TaskPause::AskedAndDue(open),
                };
                let details = TaskDetails { pause, ..TaskDetails::default() };
                let tasks = TaskRecords::from_iter([(key.clone(), TaskRecord::from(details))]);
                checkpointer.put_tasks(&place, graph.plan(), id, tasks).await?;
            }
            let Some((inner, keep)) = inner else { return Ok(()) };
            let ns = task_ns(&place.ns, name, task);
            let ns = if keep == SubgraphState::PerThread { without_tasks(&ns) } else { ns };
            place.ns = ns.into();
            graph = inner;
        }
        Ok(())
    }
}
