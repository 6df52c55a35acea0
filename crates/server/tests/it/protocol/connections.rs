//! HTTP/2 beside HTTP/1.1, and streams of a server that stops.

use super::socket::Served;
use super::{WAIT, new_thread};
use crate::reference;
use axum::body::{Body, BodyDataStream, Bytes, to_bytes};
use axum::http::{Request, Version};
use futures_util::StreamExt;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn post(server: &Served, path: &str, body: &Value) -> Request<Body> {
    let uri = format!("http://{}{path}", server.address);
    let request = Request::post(uri).header("host", server.address.to_string());
    request.body(Body::from(body.to_string())).expect("a request")
}

async fn text_until(body: &mut BodyDataStream, wanted: &str) -> String {
    let mut text = String::new();
    while !text.contains(wanted) {
        let part = tokio::time::timeout(WAIT, body.next()).await.expect("an event");
        text += std::str::from_utf8(&part.expect("open").expect("sound")).expect("text");
    }
    text
}

#[tokio::test]
async fn many_streams_and_commands_share_a_connection_of_http2() {
    let server = Served::new(reference::runtime().await).await;
    let socket = TcpStream::connect(server.address).await.expect("connects");
    let io = TokioIo::new(socket);
    let (mut client, connection) =
        http2::handshake::<_, _, Body>(TokioExecutor::new(), io).await.expect("HTTP/2");
    tokio::spawn(connection);
    let thread = new_thread();
    let events = format!("/threads/{thread}/stream/events");
    let commands = format!("/threads/{thread}/commands");
    let mut streams = Vec::new();
    // More than the six connections that browsers make to a host.
    for _ in 0..20 {
        let body = json!({"channels": ["lifecycle"]});
        let opened = client.send_request(post(&server, &events, &body)).await.expect("opens");
        assert_eq!((opened.version(), opened.status().as_u16()), (Version::HTTP_2, 200));
        streams.push(Body::new(opened.into_body()).into_data_stream());
    }
    let start = json!({"id": 1, "method": "run.start",
        "params": {"assistant_id": "echo", "input": {"msg": "a"}}});
    let started = client.send_request(post(&server, &commands, &start)).await.expect("answers");
    let answer = to_bytes(Body::new(started.into_body()), usize::MAX).await.expect("a body");
    let answer: Value = serde_json::from_slice(&answer).expect("JSON");
    assert_eq!(answer["type"], "success");
    for stream in &mut streams {
        text_until(stream, "\"completed\"").await;
    }
    let plain = TcpStream::connect(server.address).await.expect("connects");
    let (mut client, connection) =
        http1::handshake::<_, Body>(TokioIo::new(plain)).await.expect("HTTP/1.1");
    tokio::spawn(connection);
    let body = json!({"channels": ["lifecycle"]});
    let opened = client.send_request(post(&server, &events, &body)).await.expect("opens");
    assert_eq!(opened.version(), Version::HTTP_11);
    text_until(&mut Body::new(opened.into_body()).into_data_stream(), "\"completed\"").await;
}

#[tokio::test]
async fn a_stream_that_waits_ends_when_the_server_stops() {
    let mut server = Served::new(reference::runtime().await).await;
    let socket = TcpStream::connect(server.address).await.expect("connects");
    let (mut client, connection) =
        http1::handshake::<_, Body>(TokioIo::new(socket)).await.expect("HTTP/1.1");
    tokio::spawn(connection);
    let path = format!("/threads/{}/stream/events", new_thread());
    let body = json!({"channels": ["lifecycle"]});
    let opened = client.send_request(post(&server, &path, &body)).await.expect("opens");
    server.stop.take().expect("a server").send(()).expect("it runs");
    let rest = to_bytes(Body::new(opened.into_body()), usize::MAX).await.expect("an end");
    assert_eq!(rest, Bytes::new());
    tokio::time::timeout(WAIT, server.ended)
        .await
        .expect("it ends")
        .expect("sound")
        .expect("sound");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_begins_like_http2_and_stops_is_closed() {
    let server = Served::new(reference::runtime().await).await;
    for begin in [&b"PRI * HTT"[..], b""] {
        let mut socket = TcpStream::connect(server.address).await.expect("connects");
        socket.write_all(begin).await.expect("sends");
        let mut rest = Vec::new();
        let read = tokio::time::timeout(WAIT, socket.read_to_end(&mut rest)).await;
        // The server may reset a connection whose bytes it has not read.
        assert!(read.expect("closed").map_or(true, |length| length == 0), "{rest:?}");
    }
}
