//! Errors of prompts.

use super::PromptId;
use weftwork_graph::InvalidGraph;
use weftwork_tools::ToolBoxErrors;
use weftwork_types::ErrorCode;
use weftwork_types::canonical::Hash;
use weftwork_types::code::Fault;

/// A prompt cannot be defined, rendered, or found. No model was called.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// The definition has problems; all are listed.
    #[error("prompt `{prompt}` is not sound:{}", list_problems(problems))]
    Invalid {
        /// The prompt.
        prompt: PromptId,
        /// The problems.
        problems: Vec<String>,
    },
    /// The parameters do not fit the prompt.
    #[error("prompt `{prompt}` cannot be rendered: {reason}")]
    Parameters {
        /// The prompt.
        prompt: PromptId,
        /// Description of the problem, with the section.
        reason: String,
    },
    /// An override names no section, or was made for another content.
    #[error("prompt `{prompt}`: the override of section `{section}` is refused: {reason}")]
    Override {
        /// The prompt.
        prompt: PromptId,
        /// Path of the section.
        section: String,
        /// Reason, and the fix.
        reason: String,
    },
    /// The tools of the enabled sections do not go together.
    #[error("prompt `{prompt}`: {source}")]
    Tools {
        /// The prompt.
        prompt: PromptId,
        /// The problems of the tools.
        source: ToolBoxErrors,
    },
    /// A stored run refers to a prompt that is not registered here.
    #[error(
        "prompt `{prompt}` is not registered here; register it with `EvaluatorBuilder::prompt`, and resume the thread"
    )]
    Unknown {
        /// The prompt.
        prompt: PromptId,
    },
    /// A stored run was begun with another content of the prompt.
    #[error(
        "prompt `{prompt}` has changed since the run began: its rendered form had hash {began} and has {found}; resume the thread with the version that it began with, or evaluate the prompt anew"
    )]
    Changed {
        /// The prompt.
        prompt: PromptId,
        /// Hash of the rendered form when the run began.
        began: Box<Hash>,
        /// Hash of its present rendered form.
        found: Box<Hash>,
    },
}

impl PromptError {
    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode(match self {
            Self::Invalid { .. } => "W0610",
            Self::Parameters { .. } => "W0611",
            Self::Override { .. } => "W0612",
            Self::Unknown { .. } => "W0613",
            Self::Changed { .. } => "W0614",
            Self::Tools { source, .. } => return source.code(),
        })
    }

    /// Returns the error in the form that is stored and shown.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault::new(self.code(), self.to_string()).with_sources_of(self)
    }
}

fn list_problems(problems: &[String]) -> String {
    problems.iter().map(|problem| format!("\n  - {problem}")).collect()
}

impl From<PromptError> for InvalidGraph {
    fn from(error: PromptError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}
