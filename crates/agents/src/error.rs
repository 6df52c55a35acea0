//! How agents fail to be built.

use weftwork_graph::BuildError;
use weftwork_tools::ToolBoxErrors;
use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;

/// An agent cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// Its tools are not sound.
    #[error("agent `{agent}`: {source}")]
    Tools {
        /// The agent.
        agent: String,
        /// What is wrong with them.
        source: ToolBoxErrors,
    },
    /// Its graph is not sound.
    #[error(transparent)]
    Graph(#[from] BuildError),
}

impl AgentError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Tools { source, .. } => source.code(),
            Self::Graph(error) => error.code(),
        }
    }
}

/// A model kept sending tool calls that break the tools' schemas.
pub(crate) fn cannot_repair(model: &str, rounds: usize) -> Fault {
    Fault::new(
        ErrorCode("W0602"),
        format!(
            "model `{model}` sent invalid tool arguments {rounds} times in a row; a stronger model, simpler arguments or an example in the tool may help"
        ),
    )
}
