//! Requests that are refused.

use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;
use weftwork_types::task::Mode;

/// A request that an agent refuses. Nothing was made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The agent does not have the mode.
    #[error("agent {agent} does not support mode {mode}; declared: {}", names(declared))]
    Mode {
        /// Slug of the agent.
        agent: String,
        /// Requested mode.
        mode: String,
        /// Modes of the agent.
        declared: Vec<Mode>,
    },
    /// The type of the agent has no runner.
    #[error("Unknown agent type: {name}")]
    AgentType {
        /// Name of the type.
        name: String,
    },
    /// The action is not known.
    #[error("Unknown action: {action}; expected one of: {expected}")]
    Action {
        /// Requested action.
        action: String,
        /// Known actions.
        expected: &'static str,
    },
    /// The action of an orchestration is not known.
    #[error("Unknown orchestration action: {action}; expected one of: {expected}")]
    OrchestrationAction {
        /// Requested action.
        action: String,
        /// Known actions.
        expected: &'static str,
    },
    /// A member of the request has another form.
    #[error("`{member}` of the request is {found}; expected {expected}")]
    Member {
        /// Name of the member.
        member: &'static str,
        /// Value found.
        found: String,
        /// Expected form.
        expected: String,
    },
    /// The input does not satisfy the schema of the agent.
    #[error("the input does not fit `input_schema` of agent {agent}: {problem}")]
    Input {
        /// Slug of the agent.
        agent: String,
        /// Problem of the input.
        problem: String,
    },
    /// The content of a build does not satisfy the schema of the agent.
    #[error("the content does not fit `output_schema` of agent {agent}: {problem}")]
    Output {
        /// Slug of the agent.
        agent: String,
        /// Problem of the content.
        problem: String,
    },
    /// Agents ask one another too deeply.
    #[error(
        "agents ask one another too deeply: agent {agent} may ask no further one, by its `maxDepth`, {limit}, or that of an agent before it"
    )]
    Depth {
        /// Slug of the agent.
        agent: String,
        /// Limit.
        limit: u32,
    },
    /// The agent has asked others already, which now ask it.
    #[error(
        "agent {agent} is in the chain of agents that led to the request; a definition with `orchestration.allow_repeats: true` allows it"
    )]
    Repeated {
        /// Slug of the agent.
        agent: String,
    },
    /// The conversation waits for an answer.
    #[error(
        "the conversation waits for an answer: {question}; answer it, or begin another conversation"
    )]
    Waiting {
        /// The first question.
        question: String,
    },
    /// The agent may not call the tool.
    #[error("agent {agent} has no tool {tool}; its tools: {known}")]
    Tool {
        /// Slug of the agent.
        agent: String,
        /// Requested tool.
        tool: String,
        /// Tools of the agent.
        known: String,
    },
    /// The program does not have a tool that the definition names.
    #[error(
        "agent {agent} names the tool {tool}, which this program does not have; the operator adds its server, and allows it by `weft mcp allow`"
    )]
    MissingTool {
        /// Slug of the agent.
        agent: String,
        /// Tool that the definition names.
        tool: String,
    },
    /// There is no such agent.
    #[error("there is no agent {agent}{}", known(nearest))]
    Agent {
        /// Requested agent.
        agent: String,
        /// Nearest known slug.
        nearest: Option<String>,
    },
}

impl RequestError {
    /// Returns the stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode(match self {
            Self::Mode { .. } => "W1030",
            Self::AgentType { .. } => "W1031",
            Self::Action { .. } | Self::OrchestrationAction { .. } => "W1032",
            Self::Member { .. } | Self::Input { .. } => "W1033",
            Self::Output { .. } => "W1036",
            Self::Depth { .. } => "W1037",
            Self::Repeated { .. } => "W1039",
            Self::Waiting { .. } => "W1038",
            Self::Tool { .. } | Self::MissingTool { .. } => "W1034",
            Self::Agent { .. } => "W1012",
        })
    }

    /// Converts the error to the form in which it is stored and shown.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault::new(self.code(), self.to_string())
    }
}

fn names(modes: &[Mode]) -> String {
    modes.iter().map(|mode| mode.name()).collect::<Vec<_>>().join(", ")
}

fn known(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}
