//! Agents of other servers. A request is sent once: the task that it begins there is on record before its
//! end is waited for, so that a run which continues in another process finds it again.

mod a2a;
mod ask;
mod binding;
mod breaker;
mod card;
mod envelope;
mod error;
mod peer;
mod question;
mod stream;
mod task_view;

use crate::api::{Credentials, Secrets};
use crate::definition::DefinitionFolder;
use std::sync::Arc;
use weftwork_types::port::{Clock, Egress};

pub(crate) use ask::{Asked, PeerAnswer, PeerLocation};
pub(crate) use breaker::Breakers;
pub(crate) use peer::{Peer, PeerServices};

/// The server of an agent, as a check finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedPeer {
    /// Address of the server.
    pub server: String,
    /// Number of requests of the check: none if the definition has no `healthCheck`.
    pub requests: u32,
    /// Reason why requests to the agent would fail.
    pub problem: Option<String>,
}

/// Checks the server of an agent of the type `external`: its credentials, and its health if the definition
/// says how. `None` for agents of other types.
///
/// # Cancel safety
/// Dropping the future ends the request.
pub async fn check_peer(
    folder: &DefinitionFolder,
    egress: Arc<dyn Egress>,
    secrets: Arc<Secrets>,
    clock: &dyn Clock,
) -> Option<CheckedPeer> {
    let definition = &folder.definition;
    let external = definition.transport.as_ref().and_then(|of| of.external.as_ref())?;
    let organization = definition.organization.as_deref();
    let credentials = external.authentication.as_ref();
    let credentials =
        credentials.map(|of| Credentials::new(&folder.slug, organization, of, secrets));
    let missing = credentials.as_ref().and_then(|of| of.check().err());
    let services = PeerServices { credentials, egress, breaker: Arc::default() };
    let peer = Peer::new(&folder.slug, external, services)?;
    let problem = match missing {
        Some(reason) => Some(reason),
        None => peer.check_health(clock).await.err(),
    };
    let requests = u32::from(external.health_check.is_some());
    Some(CheckedPeer { server: peer.name(), requests, problem })
}
