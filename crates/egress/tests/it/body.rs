//! Tests of missing heads and truncated bodies.

use crate::{LONG, SHORT, client, get};
use futures_util::StreamExt as _;
use weftwork_testkit::{LoopbackServer, Reply};
use weftwork_types::port::{Egress, EgressError, EgressRequest, EgressResponse, Method};

async fn server(reply: Reply) -> LoopbackServer {
    LoopbackServer::start(move |_, _| reply.clone()).await.expect("a server")
}

async fn pieces(response: EgressResponse) -> (Vec<u8>, Option<EgressError>) {
    let mut body = response.body;
    let mut bytes = Vec::new();
    let mut error = None;
    while let Some(piece) = body.next().await {
        assert!(error.is_none(), "nothing comes after an error");
        match piece {
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(found) => error = Some(found),
        }
    }
    (bytes, error)
}

#[tokio::test]
async fn a_body_arrives_with_its_head() {
    let server = server(Reply::full(418, &[("x-a", "1"), ("X-A", "2")], "tea")).await;
    let answer = client().send(get(server.url("/pot"))).await.expect("an answer");
    assert_eq!((answer.status, answer.header("x-a")), (418, Some("1")));
    assert_eq!(pieces(answer).await, (b"tea".to_vec(), None));
    assert_eq!(server.received()[0].path, "/pot");
}

#[tokio::test]
async fn a_head_that_does_not_come_is_a_timeout() {
    let server = server(Reply::nothing().hang()).await;
    let mut request = get(server.url("/"));
    request.head_timeout = SHORT;
    let error = client().send(request).await.expect_err("a timeout");
    assert!(matches!(error, EgressError::Timeout { what: "answer", after_ms: 50, .. }), "{error}");
    assert_eq!((error.code().0, error.is_retriable()), ("W0804", true));
}

#[tokio::test]
async fn the_first_piece_is_there_before_the_last_is_written() {
    let server = server(Reply::pieces(200, &[]).piece("one").hang()).await;
    let mut request = get(server.url("/"));
    request.idle_timeout = LONG;
    let mut answer = client().send(request).await.expect("an answer");
    let piece = answer.body.next().await.expect("a piece").expect("no error");
    assert_eq!(piece, "one");
}

#[tokio::test]
async fn a_pause_inside_the_body_is_a_timeout() {
    let server = server(Reply::pieces(200, &[]).piece("one").hang()).await;
    let mut request = get(server.url("/"));
    request.idle_timeout = SHORT;
    let answer = client().send(request).await.expect("an answer");
    let (bytes, error) = pieces(answer).await;
    assert_eq!(bytes, b"one");
    assert!(matches!(error, Some(EgressError::Timeout { what: "send more", .. })), "{error:?}");
}

#[tokio::test]
async fn a_connection_cut_inside_the_body_is_broken() {
    for reply in [
        Reply::pieces(200, &[]).piece("one"),
        Reply::nothing().raw("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\none"),
    ] {
        let server = server(reply).await;
        let answer = client().send(get(server.url("/"))).await.expect("an answer");
        let (bytes, error) = pieces(answer).await;
        assert_eq!(bytes, b"one");
        assert!(matches!(error, Some(EgressError::Broken { .. })), "{error:?}");
    }
}

#[tokio::test]
async fn a_connection_cut_before_the_head_is_broken_and_not_tried_again() {
    let server = server(Reply::nothing()).await;
    let error = client().send(get(server.url("/"))).await.expect_err("broken");
    assert_eq!((error.code().0, error.is_retriable()), ("W0805", true));
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn what_is_not_http_is_broken() {
    let server = server(Reply::nothing().raw("SSH-2.0-OpenSSH_9\r\n")).await;
    let error = client().send(get(server.url("/"))).await.expect_err("broken");
    assert!(matches!(error, EgressError::Broken { .. }), "{error}");
}

#[tokio::test]
async fn a_body_over_the_limit_of_its_request_ends_with_an_error() {
    let reply = || Reply::pieces(200, &[]).piece("one").piece("two").hang();
    let server = server(reply()).await;
    let mut request = get(server.url("/"));
    request.body_max = Some(5);
    request.idle_timeout = LONG;
    let (bytes, error) = pieces(client().send(request).await.expect("an answer")).await;
    assert!(b"one".starts_with(&bytes), "nothing of the piece that crosses the limit");
    let error = error.expect("too long");
    assert!(matches!(error, EgressError::TooLong { limit: 5, .. }), "{error}");
    assert_eq!((error.code().0, error.is_retriable()), ("W0809", false));
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_complete() {
    let server = server(Reply::full(200, &[], "tea")).await;
    let mut request = get(server.url("/"));
    request.body_max = Some(3);
    let answer = client().send(request).await.expect("an answer");
    assert_eq!(pieces(answer).await, (b"tea".to_vec(), None));
}

#[tokio::test]
async fn every_method_arrives_with_its_body() {
    let server = server(Reply::full(200, &[], "")).await;
    for (method, name, body) in [
        (Method::Get, "GET", ""),
        (Method::Head, "HEAD", ""),
        (Method::Post, "POST", "a"),
        (Method::Put, "PUT", "b"),
        (Method::Patch, "PATCH", "c"),
        (Method::Delete, "DELETE", ""),
    ] {
        let mut request = EgressRequest::new(method, server.url("/"));
        request.body = body.into();
        client().send(request).await.expect("an answer");
        let received = server.received();
        let last = received.last().expect("a request");
        assert_eq!((last.method.as_str(), last.body.as_slice()), (name, body.as_bytes()));
    }
}
