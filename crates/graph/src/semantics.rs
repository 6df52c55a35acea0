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

/// Settings of the run loop that follow from the semantics of a graph. They are derived once, when the
/// graph is built: the loop reads the setting that it needs, and never the semantics as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoopSettings {
    /// Tasks with unanswered questions wait; otherwise they run again up to their question.
    pub(crate) waits_for_answers: bool,
    /// Unknown channels, nodes and checkpoints are left out; otherwise they are errors.
    pub(crate) ignores_unknown: bool,
    /// Error handlers that finished do not run again, and count in the state of the thread.
    pub(crate) reuses_handlers: bool,
    /// A graph that stores its own state takes its input if another task ran it last; otherwise it
    /// continues where it stopped.
    pub(crate) takes_input_of_other_task: bool,
    /// A superstep that could not be closed leaves the state before it; otherwise the channels up to
    /// the one that could not be written.
    pub(crate) undoes_failed_close: bool,
    /// Each attempt of a task numbers its calls from the first on, so that it finds those of the
    /// attempt before it.
    pub(crate) renumbers_calls: bool,
    /// A task whose route failed counts as finished when the run continues; otherwise it runs again.
    pub(crate) finishes_before_routes: bool,
    /// The state of a thread shows the targets of commands as due.
    pub(crate) shows_command_targets: bool,
    /// Limit of supersteps.
    pub(crate) steps: StepRule,
}

/// Counting of supersteps against the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepRule {
    /// Supersteps count from the loaded checkpoint on; otherwise from the one that the start of the
    /// loop made, without the hidden first superstep.
    pub(crate) counts_from_loaded: bool,
    /// Supersteps that run at or beyond the stop of the loop.
    pub(crate) beyond_stop: i64,
    /// A run that ends with its last superstep has reached the limit.
    pub(crate) limits_finished_runs: bool,
    /// Supersteps that the input of an earlier process counts, of a flow.
    pub(crate) input_of_flow: i64,
    /// The same of another graph: the checkpoint of the input, and the hidden first superstep.
    pub(crate) input_of_graph: i64,
}

impl StepRule {
    const EXACT: Self = Self {
        counts_from_loaded: false,
        beyond_stop: 0,
        limits_finished_runs: false,
        input_of_flow: 0,
        input_of_graph: 0,
    };
    const REFERENCE: Self = Self {
        counts_from_loaded: true,
        beyond_stop: 1,
        limits_finished_runs: true,
        input_of_flow: 1,
        input_of_graph: 2,
    };
}

impl LoopSettings {
    /// Derives the settings from the semantics of a graph.
    pub(crate) fn new(semantics: Semantics) -> Self {
        let is_exact = semantics.resuming == Resuming::Exact;
        Self {
            waits_for_answers: semantics.unanswered == Unanswered::Wait,
            ignores_unknown: semantics.unknown == weftwork_engine::Unknown::Ignore,
            reuses_handlers: is_exact,
            takes_input_of_other_task: is_exact,
            undoes_failed_close: is_exact,
            renumbers_calls: is_exact,
            finishes_before_routes: !is_exact,
            shows_command_targets: is_exact,
            steps: match semantics.limits {
                Limits::Exact => StepRule::EXACT,
                Limits::Reference => StepRule::REFERENCE,
            },
        }
    }
}

impl Default for Semantics {
    fn default() -> Self {
        Self::weft()
    }
}
