//! Attacks on the network through the base URL of a provider, in every protocol.

use crate::desk::{Desk, request};
use crate::protocols::PROTOCOLS;
use crate::server::server;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use weftwork_egress::{AllowedHost, EgressConfig, GuardedClient, Lookup};
use weftwork_models::ProviderOverride;
use weftwork_models::{
    ModelCallError, ModelCaller, ModelError, ModelRegistry, ProviderTable, RetryPolicy,
};
use weftwork_testkit::{ManualClock, Reply};
use weftwork_types::BoxFuture;
use weftwork_types::port::{Egress, EgressError};

/// A resolver for which every name is this machine.
#[derive(Debug)]
struct Loopback;

impl Lookup for Loopback {
    fn lookup(&self, _host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) })
    }
}

/// Makes one attempt at a base URL, with only the given hosts allowed.
async fn ask(protocol: &str, url: &str, allow: Vec<AllowedHost>) -> ModelCallError {
    let config =
        format!("[lab]\nurl = \"{url}\"\nkey_env = \"LAB_KEY\"\nprotocol = \"{protocol}\"");
    let overrides: BTreeMap<String, ProviderOverride> = toml::from_str(&config).expect("a table");
    let env = |name: &str| (name == "LAB_KEY").then(|| "sk-hunter2".to_owned());
    let table = ProviderTable::load(&env, &overrides).expect("a table");
    let config = EgressConfig { allow, ..EgressConfig::default() };
    let client = GuardedClient::with_lookup(config, Arc::new(Loopback)).expect("a client");
    let egress: Arc<dyn Egress> = Arc::new(client);
    let model = ModelRegistry::new(&table, &egress).resolve("lab:tiny").expect("a model");
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
    let caller = ModelCaller::new(RetryPolicy::once());
    caller.call(&*model, request("hi"), &desk.context(&clock)).await.expect_err("refused")
}

fn is_refused(error: &ModelCallError) -> bool {
    let refused = |source: &EgressError| matches!(source, EgressError::Refused { .. });
    matches!(&*error.error, ModelError::Transport { source, .. } if refused(source))
}

#[tokio::test]
async fn no_base_url_leads_to_this_machine_or_its_network() {
    let target = server(|_, _| Reply::full(200, &[], "secret")).await;
    let port = target.address().port();
    for protocol in PROTOCOLS {
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "127.0.0.1.",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "localhost",
            "a.localhost.",
            "10.0.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "[fd00:ec2::254]",
            "rebind.example",
        ] {
            let error = ask(protocol, &format!("http://{host}:{port}/v1"), Vec::new()).await;
            assert!(is_refused(&error), "{protocol} {host}: {error}");
        }
    }
    assert!(target.received().is_empty());
}

#[tokio::test]
async fn no_redirect_leads_there_either_and_the_key_stays() {
    let target = server(|_, _| Reply::full(200, &[], "secret")).await;
    for protocol in PROTOCOLS {
        for location in [target.url("/there"), "http://169.254.169.254/".to_owned()] {
            for status in [302, 307, 308] {
                let location = location.clone();
                let moving =
                    server(move |_, _| Reply::full(status, &[("location", &location)], "")).await;
                let allowed = moving.address().to_string().parse().expect("a host");
                let error = ask(protocol, &moving.url("/v1"), vec![allowed]).await;
                assert_eq!(error.code().0, "W0309", "{protocol} {status}: {error}");
                assert!(!error.to_string().contains("hunter2"));
            }
        }
    }
    assert!(target.received().is_empty());
}
