//! The operator's MCP servers.

use super::{Config, Setting, Surroundings};
use crate::Error;
use std::path::PathBuf;
use std::sync::Arc;
use weftwork_tools::{Policy, Tool};

/// The MCP servers of a file, and the tools of them that are allowed. No server runs before a tool of
/// it is called. Without the feature `mcp` there is no value of this type.
#[derive(Debug, Clone)]
pub struct McpTools {
    /// The file.
    pub file: Setting<PathBuf>,
    /// The servers.
    #[cfg(feature = "mcp")]
    pub servers: weftwork_mcp::McpServers,
}

#[cfg(feature = "mcp")]
impl McpTools {
    /// Reads the file and the allowed tools. Each server at an address gets an HTTP client of its
    /// own, which may connect to that address on the loopback device, and to no other there.
    pub(super) fn read(
        setting: Setting<String>,
        config: &Config,
        surroundings: &Surroundings<'_>,
    ) -> Result<Self, Error> {
        use weftwork_mcp::{Limits, McpFile, McpServers, Reached};
        let path = surroundings.folder.join(&setting.value);
        let file = McpFile::read(&path, &|name| surroundings.get(name))?;
        let mut clients = std::collections::BTreeMap::new();
        for (name, server) in &file.servers {
            if let Reached::Http { url, .. } = &server.reached {
                clients.insert(name.clone(), config.egress_with(super::own_host(url)?)?);
            }
        }
        let clock = Arc::new(weftwork_graph::SystemClock::new());
        let logins = config.data.as_ref().map(|folder| folder.join("mcp-logins"));
        let servers = McpServers::new(file, clock, clients, Limits::default(), logins.as_deref())?;
        Ok(Self { file: Setting { value: path, origin: setting.origin }, servers })
    }

    /// The allowed tools, and the policy that allows those that only read and asks a person about
    /// the others.
    #[must_use]
    pub fn parts(&self) -> (Vec<Arc<dyn Tool>>, Policy) {
        (self.servers.tools(), self.servers.policy())
    }

    /// Ends the servers that run.
    pub async fn shutdown(&self) {
        self.servers.shutdown().await;
    }
}

#[cfg(not(feature = "mcp"))]
impl McpTools {
    pub(super) fn read(
        setting: Setting<String>,
        _: &Config,
        _: &Surroundings<'_>,
    ) -> Result<Self, Error> {
        let needed_by = format!("the file of MCP servers `{}` ({})", setting.value, setting.origin);
        Err(Error::NotBuiltIn { needed_by, feature: "mcp" })
    }

    /// The allowed tools and their policy: none.
    #[must_use]
    pub fn parts(&self) -> (Vec<Arc<dyn Tool>>, Policy) {
        Default::default()
    }

    /// Does nothing.
    pub async fn shutdown(&self) {}
}
