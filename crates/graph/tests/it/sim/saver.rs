//! A saver in memory that takes its time, and watches what it is given.

use super::build::{Mark, Probe};
use super::model::Point;
use crate::pass_on::pass_on;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weftwork_engine::Plan;
use weftwork_engine::ids::{interrupt_id, task_id};
use weftwork_engine::pregel::Machine;
use weftwork_graph::run_loop::{
    Checkpoint, CheckpointAddress, CheckpointWrites, Checkpointer, CheckpointerError,
    ExternalInput, InMemoryCheckpointer, Source, StoredCheckpoint, TaskKey, TaskRecord,
    TaskRecords, WriteHint, WriteResult as Answer,
};
use weftwork_testkit::World;
use weftwork_testkit::sim::Draw;
use weftwork_types::{BoxFuture, CheckpointId};

/// A checkpoint as it was when it was kept.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    /// Its place among all changes.
    pub(super) order: usize,
    pub(super) id: CheckpointId,
    pub(super) parent: Option<CheckpointId>,
    pub(super) source: Source,
    pub(super) step: i64,
    pub(super) point: Point,
}

#[derive(Debug)]
pub(super) struct Watching {
    checkpointer: Arc<InMemoryCheckpointer>,
    world: World,
    probe: Arc<Probe>,
    /// `true` if calls may take time; then a run can be cut off before and after each.
    slow: bool,
    draw: Mutex<Draw>,
    /// Calls that are under way.
    busy: AtomicUsize,
    /// Calls that were cut off.
    cut: AtomicUsize,
    kept: Mutex<BTreeMap<CheckpointAddress, Vec<Kept>>>,
    changes: AtomicUsize,
}

impl Watching {
    pub(super) fn new(world: &World, probe: &Arc<Probe>, slow: bool, draw: Draw) -> Arc<Self> {
        Arc::new(Self {
            checkpointer: InMemoryCheckpointer::new(),
            world: world.clone(),
            probe: Arc::clone(probe),
            slow,
            draw: Mutex::new(draw),
            busy: AtomicUsize::new(0),
            cut: AtomicUsize::new(0),
            kept: Mutex::default(),
            changes: AtomicUsize::new(0),
        })
    }

    /// The checkpoints of the outermost graph, by age.
    pub(super) fn outermost(&self) -> Vec<Kept> {
        let kept = self.kept();
        kept.iter()
            .find(|(place, _)| place.ns.is_empty())
            .map(|(_, k)| k.clone())
            .unwrap_or_default()
    }

    pub(super) fn kept(&self) -> MutexGuard<'_, BTreeMap<CheckpointAddress, Vec<Kept>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn inner(&self) -> &Arc<InMemoryCheckpointer> {
        &self.checkpointer
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst) > 0
    }

    /// Returns the number of calls that were cut off.
    pub(super) fn cut(&self) -> usize {
        self.cut.load(Ordering::SeqCst)
    }

    /// Returns the number of writes.
    pub(super) fn changes(&self) -> usize {
        self.changes.load(Ordering::SeqCst)
    }

    fn is_slow(&self) -> bool {
        let mut draw = self.draw.lock().unwrap_or_else(PoisonError::into_inner);
        self.slow && draw.chance(40)
    }

    async fn take_time(&self) {
        if self.is_slow() {
            self.world.pause().await;
        }
    }

    fn call<'a, T: Send + 'a>(
        &'a self,
        call: impl Future<Output = Result<T, CheckpointerError>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, CheckpointerError>> {
        Box::pin(async move {
            let mut busy = Busy::of(self);
            self.take_time().await;
            let done = call.await;
            self.take_time().await;
            busy.done = true;
            done
        })
    }

    fn note(&self, at: &CheckpointAddress, checkpoint: &Checkpoint) {
        let kept = Kept {
            order: self.changes.fetch_add(1, Ordering::SeqCst),
            id: checkpoint.id,
            parent: checkpoint.parent,
            source: checkpoint.metadata.source,
            step: checkpoint.metadata.step,
            point: point(&checkpoint.machine),
        };
        self.kept().entry(at.clone()).or_default().push(kept);
    }

    /// Calls whose result is kept must not be made again, and tasks not run.
    fn keep_finished(
        &self,
        at: &CheckpointAddress,
        of: CheckpointId,
        tasks: &[(TaskKey, TaskRecord)],
    ) {
        let calls = tasks.iter().filter_map(|(_, record)| record.calls.as_ref());
        for call in calls.flat_map(|calls| &calls.0).filter(|call| call.result.is_some()) {
            self.probe.keep_call(call.key);
        }
        let step = {
            let kept = self.kept();
            let of = kept.get(at).and_then(|kept| kept.iter().find(|kept| kept.id == of));
            of.map(|kept| kept.step + 1)
        };
        let Some(step) = step else { return };
        for (key, record) in tasks.iter().filter(|(_, record)| record.is_finished()) {
            let TaskKey::Node { node, path } = key else { continue };
            self.changes.fetch_add(1, Ordering::SeqCst);
            let failed_in_route = record.failure().is_some();
            if !failed_in_route {
                let name = format!("{}|{node}", at.ns);
                self.probe.record(mark(task_id(of, step, &name, path)));
            }
        }
    }
}

/// The id of a task's first message.
fn mark(task: weftwork_types::TaskId) -> Mark {
    let bits = interrupt_id(task, 0).0 ^ u128::from(u64::MAX);
    Mark::from_uuid(uuid::Uuid::from_u128(bits))
}

/// State and what is due, as JSON.
pub(super) fn point(machine: &Machine) -> Point {
    let plan = machine.plan();
    let values: Map<String, Value> = plan
        .channel_names()
        .filter_map(|name| Some((name.to_owned(), plan.channel_json(machine.slots(), name)?)))
        .collect();
    let due = machine.due_in_order().expect("sound");
    let mut next: Vec<String> =
        due.iter().map(|task| plan.shared_name(task.node).to_string()).collect();
    next.sort();
    Point { values: Value::Object(values), next }
}

struct Busy<'a> {
    checkpointer: &'a Watching,
    done: bool,
}

impl<'a> Busy<'a> {
    fn of(checkpointer: &'a Watching) -> Self {
        checkpointer.busy.fetch_add(1, Ordering::SeqCst);
        Self { checkpointer, done: false }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.checkpointer.busy.fetch_sub(1, Ordering::SeqCst);
        self.checkpointer.cut.fetch_add(usize::from(!self.done), Ordering::SeqCst);
    }
}

impl Checkpointer for Watching {
    pass_on!(by call: load, newest, newest_of_all, list, delete, copy, graphs, prune);

    fn put<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        hint: &WriteHint,
        puts: CheckpointWrites,
    ) -> Answer<'a> {
        let slow = self.is_slow();
        let hint = hint.clone();
        let keep = move || {
            for put in &puts {
                put.of.into_iter().for_each(|of| self.keep_finished(at, of, &put.tasks));
                self.note(at, &put.checkpoint);
            }
            self.checkpointer.put(at, &hint, puts)
        };
        if slow { Answer::Later(self.call(async move { keep().done().await })) } else { keep() }
    }

    fn put_tasks<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        tasks: TaskRecords,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        self.call(async move {
            self.keep_finished(at, of, &tasks);
            self.checkpointer.put_tasks(at, plan, of, tasks).await
        })
    }

    fn put_outside<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        outside: ExternalInput,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        self.call(async move {
            self.changes.fetch_add(1, Ordering::SeqCst);
            self.checkpointer.put_outside(at, plan, of, outside).await
        })
    }
}
