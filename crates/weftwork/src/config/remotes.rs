//! Assistants of Agent Servers, as agents.

use super::{Config, Surroundings};
use crate::{AgentDef, Error};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_types::port::RemoteThreads;

/// An entry of a configuration file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "remote"), expect(dead_code, reason = "checked only"))]
pub(super) struct RemoteEntry {
    /// Address of the server.
    url: String,
    /// Assistant: its id, or the name of its graph.
    assistant: String,
    /// Environment variable with the key of the server.
    key_env: Option<String>,
    /// Channels of the state besides `messages`.
    #[serde(default)]
    channels: Vec<String>,
    /// `true` if its runs are made beside the budgets of local runs, which cannot count them.
    #[serde(default)]
    uncounted: bool,
}

/// Start of the ids of agents that are assistants of other servers.
pub const REMOTE: &str = "remote:";

/// The assistants of other servers that the configuration names. Each is an agent with the id
/// `remote:NAME`. No server is contacted before a run of it. Without the feature `remote` there are
/// none.
#[derive(Debug, Clone, Default)]
pub struct Remotes {
    #[cfg(feature = "remote")]
    all: Vec<Configured>,
}

/// A remote with the channels of its agent, and the variable with its key if that is not set.
#[cfg(feature = "remote")]
#[derive(Debug, Clone)]
struct Configured {
    remote: weftwork_remote::RemoteGraph,
    channels: Vec<String>,
    missing: Option<String>,
}

#[cfg(feature = "remote")]
impl Remotes {
    /// Makes the assistants. Each server gets an HTTP client of its own, which may connect to the
    /// address of the server on the loopback device, and to no other there.
    pub(super) fn read(
        entries: BTreeMap<String, RemoteEntry>,
        config: &Config,
        surroundings: &Surroundings<'_>,
    ) -> Result<Self, Error> {
        use weftwork_remote::{RemoteGraph, RemoteServer};
        let mut all = Vec::new();
        for (name, entry) in entries {
            let egress = config.egress_with(super::own_host(&entry.url)?)?;
            let mut server = RemoteServer::new(&name, &entry.url, egress)?;
            let mut missing = None;
            if let Some(variable) = entry.key_env {
                match surroundings.get(&variable) {
                    Some(key) => server = server.key(key),
                    // Other commands do not need it.
                    None => {
                        server = server.missing_key(&variable);
                        missing = Some(variable);
                    }
                }
            }
            let mut remote = RemoteGraph::new(server, &entry.assistant);
            if entry.uncounted {
                remote = remote.uncounted();
            }
            all.push(Configured { remote, channels: entry.channels, missing });
        }
        Ok(Self { all })
    }

    /// The servers, on which threads are deleted after their local thread.
    #[must_use]
    pub fn servers(&self) -> Vec<Arc<dyn RemoteThreads>> {
        let servers = self.all.iter().map(|configured| configured.remote.server().clone());
        servers.map(|server| Arc::new(server) as Arc<dyn RemoteThreads>).collect()
    }

    /// The agents, sorted by name.
    #[must_use]
    pub fn agents(&self) -> Vec<AgentDef> {
        let agents = self.all.iter().cloned().map(|Configured { remote, channels, missing }| {
            let server = remote.server();
            let mut about = format!("assistant `{}` at {}", remote.assistant(), server.address());
            if let Some(variable) = missing {
                about.push_str(&format!("; its key `{variable}` is not set"));
            }
            let id = format!("{REMOTE}{}", server.name());
            AgentDef::new(&id, move |_| remote.agent(&channels)).about(about)
        });
        agents.collect()
    }
}

#[cfg(not(feature = "remote"))]
impl Remotes {
    pub(super) fn read(
        entries: BTreeMap<String, RemoteEntry>,
        _: &Config,
        _: &Surroundings<'_>,
    ) -> Result<Self, Error> {
        match entries.keys().next() {
            Some(name) => {
                let needed_by = format!("`[remotes.{name}]` of the configuration file");
                Err(Error::NotBuiltIn { needed_by, feature: "remote" })
            }
            None => Ok(Self::default()),
        }
    }

    /// The servers: none.
    #[must_use]
    pub fn servers(&self) -> Vec<Arc<dyn RemoteThreads>> {
        Vec::new()
    }

    /// The agents: none.
    #[must_use]
    pub fn agents(&self) -> Vec<AgentDef> {
        Vec::new()
    }
}
