//! Behaviour of graphs that their authors choose.

/// Lifetime of a subgraph's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SubgraphState {
    /// As long as the task that runs it: each task starts with an empty state, and continues where
    /// it stopped when it is resumed.
    #[default]
    PerTask,
    /// As long as the thread: each run continues with the state of the one before.
    PerThread,
    /// No state: the subgraph stores no checkpoints.
    Stateless,
}

/// Behaviour of a graph where weft and the reference differ (`docs/adr/0007-semantics.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Semantics {
    /// Handling of unknown channels, nodes and checkpoints, and of input for channels that take
    /// none.
    pub unknown: weftwork_engine::Unknown,
    /// Handling of tasks with unanswered questions when a run resumes.
    pub unanswered: Unanswered,
    /// Handling of a run that resumes after another one stopped or failed.
    pub resuming: Resuming,
    /// Counting of supersteps against the limit.
    pub limits: Limits,
}

/// Handling of tasks with unanswered questions when a run resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// They still wait and are not run.
    Wait,
    /// They run again up to their question.
    Rerun,
}

/// Handling of a run that resumes after another one stopped or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resuming {
    /// Finished tasks are not run again, error handlers included. A graph that stores its own state
    /// takes its input unless it stopped within the very task that resumes. If a superstep could
    /// not be closed, only the results of its tasks are stored.
    Exact,
    /// As the reference does: error handlers run again; a graph that stores its own state continues
    /// where it stopped and drops its input; when checkpoints are stored at the end, one holds the
    /// channels up to the one that could not be written.
    Reference,
}

/// Counting of supersteps against the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limits {
    /// A run takes at most as many supersteps as the limit, and a run that ends with the last of
    /// them has completed.
    Exact,
    /// As the reference counts: the hidden first step is one of them, a run that ends with the last
    /// of them has reached the limit, and a run that continues may take two more.
    Reference,
}

impl Semantics {
    /// Ours.
    #[must_use]
    pub const fn weft() -> Self {
        Self {
            unknown: weftwork_engine::Unknown::Refuse,
            unanswered: Unanswered::Wait,
            resuming: Resuming::Exact,
            limits: Limits::Exact,
        }
    }

    /// Returns the semantics of LangGraph 1.2.
    #[must_use]
    pub const fn langgraph() -> Self {
        Self {
            unknown: weftwork_engine::Unknown::Ignore,
            unanswered: Unanswered::Rerun,
            resuming: Resuming::Reference,
            limits: Limits::Reference,
        }
    }
}

impl Default for Semantics {
    fn default() -> Self {
        Self::weft()
    }
}
