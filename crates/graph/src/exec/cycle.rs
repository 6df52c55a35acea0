//! The loop of one graph: where it stands, how it begins and how it ends.

use super::api::{Continued, Durability, Ended, Fail, Going, Limits, Options, Stops};
use super::behind::Writing;
use super::event::{Metadata, Modes, Source, StreamEvent};
use super::saver::{Checkpoint, Memo, Outside, Put, Records, Saved};
use super::scope::{Scope, lock};
use super::slot::Slot;
use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use std::collections::BTreeSet;
use std::sync::Arc;
use weftwork_engine::planted::{self, Bug};
use weftwork_engine::pregel::Machine;
use weftwork_engine::{ChannelIdx, Slots, TaskOutput};
use weftwork_types::CheckpointId;

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
    /// The loaded checkpoint.
    pub(super) loaded: CheckpointId,
    /// The newest checkpoint that is kept.
    pub(super) saved: Option<CheckpointId>,
    /// Base for delta-encoding the next checkpoint, returned by the checkpointer.
    pub(super) memo: Memo,
    /// A checkpoint that is kept together with the next one.
    pub(super) held: Option<Box<Put>>,
    /// A checkpoint that is written while tasks run.
    pub(super) writing: Option<Writing>,
    /// `true` if such a write failed: nothing is stored after it.
    pub(super) broken: bool,
    /// The one before it.
    pub(super) prev: Option<CheckpointId>,
    pub(super) meta: Metadata,
    /// Outcomes of the open superstep's tasks before this loop.
    pub(super) known: Records,
    pub(super) outside: Outside,
    /// `true` if anything of the open superstep came from before this loop, or from outside.
    pub(super) has_open: bool,
    /// `true` if anything of the superstep before the open one did.
    pub(super) had_open: bool,
    pub(super) tasks: Vec<Slot>,
    /// `true` if finished tasks run again.
    pub(super) replaying: bool,
    pub(super) superseded: bool,
    /// `true` if the next checkpoint begins a branch of the thread.
    pub(super) branches: bool,
    /// `true` if the run's request names the checkpoint to start from.
    pub(super) addressed: bool,
    /// The channels that the last superstep wrote.
    pub(super) written: Vec<ChannelIdx>,
    /// Counted channels whose counts start over with the next checkpoint.
    pub(super) recount: BTreeSet<ChannelIdx>,
    /// Counted channels that were written in this run.
    pub(super) counted_written: BTreeSet<ChannelIdx>,
    pub(super) before: Stops,
    pub(super) after: Stops,
    /// The state when the output was last told.
    pub(super) told: Option<Slots>,
}

impl Cycle {
    /// Takes the loop from what the thread has to its end. Returns the output as last told.
    pub(crate) async fn run(
        scope: Arc<Scope>,
        start: super::begin::Begin,
        options: &Options,
    ) -> Going<(Ended, Self)> {
        let mut cycle = Self::load(scope, options).await?;
        cycle.begin(start, options.continued.is_none()).await?;
        cycle.set_stop(options);
        let ended = match cycle.stopped_after(options) {
            true => Ok(Ended::Interrupted(Vec::new())),
            false => cycle.supersteps().await,
        };
        cycle.leave(&ended).await?;
        Ok((ended?, cycle))
    }

    async fn load(scope: Arc<Scope>, options: &Options) -> Going<Self> {
        // Graphs within begin after this one, in the same run.
        if !scope.is_nested()
            && let Some(saver) = &scope.keep.saver
            && let Some(newest) = saver.newest_of_all(&scope.place.thread).await?
        {
            scope.shared.host.seen_id(newest);
        }
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

    fn addressed(mut self, addressed: bool, superseded: bool) -> Self {
        if !self.scope.is_nested() {
            if self.saved.is_none() {
                self.meta.branch = Some(self.scope.shared.host.environment().branch_root());
            }
            self.scope.shared.begins(self.saved, self.meta.branch);
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
            writing: None,
            broken: false,
            prev,
            meta,
            known,
            outside,
            has_open: true,
            had_open: false,
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

    /// Returns `true` if an earlier process ended at a stop after the nodes of the last superstep.
    fn stopped_after(&self, options: &Options) -> bool {
        let stops = |earlier: &Continued| earlier.ran.iter().any(|node| self.after.contains(node));
        self.machine.changed_since_passed() && options.continued.as_ref().is_some_and(stops)
    }

    /// The superstep at which managed values and the limit say that it is over.
    fn set_stop(&mut self, options: &Options) {
        let (graph, limits) = (&self.scope.graph, self.scope.graph.semantics().limits);
        let limit = options.step_limit.unwrap_or(graph.step_limit());
        let is_single = graph.plan().is_single();
        if limits == Limits::Exact {
            // The hidden first superstep does not count.
            let hidden = i64::from(self.machine.start_input().is_some());
            let free = if is_single { 0 } else { hidden };
            self.stop = self.step.saturating_add(i64::from(limit)).saturating_add(free);
        }
        let earlier =
            options.continued.as_ref().map_or(0, |earlier| earlier.counted(limits, is_single));
        self.stop = self.stop.saturating_sub(earlier);
    }

    /// When the outermost graph stops: the output with what finished tasks wrote.
    pub(super) fn tell_stop(&mut self, plain: bool) -> Going<()> {
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

impl From<Fail> for RuntimeError {
    fn from(fail: Fail) -> Self {
        match fail {
            Fail::Error(error) => error,
            Fail::Parent(_) => Self::NoParent,
            Fail::Drained(drain) => Self::Node(
                weftwork_types::code::Fault::new(crate::error::NODE_FAILED, drain.into_reason())
                    .of_kind("Drained"),
            ),
        }
    }
}
