//! Agent cards.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The description of an agent for clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    /// Name for people.
    pub name: String,
    /// Purpose.
    pub description: String,
    /// Addresses, the preferred one first.
    pub supported_interfaces: Vec<AgentInterface>,
    /// Organisation that serves the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<AgentProvider>,
    /// Version of the agent.
    pub version: String,
    /// Abilities of the server.
    pub capabilities: AgentCapabilities,
    /// Ways to authenticate.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub security_schemes: Map<String, Value>,
    /// Ways of which a request needs one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_requirements: Vec<Value>,
    /// Media types that the agent takes.
    pub default_input_modes: Vec<String>,
    /// Media types that the agent gives.
    pub default_output_modes: Vec<String>,
    /// Abilities of the agent.
    pub skills: Vec<AgentSkill>,
    /// Signatures over the card.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<AgentCardSignature>,
}

/// An address of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInterface {
    /// Address.
    pub url: String,
    /// Binding: `JSONRPC` or `HTTP+JSON`.
    pub protocol_binding: String,
    /// Tenant that requests name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// Version of the protocol.
    pub protocol_version: String,
}

/// The organisation that serves an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentProvider {
    /// Address of its page.
    pub url: String,
    /// Name.
    pub organization: String,
}

/// Abilities of a server for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCapabilities {
    /// Streams.
    pub streaming: bool,
    /// Push notifications.
    pub push_notifications: bool,
    /// A card for authenticated clients.
    pub extended_agent_card: bool,
}

/// An ability of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSkill {
    /// Id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Description.
    pub description: String,
    /// Words by which it is found.
    pub tags: Vec<String>,
    /// Examples of requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
}

/// A signature over a card: a JSON Web Signature without its payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCardSignature {
    /// Protected header, in Base64url.
    pub protected: String,
    /// Signature, in Base64url.
    pub signature: String,
}
