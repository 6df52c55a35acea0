//! Start of a loop: a value that is decided once, from the request, the stored checkpoint and the
//! semantics of the graph.

use super::position::StartPoint;
use crate::run_loop::context::RunEntry;

/// Request for the outermost loop, as far as its start depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// New input.
    Input,
    /// Nothing: the thread continues.
    Nothing,
    /// A command without answers.
    Command,
    /// A command with answers.
    Answers,
}

/// Request for a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopRequest {
    /// For the outermost loop.
    Outermost(Request),
    /// For the loop of a graph that a task runs.
    Nested {
        has_input: bool,
        /// Entry of the run into the superstep of that task.
        entry: RunEntry,
        /// `true` if the run answers at the newest checkpoints of all graphs that it names: it
        /// continues there, as if it named none.
        answers_newest: bool,
    },
}

/// Stored checkpoint that a loop starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredStart {
    /// None, or one before which nothing ran.
    Nothing,
    /// The checkpoint of an input or a superstep.
    Superstep,
    /// The checkpoint of a branch or of a change from outside.
    Branch {
        /// `true` if the tasks that are due there can run again in their places: none has taken an
        /// answer, and no subgraph has asked.
        is_repeatable: bool,
    },
}

/// Facts that decide the start of a loop.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartFacts {
    pub(super) request: LoopRequest,
    pub(super) point: StartPoint,
    pub(super) stored: StoredStart,
    /// `true` if tasks wait until their questions are answered.
    pub(super) waits: bool,
}

/// Use of the records of the open superstep, which earlier loops left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordUse {
    /// Tasks that finished do not run again.
    Results,
    /// All tasks run again, with their answers and calls.
    Answers,
    /// All tasks run again, with their calls. They ask their questions again.
    Calls,
}

/// Checkpoints that subgraphs start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubgraphStart {
    /// Their newest ones.
    Newest,
    /// The checkpoints that they had at the one that the loop starts from.
    Replayed,
}

/// Start of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopStart {
    /// Takes its input, and drops the tasks that are due.
    Fresh { records: RecordUse, subgraphs: SubgraphStart },
    /// Continues with answers to open questions.
    Resume { records: RecordUse },
    /// Continues without answers.
    Continue { records: RecordUse },
    /// Runs the tasks of the addressed checkpoint again, in their places.
    Replay,
    /// Runs them again on a branch of their own.
    Fork,
}

impl LoopStart {
    /// Decides the start of a loop.
    pub(super) fn decide(facts: &StartFacts) -> Self {
        let repeats = facts.repeats_tasks();
        if !facts.continues() {
            let subgraphs = match repeats {
                true => SubgraphStart::Replayed,
                false => SubgraphStart::Newest,
            };
            return Self::Fresh { records: facts.record_use(), subgraphs };
        }
        match facts.request {
            _ if repeats && facts.needs_branch() => Self::Fork,
            _ if repeats => Self::Replay,
            LoopRequest::Outermost(Request::Answers) => {
                Self::Resume { records: facts.record_use() }
            }
            _ => Self::Continue { records: facts.record_use() },
        }
    }

    /// Returns the use of the records of the open superstep.
    pub(super) fn record_use(self) -> RecordUse {
        match self {
            Self::Fresh { records, .. } | Self::Resume { records } | Self::Continue { records } => {
                records
            }
            Self::Replay | Self::Fork => RecordUse::Calls,
        }
    }

    /// Returns the checkpoints that subgraphs start from.
    pub(super) fn subgraphs(self) -> SubgraphStart {
        match self {
            Self::Fresh { subgraphs, .. } => subgraphs,
            Self::Resume { .. } | Self::Continue { .. } => SubgraphStart::Newest,
            Self::Replay | Self::Fork => SubgraphStart::Replayed,
        }
    }
}

impl StartFacts {
    /// Returns `true` if the loop continues from its checkpoint rather than taking input.
    fn continues(&self) -> bool {
        let is_requested = match self.request {
            LoopRequest::Outermost(request) => request != Request::Input,
            LoopRequest::Nested { has_input, entry, .. } => match entry {
                RunEntry::Passed => !has_input,
                RunEntry::Starts => false,
                RunEntry::Resumes => true,
            },
        };
        // As in the reference: where nothing ran, there is nothing to continue.
        is_requested && self.stored != StoredStart::Nothing
    }

    /// Returns `true` if the loop goes back to the addressed checkpoint, whose tasks run again.
    fn repeats_tasks(&self) -> bool {
        let is_superseded = self.point == StartPoint::Superseded;
        self.point.is_addressed()
            && match self.request {
                // Answers at an older checkpoint are for its questions, on a branch of their own.
                // At the newest one they resume its tasks.
                LoopRequest::Outermost(Request::Answers) => is_superseded && self.waits,
                LoopRequest::Outermost(_) => true,
                LoopRequest::Nested { entry, answers_newest, .. } => {
                    let is_named = self.point != StartPoint::Replay && !answers_newest;
                    is_named || entry != RunEntry::Resumes
                }
            }
    }

    /// Returns `true` if the tasks cannot run again in their places. A branch or a change is left
    /// only if newer checkpoints follow it, or if its tasks have asked for good.
    fn needs_branch(&self) -> bool {
        match self.stored {
            // The history of a superstep stays: as in the reference, its repetition begins with a
            // checkpoint of its own.
            StoredStart::Nothing | StoredStart::Superstep => true,
            StoredStart::Branch { is_repeatable } => {
                self.point == StartPoint::Superseded || self.waits && !is_repeatable
            }
        }
    }

    fn record_use(&self) -> RecordUse {
        let is_superseded = self.point == StartPoint::Superseded;
        match (self.repeats_tasks(), is_superseded) {
            (true, _) => RecordUse::Calls,
            (false, true) if self.waits => RecordUse::Calls,
            // The reference runs finished tasks again there, with the answers that they had.
            (false, true) => RecordUse::Answers,
            (false, false) => RecordUse::Results,
        }
    }
}

#[cfg(test)]
mod tests;
