//! The agents that are tools, and what their calls share.

use crate::error::{McpError, Result};
use crate::open_calls::OpenCalls;
use crate::tool::Tool;
use weftwork_server::TurnSource;
use weftwork_types::exposure::AgentProtocol;
use weftwork_types::port::AgentSummary;
use weftwork_types::{Principal, Right};

/// The agents that clients reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// The exposed ones.
    Exposed,
    All,
}

/// The agents that are tools, and what their calls share in this process.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) turns: TurnSource,
    pub(crate) offer: Offer,
    pub(crate) open: OpenCalls,
}

impl Source {
    fn offers(&self, agent: &AgentSummary) -> bool {
        self.offer == Offer::All || agent.exposed.contains(&AgentProtocol::Mcp)
    }

    /// Returns the tools of a principal, ordered by name; none without the right to run.
    pub(crate) fn tools(&self, who: &Principal) -> Vec<Tool> {
        if !who.rights.has(Right::Run) {
            return Vec::new();
        }
        let agents = self.turns.platform.agents(who).into_iter();
        agents.filter(|agent| self.offers(agent)).map(Tool::of).collect()
    }

    /// Returns the tool with a name. Hosts replace hyphens, which not all models take in names.
    ///
    /// # Errors
    /// One error for an agent that does not exist, is not exposed, or is another organisation's.
    pub(crate) fn tool(&self, who: &Principal, name: &str) -> Result<Tool> {
        let slug = name.replace('_', "-");
        let found = self.turns.platform.agents(who).into_iter().find(|agent| agent.slug == slug);
        let found = found.filter(|agent| self.offers(agent)).map(Tool::of);
        found.ok_or_else(McpError::tool_missing)
    }
}
