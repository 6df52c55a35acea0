//! The open superstep of a loop.

use super::loop_start::RecordUse;
use crate::error::RuntimeError;
use crate::run_loop::checkpointer::{ExternalInput, TaskRecords};
use crate::run_loop::options::LoopResult;
use crate::run_loop::task::OpenTask;

/// The open superstep: its tasks and their records.
#[derive(Debug)]
pub(crate) struct OpenStep {
    tasks: Vec<OpenTask>,
    /// `true` if one of them failed and has no error handler.
    failed: bool,
    /// Outcomes of its tasks before this loop.
    recorded: TaskRecords,
    outside: ExternalInput,
    origin: StepOrigin,
    record_use: RecordUse,
}

fn no_task() -> RuntimeError {
    RuntimeError::broken_invariant("the open superstep has no task at a place")
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

impl OpenStep {
    /// The superstep that starts from a loaded checkpoint.
    pub(crate) fn new(recorded: TaskRecords, outside: ExternalInput) -> Self {
        Self {
            tasks: Vec::new(),
            failed: false,
            recorded,
            outside,
            origin: StepOrigin::Loaded,
            record_use: RecordUse::Results,
        }
    }

    pub(crate) fn tasks(&self) -> &[OpenTask] {
        &self.tasks
    }

    /// A task of the superstep, by its place.
    pub(crate) fn task(&self, index: usize) -> LoopResult<&OpenTask> {
        self.tasks.get(index).ok_or_else(no_task)
    }

    pub(crate) fn task_mut(&mut self, index: usize) -> LoopResult<&mut OpenTask> {
        self.tasks.get_mut(index).ok_or_else(no_task)
    }

    pub(crate) fn tasks_mut(&mut self) -> &mut Vec<OpenTask> {
        &mut self.tasks
    }

    /// Removes the tasks, and returns the empty list to be filled.
    pub(crate) fn clear_tasks(&mut self) -> &mut Vec<OpenTask> {
        self.failed = false;
        self.tasks.clear();
        &mut self.tasks
    }

    /// Records that a task failed and has no error handler.
    pub(crate) fn set_failed(&mut self) {
        self.failed = true;
    }

    /// Returns `true` if a task failed and has no error handler.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Outcomes of its tasks before this loop.
    pub(crate) fn recorded(&self) -> &TaskRecords {
        &self.recorded
    }

    pub(crate) fn recorded_mut(&mut self) -> &mut TaskRecords {
        &mut self.recorded
    }

    /// The tasks, and their outcomes before this loop.
    pub(crate) fn restoring(&mut self) -> (&mut Vec<OpenTask>, &TaskRecords) {
        (&mut self.tasks, &self.recorded)
    }

    /// Input from outside the graph.
    pub(crate) fn outside(&self) -> &ExternalInput {
        &self.outside
    }

    pub(crate) fn outside_mut(&mut self) -> &mut ExternalInput {
        &mut self.outside
    }

    /// Removes the records of the superstep and its input from outside.
    pub(crate) fn clear_records(&mut self) {
        self.recorded.clear();
        self.outside = ExternalInput::default();
    }

    /// Returns `true` if the superstep may have been begun before this loop.
    pub(crate) fn is_loaded(&self) -> bool {
        self.origin == StepOrigin::Loaded
    }

    /// Returns `true` if the superstep or the one before it may have been begun before this loop.
    pub(crate) fn follows_loaded(&self) -> bool {
        self.origin != StepOrigin::Begun
    }

    /// Returns `true` if tasks that finished run again.
    pub(crate) fn runs_again(&self) -> bool {
        self.record_use != RecordUse::Results
    }

    /// Sets the use of the recorded outcomes.
    pub(crate) fn set_record_use(&mut self, record_use: RecordUse) {
        self.record_use = record_use;
    }

    /// Begins the next superstep, of which nothing is on record. Returns `true` if the closed one
    /// was loaded.
    pub(crate) fn begin_next(&mut self) -> bool {
        let loaded = self.is_loaded();
        // With `async`, an earlier process may have begun the superstep after the loaded one too;
        // calls of later ones cannot be on record.
        self.origin = match self.origin {
            StepOrigin::Loaded => StepOrigin::AfterLoaded,
            StepOrigin::AfterLoaded | StepOrigin::Begun => StepOrigin::Begun,
        };
        // Only the superstep that the loop loaded can have records of loops before it.
        if loaded {
            self.clear_records();
        }
        self.record_use = RecordUse::Results;
        loaded
    }
}
