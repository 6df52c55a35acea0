//! Tests of the guarded client with real connections on this machine.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod body;
mod guard;
mod redirects;

use std::time::Duration;
use weftwork_egress::{EgressConfig, GuardedClient};
use weftwork_types::port::{EgressRequest, Method};

/// A client that may reach 127.0.0.1, as configured for local servers.
pub(crate) fn client() -> GuardedClient {
    client_allowing(&["127.0.0.1"])
}

pub(crate) fn client_allowing(hosts: &[&str]) -> GuardedClient {
    GuardedClient::new(config(hosts)).expect("a client")
}

pub(crate) fn config(hosts: &[&str]) -> EgressConfig {
    let allow = hosts.iter().map(|host| host.parse().expect("a host")).collect();
    EgressConfig { allow, ..EgressConfig::default() }
}

pub(crate) fn get(url: impl Into<String>) -> EgressRequest {
    EgressRequest::new(Method::Get, url)
}

/// A timeout that no passing test reaches.
pub(crate) const LONG: Duration = Duration::from_secs(20);
/// A timeout that tests wait for.
pub(crate) const SHORT: Duration = Duration::from_millis(50);
