//! The exposure of agents, for people who point programs at them.

use super::Service;
use crate::error::Result;
use crate::mounted::is_below;
use serde::Serialize;
use std::collections::BTreeSet;
use weftwork_types::Right;
use weftwork_types::exposure::{AgentAccess, AgentProtocol};
use weftwork_types::port::AgentSummary;

/// The exposure of an agent, as a client sees it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentExposure {
    slug: String,
    /// Protocols by which the agent is exposed, also those of other servers over the store.
    exposed: BTreeSet<AgentProtocol>,
    /// `true` if the client may change it.
    may_change: bool,
    /// Protocols of this server.
    protocols: Vec<ProtocolExposure>,
}

/// A protocol of the server, and the access to an agent by it.
#[derive(Debug, Serialize)]
struct ProtocolExposure {
    protocol: AgentProtocol,
    label: &'static str,
    about: &'static str,
    /// `None` if the agent is not exposed by the protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    access: Option<AgentAccess>,
}

impl Service {
    /// Returns the exposure of an agent, with texts for the address of the server.
    pub(crate) fn exposure(&self, slug: &str, server: &str) -> Result<AgentExposure> {
        Ok(self.exposure_of(self.find_agent(slug)?, server))
    }

    pub(crate) fn exposure_of(&self, agent: AgentSummary, server: &str) -> AgentExposure {
        let AgentSummary { slug, exposed, organization, .. } = agent;
        let is_admin = self.require(Right::Admin).is_ok();
        let may_change = is_admin && self.who().may_define_for(organization.as_deref());
        let served = AgentProtocol::ALL.into_iter().filter(|protocol| self.serves(*protocol));
        let protocols = served.map(|protocol| ProtocolExposure {
            protocol,
            label: protocol.label(),
            about: protocol.about(),
            access: exposed.contains(&protocol).then(|| AgentAccess::new(protocol, &slug, server)),
        });
        AgentExposure { protocols: protocols.collect(), slug, exposed, may_change }
    }

    /// Returns `true` if a crate brought the routes of a protocol.
    fn serves(&self, protocol: AgentProtocol) -> bool {
        self.mounted().iter().any(|operation| is_below(operation.path, protocol.prefix()))
    }
}
