//! Errors in the configuration of the client.

use weftwork_types::ErrorCode;

/// The configuration of the client is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// An entry of the allow list is invalid.
    #[error(
        "allowed host `{found}` cannot be read: {reason}; write `localhost`, `127.0.0.1:8080`, `[::1]` or `host.example:443`"
    )]
    AllowedHost {
        /// The entry.
        found: String,
        /// The problem of the entry.
        reason: &'static str,
    },
    /// The proxy cannot be used.
    #[error("proxy `{found}` cannot be used: {reason}; write `http://host:port`")]
    Proxy {
        /// The proxy's URL, without user name and password.
        found: String,
        /// The problem of the proxy.
        reason: String,
    },
    /// TLS cannot be set up.
    #[error("secure connections cannot be set up: {reason}")]
    Tls {
        /// The cause.
        reason: String,
    },
}

impl ConfigError {
    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode(match self {
            Self::AllowedHost { .. } => "W0806",
            Self::Proxy { .. } => "W0807",
            Self::Tls { .. } => "W0808",
        })
    }
}
