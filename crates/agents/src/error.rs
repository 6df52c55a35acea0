//! Errors of building agents.

use weftwork_graph::{BuildError, InvalidGraph};
use weftwork_tools::{ToolBoxError, ToolBoxErrors};
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
    /// A rule of a policy is invalid.
    #[error(transparent)]
    Rule(#[from] ToolBoxError),
    /// Rules of a policy are invalid.
    #[error(transparent)]
    Policy(#[from] ToolBoxErrors),
    /// A member of a team cannot have its name.
    #[error("member `{member}` of team `{team}`: {problem}; give the member another name")]
    MemberName {
        /// The name of the team.
        team: String,
        /// The name of the member.
        member: String,
        /// Description of the problem.
        problem: &'static str,
    },
    /// A graph that is to take part in a conversation has none.
    #[error(
        "graph `{graph}` has no channel `messages` with a conversation, so that it cannot be {role}; add the channel, or call the graph from a node"
    )]
    NoConversation {
        /// The name of the graph.
        graph: String,
        /// The use that was made of it, such as `a member of a team`.
        role: &'static str,
    },
    /// A team refers to a member that it does not have, or has no members.
    #[error("{what} of team `{team}` is `{found}`, which is none of: {}", list_members(known))]
    UnknownMember {
        /// The name of the team.
        team: String,
        /// The reference, such as `the default member`.
        what: &'static str,
        /// The name.
        found: String,
        /// The names of the members.
        known: Vec<String>,
    },
    /// An option of the agent does not fit it.
    #[error("agent `{agent}`: {problem}")]
    Option {
        /// The name of the agent.
        agent: String,
        /// The option, its problem and the fix.
        problem: String,
    },
    /// Graphs or prompts that the agent is made of are invalid.
    #[error(transparent)]
    Invalid(#[from] InvalidGraph),
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
            Self::Rule(error) => error.code(),
            Self::Policy(errors) => errors.code(),
            Self::MemberName { .. } => ErrorCode("W0626"),
            Self::NoConversation { .. } => ErrorCode("W0627"),
            Self::UnknownMember { .. } => ErrorCode("W0628"),
            Self::Option { .. } => ErrorCode("W0660"),
            Self::Invalid(error) => error.code(),
            Self::Graph(error) => error.code(),
        }
    }
}

impl From<AgentError> for InvalidGraph {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Invalid(invalid) => invalid,
            error => Self::new(error.code(), error.to_string()),
        }
    }
}

fn list_members(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

/// A member of a team, or an agent that is a tool, ended without an answer.
pub(crate) fn no_answer(graph: &str) -> Fault {
    Fault::new(
        ErrorCode("W0629"),
        format!(
            "graph `{graph}` completed and added no text of the assistant to `messages`; expected its answer there"
        ),
    )
}

/// A plan was not finished within the limit of steps.
pub(crate) fn too_many_steps(graph: &str, steps: usize) -> Fault {
    Fault::new(
        ErrorCode("W0630"),
        format!(
            "agent `{graph}` executed {steps} steps of its plan, and its planner wants more; raise `steps_max`, or make the request smaller"
        ),
    )
}

/// A list has more items than one run maps.
pub(crate) fn too_many_items(graph: &str, found: usize, max: usize) -> Fault {
    Fault::new(
        ErrorCode("W0631"),
        format!(
            "graph `{graph}` got {found} items; expected at most {max}; divide the list among several runs"
        ),
    )
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
