//! The loop of one graph: where it stands, and how its checkpoints come about.

use super::api::{Durability, Ended, Fail, Going, Limits, Options, Stops};
use super::event::{Metadata, Modes, Source, StreamEvent};
use super::look::{key_of, name_of};
use super::saver::{
    Checkpoint, Kept, Memo, Outside, Put, Puts, Records, Saved, SaverError, TaskKey, TaskRecord,
};
use super::scope::{Scope, lock};
use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use weftwork_engine::planted::{self, Bug};
use weftwork_engine::pregel::{Done, Machine, Task};
use weftwork_engine::{ChannelIdx, NodeIdx, Slots, TaskOutput, Unknown};
use weftwork_types::{BoxFuture, CheckpointId, TaskId};

/// Supersteps after which the counts of a counted channel start over, however few updates it had.
const COUNTED_STEPS_MAX: u64 = 5_000;

/// The loop of one graph.
pub(crate) struct Cycle {
    pub(super) scope: Arc<Scope>,
    pub(super) machine: Machine,
    /// The superstep that comes.
    pub(super) step: i64,
    /// The superstep the run stops before.
    pub(super) stop: i64,
    /// The checkpoint the superstep starts from.
    pub(super) id: CheckpointId,
    /// That which was loaded.
    loaded: CheckpointId,
    /// The newest checkpoint that is kept.
    pub(super) saved: Option<CheckpointId>,
    /// What the saver wants to be reminded of.
    memo: Memo,
    /// A checkpoint that is kept together with the next one.
    held: Option<Box<Put>>,
    /// The one before it.
    pub(super) prev: Option<CheckpointId>,
    pub(super) meta: Metadata,
    /// What became of the tasks of the open superstep before this loop.
    pub(super) known: Records,
    pub(super) outside: Outside,
    /// Whether anything of the open superstep came from before this loop, or from outside.
    pub(super) has_open: bool,
    pub(super) tasks: Vec<Slot>,
    /// Whether finished tasks run again.
    pub(super) replaying: bool,
    pub(super) superseded: bool,
    /// Whether the next checkpoint begins a branch of the thread.
    branches: bool,
    /// Whether the run was told which checkpoint to start from.
    pub(super) addressed: bool,
    /// The channels that the last superstep wrote.
    pub(super) written: Vec<ChannelIdx>,
    /// Counted channels whose counts start over with the next checkpoint.
    pub(super) recount: BTreeSet<ChannelIdx>,
    /// Counted channels that were written in this run.
    counted_written: BTreeSet<ChannelIdx>,
    pub(super) before: Stops,
    pub(super) after: Stops,
    /// The state when the output was last told.
    pub(super) told: Option<Slots>,
}

/// A task of the open superstep.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(super) task: Task,
    id: OnceLock<TaskId>,
    at: (CheckpointId, i64),
    pub(super) record: TaskRecord,
    pub(super) state: SlotState,
    /// Whether the record is kept already.
    pub(super) kept: bool,
    /// Whether the task finished before, or was in the cache.
    pub(super) cached: bool,
    /// Under which key its result is cached.
    pub(super) cache: Option<Box<super::host::CacheKey>>,
}

/// Whether the superstep is still open when records are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Still {
    Open,
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotState {
    Open,
    Running,
    Ended,
}

impl Slot {
    pub(super) fn new(task: Task, at: (CheckpointId, i64)) -> Self {
        Self {
            task,
            id: OnceLock::new(),
            at,
            record: TaskRecord::default(),
            state: SlotState::Open,
            kept: false,
            cached: false,
            cache: None,
        }
    }

    pub(super) fn name<'a>(&self, graph: &'a CompiledGraph) -> &'a Arc<str> {
        name_of(graph, &self.task)
    }

    pub(super) fn key(&self, graph: &CompiledGraph) -> TaskKey {
        key_of(graph, &self.task)
    }

    /// Whether the key is that of the task.
    pub(super) fn is(&self, other: &TaskKey, graph: &CompiledGraph) -> bool {
        let TaskKey::Node { node, path } = other else { return false };
        *path == self.task.path && node == self.name(graph)
    }

    pub(super) fn id(&self, ns: &str, graph: &CompiledGraph) -> TaskId {
        *self.id.get_or_init(|| self.key(graph).id(ns, self.at.0, self.at.1))
    }
}

impl Cycle {
    /// Takes the loop from what the thread has to its end. Returns the output as last told.
    pub(crate) async fn run(
        scope: Arc<Scope>,
        start: super::begin::Begin,
        options: &Options,
    ) -> Going<(Ended, Self)> {
        let mut cycle = Self::load(scope, options).await?;
        cycle.begin(start).await?;
        cycle.set_stop(options.step_limit);
        let ended = cycle.supersteps().await;
        cycle.leave(&ended).await?;
        Ok((ended?, cycle))
    }

    async fn load(scope: Arc<Scope>, options: &Options) -> Going<Self> {
        let mut addressed = false;
        let mut superseded = false;
        let mut saved: Option<Saved> = None;
        if let Some(saver) = &scope.keep.saver {
            let (at, plan) = (&scope.place, scope.graph.plan());
            let id = match scope.around.get(&*at.ns) {
                Some(id) => Some(*id),
                None if scope.is_nested() => None,
                None => options.at,
            };
            let replay = lock(&scope.replay).clone();
            if let Some(id) = id {
                addressed = true;
                saved = saver.load(at, plan, Some(id)).await?;
                if saved.is_none() && !scope.is_nested() {
                    scope.graph.known_checkpoint(at, Some(id))?;
                }
                let newest = saver.newest(at).await?;
                if let (Some(saved), Some(newest)) = (&saved, newest) {
                    superseded = newest != saved.checkpoint.id;
                    scope.shared.seen_id(newest);
                }
            } else if let Some(replay) = replay {
                addressed = true;
                saved = if replay.first_visit(&at.ns) {
                    saver.list(at, plan, Some(replay.before), 1).await?.pop()
                } else {
                    saver.load(at, plan, None).await?
                };
                scope.set_resuming(None);
            } else {
                saved = saver.load(at, plan, None).await?;
            }
        }
        if scope.is_nested() && planted::has(Bug::StartsOverWithin) {
            saved = None;
        }
        if let Some(saved) = &mut saved {
            let machine = saved.checkpoint.machine.clone().over(scope.graph.plan());
            saved.checkpoint.machine = machine.map_err(RuntimeError::Engine)?;
        }
        Ok(Self::over(scope, saved, options).addressed(addressed, superseded))
    }

    fn addressed(self, addressed: bool, superseded: bool) -> Self {
        if !self.scope.is_nested() {
            self.scope.shared.set_branch(self.meta.branch);
        }
        Self { addressed, superseded, branches: superseded, ..self }
    }

    fn over(scope: Arc<Scope>, saved: Option<Saved>, options: &Options) -> Self {
        let graph = &scope.graph;
        let limit = i64::from(options.step_limit.unwrap_or(graph.step_limit()));
        let before = options.before.clone().filter(|_| !scope.is_nested());
        let after = options.after.clone().filter(|_| !scope.is_nested());
        let (before, after) = (
            before.unwrap_or_else(|| graph.before().clone()),
            after.unwrap_or_else(|| graph.after().clone()),
        );
        let saved = saved.unwrap_or_else(|| Saved::nothing(graph.plan()));
        let Saved { checkpoint, tasks: known, outside, memo } = saved;
        let Checkpoint { id, parent: prev, metadata: meta, machine } = checkpoint;
        let id = Some(id).filter(|_| meta.step > -2 || meta.source == Source::Nothing);
        if let Some(id) = id {
            scope.shared.seen_id(id);
        }
        let step = meta.step + 1;
        let stop = step.saturating_add(limit).saturating_add(1);
        let fresh = || match scope.shared.durability {
            Durability::Exit => scope.shared.next_id(),
            Durability::Sync | Durability::Async => CheckpointId(0),
        };
        let loaded = id.unwrap_or_else(fresh);
        Self {
            machine,
            step,
            stop,
            id: loaded,
            loaded,
            saved: id,
            memo,
            held: None,
            prev,
            meta,
            known,
            outside,
            has_open: true,
            tasks: Vec::new(),
            replaying: false,
            superseded: false,
            branches: false,
            addressed: false,
            written: Vec::new(),
            recount: BTreeSet::new(),
            counted_written: BTreeSet::new(),
            before,
            after,
            told: None,
            scope,
        }
    }

    /// The graph and the state at the end.
    pub(super) fn into_state(self) -> (CompiledGraph, Slots) {
        let slots = self.machine.slots().clone();
        (self.scope.graph.clone(), slots)
    }

    /// The superstep at which managed values and the limit say that it is over.
    fn set_stop(&mut self, limit: Option<u32>) {
        let limit = limit.unwrap_or(self.scope.graph.step_limit());
        if self.scope.graph.semantics().limits == Limits::Exact {
            // The hidden first superstep does not count.
            let hidden = i64::from(self.machine.start_input().is_some());
            let free = if self.scope.graph.plan().is_single() { 0 } else { hidden };
            self.stop = self.step.saturating_add(i64::from(limit)).saturating_add(free);
        }
    }

    pub(super) fn keeps(&self) -> bool {
        self.scope.keep.saver.is_some()
    }

    pub(super) fn on_exit(&self) -> bool {
        self.scope.shared.durability == Durability::Exit
    }

    /// Makes a checkpoint of the state as it stands, and keeps it unless that is done at the end.
    pub(super) async fn checkpoint(&mut self, source: Source) -> Going<()> {
        let unkept = planted::has(Bug::StreamsKeepNothing) && self.scope.shared.wants(Modes::TASKS);
        if !self.keeps() || self.on_exit() || unkept {
            self.advance(source, false);
            return Ok(());
        }
        let of = self.id;
        let ran = self.ran(source);
        let tasks = self.unkept(Still::Closed);
        self.advance(source, true);
        let mut put = self.to_keep(of, tasks);
        put.ran = ran;
        self.keep(put).await
    }

    /// The state as it stands, to be kept as a checkpoint.
    fn to_keep(&self, of: CheckpointId, tasks: Records) -> Box<Put> {
        let mut put = Box::new(Put {
            checkpoint: Checkpoint {
                id: self.id,
                parent: self.saved,
                metadata: self.meta.clone(),
                machine: self.machine.stored(),
            },
            of,
            tasks,
            ran: None,
        });
        if self.meta.source == Source::Fork {
            put.checkpoint.machine.forget_updated();
        }
        put
    }

    /// The nodes that ran, where somebody is told.
    fn ran(&self, source: Source) -> Option<Vec<String>> {
        let told = source == Source::Loop && !self.scope.is_nested();
        self.scope.shared.host.hosting().filter(|_| told)?;
        let graph = &self.scope.graph;
        let of = |slot: &Slot| slot.name(graph).to_string();
        let ran = self.tasks.iter().filter(|slot| slot.task.node != NodeIdx::START).map(of);
        Some(ran.collect()).filter(|ran: &Vec<_>| !ran.is_empty())
    }

    async fn keep(&mut self, put: Box<Put>) -> Going<()> {
        let (id, held) = (put.checkpoint.id, self.held.take());
        // The hidden first superstep runs nobody's code: its checkpoint follows at once.
        let input = put.checkpoint.metadata.source == Source::Input && !self.on_exit();
        let rebuilds = self.scope.shared.host.rebuilds();
        if input && held.is_none() && !rebuilds && !self.scope.graph.plan().is_single() {
            self.held = Some(put);
        } else {
            let mut puts = Puts::from_buf([put]);
            if let Some(held) = held {
                puts.insert(0, held);
            }
            if let Some(saver) = &self.scope.keep.saver {
                self.memo = match saver.put(&self.scope.place, &self.memo, puts) {
                    Kept::Now(result) => result?,
                    Kept::Later(future) => future.await?,
                };
            }
        }
        self.prev = self.saved;
        self.saved = Some(id);
        // A branch starts its tasks in the order of the checkpoint it leaves; a thread that is
        // loaded there, in the order of the graph, as in the reference.
        if rebuilds && !self.on_exit() && self.meta.source != Source::Fork {
            Box::pin(self.rebuild(id)).await?;
        }
        Ok(())
    }

    /// Goes on with what the saver has.
    async fn rebuild(&mut self, id: CheckpointId) -> Going<()> {
        let scope = Arc::clone(&self.scope);
        let Some(saver) = &scope.keep.saver else { return Ok(()) };
        let plan = scope.graph.plan();
        let lost = || self::lost(&scope, id);
        let saved = saver.load(&scope.place, plan, Some(id)).await?.ok_or_else(lost)?;
        let newest = Memo { newest: true, ..saved.memo };
        self.machine = saved.checkpoint.machine.over(plan).map_err(RuntimeError::Engine)?;
        (self.meta, self.memo) = (saved.checkpoint.metadata, newest);
        Ok(())
    }

    async fn put(&mut self, put: Box<Put>) -> Going<()> {
        let Some(saver) = &self.scope.keep.saver else { return Ok(()) };
        let puts = Puts::from_buf([put]);
        self.memo = saver.put(&self.scope.place, &self.memo, puts).done().await?;
        Ok(())
    }

    /// Keeps a checkpoint that waits for the next one.
    async fn release_held(&mut self) -> Going<()> {
        match self.held.take() {
            Some(put) => self.put(put).await,
            None => Ok(()),
        }
    }

    fn advance(&mut self, source: Source, keep: bool) {
        let parents = self.scope.around.clone();
        let delta = self.counts(keep);
        self.id = self.scope.shared.next_id();
        let branches = std::mem::take(&mut self.branches);
        let branch = if branches { Some(self.id) } else { self.meta.branch };
        if branches && !self.scope.is_nested() {
            self.scope.shared.set_branch(branch);
        }
        self.meta = Metadata { source, step: self.step, parents, branch, delta };
        self.step += 1;
    }

    /// The counts of counted channels after this superstep.
    fn counts(&mut self, keep: bool) -> BTreeMap<String, (u64, u64)> {
        let plan = self.scope.graph.plan();
        let mut counts = BTreeMap::new();
        for (index, every) in plan.counted() {
            let name = plan.channel_name(index);
            let (updates, steps) = self.meta.delta.get(name).copied().unwrap_or_default();
            let updated = u64::from(self.written.contains(&index));
            if updated > 0 {
                self.counted_written.insert(index);
            }
            let (updates, steps) = (updates + updated, steps + 1);
            let full = updates >= every || steps >= COUNTED_STEPS_MAX;
            let over = keep && (full || self.recount.contains(&index));
            if over {
                self.recount.remove(&index);
            } else {
                counts.insert(name.to_owned(), (updates, steps));
            }
        }
        counts
    }

    /// What became of tasks and is not kept yet.
    pub(super) fn unkept(&mut self, still: Still) -> Records {
        if !self.keeps() {
            return Records::new();
        }
        let fresh =
            |slot: &Slot| slot.state == SlotState::Ended && !slot.kept && !slot.record.is_blank();
        let plan = self.scope.graph.plan();
        let mut records = Records::new();
        if still == Still::Closed {
            records.reserve_exact(self.tasks.len());
        }
        for slot in self.tasks.iter_mut().filter(|slot| fresh(slot)) {
            slot.kept = true;
            let mut record = match still {
                Still::Closed => std::mem::take(&mut slot.record),
                Still::Open => slot.record.clone(),
            };
            // What is kept at the end is kept as it is, in the reference as well.
            if plan.has_untracked() && self.scope.shared.durability != Durability::Exit {
                record.untrack(plan, slot.task.node);
            }
            records.push((slot.key(&self.scope.graph), record));
        }
        records
    }

    /// Keeps what became of tasks while their superstep is open.
    pub(super) async fn flush(&mut self) -> Going<()> {
        if self.held.is_some() && self.scope.graph.semantics().unknown == Unknown::Refuse {
            // The input is not taken yet.
            return Ok(());
        }
        self.release_held().await?;
        match self.flushing() {
            Some(flushed) => Ok(flushed.await?),
            None => Ok(()),
        }
    }

    /// The same as a piece of work that may go on beside tasks; none when there is nothing to keep.
    pub(super) fn flushing(&mut self) -> Option<BoxFuture<'static, Result<(), SaverError>>> {
        let unkept = planted::has(Bug::KeepsNothing);
        if unkept || self.on_exit() {
            return None;
        }
        let tasks = self.unkept(Still::Open);
        let scope = Arc::clone(&self.scope);
        let (saver, of) = (scope.keep.saver.clone()?, self.id);
        if tasks.is_empty() {
            return None;
        }
        Some(Box::pin(
            async move { saver.put_tasks(&scope.place, scope.graph.plan(), of, tasks).await },
        ))
    }

    /// Keeps what is kept at the end only, and tells how the loop stands.
    async fn leave(&mut self, ended: &Going<Ended>) -> Going<()> {
        let stopped = !matches!(ended, Ok(Ended::Done | Ended::OutOfSteps | Ended::Drained(_)));
        let drained = matches!(ended, Ok(Ended::Drained(_)));
        // Input that cannot be applied leaves the thread as it was; not so in the reference.
        let refuses = self.scope.graph.semantics().unknown == Unknown::Refuse;
        if ended.is_err() && refuses && self.held.take().is_some() {
            return Ok(());
        }
        self.release_held().await?;
        self.flush().await?;
        let nested = self.scope.is_nested();
        if self.on_exit() && self.keeps() && (!nested || stopped || self.scope.keep.own) {
            self.keep_at_exit().await?;
        }
        if let (Ok(Ended::Interrupted(interrupts)), false, false) = (ended, nested, drained) {
            self.tell_stop(interrupts.is_empty())?;
        }
        Ok(())
    }

    async fn keep_at_exit(&mut self) -> Going<()> {
        if self.id != self.loaded {
            self.keep_stub().await?;
            let put = self.to_keep(CheckpointId(0), Records::new());
            self.keep(put).await?;
        }
        let tasks = self.unkept(Still::Open);
        let calls = std::mem::take(&mut *lock(&self.scope.calls));
        let calls = calls.into_iter().filter(|called| called.fresh);
        let calls = calls.map(|called| (called.key, called.record));
        let tasks: Records = tasks.into_iter().chain(calls).collect();
        // An answer that a question took is none that waits for one.
        let resume = lock(&self.scope.answer).clone();
        let outside = Outside { output: self.outside.output.clone(), resume };
        if let Some(saver) = &self.scope.keep.saver {
            let (at, plan) = (&self.scope.place, self.scope.graph.plan());
            saver.put_tasks(at, plan, self.id, tasks).await?;
            saver.put_outside(at, plan, self.id, outside).await?;
        }
        Ok(())
    }

    /// The counts of the last checkpoint, kept at the end. When a counted channel does not start
    /// over there and nothing was kept before, an empty checkpoint comes first.
    async fn keep_stub(&mut self) -> Going<()> {
        let plan = Arc::clone(self.scope.graph.plan());
        let counted: BTreeMap<ChannelIdx, u64> = plan.counted().collect();
        if counted.is_empty() {
            return Ok(());
        }
        if self.saved.is_some() && self.addressed {
            self.recount.extend(&self.counted_written);
        }
        let mut meta = self.meta.clone();
        let mut open = false;
        for (index, every) in counted {
            let name = plan.channel_name(index);
            let (updates, steps) = meta.delta.get(name).copied().unwrap_or_default();
            let over = updates >= every || steps >= COUNTED_STEPS_MAX;
            if over || self.recount.contains(&index) {
                meta.delta.remove(name);
            } else {
                open |= self.counted_written.contains(&index);
            }
        }
        self.meta = meta;
        // What ran since it was told shows that somebody has read it.
        let ran = |slot: &Slot| slot.state != SlotState::Open && !slot.cached;
        if !self.tasks.iter().any(ran) {
            self.scope.retell(self.id, &self.meta);
        }
        if open && self.saved.is_none() {
            let stub = Metadata { source: Source::Nothing, step: -2, ..Metadata::default() };
            let checkpoint = Checkpoint {
                id: self.loaded,
                parent: None,
                metadata: stub,
                machine: Machine::new(plan),
            };
            let of = CheckpointId(0);
            let put = Put { checkpoint, of, tasks: Records::new(), ran: None };
            self.put(Box::new(put)).await?;
            self.saved = Some(self.loaded);
        }
        Ok(())
    }

    /// When the outermost graph stops: the output with what finished tasks wrote.
    fn tell_stop(&mut self, plain: bool) -> Going<()> {
        let scope = Arc::clone(&self.scope);
        let nothing = TaskOutput::default();
        let finished = self.tasks.iter().any(|slot| slot.record.output.is_some());
        if finished {
            let mut ahead = self.machine.clone();
            let mut done: Vec<_> = self.tasks.iter().map(|slot| slot.done(&nothing)).collect();
            let mut written = Vec::new();
            ahead.apply(&mut done, &mut written).map_err(RuntimeError::Engine)?;
            if written.iter().any(|index| scope.tells(*index)) {
                scope.tell_values(ahead.slots(), None);
            }
            self.machine = ahead;
        }
        if plain && scope.shared.wants(Modes::UPDATES) {
            scope.tell(StreamEvent::Interrupts(Vec::new()));
        }
        Ok(())
    }
}

fn lost(scope: &Scope, checkpoint: CheckpointId) -> RuntimeError {
    let (thread, ns) = (scope.place.thread.to_string(), scope.place.ns.to_string());
    RuntimeError::UnknownCheckpoint { thread, ns, checkpoint }
}

impl Slot {
    /// The task with what it wrote; nothing when it has not finished.
    pub(super) fn done<'a>(&'a self, nothing: &'a TaskOutput) -> Done<'a> {
        let output = self.record.output.as_deref().unwrap_or(nothing);
        let edges = self.record.output.is_some() && self.record.edges;
        Done { task: &self.task, output, edges }
    }
}

impl From<Fail> for RuntimeError {
    fn from(fail: Fail) -> Self {
        match fail {
            Fail::Error(error) => error,
            Fail::Parent(_) => Self::NoParent,
            Fail::Drained(reason) => Self::Node(
                weftwork_types::code::Fault::new(crate::error::NODE_FAILED, reason)
                    .of_kind("Drained"),
            ),
        }
    }
}
