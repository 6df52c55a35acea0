//! Agents that asked one another before a request, across servers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum number of agents in a chain.
pub const AGENTS_MAX: usize = 32;
/// Maximum length of the name of an agent in a chain, in bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// The agents that asked one another before a request. A client may claim any: a chain from outside only
/// lowers what the request may do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallChain {
    /// Number of agents that asked one another, or more if a limit of one of them leaves fewer.
    pub depth: u64,
    /// Names of the agents as `SLUG@VERSION`, the outermost first.
    pub agents: Vec<String>,
}

/// Error of a chain that a client sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the chain of agents cannot be read; expected `{{\"depth\": NUMBER, \"agents\": [NAME, …]}}` with at most {AGENTS_MAX} names of {NAME_BYTES_MAX} bytes"
)]
pub struct BadCallChain;

impl CallChain {
    /// Header of requests that have a chain.
    pub const HEADER: &str = "weft-chain";
    /// Member of the metadata of an A2A message that has a chain.
    pub const METADATA: &str = "weft_chain";

    /// Reads the value of a header.
    ///
    /// # Errors
    /// [`BadCallChain`] if it has another form, or more than a chain may have.
    pub fn parse(text: &str) -> Result<Self, BadCallChain> {
        Self::check(serde_json::from_str(text).map_err(|_| BadCallChain)?)
    }

    /// Reads a member of metadata.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn read(value: &Value) -> Result<Self, BadCallChain> {
        let mut value = value.clone();
        // Metadata of A2A passes through protocol buffers, whose numbers are floats.
        let depth = value.get("depth").filter(|depth| depth.is_f64()).and_then(Value::as_f64);
        if let Some(depth) = depth.filter(|depth| depth.fract() == 0.0) {
            value["depth"] = format!("{depth:.0}").parse::<u64>().map_err(|_| BadCallChain)?.into();
        }
        Self::check(Self::deserialize(value).map_err(|_| BadCallChain)?)
    }

    fn check(chain: Self) -> Result<Self, BadCallChain> {
        let is_sound = |name: &String| !name.is_empty() && name.len() <= NAME_BYTES_MAX;
        match chain.agents.len() <= AGENTS_MAX && chain.agents.iter().all(is_sound) {
            true => Ok(chain),
            false => Err(BadCallChain),
        }
    }

    /// Returns the chain with the agents of another one behind its own, and the greater depth.
    #[must_use]
    pub fn joined(mut self, other: Self) -> Self {
        self.depth = self.depth.max(other.depth);
        self.agents.extend(other.agents);
        self
    }

    /// Returns the chain of an agent that one with this name asks.
    #[must_use]
    pub fn asking(&self, name: String, depth: u64) -> Self {
        let mut agents = self.agents.clone();
        agents.push(name);
        Self { depth, agents }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_chain_is_read_within_its_limits() {
        let chain = CallChain { depth: 2, agents: vec!["desk@1".to_owned(), "golf@2".to_owned()] };
        assert_eq!(CallChain::parse(&json!(chain).to_string()), Ok(chain.clone()));
        assert_eq!(CallChain::read(&json!({})), Ok(CallChain::default()));
        let float = CallChain { depth: 2, agents: Vec::new() };
        assert_eq!(CallChain::read(&json!({"depth": 2.0})), Ok(float));
        assert_eq!(CallChain::read(&json!({"depth": 1.5})), Err(BadCallChain));
        let name = |bytes| "a".repeat(bytes);
        let full = CallChain { depth: u64::MAX, agents: vec![name(NAME_BYTES_MAX); AGENTS_MAX] };
        assert_eq!(CallChain::read(&json!(full)), Ok(full));
        for wrong in [
            json!({"depth": -1}),
            json!({"depth": -1.0}),
            json!({"depth": "1"}),
            json!({"agents": "desk"}),
            json!({"agents": [""]}),
            json!({"agents": [1]}),
            json!({"agents": [name(NAME_BYTES_MAX + 1)]}),
            json!({"agents": vec!["a"; AGENTS_MAX + 1]}),
            json!({"limit": 1}),
            json!(null),
        ] {
            assert_eq!(CallChain::read(&wrong), Err(BadCallChain), "{wrong}");
            assert_eq!(CallChain::parse(&wrong.to_string()), Err(BadCallChain), "{wrong}");
        }
        assert_eq!(CallChain::parse("{"), Err(BadCallChain));
    }

    #[test]
    fn chains_join_to_what_leaves_least() {
        let one = CallChain { depth: 3, agents: vec!["a".to_owned()] };
        let other = CallChain { depth: 1, agents: vec!["b".to_owned()] };
        let joined = one.clone().joined(other);
        assert_eq!(joined, CallChain { depth: 3, agents: vec!["a".to_owned(), "b".to_owned()] });
        let asked = one.asking("b".to_owned(), 4);
        assert_eq!(asked, CallChain { depth: 4, agents: vec!["a".to_owned(), "b".to_owned()] });
    }
}
