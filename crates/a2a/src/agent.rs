//! The agents that are exposed by this protocol.

use crate::error::{A2aError, Result};
use weftwork_types::Principal;
use weftwork_types::exposure::AgentProtocol;
use weftwork_types::port::{AgentSummary, Platform};

/// Returns the agents that a principal may ask by this protocol, ordered by slug.
pub(crate) fn exposed(platform: &dyn Platform, who: &Principal) -> Vec<AgentSummary> {
    let mut agents = platform.agents(who);
    agents.retain(|agent| agent.exposed.contains(&AgentProtocol::A2a));
    agents
}

/// Returns an agent that a principal may ask.
///
/// # Errors
/// One error for an agent that does not exist, is not exposed, or is another organisation's.
pub(crate) fn find(platform: &dyn Platform, who: &Principal, slug: &str) -> Result<AgentSummary> {
    let found = exposed(platform, who).into_iter().find(|agent| agent.slug == slug);
    found.ok_or_else(A2aError::agent_missing)
}

/// Returns the principal of clients without a token: it sees the agents that are for all.
pub(crate) fn anybody() -> Principal {
    Principal::of_workers()
}
