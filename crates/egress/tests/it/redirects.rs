//! Tests that redirects are checked like first requests.

use crate::{client, config, get};
use bytes::Bytes;
use weftwork_egress::GuardedClient;
use weftwork_testkit::{LoopbackServer, Reply};
use weftwork_types::port::{Egress, EgressError, EgressRequest, Method, Redirects};

async fn redirecting(status: u16, location: impl Into<String>) -> LoopbackServer {
    let location = location.into();
    let server =
        LoopbackServer::start(move |_, _| Reply::full(status, &[("location", &location)], "moved"));
    server.await.expect("a server")
}

async fn answering() -> LoopbackServer {
    LoopbackServer::start(|_, _| Reply::full(200, &[], "here")).await.expect("a server")
}

fn with_key(url: String) -> EgressRequest {
    let mut request = EgressRequest::new(Method::Post, url);
    request.headers = [("authorization", "Bearer k"), ("x-api-key", "k"), ("accept", "a/b")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    request.body = Bytes::from_static(b"question");
    request
}

#[tokio::test]
async fn a_redirect_to_a_closed_address_is_refused() {
    for location in [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "http://2852039166/",
        "http://10.0.0.1/",
        "http://localhost/",
        "//0.0.0.0/",
    ] {
        let server = redirecting(302, location).await;
        let error = client().send(get(server.url("/"))).await.expect_err(location);
        assert!(matches!(error, EgressError::Refused { .. }), "{location}: {error}");
        let named = error.to_string().contains("redirects with status 302");
        assert!(named, "{location}: {error}");
    }
}

#[tokio::test]
async fn a_redirect_to_another_loopback_port_needs_its_own_leave() {
    let inner = answering().await;
    let server = redirecting(302, inner.url("/")).await;
    let only_first = config(&[&server.address().to_string()]);
    let client = GuardedClient::new(only_first).expect("a client");
    let error = client.send(get(server.url("/"))).await.expect_err("refused");
    assert!(matches!(error, EgressError::Refused { class: "loopback", .. }), "{error}");
    assert!(inner.received().is_empty());
}

#[tokio::test]
async fn a_redirect_to_what_is_not_http_is_refused() {
    for location in ["file:///etc/passwd", "gopher://127.0.0.1/", "http://u:p@127.0.0.1/"] {
        let server = redirecting(307, location).await;
        let error = client().send(get(server.url("/"))).await.expect_err(location);
        assert!(matches!(error, EgressError::BadUrl { .. }), "{location}: {error}");
    }
}

#[tokio::test]
async fn secrets_stay_with_the_host_they_were_meant_for() {
    let other = answering().await;
    let server = redirecting(307, other.url("/there")).await;
    let answer = client().send(with_key(server.url("/"))).await.expect("an answer");
    assert_eq!(answer.status, 200);
    assert_eq!(server.received()[0].header("authorization"), Some("Bearer k"));
    let arrived = &other.received()[0];
    assert_eq!((arrived.method.as_str(), arrived.path.as_str()), ("POST", "/there"));
    assert_eq!(arrived.body, b"question");
    assert_eq!(arrived.header("accept"), Some("a/b"));
    assert_eq!((arrived.header("authorization"), arrived.header("x-api-key")), (None, None));
}

#[tokio::test]
async fn the_same_host_keeps_them_and_a_302_turns_post_into_get() {
    let server = LoopbackServer::start(|number, _| match number {
        0 => Reply::full(302, &[("location", "/there")], ""),
        _ => Reply::full(200, &[], "here"),
    });
    let server = server.await.expect("a server");
    client().send(with_key(server.url("/"))).await.expect("an answer");
    let second = &server.received()[1];
    assert_eq!((second.method.as_str(), second.path.as_str()), ("GET", "/there"));
    assert_eq!(second.header("authorization"), Some("Bearer k"));
    assert!(second.body.is_empty());
}

#[tokio::test]
async fn five_redirects_are_followed_and_no_more() {
    for (turns, arrives) in [(5, true), (6, false)] {
        let server = LoopbackServer::start(move |number, _| match number {
            n if n < turns => Reply::full(302, &[("location", "/next")], ""),
            _ => Reply::full(200, &[], "here"),
        });
        let server = server.await.expect("a server");
        let answer = client().send(get(server.url("/"))).await;
        assert_eq!(answer.is_ok(), arrives, "{turns} redirects");
        assert_eq!(server.received().len(), 6);
    }
}

#[tokio::test]
async fn a_redirect_status_without_location_is_the_answer() {
    let server = LoopbackServer::start(|_, _| Reply::full(304, &[], "")).await.expect("a server");
    assert_eq!(client().send(get(server.url("/"))).await.expect("an answer").status, 304);
}

#[tokio::test]
async fn a_redirect_is_the_answer_when_the_request_says_so() {
    let inner = answering().await;
    let server = redirecting(307, inner.url("/")).await;
    let mut request = get(server.url("/"));
    request.redirects = Redirects::Return;
    let answer = client().send(request).await.expect("an answer");
    assert_eq!((answer.status, answer.header("location")), (307, Some(inner.url("/").as_str())));
    assert!(inner.received().is_empty());
}

#[tokio::test]
async fn a_redirect_replaces_only_the_methods_that_it_may() {
    for (status, method, after) in [
        (301, Method::Put, "PUT"),
        (302, Method::Delete, "DELETE"),
        (302, Method::Head, "HEAD"),
        (303, Method::Patch, "GET"),
        (303, Method::Head, "HEAD"),
        (308, Method::Post, "POST"),
    ] {
        let other = answering().await;
        let server = redirecting(status, other.url("/")).await;
        let request = EgressRequest::new(method, server.url("/"));
        client().send(request).await.expect("an answer");
        assert_eq!(other.received()[0].method, after, "{status} after {method:?}");
    }
}
