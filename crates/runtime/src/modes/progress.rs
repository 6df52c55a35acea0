//! Progress of a follower in the loops of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork_graph::run_loop::{LoopBounds, StepOrigin};
use weftwork_types::event::{
    AiEvent, CheckpointSource, CheckpointStored, OutsideWrites, TaskDue, TaskEnd, TaskStatus,
};
use weftwork_types::{CheckpointId, InterruptId, TaskId};

/// State of the loops of a run after some of its events. It determines, with the stored
/// checkpoints, the frames of the next event.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// Loops by namespace.
    pub(super) loops: BTreeMap<String, OpenLoop>,
    /// Questions that are open when the run stops, in order.
    pub(super) open: Vec<InterruptId>,
    /// Questions that were reported with the ends of tasks.
    reported: BTreeSet<InterruptId>,
}

/// The checkpoint from which a superstep starts, and the origin of the superstep.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepStart {
    pub(super) checkpoint: CheckpointId,
    pub(super) origin: StepOrigin,
}

/// A loop of the run, and its open superstep.
#[derive(Debug, Clone)]
pub(super) struct OpenLoop {
    /// Start of the first superstep of the loop.
    pub(super) first: StepStart,
    /// Start of the open superstep.
    pub(super) open: StepStart,
    pub(super) bounds: Option<Arc<LoopBounds>>,
    /// Tasks of the open superstep whose end was reported.
    pub(super) ended: BTreeMap<TaskId, TaskStatus>,
}

impl Progress {
    /// Returns `true` if an event changes the progress.
    pub(super) fn changes_with(event: &AiEvent) -> bool {
        matches!(
            event,
            AiEvent::Checkpoint(_)
                | AiEvent::TasksStarted { .. }
                | AiEvent::TasksEnded { .. }
                | AiEvent::HumanInputRequired { .. }
                | AiEvent::Requeued { .. }
        )
    }

    /// Follows an event whose frames are not wanted.
    pub(super) fn follow(&mut self, event: &AiEvent) {
        match event {
            AiEvent::Checkpoint(stored) => self.note_checkpoint(stored),
            AiEvent::TasksStarted { ns, checkpoint, tasks, outside } => {
                self.begin_again(ns, *checkpoint, *outside);
                self.note_reused(ns, tasks);
            }
            AiEvent::TasksEnded { ns, ended, .. } => self.note_ended(ns, ended),
            AiEvent::HumanInputRequired { interrupt_id, .. } => self.open.push(*interrupt_id),
            AiEvent::Requeued { .. } => self.open.clear(),
            _ => {}
        }
    }

    /// Follows a checkpoint without reading it.
    pub(super) fn note_checkpoint(&mut self, stored: &CheckpointStored) {
        let at = StepStart { checkpoint: stored.id, origin: StepOrigin::Made };
        if stored.source == CheckpointSource::Empty {
            return;
        }
        self.close_within(&stored.ns);
        match self.loops.get_mut(&stored.ns) {
            Some(known) if stored.source == CheckpointSource::Loop => {
                known.open = at;
                known.ended.clear();
            }
            _ => drop(self.loops.insert(stored.ns.clone(), OpenLoop::new(at))),
        }
    }

    /// Removes the loops of subgraphs of a superstep that is closed.
    fn close_within(&mut self, ns: &str) {
        self.loops.retain(|other, _| {
            let within = match ns {
                "" => !other.is_empty(),
                ns => other.strip_prefix(ns).is_some_and(|rest| rest.starts_with('|')),
            };
            !within
        });
    }

    /// Begins a loop at a checkpoint that was stored before. Returns `true` if the superstep was
    /// open in this run already, so that its tasks run again.
    pub(super) fn begin_again(
        &mut self,
        ns: &str,
        checkpoint: CheckpointId,
        outside: OutsideWrites,
    ) -> bool {
        if let Some(known) = self.loops.get_mut(ns)
            && known.open.checkpoint == checkpoint
        {
            known.ended.retain(|_, status| matches!(status, TaskStatus::Ok | TaskStatus::Cached));
            return true;
        }
        let at = StepStart { checkpoint, origin: StepOrigin::Continued(outside) };
        self.loops.insert(ns.to_owned(), OpenLoop::new(at));
        false
    }

    pub(super) fn note_reused(&mut self, ns: &str, tasks: &[TaskDue]) {
        if let Some(known) = self.loops.get_mut(ns) {
            let reused = tasks.iter().filter(|task| task.finished);
            known.ended.extend(reused.map(|task| (task.id, TaskStatus::Cached)));
        }
    }

    /// Returns the open questions of tasks that asked before the run and did not run in it.
    pub(super) fn still_open(&self) -> Vec<InterruptId> {
        self.open.iter().filter(|id| !self.reported.contains(id)).copied().collect()
    }

    pub(super) fn note_ended(&mut self, ns: &str, ended: &[TaskEnd]) {
        self.reported.extend(ended.iter().flat_map(|end| &end.questions));
        if let Some(known) = self.loops.get_mut(ns) {
            known.ended.extend(ended.iter().map(|end| (end.id, end.status)));
        }
    }
}

impl OpenLoop {
    fn new(at: StepStart) -> Self {
        Self { first: at, open: at, bounds: None, ended: BTreeMap::new() }
    }

    /// Returns `true` if the end of a task was reported, in this run or before it.
    pub(super) fn has(&self, end: &TaskEnd) -> bool {
        let known = self.ended.get(&end.id);
        known.is_some_and(|status| *status == end.status || *status == TaskStatus::Cached)
    }
}
