//! The loop of one graph: its state, its start and its end.

mod answers;
mod commit;
mod counters;
mod emit;
mod input;
mod left_open;
mod loop_start;
mod messages;
mod open_step;
mod past;
mod plan;
mod position;
mod restore;
mod settle;
mod start;
mod stop_points;

use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use crate::run_loop::checkpoint_writer::CheckpointWriter;
use crate::run_loop::checkpointer::{ExternalInput, StoredCheckpoint, TaskRecords, WriteHint};
use crate::run_loop::context::{LoopContext, RunEntry};
use crate::run_loop::event::{Modes, StreamEvent};
use crate::run_loop::options::{Continued, Going, LoopInput, LoopOutcome, Options};
use crate::run_loop::sync::lock;
use counters::Counters;
pub(crate) use counters::counted;
pub(crate) use left_open::{ClosedTask, ThreadPoint, unfollowed};
use open_step::OpenStep;
use position::{Position, StartPoint};
use start::Started;
pub(crate) use start::single_arg;
use std::sync::Arc;
pub(crate) use stop_points::StopPoints;
use weftwork_engine::pregel::Machine;
use weftwork_engine::{Slots, TaskOutput};
use weftwork_types::interrupt::Interrupt;

/// The loop of one graph.
pub(crate) struct RunLoop {
    pub(crate) scope: Arc<LoopContext>,
    pub(crate) machine: Machine,
    pub(crate) start: StartPoint,
    pub(crate) position: Position,
    pub(crate) open: OpenStep,
    pub(crate) writer: CheckpointWriter,
    pub(crate) counters: Counters,
    pub(crate) stops: StopPoints,
    /// State when the output was last emitted.
    pub(crate) emitted: Option<Slots>,
}

impl RunLoop {
    /// Runs the loop from the state of the thread to its end. Returns the output as last emitted.
    pub(crate) async fn run(
        scope: Arc<LoopContext>,
        start: LoopInput,
        options: &Options,
    ) -> Going<(LoopOutcome, Self)> {
        let mut cycle = Self::load(scope, options).await?;
        cycle.begin(start, options).await?;
        cycle.position.set_limit(&cycle.scope, &cycle.machine, options);
        let ended = match cycle.stopped_after(options) {
            true => Ok(LoopOutcome::Interrupted(Vec::new())),
            false => cycle.supersteps().await,
        };
        cycle.leave(&ended).await?;
        if let (Err(_), Some(outer)) = (&ended, &cycle.scope.outer) {
            outer.leave_open(cycle.open_beside_failure());
        }
        Ok((ended?, cycle))
    }

    async fn load(scope: Arc<LoopContext>, options: &Options) -> Going<Self> {
        // Subgraphs begin after this one, in the same run.
        if !scope.is_nested()
            && let Some(checkpointer) = &scope.keep.checkpointer
            && let Some(newest) = checkpointer.newest_of_all(&scope.place.thread).await?
        {
            scope.shared.host.seen_id(newest);
        }
        let (mut start, saved) = scope.start_point(options).await?;
        if saved.is_none() && !start.is_addressed() {
            start = StartPoint::Empty;
        }
        let mut cycle = Self::over(scope, saved, start, options)?;
        cycle.begin_run();
        Ok(cycle)
    }

    fn over(
        scope: Arc<LoopContext>,
        saved: Option<StoredCheckpoint>,
        start: StartPoint,
        options: &Options,
    ) -> Going<Self> {
        let plan = scope.graph.plan();
        let (mut machine, mut open, mut base) = (None, None, WriteHint::default());
        let loaded = match saved {
            Some(StoredCheckpoint { checkpoint, tasks, outside, hint }) => {
                let over = checkpoint.machine.over(plan).map_err(RuntimeError::Engine)?;
                (machine, open, base) = (Some(over), Some(OpenStep::new(tasks, outside)), hint);
                Some((checkpoint.id, checkpoint.parent, checkpoint.metadata))
            }
            None => None,
        };
        let newest = loaded.as_ref().map(|(id, ..)| *id);
        Ok(Self {
            machine: machine.unwrap_or_else(|| Machine::new(Arc::clone(plan))),
            start,
            position: Position::new(&scope, loaded, start, options),
            open: open
                .unwrap_or_else(|| OpenStep::new(TaskRecords::new(), ExternalInput::default())),
            writer: CheckpointWriter::new(&scope, base, newest),
            counters: Counters::default(),
            stops: StopPoints::new(&scope, options),
            emitted: None,
            scope,
        })
    }

    /// Sets the branch that the run continues, and the checkpoint it starts from.
    fn begin_run(&mut self) {
        if self.scope.is_nested() {
            return;
        }
        let loaded = self.writer.newest();
        if loaded.is_none() {
            self.position.set_root(self.scope.shared.host.environment().branch_root());
        }
        self.scope.shared.begins(loaded, self.position.metadata().branch);
    }

    /// Returns `true` if an earlier process ended at a stop after the nodes of the last superstep.
    fn stopped_after(&self, options: &Options) -> bool {
        let stops = |earlier: &Continued| self.stops.is_after_any(&earlier.ran);
        self.machine.changed_since_passed() && options.continued.as_ref().is_some_and(stops)
    }

    /// The graph and the state at the end.
    pub(crate) fn into_state(self) -> (CompiledGraph, Slots) {
        let slots = self.machine.slots().clone();
        (self.scope.graph.clone(), slots)
    }

    /// Returns the open questions of tasks that asked before this loop and did not run in it.
    fn restored_questions(&self) -> Vec<Interrupt> {
        let restored = self.open.tasks().iter().filter(|slot| slot.is_restored());
        restored.flat_map(|slot| slot.record.questions().iter().cloned()).collect()
    }

    /// Emits, when the outermost graph stops, the output with the writes of finished tasks.
    pub(crate) fn emit_stop(&mut self, plain: bool) -> Going<()> {
        let scope = Arc::clone(&self.scope);
        let still_open = self.restored_questions();
        if !still_open.is_empty() {
            scope.emit_still_open(still_open, self.machine.slots());
        }
        let nothing = TaskOutput::default();
        let tasks = self.open.tasks();
        let finished = tasks.iter().any(|slot| slot.record.output().is_some());
        if finished {
            let mut ahead = self.machine.clone();
            let mut done: Vec<_> = tasks.iter().map(|slot| slot.done(&nothing)).collect();
            let mut written = Vec::new();
            ahead.apply(&mut done, &mut written).map_err(RuntimeError::Engine)?;
            if written.iter().any(|index| scope.emits(*index)) {
                scope.emit_values(ahead.slots(), None);
            }
            self.machine = ahead;
        }
        if plain && scope.shared.wants(Modes::UPDATES) {
            scope.tell(StreamEvent::Interrupts(Vec::new()));
        }
        Ok(())
    }
}

impl LoopContext {
    /// Finds the checkpoint that the loop starts from.
    async fn start_point(
        &self,
        options: &Options,
    ) -> Going<(StartPoint, Option<StoredCheckpoint>)> {
        let Some(checkpointer) = &self.keep.checkpointer else {
            return Ok((StartPoint::Newest, None));
        };
        let (at, plan) = (&self.place, self.graph.plan());
        let id = match self.around.get(&*at.ns) {
            Some(id) => Some(*id),
            None if self.is_nested() => None,
            None => options.at,
        };
        let replay = lock(&self.replay).clone();
        if let Some(id) = id {
            let saved = checkpointer.load(at, plan, Some(id)).await?;
            if saved.is_none() && !self.is_nested() {
                self.graph.check_checkpoint(at, Some(id))?;
            }
            let newest = checkpointer.newest(at).await?;
            let superseded = match (&saved, newest) {
                (Some(saved), Some(newest)) => newest != saved.checkpoint.id,
                _ => false,
            };
            let addressed = if superseded { StartPoint::Superseded } else { StartPoint::Addressed };
            return Ok((addressed, saved));
        }
        if let Some(replay) = replay {
            let saved = if replay.first_visit(&at.ns) {
                checkpointer.list(at, plan, Some(replay.before), 1).await?.pop()
            } else {
                checkpointer.load(at, plan, None).await?
            };
            self.set_entry(RunEntry::Passed);
            return Ok((StartPoint::Replay, saved));
        }
        Ok((StartPoint::Newest, checkpointer.load(at, plan, None).await?))
    }
}
