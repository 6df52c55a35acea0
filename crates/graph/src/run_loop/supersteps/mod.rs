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
use crate::run_loop::options::{Continued, LoopInput, LoopOutcome, LoopResult, Options};
use crate::run_loop::sync::lock;
use counters::Counters;
pub(crate) use counters::counted_channels;
pub(crate) use left_open::{ClosedTask, ThreadPoint, without_targets};
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
    pub(crate) loop_context: Arc<LoopContext>,
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
        loop_context: Arc<LoopContext>,
        start: LoopInput,
        options: &Options,
    ) -> LoopResult<(LoopOutcome, Self)> {
        let mut run_loop = Self::load(loop_context, options).await?;
        run_loop.begin(start, options).await?;
        // After the start, which may have made a checkpoint: an exact limit does not count it.
        run_loop.position.set_limit(&run_loop.loop_context, &run_loop.machine, options);
        // An earlier process may have died after this superstep and before it reported its stop.
        let ended = match run_loop.stopped_after(options) {
            true => Ok(LoopOutcome::Interrupted(Vec::new())),
            false => run_loop.supersteps().await,
        };
        // Before the failure is returned: records and deferred checkpoints are stored in any case.
        run_loop.leave(&ended).await?;
        if let (Err(_), Some(outer)) = (&ended, &run_loop.loop_context.outer) {
            // The task around the loop fails with it, and its record has the questions that stay
            // open here.
            outer.leave_open(run_loop.open_beside_failure());
        }
        Ok((ended?, run_loop))
    }

    async fn load(loop_context: Arc<LoopContext>, options: &Options) -> LoopResult<Self> {
        // Subgraphs begin after this one, in the same run.
        // Ids of checkpoints grow along a thread. The clock of this process may be behind that of the
        // one which made the newest checkpoint.
        if !loop_context.is_nested()
            && let Some(checkpointer) = &loop_context.storage.checkpointer
            && let Some(newest) = checkpointer.newest_of_all(&loop_context.address.thread).await?
        {
            loop_context.run.host.seen_id(newest);
        }
        let (mut start, saved) = loop_context.start_point(options).await?;
        if saved.is_none() && !start.is_addressed() {
            start = StartPoint::Empty;
        }
        let mut run_loop = Self::over(loop_context, saved, start, options)?;
        run_loop.begin_run();
        Ok(run_loop)
    }

    fn over(
        loop_context: Arc<LoopContext>,
        saved: Option<StoredCheckpoint>,
        start: StartPoint,
        options: &Options,
    ) -> LoopResult<Self> {
        let plan = loop_context.graph.plan();
        let mut machine = None;
        let mut open = None;
        let mut base = WriteHint::default();
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
            position: Position::new(&loop_context, loaded, start, options),
            open: open
                .unwrap_or_else(|| OpenStep::new(TaskRecords::new(), ExternalInput::default())),
            writer: CheckpointWriter::new(&loop_context, base, newest),
            counters: Counters::default(),
            stops: StopPoints::new(&loop_context, options),
            emitted: None,
            loop_context,
        })
    }

    /// Sets the branch that the run continues, and the checkpoint it starts from.
    fn begin_run(&mut self) {
        if self.loop_context.is_nested() {
            return;
        }
        let loaded = self.writer.newest();
        // Before any task runs: the keys of its calls contain the branch.
        if loaded.is_none() {
            let host = &self.loop_context.run.host;
            self.position.set_root(host.environment().branch_root(&**host.clock()));
        }
        self.loop_context.run.begins(loaded, self.position.metadata().branch);
    }

    /// Returns `true` if an earlier process ended at a stop after the nodes of the last superstep.
    fn stopped_after(&self, options: &Options) -> bool {
        let stops = |earlier: &Continued| self.stops.is_after_any(&earlier.ran);
        self.machine.changed_since_passed() && options.continued.as_ref().is_some_and(stops)
    }

    /// The graph and the state at the end.
    pub(crate) fn into_state(self) -> (CompiledGraph, Slots) {
        let slots = self.machine.slots().clone();
        (self.loop_context.graph.clone(), slots)
    }

    /// Returns the open questions of tasks that asked before this loop and did not run in it.
    fn restored_questions(&self) -> Vec<Interrupt> {
        let restored = self.open.tasks().iter().filter(|slot| slot.is_restored());
        restored.flat_map(|slot| slot.record.questions().iter().cloned()).collect()
    }

    /// Emits, when the outermost graph stops, the output with the writes of finished tasks.
    pub(crate) fn emit_stop(&mut self, plain: bool) -> LoopResult<()> {
        let loop_context = Arc::clone(&self.loop_context);
        let still_open = self.restored_questions();
        if !still_open.is_empty() {
            loop_context.emit_still_open(still_open, self.machine.slots());
        }
        let nothing = TaskOutput::default();
        let tasks = self.open.tasks();
        let finished = tasks.iter().any(|slot| slot.record.output().is_some());
        // The machine of the loop is replaced only if the outputs can be applied: after an error it is
        // invalid.
        if finished {
            let mut ahead = self.machine.clone();
            let mut done: Vec<_> = tasks.iter().map(|slot| slot.done(&nothing)).collect();
            let mut written = Vec::new();
            ahead.apply(&mut done, &mut written).map_err(RuntimeError::Engine)?;
            if written.iter().any(|index| loop_context.emits(*index)) {
                loop_context.emit_values(ahead.slots(), None);
            }
            self.machine = ahead;
        }
        if plain && loop_context.run.wants(Modes::UPDATES) {
            loop_context.emit(StreamEvent::Interrupts(Vec::new()));
        }
        Ok(())
    }
}

impl LoopContext {
    /// Finds the checkpoint that the loop starts from.
    async fn start_point(
        &self,
        options: &Options,
    ) -> LoopResult<(StartPoint, Option<StoredCheckpoint>)> {
        let Some(checkpointer) = &self.storage.checkpointer else {
            return Ok((StartPoint::Newest, None));
        };
        let at = &self.address;
        let plan = self.graph.plan();
        // A request that names a checkpoint of a subgraph names those of the graphs around it too.
        let id = match self.enclosing.get(&*at.ns) {
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
            // As in the reference: the first visit of a graph goes back to its old state, later
            // ones continue what this run has made.
            let saved = if replay.first_visit(&at.ns) {
                checkpointer.list(at, plan, Some(replay.before), 1).await?.pop()
            } else {
                checkpointer.load(at, plan, None).await?
            };
            // As when the superstep ran first: the subgraph decides by its own input.
            self.set_entry(RunEntry::Passed);
            return Ok((StartPoint::Replay, saved));
        }
        Ok((StartPoint::Newest, checkpointer.load(at, plan, None).await?))
    }
}
