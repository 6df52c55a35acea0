//! The agents that are exposed by this protocol.

use crate::error::{AguiError, Result};
use weftwork_server::MountedClient;
use weftwork_types::exposure::AgentProtocol;
use weftwork_types::port::AgentSummary;

/// Returns an agent that a client may run.
///
/// # Errors
/// Status 404, in the same words for an agent that does not exist, is not exposed, or is another
/// organisation's.
pub(crate) fn find(client: &MountedClient, slug: &str) -> Result<AgentSummary> {
    let mut agents = client.platform()?.agents(client.principal()).into_iter();
    let found =
        agents.find(|agent| agent.slug == slug && agent.exposed.contains(&AgentProtocol::AgUi));
    found.ok_or_else(AguiError::agent_missing)
}
