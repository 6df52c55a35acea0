//! Requests for in-process runs, and their outcomes.

use crate::error::{Drain, RuntimeError};
use crate::extract::BuildInfo;
use crate::output::IntoOutput;
use crate::route::Next;
use crate::run_loop::namespace::nowhere;
use crate::semantics::StepRule;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_engine::TaskOutput;
use weftwork_engine::pregel::StartInput;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::{Answers, Durability, RunCommand, Stops};
use weftwork_types::{CheckpointId, InterruptId};

/// Starting point of a run.
#[derive(Debug)]
pub enum Start {
    /// New input: an object of channel values, or whatever a [`Flow`](crate::Flow) takes.
    Input(Json),
    /// No new input: continue from the newest checkpoint of the thread; or, at an older checkpoint,
    /// run the tasks that were due there again on a branch of their own.
    Continue,
    /// Answers, a change of the state, nodes to go to.
    Command(StartCommand),
    /// No new input: continue a run that an earlier process began with these answers at a named
    /// checkpoint. The process may have died before it stored them.
    #[doc(hidden)]
    Resumed(BTreeMap<InterruptId, Json>),
    /// New input that is typed already, and a function that checks whether it is of a graph's
    /// state.
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
        // As `invoke(None)` of the reference.
        if input.is_null() { Self::Continue } else { Self::Input(input) }
    }
}

/// A command as input: applied to the current state of the thread.
#[derive(Debug, Default)]
pub struct StartCommand {
    /// Targets that are due besides those of the graph.
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
    pub(crate) fn counted(&self, rule: StepRule, is_single: bool) -> i64 {
        let of_input = match self.input {
            true if is_single => rule.input_of_flow,
            true => rule.input_of_graph,
            false => 0,
        };
        i64::from(self.steps) + of_input
    }
}

/// Outcome of a graph's loop; the graph's caller is the program or another graph.
#[derive(Debug)]
pub(crate) enum LoopOutcome {
    /// Nothing is left to do.
    Completed,
    /// A stop, or open questions.
    Interrupted(Vec<Interrupt>),
    LimitReached,
    /// The loop stopped after its superstep, because the run was to stop.
    Drained(Drain),
    /// A task ended the loop within its superstep, because a graph that it ran was drained.
    TaskDrained(Drain),
    /// A task ended the loop with a command for the parent graph.
    Parent(Box<TaskOutput>),
}

impl LoopOutcome {
    /// Returns `true` if a task ended the loop within its superstep.
    pub(crate) fn by_task(&self) -> bool {
        matches!(self, Self::TaskDrained(_) | Self::Parent(_))
    }
}

pub(crate) type LoopResult<T> = Result<T, RuntimeError>;

impl Options {
    pub(crate) fn fresh() -> Self {
        Self {
            thread: nowhere(),
            at: None,
            step_limit: None,
            before: None,
            after: None,
            context: Json::Null,
            configurable: Arc::default(),
            concurrency: None,
            durability: Durability::Sync,
            deadline: None,
            waiting: false,
            continued: None,
        }
    }
}

/// Starting point of a loop.
pub(crate) enum LoopInput {
    Input(StartInput),
    Nothing,
    Command(StartCommand),
    /// Answers that an earlier process began the run with.
    Resumed(BTreeMap<InterruptId, Json>),
}

impl LoopInput {
    pub(crate) fn answers(&self) -> bool {
        matches!(self, Self::Command(StartCommand { resume: Some(_), .. }))
    }
}
