//! Outcomes of evaluations.

use crate::prompt::PromptId;
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
