//! The open superstep of a loop.

use super::record::Records;
use super::saver::Outside;
use super::slot::Slot;

/// The open superstep: its tasks, and what is on record of it.
#[derive(Debug)]
pub(super) struct OpenStep {
    tasks: Vec<Slot>,
    /// Outcomes of its tasks before this loop.
    recorded: Records,
    outside: Outside,
    origin: StepOrigin,
    reuse: Reuse,
}

/// Origin of the open superstep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepOrigin {
    /// It was open when the loop began, or it is the first one.
    Loaded,
    /// The loop began it after the superstep that it loaded.
    AfterLoaded,
    /// The loop began it, and the superstep before it.
    Begun,
}

/// Use of the recorded outcomes of the open superstep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reuse {
    /// Tasks that finished do not run again.
    Results,
    /// All tasks run again, with their answers and calls.
    Answers,
}

impl OpenStep {
    /// The superstep that starts from a loaded checkpoint.
    pub(super) fn new(recorded: Records, outside: Outside) -> Self {
        let (origin, reuse) = (StepOrigin::Loaded, Reuse::Results);
        Self { tasks: Vec::new(), recorded, outside, origin, reuse }
    }

    pub(super) fn tasks(&self) -> &[Slot] {
        &self.tasks
    }

    pub(super) fn tasks_mut(&mut self) -> &mut Vec<Slot> {
        &mut self.tasks
    }

    /// Outcomes of its tasks before this loop.
    pub(super) fn recorded(&self) -> &Records {
        &self.recorded
    }

    pub(super) fn recorded_mut(&mut self) -> &mut Records {
        &mut self.recorded
    }

    /// The tasks, and their outcomes before this loop.
    pub(super) fn restoring(&mut self) -> (&mut Vec<Slot>, &Records) {
        (&mut self.tasks, &self.recorded)
    }

    /// Input from outside the graph.
    pub(super) fn outside(&self) -> &Outside {
        &self.outside
    }

    pub(super) fn outside_mut(&mut self) -> &mut Outside {
        &mut self.outside
    }

    /// Removes what is on record of the superstep.
    pub(super) fn clear_records(&mut self) {
        self.recorded.clear();
        self.outside = Outside::default();
    }

    /// Returns `true` if the superstep may have been begun before this loop.
    pub(super) fn is_loaded(&self) -> bool {
        self.origin == StepOrigin::Loaded
    }

    /// Returns `true` if the superstep or the one before it may have been begun before this loop.
    pub(super) fn follows_loaded(&self) -> bool {
        self.origin != StepOrigin::Begun
    }

    /// Returns `true` if tasks that finished run again.
    pub(super) fn runs_again(&self) -> bool {
        self.reuse == Reuse::Answers
    }

    /// Runs all tasks again, or only those that have not finished.
    pub(super) fn set_runs_again(&mut self, again: bool) {
        self.reuse = if again { Reuse::Answers } else { Reuse::Results };
    }

    /// Begins the next superstep, of which nothing is on record. Returns `true` if the closed one
    /// was loaded.
    pub(super) fn begin_next(&mut self) -> bool {
        let loaded = self.is_loaded();
        self.origin = match self.origin {
            StepOrigin::Loaded => StepOrigin::AfterLoaded,
            StepOrigin::AfterLoaded | StepOrigin::Begun => StepOrigin::Begun,
        };
        if loaded {
            self.clear_records();
        }
        self.reuse = Reuse::Results;
        loaded
    }
}
