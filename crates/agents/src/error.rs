//! Errors of building agents.

use weftwork_graph::BuildError;
use weftwork_tools::ToolBoxErrors;
use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;

/// An agent cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The tools of the agent are invalid.
    #[error("agent `{agent}`: {source}")]
    Tools {
        /// The name of the agent.
        agent: String,
        /// The problems of the tools.
        source: ToolBoxErrors,
    },
    /// The graph of the agent is invalid.
    #[error(transparent)]
    Graph(#[from] BuildError),
}

impl AgentError {
    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Tools { source, .. } => source.code(),
            Self::Graph(error) => error.code(),
        }
    }
}

/// The model repeatedly sent tool calls that violate the tools' schemas.
pub(crate) fn cannot_repair(model: &str, rounds: usize) -> Fault {
    Fault::new(
        ErrorCode("W0602"),
        format!(
            "model `{model}` sent invalid tool arguments {rounds} times in a row; a stronger model, simpler arguments or an example in the tool may help"
        ),
    )
}
