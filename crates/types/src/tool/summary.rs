//! Tools of an agent as people see them before they ask for something.

use super::ToolSpec;

/// The decision of a policy about the calls of a tool, as far as it does not depend on arguments or
/// on the principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    /// All calls are made.
    Allowed,
    /// A person is asked before each call, for this reason.
    Asks {
        /// The reason, shown to the person.
        reason: String,
    },
    /// The decision depends on the arguments or on the principal.
    Depends,
    /// No call is made.
    Denied,
}

/// A tool of an agent, with the decision about its calls.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSummary {
    /// The declaration.
    pub spec: ToolSpec,
    /// The decision about its calls.
    pub permission: Permission,
}

/// The tools of the graph of an agent, in the order in which they were added. Agents keep them with
/// the dependencies of their graph, in which a server finds them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentTools(pub Vec<ToolSummary>);
