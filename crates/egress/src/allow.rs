//! The allow list: hosts that may resolve to addresses that are refused otherwise.

use crate::ConfigError;
use std::fmt;
use std::str::FromStr;
use url::Host;

/// A host, or one port of it, that may resolve to a loopback or private address.
///
/// Names match exactly, ignoring case. There are no wildcards and no ranges.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AllowedHost {
    host: Host<String>,
    port: Option<u16>,
}

impl AllowedHost {
    /// Returns `true` if the entry allows a request to this host and port.
    pub(crate) fn matches(&self, host: &Host<String>, port: u16) -> bool {
        self.host == *host && self.port.is_none_or(|allowed| allowed == port)
    }
}

impl FromStr for AllowedHost {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let bad = |reason| ConfigError::AllowedHost { found: text.to_owned(), reason };
        let (host, port) = split_port(text.trim());
        let port = match port {
            Some(digits) => Some(digits.parse().map_err(|_| bad("the port is not a number"))?),
            None => None,
        };
        if host.contains('/') || host.contains('@') {
            return Err(bad("it is a URL, not a host"));
        }
        let host = Host::parse(host).map_err(|_| bad("it is not a host name or address"))?;
        Ok(Self { host: without_last_dot(host), port })
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => write!(f, "{}", self.host),
        }
    }
}

/// Treats `name.` and `name` as the same host.
pub(crate) fn without_last_dot(host: Host<String>) -> Host<String> {
    match host {
        Host::Domain(name) => Host::Domain(name.strip_suffix('.').unwrap_or(&name).to_owned()),
        address => address,
    }
}

fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        // A colon inside brackets belongs to an IPv6 address.
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(text: &str) -> AllowedHost {
        text.parse().expect("an allowed host")
    }

    fn host(text: &str) -> Host<String> {
        Host::parse(text).expect("a host")
    }

    #[test]
    fn a_host_without_port_matches_every_port() {
        assert!(allowed("LOCALHOST.").matches(&host("localhost"), 1));
        assert!(allowed("[::1]").matches(&host("[::1]"), 80));
        assert!(!allowed("localhost").matches(&host("localhost.evil.example"), 80));
    }

    #[test]
    fn a_host_with_a_port_matches_only_that_port() {
        assert!(allowed("127.0.0.1:8080").matches(&host("127.0.0.1"), 8080));
        assert!(!allowed("127.0.0.1:8080").matches(&host("127.0.0.1"), 8081));
        assert!(allowed("[::1]:8080").matches(&host("[::1]"), 8080));
        assert_eq!(allowed("[::1]:8080").to_string(), "[::1]:8080");
    }

    #[test]
    fn what_is_not_a_host_is_refused_with_a_reason() {
        for text in ["", "http://localhost", "a b", "localhost:", "localhost:99999", "x@y", "::1"] {
            let error = text.parse::<AllowedHost>().expect_err(text);
            assert_eq!(error.code().0, "W0806", "{text}");
        }
    }
}
