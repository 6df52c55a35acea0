//! Tests of refused addresses and names.

use crate::{LONG, client, client_allowing, config, get};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use weftwork_egress::{EgressConfig, GuardedClient, Lookup};
use weftwork_testkit::{LoopbackServer, Reply};
use weftwork_types::BoxFuture;
use weftwork_types::port::{Egress, EgressError};

/// A resolver that returns the next list for each request, and repeats the last one.
#[derive(Debug)]
struct Answers {
    lists: Vec<Vec<&'static str>>,
    asked: AtomicUsize,
}

impl Answers {
    fn of(lists: &[&[&'static str]]) -> Arc<Self> {
        let lists = lists.iter().map(|list| list.to_vec()).collect();
        Arc::new(Self { lists, asked: AtomicUsize::new(0) })
    }
}

impl Lookup for Answers {
    fn lookup(&self, _host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst).min(self.lists.len() - 1);
        let list = self.lists[turn].iter().map(|text| text.parse().expect("an address")).collect();
        Box::pin(async move { Ok(list) })
    }
}

async fn server() -> LoopbackServer {
    LoopbackServer::start(|_, _| Reply::full(200, &[], "hello")).await.expect("a server")
}

fn refused_class(error: &EgressError) -> &'static str {
    match error {
        EgressError::Refused { class, .. } => class,
        other => panic!("expected a refusal, found: {other}"),
    }
}

#[tokio::test]
async fn a_loopback_server_is_refused_unless_it_is_allowed() {
    let server = server().await;
    let error = client_allowing(&[]).send(get(server.url("/"))).await.expect_err("refused");
    assert_eq!(refused_class(&error), "loopback");
    assert_eq!(error.code().0, "W0801");
    assert!(server.received().is_empty());

    let exact = client_allowing(&[&server.address().to_string()]);
    assert_eq!(exact.send(get(server.url("/"))).await.expect("allowed").status, 200);
    assert_eq!(client().send(get(server.url("/"))).await.expect("allowed").status, 200);
}

/// A resolver that answers everything with a public address would make the check of the resolved
/// address pass, so an address in the URL must not come to it in any spelling.
#[tokio::test]
async fn addresses_in_urls_never_reach_the_resolver() {
    let answers = Answers::of(&[&["8.8.8.8"]]);
    let lookup: Arc<dyn Lookup> = Arc::clone(&answers) as _;
    let closed = GuardedClient::with_lookup(config(&[]), Arc::clone(&lookup)).expect("a client");
    let open = GuardedClient::with_lookup(config(&["127.0.0.1"]), lookup).expect("a client");
    let server = server().await;
    let port = server.address().port();
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "１２７.０.０.１",
    ] {
        let url = format!("http://{host}:{port}/");
        let error = closed.send(get(url.clone())).await.expect_err(host);
        assert_eq!(refused_class(&error), "loopback", "{host}");
        assert_eq!(open.send(get(url)).await.expect(host).status, 200, "{host}");
    }
    for host in ["[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "localhost", "a.localhost."] {
        let error = closed.send(get(format!("http://{host}:{port}/"))).await.expect_err(host);
        assert!(matches!(error, EgressError::Refused { .. }), "{host}: {error}");
    }
    let target = format!("http://0x7f.1:{port}/there");
    let moving = LoopbackServer::start(move |_, _| Reply::full(307, &[("location", &target)], ""));
    let moving = moving.await.expect("a server");
    assert_eq!(open.send(get(moving.url("/"))).await.expect("redirected").status, 200);
    assert_eq!(answers.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_allowed_name_may_resolve_to_loopback() {
    let server = server().await;
    let port = server.address().port();
    let client = client_allowing(&[&format!("localhost:{port}")]);
    let answer = client.send(get(format!("http://localhost:{port}/"))).await.expect("allowed");
    assert_eq!(answer.status, 200);
    let error = client.send(get("http://localhost:1/")).await.expect_err("another port");
    assert_eq!(refused_class(&error), "loopback");
}

#[tokio::test]
async fn a_name_that_resolves_to_a_closed_address_is_refused() {
    for (address, class) in [
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("10.0.0.1", "private"),
        ("fd00::1", "private"),
        ("169.254.169.254", "link-local"),
        ("100.64.0.1", "shared by a provider's translation"),
        ("0.0.0.0", "unspecified"),
        ("::ffff:10.0.0.1", "an IPv4 address inside an IPv6 one"),
        ("64:ff9b::a00:1", "an IPv4 address inside an IPv6 one"),
    ] {
        let answers = Answers::of(&[&[address]]);
        let client = GuardedClient::with_lookup(config(&[]), answers).expect("a client");
        let error = client.send(get("http://api.example/")).await.expect_err(address);
        assert_eq!(refused_class(&error), class, "{address}");
    }
}

#[tokio::test]
async fn one_private_address_among_public_ones_refuses_the_name() {
    let answers = Answers::of(&[&["8.8.8.8", "192.168.0.1"]]);
    let client = GuardedClient::with_lookup(config(&[]), answers).expect("a client");
    let error = client.send(get("http://api.example/")).await.expect_err("refused");
    assert_eq!(refused_class(&error), "private");
}

#[tokio::test]
async fn an_allowed_name_still_never_leads_to_metadata() {
    let answers = Answers::of(&[&["169.254.169.254"], &["100.100.100.200"]]);
    let client = GuardedClient::with_lookup(config(&["api.example"]), answers).expect("a client");
    for class in ["link-local", "a cloud metadata service"] {
        let error = client.send(get("http://api.example/")).await.expect_err("refused");
        assert_eq!(refused_class(&error), class);
    }
}

/// DNS rebinding: the first answer is public, the second is this machine. A check before the
/// connection would have passed; the check at the connection refuses it.
#[tokio::test]
async fn a_name_that_changes_its_mind_is_refused_at_the_connection() {
    let server = server().await;
    let port = server.address().port();
    // The first answer belongs to the check below; a connection to it would leave the machine.
    let answers = Answers::of(&[&["8.8.8.8"], &["127.0.0.1"]]);
    let lookup: Arc<dyn Lookup> = Arc::clone(&answers) as _;
    let first = lookup.lookup("rebind.example").await.expect("an answer");
    assert_eq!(first, ["8.8.8.8".parse::<IpAddr>().expect("an address")]);

    let client = GuardedClient::with_lookup(config(&[]), answers).expect("a client");
    let url = format!("http://rebind.example:{port}/");
    let error = client.send(get(url)).await.expect_err("refused");
    assert_eq!(refused_class(&error), "loopback");
    assert!(server.received().is_empty());
}

/// A connection to an allowed host must not serve a request to another host.
#[tokio::test]
async fn an_allowed_connection_is_not_lent_to_another_name() {
    let server = server().await;
    let port = server.address().port();
    let answers = Answers::of(&[&["127.0.0.1"]]);
    let client = GuardedClient::with_lookup(config(&["good.example"]), answers).expect("a client");
    let good = client.send(get(format!("http://good.example:{port}/"))).await.expect("allowed");
    assert_eq!(good.status, 200);
    let error = client.send(get(format!("http://evil.example:{port}/"))).await;
    assert_eq!(refused_class(&error.expect_err("refused")), "loopback");
}

#[tokio::test]
async fn nothing_listening_is_a_failure_to_connect() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let error = client().send(get(format!("http://{address}/"))).await.expect_err("no server");
    assert!(matches!(&error, EgressError::Connect { host, .. } if *host == address.to_string()));
    assert_eq!((error.code().0, error.is_retriable()), ("W0803", true));
}

#[tokio::test]
async fn a_name_without_address_is_a_failure_to_connect() {
    let client = GuardedClient::with_lookup(config(&[]), Answers::of(&[&[]])).expect("a client");
    let error = client.send(get("http://api.example/")).await.expect_err("no address");
    assert_eq!(error.to_string(), "cannot connect to `api.example`: the name has no address");
}

#[tokio::test]
async fn the_proxy_is_used_only_when_it_is_configured_and_not_for_allowed_hosts() {
    let proxy = LoopbackServer::start(|_, _| Reply::full(200, &[], "proxied")).await;
    let proxy = proxy.expect("a server");
    let own = server().await;
    let config = EgressConfig { proxy: Some(proxy.url("")), ..config(&["127.0.0.1"]) };
    let client = GuardedClient::new(config).expect("a client");

    client.send(get("http://api.example/x")).await.expect("by the proxy");
    assert_eq!(proxy.received()[0].path, "http://api.example/x");
    client.send(get(own.url("/"))).await.expect("direct");
    assert_eq!((proxy.received().len(), own.received().len()), (1, 1));

    let error = client.send(get("http://169.254.169.254/")).await.expect_err("refused");
    assert_eq!(refused_class(&error), "link-local");
}

#[test]
fn a_proxy_that_cannot_be_used_is_named_without_its_password() {
    for proxy in ["socks5://user:hunter2@127.0.0.1:1", "not a url hunter2@x"] {
        let config = EgressConfig { proxy: Some(proxy.to_owned()), ..config(&[]) };
        let error = GuardedClient::new(config).expect_err("refused");
        assert_eq!(error.code().0, "W0807");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn header_values_are_checked_and_never_shown() {
    let server = server().await;
    let mut request = get(server.url("/"));
    request.headers.push(("authorization".to_owned(), "Bearer hunter2\n".to_owned()));
    request.head_timeout = LONG;
    let error = client().send(request).await.expect_err("a line break");
    assert_eq!((error.code().0, error.is_retriable()), ("W0802", false));
    assert!(!error.to_string().contains("hunter2"));
}
