//! Checked request URLs.

use crate::address::{AddressClass, classify};
use crate::allow::{AllowedHost, without_last_dot};
use std::net::IpAddr;
use url::{Host, Url};
use weftwork_types::port::EgressError;

/// A URL that passed all checks that need no name resolution.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) url: Url,
    /// The host as shown in messages, with its port if that is not the default.
    pub(crate) name: String,
    pub(crate) trust: Trust,
}

/// The addresses that a host may resolve to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Only public addresses.
    Public,
    /// Also loopback and private addresses, as the configuration allows the host.
    Allowed,
}

impl Trust {
    pub(crate) fn permits(self, class: AddressClass) -> bool {
        class == AddressClass::Public || (self == Self::Allowed && class.can_be_allowed())
    }
}

impl Target {
    /// Parses and checks a URL.
    pub(crate) fn parse(text: &str, allow: &[AllowedHost]) -> Result<Self, EgressError> {
        let url = Url::parse(text).map_err(|_| bad_url(text, "it is not an absolute URL"))?;
        Self::check(url, allow)
    }

    /// Checks the parsed URL of a redirect.
    pub(crate) fn check(url: Url, allow: &[AllowedHost]) -> Result<Self, EgressError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad_url(url.as_str(), "only http and https are supported"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad_url(url.as_str(), "it contains a user name or password"));
        }
        let Some((host, port)) = url.host().zip(url.port_or_known_default()) else {
            return Err(bad_url(url.as_str(), "it has no host"));
        };
        let host = without_last_dot(host.to_owned());
        let trust = match allow.iter().any(|allowed| allowed.matches(&host, port)) {
            true => Trust::Allowed,
            false => Trust::Public,
        };
        let name = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_string(),
        };
        check_host(&host, trust)?;
        Ok(Self { url, name, trust })
    }

    /// Returns `true` if a redirect stays on the same scheme, host and port.
    pub(crate) fn same_origin(&self, other: &Self) -> bool {
        self.url.origin() == other.url.origin()
    }
}

/// Returns `true` if the host of a URL is this machine: a loopback address, `localhost`, or a name
/// under `localhost`.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => is_name_of_loopback(name.strip_suffix('.').unwrap_or(name)),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Returns `true` for names that mean this machine without being resolved (RFC 6761).
fn is_name_of_loopback(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

/// Checks addresses in the URL, which are never resolved, and refuses names that always mean this
/// machine without resolving them.
fn check_host(host: &Host<String>, trust: Trust) -> Result<(), EgressError> {
    let address = match host {
        Host::Ipv4(address) => IpAddr::V4(*address),
        Host::Ipv6(address) => IpAddr::V6(*address),
        Host::Domain(name) if is_name_of_loopback(name) => {
            IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)
        }
        Host::Domain(_) => return Ok(()),
    };
    check_address(&host.to_string(), address, trust)
}

/// Refuses an address that the host is not permitted to resolve to.
pub(crate) fn check_address(host: &str, address: IpAddr, trust: Trust) -> Result<(), EgressError> {
    let class = classify(address);
    if trust.permits(class) {
        return Ok(());
    }
    Err(EgressError::Refused {
        host: host.to_owned(),
        address: address.to_string(),
        class: class.name(),
        redirect: None,
    })
}

pub(crate) fn bad_url(text: &str, reason: &'static str) -> EgressError {
    EgressError::BadUrl { url: shown(text), reason }
}

/// A URL for messages: without user name, password, query and fragment, at most 200 characters
/// long.
fn shown(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}{host}{path}").chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> EgressError {
        Target::parse(text, &[]).expect_err(text)
    }

    #[test]
    fn hosts_written_as_addresses_are_refused_in_every_spelling() {
        for text in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://0/",
            "http://0.0.0.0:80/",
            "http://127.0.0.1./",
            "http://[::1]/",
            "http://[::]/",
            "http://[::ffff:10.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[fd00::1]/",
            "http://[fe80::1]/",
            "http://169.254.169.254/latest/meta-data/",
            "http://2852039166/",
            "http://0xa9fea9fe/",
            "http://0251.0376.0251.0376/",
            "http://10.0.0.1/",
            "http://192.168.0.1:8080/",
            "http://100.64.0.1/",
            "http://224.0.0.1/",
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost:8080/",
            "http://１２７.０.０.１/",
            "https://%31%32%37.0.0.1/",
        ] {
            assert!(matches!(refusal(text), EgressError::Refused { .. }), "{text}");
        }
    }

    #[test]
    fn urls_that_are_not_http_or_carry_secrets_are_refused_without_showing_them() {
        for text in [
            "file:///etc/passwd",
            "gopher://127.0.0.1:70/",
            "ftp://example.org/",
            "/relative",
            "http://",
            "https://user:hunter2@example.org/?token=hunter2",
            "nonsense://user:hunter2@example.org/#hunter2",
        ] {
            let error = refusal(text);
            assert!(matches!(error, EgressError::BadUrl { .. }), "{text}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn an_allowed_host_may_be_loopback_or_private_but_never_metadata() {
        let allow: Vec<AllowedHost> =
            ["localhost", "127.0.0.1:8080", "169.254.169.254", "10.1.2.3"]
                .iter()
                .map(|text| text.parse().expect("a host"))
                .collect();
        for good in ["http://localhost:1/", "http://127.0.0.1:8080/", "http://10.1.2.3/"] {
            assert!(Target::parse(good, &allow).is_ok(), "{good}");
        }
        for bad in ["http://127.0.0.1:8081/", "http://169.254.169.254/", "http://10.1.2.4/"] {
            assert!(Target::parse(bad, &allow).is_err(), "{bad}");
        }
    }
}
