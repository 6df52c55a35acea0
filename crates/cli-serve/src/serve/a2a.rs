//! Agents that are exposed by A2A.

use std::path::Path;
use std::sync::Arc;
use weftwork::App;
use weftwork::egress::AllowedHost;
use weftwork_a2a::{A2aServer, CardKey};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;

/// Settings of the operator for the agents that are exposed by A2A.
#[derive(Debug, Default)]
pub(crate) struct A2aOptions {
    /// Address of the server in cards.
    pub(crate) url: Option<String>,
    /// Key that signs cards.
    pub(crate) key: Option<CardKey>,
    /// Hosts that push notifications may reach although their addresses are private.
    pub(crate) webhook_hosts: Vec<AllowedHost>,
    /// `true` if requests need no token.
    pub(crate) is_open: bool,
}

/// Reads the key that signs cards.
///
/// # Errors
/// [`CliError::BadInput`].
pub(super) fn read_key(path: &Path) -> Result<CardKey, CliError> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let key = text.and_then(|text| CardKey::from_pem(&text).map_err(|error| error.to_string()));
    key.map_err(|reason| CliError::BadInput {
        reason: format!("--a2a-key {}: {reason}", path.display()),
    })
}

impl A2aOptions {
    /// Returns the protocol for the agents of an app.
    pub(super) fn open(self, app: &App, context: &CommandContext) -> Result<A2aServer, CliError> {
        let Self { url, key, webhook_hosts, is_open } = self;
        let egress = context.config.webhook_egress(webhook_hosts)?;
        let store = Arc::clone(app.store());
        let clock = Arc::clone(app.runtime().clock());
        let mut server = A2aServer::new(Arc::new(app.platform()), store, clock, egress);
        if let Some(url) = url {
            server = server.url(url);
        }
        if let Some(key) = key {
            server = server.card_key(key);
        }
        Ok(if is_open { server.open_to_all() } else { server })
    }
}
