//! Outcomes of evaluations.

use super::error::{ErrorContext, EvaluationError};
use crate::output::OutputError;
use crate::prompt::PromptId;
use serde::de::DeserializeOwned;
use serde_json::Value;
use weftwork_types::ThreadId;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::usage::Usage;

/// The outcome of an evaluation. An interrupt is no error.
#[derive(Debug, Clone, PartialEq)]
pub enum Evaluated<T> {
    /// The prompt was answered.
    Done(PromptResponse<T>),
    /// Questions are open, or the graph stopped before or after a node.
    Interrupted(Interrupted),
}

/// The answer of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptResponse<T> {
    /// Identity of the prompt.
    pub prompt: PromptId,
    /// Text of the answer.
    pub text: String,
    /// Value of the answer; `None` if the prompt declares no output type.
    pub output: Option<T>,
    /// Usage of the evaluation, with that of evaluations within it.
    pub usage: Usage,
    /// The session.
    pub session: ThreadId,
    /// Thread of the evaluation. Without a checkpointer it is deleted.
    pub thread: ThreadId,
}

/// An evaluation that waits. [`Evaluator::resume`](crate::Evaluator::resume) continues it, in this
/// process or another.
#[derive(Debug, Clone, PartialEq)]
pub struct Interrupted {
    /// Thread to resume.
    pub thread: ThreadId,
    /// The open questions; none if the graph stopped before or after a node.
    pub interrupts: Vec<Interrupt>,
    /// Usage up to here.
    pub usage: Usage,
}

impl<T> Evaluated<T> {
    /// Returns the answer; `None` if the evaluation was interrupted.
    pub fn done(self) -> Option<PromptResponse<T>> {
        match self {
            Self::Done(response) => Some(response),
            Self::Interrupted(_) => None,
        }
    }

    /// Returns the interruption; `None` if the evaluation is done.
    pub fn interrupted(self) -> Option<Interrupted> {
        match self {
            Self::Done(_) => None,
            Self::Interrupted(interrupted) => Some(interrupted),
        }
    }
}

impl PromptResponse<()> {
    /// Adds the value of the answer.
    pub(super) fn typed<T: DeserializeOwned>(
        self,
        value: Option<Value>,
    ) -> Result<Evaluated<T>, EvaluationError> {
        let Self { prompt, text, output: _, usage, session, thread } = self;
        let errors =
            || ErrorContext { prompt: prompt.clone(), thread: Some(thread.clone()), usage };
        let output = value.map(serde_json::from_value).transpose().map_err(|error| {
            errors().output(&OutputError::Malformed { problem: error.to_string() })
        })?;
        Ok(Evaluated::Done(PromptResponse { prompt, text, output, usage, session, thread }))
    }
}
