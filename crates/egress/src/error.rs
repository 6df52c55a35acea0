//! What can be wrong with the configuration of the client.

use weftwork_types::ErrorCode;

/// The client cannot be made as configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// An entry of the allow list cannot be read.
    #[error(
        "allowed host `{found}` cannot be read: {reason}; write `localhost`, `127.0.0.1:8080`, `[::1]` or `host.example:443`"
    )]
    AllowedHost {
        /// The entry.
        found: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The proxy cannot be used.
    #[error("proxy `{found}` cannot be used: {reason}; write `http://host:port`")]
    Proxy {
        /// The proxy's URL, without user name and password.
        found: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No secure connection can be made.
    #[error("secure connections cannot be set up: {reason}")]
    Tls {
        /// Why.
        reason: String,
    },
}

impl ConfigError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode(match self {
            Self::AllowedHost { .. } => "W0806",
            Self::Proxy { .. } => "W0807",
            Self::Tls { .. } => "W0808",
        })
    }
}
