//! Outcomes of evaluations.

use super::error::{ErrorContext, EvaluationError};
use crate::output::OutputError;
use crate::prompt::PromptId;
use serde::de::DeserializeOwned;
use serde_json::Value;
use weftwork_graph::RuntimeError;
use weftwork_types::ThreadId;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::usage::Usage;

/// The outcome of an evaluation. An interrupt is no error. It has the methods of the
/// [end](weftwork_graph::Ended) of a run.
///
/// ```
/// use weftwork_agents::{Evaluator, Prompt, Section};
/// use weftwork_models::scripted::ScriptedModel;
/// use weftwork_models::scripted::Step;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::from_steps([Step::text("[31, 28]")]);
/// let prompt = Prompt::<()>::builder("examples", "count", "Count")
///     .section(Section::new("task", "Task", "How many days have January and February?"))
///     .output::<Vec<u32>>()
///     .build()?;
/// let evaluator = Evaluator::builder(model).open().await?;
/// let session = evaluator.new_session();
/// let evaluated = evaluator.evaluate(&prompt, ()).session(&session).await?;
/// assert!(evaluated.questions().is_empty());
/// assert_eq!(evaluated.value()?, [31, 28]);
/// # Ok(())
/// # }
/// ```
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
    /// Open questions; none if the prompt was answered, or the graph stopped before or after a node.
    #[must_use]
    pub fn questions(&self) -> &[Interrupt] {
        match self {
            Self::Done(_) => &[],
            Self::Interrupted(interrupted) => &interrupted.interrupts,
        }
    }

    /// Text of the answer; empty if the evaluation was interrupted.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Done(response) => &response.text,
            Self::Interrupted(_) => "",
        }
    }

    /// Value of the answer.
    ///
    /// # Errors
    /// [`RuntimeError::NotCompleted`] if the evaluation was interrupted, or its prompt declares no
    /// output type.
    pub fn value(self) -> Result<T, RuntimeError> {
        let none = |thread: &ThreadId, reason| RuntimeError::NotCompleted {
            run: thread.to_string(),
            reason,
        };
        match self {
            Self::Done(PromptResponse { output: Some(value), .. }) => Ok(value),
            Self::Done(response) => {
                Err(none(&response.thread, "has no value: its prompt declares no output type"))
            }
            Self::Interrupted(interrupted) if interrupted.interrupts.is_empty() => {
                Err(none(&interrupted.thread, "stopped before or after a node"))
            }
            Self::Interrupted(interrupted) => Err(none(&interrupted.thread, "waits for an answer")),
        }
    }

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
