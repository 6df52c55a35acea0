//! Requests for in-process runs, and their outcomes.

use crate::error::RuntimeError;
use crate::extract::BuildInfo;
use crate::node::IntoOutput;
use crate::route::Next;
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use weftwork_engine::TaskOutput;
use weftwork_types::CheckpointId;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::RunCommand;
pub use weftwork_types::run::{Answers, Durability, Stops};

/// Starting point of a run.
#[derive(Debug)]
pub enum Start {
    /// New input: an object of channel values, or whatever a [`Flow`](crate::Flow) takes.
    Input(Json),
    /// Nothing new: go on where the thread stands; or, at an older checkpoint, run what was due
    /// there again on a branch of its own.
    Continue,
    /// Answers, a change of the state, nodes to go to.
    Command(StartCommand),
    /// New input that is typed already, and what tells whether it is of a graph's state.
    #[doc(hidden)]
    Typed(TaskOutput, fn(&BuildInfo<'_>) -> Option<(String, String)>),
}

impl Start {
    /// New input that is typed already: an update of the state.
    ///
    /// # Errors
    /// [`RuntimeError::Node`] with the update's own.
    pub fn typed<U: IntoOutput>(update: U) -> Result<Self, RuntimeError> {
        let output = update.into_output();
        let output = output.map_err(|error| RuntimeError::Node(error.into_fault()))?;
        Ok(Self::Typed(output, U::check))
    }
}

impl From<Json> for Start {
    fn from(input: Json) -> Self {
        if input.is_null() { Self::Continue } else { Self::Input(input) }
    }
}

/// A command as input: applied to the thread as it stands.
#[derive(Debug, Default)]
pub struct StartCommand {
    /// Where to go on besides what is due.
    pub goto: Vec<Next>,
    /// Writes, in order.
    pub update: Vec<(String, Json)>,
    /// Answers to open questions.
    pub resume: Option<Answers>,
}

impl From<RunCommand> for StartCommand {
    fn from(command: RunCommand) -> Self {
        let RunCommand { answers, update, goto } = command;
        Self { goto: goto.into_iter().map(Next::from).collect(), update, resume: answers }
    }
}

/// Lifetime of a subgraph's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// As long as the task that runs it: each task starts afresh, and goes on where it stopped
    /// when it is resumed.
    #[default]
    Inherit,
    /// As long as the thread: each run goes on with the state the last one left.
    Own,
    /// Not at all.
    Never,
}

/// Outcome of an in-process run. Interrupts, drain and limits are outcomes, not errors.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Nothing is left to do.
    Completed {
        /// The output: an object of channel values, or whatever a [`Flow`](crate::Flow) returned.
        output: Json,
    },
    /// The run stopped before or after a node, or questions are open.
    Interrupted {
        /// The questions; none for a stop.
        interrupts: Vec<Interrupt>,
    },
    /// The step limit was reached with work left to do.
    LimitReached {
        /// The limit.
        step_limit: u32,
    },
    /// A node asked the run to stop after its superstep.
    Drained {
        /// The reason it gave.
        reason: String,
    },
}

impl Outcome {
    /// The output of a run that completed.
    #[must_use]
    pub fn output(self) -> Option<Json> {
        match self {
            Self::Completed { output } => Some(output),
            _ => None,
        }
    }
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
    /// They keep waiting and are not run.
    Wait,
    /// They run again up to their question.
    Rerun,
}

/// Handling of a run that resumes after another one stopped or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resuming {
    /// Finished tasks are not run again, error handlers included. A graph that keeps its own state
    /// takes its input unless it stopped within the very task that resumes. Of a superstep that
    /// could not be closed, only the results of its tasks are stored.
    Exact,
    /// As the reference does: error handlers run again; a graph that keeps its own state goes on
    /// where it stands and drops its input; when checkpoints are kept at the end, one holds the
    /// channels up to the one that could not be written.
    Reference,
}

/// Counting of supersteps against the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limits {
    /// A run takes at most as many supersteps as the limit says, and one that ends with the last
    /// of them has completed.
    Exact,
    /// As the reference counts: the hidden first step is one of them, a run that ends with the
    /// last of them has reached the limit, and one that goes on may take two more.
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

/// Options of a run.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) thread: Arc<str>,
    pub(crate) at: Option<CheckpointId>,
    pub(crate) step_limit: Option<u32>,
    pub(crate) before: Option<Stops>,
    pub(crate) after: Option<Stops>,
    pub(crate) context: Json,
    pub(crate) configurable: Arc<Map<String, Json>>,
    /// Maximum number of tasks that run concurrently, in place of that of the graph.
    pub(crate) concurrency: Option<usize>,
    pub(crate) durability: Durability,
    pub(crate) deadline: Option<std::time::Duration>,
    /// `true` if the run waits in place for its timers.
    pub(crate) waiting: bool,
    pub(crate) continued: Option<Continued>,
}

/// Progress of a run in an earlier process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continued {
    /// Supersteps in which nodes of the outermost graph ran.
    pub steps: u32,
    /// Nodes that ran in the last of them.
    pub ran: Vec<String>,
    /// `true` if the run applied an input.
    pub input: bool,
}

impl Continued {
    /// Supersteps that count against the limit.
    pub(crate) fn counted(&self, limits: Limits, is_single: bool) -> i64 {
        let of_input = match limits {
            Limits::Reference if self.input && is_single => 1,
            // The checkpoint of the input, and the hidden first superstep.
            Limits::Reference if self.input => 2,
            Limits::Reference | Limits::Exact => 0,
        };
        i64::from(self.steps) + of_input
    }
}

/// Outcome of a graph's loop; the graph's caller is the program or another graph.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Nothing is left to do.
    Done,
    /// A stop, or open questions.
    Interrupted(Vec<Interrupt>),
    OutOfSteps,
    Drained(Drain),
}

/// Reason why a run stops after its superstep with work left to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Drain {
    /// A node asked for it, with this reason.
    Requested(String),
    /// The process shuts down; another one continues the run.
    Shutdown,
}

impl Drain {
    pub(crate) fn into_reason(self) -> String {
        match self {
            Self::Requested(reason) => reason,
            Self::Shutdown => "the process shuts down".to_owned(),
        }
    }
}

pub(crate) type Going<T> = Result<T, Fail>;

/// Reason why a loop ends early, besides interrupts.
#[derive(Debug)]
pub(crate) enum Fail {
    Error(RuntimeError),
    /// A command for the parent graph.
    Parent(Box<TaskOutput>),
    Drained(Drain),
}

impl From<RuntimeError> for Fail {
    fn from(error: RuntimeError) -> Self {
        Self::Error(error)
    }
}

impl From<super::saver::SaverError> for Fail {
    fn from(error: super::saver::SaverError) -> Self {
        Self::Error(error.into())
    }
}

impl From<super::saver::SaverError> for RuntimeError {
    fn from(error: super::saver::SaverError) -> Self {
        use super::saver::SaverError;
        match error {
            SaverError::Store(error) => Self::Store(error),
            SaverError::Engine(error) => Self::Engine(error),
        }
    }
}
