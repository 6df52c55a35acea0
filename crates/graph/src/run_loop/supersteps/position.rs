//! Position of a loop in the history of its thread.

use crate::run_loop::checkpointer::Checkpoint;
use crate::run_loop::context::LoopContext;
use crate::run_loop::event::{Metadata, Source};
use crate::run_loop::options::Options;
use crate::semantics::StepRule;
use std::collections::BTreeMap;
use weftwork_engine::pregel::Machine;
use weftwork_types::CheckpointId;

/// Superstep before the input of a thread.
const BEFORE_INPUT: i64 = -2;

/// Checkpoint that a loop starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartPoint {
    /// None: nothing ran on the thread.
    Empty,
    /// The newest checkpoint of the thread.
    Newest,
    /// A checkpoint that the request names, the newest one of the thread.
    Addressed,
    /// A checkpoint that the request names, while the thread has newer ones.
    Superseded,
    /// The checkpoint that a subgraph had when its parent was at the checkpoint that is replayed.
    Replay,
}

impl StartPoint {
    /// Returns `true` if the request names the checkpoint, for this graph or the outermost one.
    pub(crate) fn is_addressed(self) -> bool {
        matches!(self, Self::Addressed | Self::Superseded | Self::Replay)
    }

    pub(crate) fn is_superseded(self) -> bool {
        self == Self::Superseded
    }
}

/// Branch of the next checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextBranch {
    /// The branch of the checkpoint before it.
    Same,
    /// A branch of its own.
    New,
}

/// Position of a loop: its next superstep, and the checkpoint that the superstep starts from.
#[derive(Debug)]
pub(crate) struct Position {
    step: i64,
    /// Superstep before which the run stops.
    stop: i64,
    /// Checkpoint that the superstep starts from; `None` if the thread has none.
    id: Option<CheckpointId>,
    /// Checkpoint that the loop started from.
    start: Option<CheckpointId>,
    /// Checkpoint before the one that the superstep starts from.
    parent: Option<CheckpointId>,
    metadata: Metadata,
    branch: NextBranch,
}

impl Position {
    /// Position of a loop that starts from a checkpoint, or on a thread without any.
    pub(crate) fn new(
        loop_context: &LoopContext,
        loaded: Option<(CheckpointId, Option<CheckpointId>, Metadata)>,
        start: StartPoint,
        options: &Options,
    ) -> Self {
        let limit = i64::from(options.step_limit.unwrap_or(loop_context.graph.step_limit()));
        let (id, parent, metadata) = match loaded {
            Some((id, parent, metadata)) => (Some(id), parent, metadata),
            None => {
                // What is stored at the end of the run may begin with an empty checkpoint, whose id
                // is less than those of all other checkpoints of the run.
                let exit = loop_context.run.stores_last_only();
                let id = exit.then(|| loop_context.run.next_id());
                (id, None, Metadata { step: BEFORE_INPUT, ..Metadata::default() })
            }
        };
        let step = metadata.step + 1;
        let branch = if start.is_superseded() { NextBranch::New } else { NextBranch::Same };
        let stop = step.saturating_add(limit).saturating_add(1);
        Self { step, stop, id, start: id, parent, metadata, branch }
    }

    /// Next superstep.
    pub(crate) fn step(&self) -> i64 {
        self.step
    }

    /// Superstep before which the run stops.
    pub(crate) fn stop(&self) -> i64 {
        self.stop
    }

    /// Checkpoint that the superstep starts from; `None` if the thread has none.
    pub(crate) fn id(&self) -> Option<CheckpointId> {
        self.id
    }

    /// Checkpoint before the one that the superstep starts from.
    pub(crate) fn parent(&self) -> Option<CheckpointId> {
        self.parent
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub(crate) fn set_parent(&mut self, parent: Option<CheckpointId>) {
        self.parent = parent;
    }

    pub(crate) fn set_metadata(&mut self, metadata: Metadata) {
        self.metadata = metadata;
    }

    /// Sets the branch of a thread on which nothing ran.
    pub(crate) fn set_root(&mut self, root: CheckpointId) {
        self.metadata.branch = Some(root);
    }

    /// Returns `true` if the loop has made a checkpoint.
    pub(crate) fn has_moved(&self) -> bool {
        self.id != self.start
    }

    /// Returns `true` if the checkpoint was made by a change from outside or a fork.
    pub(crate) fn is_forked(&self) -> bool {
        matches!(self.metadata.source, Source::Update | Source::Fork)
    }

    /// Sets the superstep at which managed values and the limit end the run. Supersteps of earlier
    /// processes count.
    pub(crate) fn set_limit(
        &mut self,
        loop_context: &LoopContext,
        machine: &Machine,
        options: &Options,
    ) {
        let graph = &loop_context.graph;
        let rule = graph.settings().steps;
        let is_single = graph.plan().is_single();
        if !rule.counts_from_loaded {
            let limit = options.step_limit.unwrap_or(graph.step_limit());
            // The hidden first superstep does not count.
            let hidden = i64::from(machine.start_input().is_some());
            let free = if is_single { 0 } else { hidden };
            self.stop = self.step.saturating_add(i64::from(limit)).saturating_add(free);
        }
        let earlier =
            options.continued.as_ref().map_or(0, |earlier| earlier.counted(rule, is_single));
        // The limit is that of the run, however many processes execute it.
        self.stop = self.stop.saturating_sub(earlier);
    }

    /// Returns the remaining supersteps of the step limit.
    pub(crate) fn steps_left(&self, rule: StepRule) -> u32 {
        let left = self.stop.saturating_sub(self.step).saturating_sub(rule.beyond_stop);
        u32::try_from(left).unwrap_or(0)
    }

    /// Moves to the checkpoint that closes the superstep.
    pub(crate) fn advance(
        &mut self,
        loop_context: &LoopContext,
        source: Source,
        delta: BTreeMap<String, (u64, u64)>,
    ) {
        let id = loop_context.run.next_id();
        let branch = match std::mem::replace(&mut self.branch, NextBranch::Same) {
            NextBranch::New => {
                // Keys of recorded calls contain the branch: tasks of the new branch do not find the calls of
                // the branch it left. Branches of a subgraph are those of the outermost graph.
                if !loop_context.is_nested() {
                    loop_context.run.set_branch(Some(id));
                }
                Some(id)
            }
            NextBranch::Same => self.metadata.branch,
        };
        let parents = loop_context.enclosing.clone();
        self.metadata = Metadata { source, step: self.step, parents, branch, delta };
        // After the metadata, which have the number of the superstep that ends here.
        self.id = Some(id);
        self.step += 1;
    }

    /// The empty checkpoint that the loop started from, to be stored before the first one it made.
    pub(crate) fn empty_start(&self, machine: Machine) -> Option<Checkpoint> {
        let source = Source::Nothing;
        let metadata = Metadata { source, step: BEFORE_INPUT, ..Metadata::default() };
        Some(Checkpoint { id: self.start?, parent: None, metadata, machine })
    }
}
