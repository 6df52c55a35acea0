//! Protocols by which clients of other programs reach agents.

mod access;

pub use access::{AccessText, AgentAccess};

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A protocol of other programs by which an agent can be exposed. An agent is exposed by none until an
/// operator says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentProtocol {
    /// The API of OpenAI: models, chat completions and responses.
    OpenAi,
    /// The Agent2Agent protocol.
    A2a,
    /// AG-UI, the protocol between agents and front ends.
    AgUi,
    /// The Model Context Protocol.
    Mcp,
}

impl AgentProtocol {
    /// All protocols.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::A2a, Self::AgUi, Self::Mcp];

    /// Words for all protocols.
    pub const NAMES: [&'static str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::ALL[at].name();
            at += 1;
        }
        names
    };

    /// Returns the word for the protocol, as requests and commands have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::A2a => "a2a",
            Self::AgUi => "agui",
            Self::Mcp => "mcp",
        }
    }

    /// Returns the name of the protocol, for people.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::OpenAi => "OpenAI's API",
            Self::A2a => "Agent2Agent (A2A)",
            Self::AgUi => "AG-UI",
            Self::Mcp => "Model Context Protocol (MCP)",
        }
    }

    /// Returns the programs that reach agents by the protocol, in a sentence.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::OpenAi => {
                "SDKs of OpenAI, Open WebUI, LibreChat, and other programs with a base URL in their settings."
            }
            Self::A2a => "Agents of other programs, which read the card of this one.",
            Self::AgUi => "Front ends with a client of AG-UI, such as CopilotKit.",
            Self::Mcp => "Hosts of MCP, such as Claude and editors, to which the agent is a tool.",
        }
    }

    /// Returns the beginning of the paths of the protocol.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::OpenAi => "/v1",
            Self::A2a => "/a2a",
            Self::AgUi => "/agui",
            Self::Mcp => "/mcp",
        }
    }

    /// Returns the protocol of a word.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name() == name)
    }
}

impl std::fmt::Display for AgentProtocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A change of the protocols by which an agent is exposed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExposureChange {
    /// Protocols by which it is exposed from now on.
    pub on: BTreeSet<AgentProtocol>,
    /// Protocols by which it is no longer exposed.
    pub off: BTreeSet<AgentProtocol>,
}

impl ExposureChange {
    /// Returns the protocols after the change.
    #[must_use]
    pub fn apply(&self, before: &BTreeSet<AgentProtocol>) -> BTreeSet<AgentProtocol> {
        before.union(&self.on).filter(|protocol| !self.off.contains(protocol)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protocol_has_one_word_in_requests_and_in_the_store() {
        for protocol in AgentProtocol::ALL {
            assert_eq!(serde_json::json!(protocol), protocol.name());
            assert_eq!(AgentProtocol::of_name(protocol.name()), Some(protocol));
        }
        assert_eq!(AgentProtocol::of_name("OpenAI"), None);
    }

    #[test]
    fn a_change_adds_and_removes_what_it_names_and_removes_last() {
        let all = BTreeSet::from(AgentProtocol::ALL);
        let none = BTreeSet::new();
        let change = |on: &BTreeSet<_>, off: &BTreeSet<_>| ExposureChange {
            on: on.clone(),
            off: off.clone(),
        };
        assert_eq!(change(&all, &none).apply(&none), all);
        assert_eq!(change(&none, &none).apply(&all), all);
        assert_eq!(change(&none, &all).apply(&all), none);
        assert_eq!(change(&all, &all).apply(&none), none);
    }
}
