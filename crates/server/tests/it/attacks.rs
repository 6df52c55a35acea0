//! Attacks on the server, by their ids. Each is refused, or finds nothing.

mod answers;
mod injection;

use crate::client::Client;
use crate::graphs;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};
use weftwork::OpenRuntime;
use weftwork_server::Server;

/// A request, and the status of its answer. `THREAD`, `ENDED` and `STUCK` stand for a thread, a run
/// that has ended and one that is executed; `|` separates the names and values of headers.
type Attack = (&'static str, &'static str, &'static str, &'static str, u16);

/// Host of each request that names none.
const HOST: &str = "localhost";
/// A value that no answer to an attack contains.
const SECRET: &str = "the secret of the thread";

#[rustfmt::skip]
const ATTACKS: &[Attack] = &[
    // Filters are data: keys are neither code nor patterns.
    ("S8", "POST /threads/search", "", r#"{"metadata": {"a') OR 1=1--": 1}}"#, 200),
    ("S8", "POST /threads/search", "", r#"{"metadata": {"$.mark\"]": 1}}"#, 200),
    ("S8", "POST /threads/search", "", r#"{"metadata": {"mark": {"$gt": 0}}}"#, 200),
    ("S8", "POST /threads/search", "", r#"{"metadata": {"*": 1, "m%": 1}}"#, 200),
    ("S8", "POST /threads/search", "", r#"{"metadata": {"mark\u0000": 1}}"#, 200),
    ("S8", "POST /threads/search", "", r#"{"values": {"msg": {"$ne": null}}}"#, 200),
    ("S8", "POST /threads/search", "", r#"{"sort_by": "created_at; DROP TABLE threads"}"#, 422),
    ("S8", "POST /threads/search", "", r#"{"query": "%"}"#, 200),
    ("S8", "POST /threads/search", "", r#"{"query": "' OR '1'='1"}"#, 200),
    ("S8", "POST /threads/search", "", r#"{"query": ".*"}"#, 200),
    ("S8", "POST /threads/search", "", r#"{"query": "secret of the thread"}"#, 200),
    ("S8", "POST /threads/search", "", r#"{"query": "a b c d e f g h i j k l m n o p q"}"#, 422),
    ("S8", "POST /threads/search", "", r#"{"query": {"$ne": ""}}"#, 422),
    ("S8", "POST /threads/search", "", r#"{"extract": {"a": "values.msg') OR 1=1--["}}"#, 422),
    ("S8", "POST /threads/search", "", r#"{"extract": {"a": "values[$.msg]"}}"#, 422),
    ("S8", "POST /threads/search", "", r#"{"limit": 0, "extract": {"a": "values.*"}}"#, 200),
    ("S8", "POST /threads/search", "", r#"{"query": "none", "select": ["values; DROP TABLE threads"]}"#, 200),
    ("S8", "POST /threads/search", "", r#"{"query": "none", "select": [{"$ne": 1}]}"#, 422),
    ("S8", "POST /threads/THREAD/history", "", r#"{"limit": 0, "select": ["values') --"]}"#, 200),
    ("S8", "POST /store/items/search", "", r#"{"namespace_prefix": [], "filter": {"a') OR 1=1--": 1}}"#, 200),
    ("S8", "POST /store/items/search", "", r#"{"namespace_prefix": [], "filter": {"n": {"$where": "1"}}}"#, 422),
    ("S8", "POST /store/items/search", "", r#"{"namespace_prefix": [], "filter": {"n\u0000": 1}}"#, 200),
    ("S8", "POST /store/items/search", "", r#"{"namespace_prefix": ["%"], "query": "\" OR *"}"#, 200),
    // Paths and ids.
    ("S12", "GET /threads/..%2F..%2Fetc%2Fpasswd", "", "", 404),
    ("S12", "GET /threads/%2e%2e", "", "", 404),
    ("S12", "GET /threads/../threads/THREAD", "", "", 404),
    ("S12", "GET /threads//state", "", "", 422),
    ("S12", "GET /threads/THREAD;a=1/state", "", "", 404),
    ("S12", "GET /threads/THREAD%00", "", "", 422),
    ("S12", "GET /threads/THREAD%2Fstate", "", "", 404),
    ("S12", "GET /threads/%C0%AE%C0%AE", "", "", 400),
    ("S12", "GET /docs/..%2Fopenapi.json", "", "", 404),
    ("S12", "GET //docs", "", "", 404),
    ("S12", "GET /assistants/echo%2F..%2Fslow/graph", "", "", 422),
    // DNS rebinding.
    ("S15", "GET /threads/THREAD", "host|evil.example", "", 403),
    ("S15", "GET /threads/THREAD", "host|127.0.0.1.evil.example", "", 403),
    ("S15", "GET /threads/THREAD", "host|localhost:80@evil.example", "", 403),
    ("S15", "GET /threads/THREAD", "host|", "", 403),
    ("S15", "GET /threads/THREAD", "host|localhost|host|evil.example", "", 400),
    // Pages of other origins.
    ("S16", "POST /threads", "origin|http://evil.example|content-type|text/plain", "{}", 403),
    ("S16", "POST /threads", "origin|http://evil.example|content-type|application/json", "{}", 403),
    ("S16", "OPTIONS /threads", "origin|http://evil.example|access-control-request-method|POST", "", 403),
    ("S16", "GET /runs/ENDED/stream", "origin|http://evil.example", "", 403),
    ("S16", "POST /threads/search", "content-type|text/plain;charset=UTF-8", "{}", 415),
    ("S16", "POST /threads/search", "content-type|application/x-www-form-urlencoded", "{}", 415),
    ("S16", "POST /threads/search", "content-type|Multipart/Form-Data; boundary=x", "{}", 415),
    ("S17", "GET /threads/THREAD", "origin|null", "", 403),
    ("S17", "GET /threads/THREAD", "origin|https://trusted.example.evil", "", 403),
    ("S17", "GET /threads/THREAD", "origin|https://eviltrusted.example", "", 403),
    ("S17", "GET /threads/THREAD", "origin|https://evil.example/trusted.example", "", 403),
    ("S17", "GET /threads/THREAD", "origin|https://trusted.example:443@evil.example", "", 403),
    // Positions in a stream.
    ("S21", "GET /runs/STUCK/stream", "last-event-id|-5", "", 422),
    ("S21", "GET /runs/STUCK/stream", "last-event-id|99999999999999999999-0", "", 422),
    ("S21", "GET /runs/STUCK/stream", "last-event-id|1-0; DROP", "", 422),
    ("S21", "GET /runs/ENDED/stream", "last-event-id|18446744073709551615-0", "", 200),
    ("S21", "GET /runs/ENDED/stream", "last-event-id|not a number", "", 422),
    ("S21", "GET /threads/00000000-0000-0000-0000-000000000000/runs/ENDED/stream", "last-event-id|-1", "", 404),
];

/// A client of a server over a file, and what stands for the words of the table.
async fn prepared() -> (Client, [(&'static str, String); 3], tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = weftwork_runtime::Runtime::sqlite(folder.path().join("store.db"));
    let runtime = graphs::host(store.expect("a store")).open().await.expect("opens");
    let server = Server::new(runtime.clone()).allow_host("trusted.example");
    let client = Client::of(server, runtime);
    let made = client.post("/threads", json!({"metadata": {"mark": 1}})).await.json();
    let thread = made["thread_id"].as_str().expect("an id").to_owned();
    let runs = format!("/threads/{thread}/runs");
    let echo = json!({"assistant_id": "echo", "input": {"msg": SECRET}});
    let ended = client.post(&format!("{runs}/wait"), echo).await;
    assert_eq!(ended.json()["msg"], SECRET);
    let path = ended.headers["content-location"].to_str().expect("text");
    let ended = path.rsplit('/').next().expect("an id").to_owned();
    let stuck = json!({"assistant_id": "stuck", "input": {}});
    let stuck = client.post("/runs", stuck).await.json();
    let stuck = stuck["run_id"].as_str().expect("an id").to_owned();
    let item = json!({"namespace": ["a"], "key": "k", "value": {"n": SECRET}});
    let put = Request::put("/store/items").header("host", HOST).body(item.to_string().into());
    assert!(client.send(put.expect("a request")).await.status.is_success());
    (client, [("THREAD", thread), ("ENDED", ended), ("STUCK", stuck)], folder)
}

#[tokio::test]
async fn a_query_that_does_not_fit_is_refused_as_json() {
    let (client, words, _folder) = prepared().await;
    let thread = &words[0].1;
    for path in [
        format!("/threads/{thread}/runs?limit=many"),
        format!("/threads/{thread}/runs?limit=-1"),
        format!("/threads/{thread}/state?subgraphs=perhaps"),
    ] {
        let request = Request::get(&path).header("host", HOST).body(Body::empty());
        let answer = client.send(request.expect("a request")).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{path}");
        let body: Value = serde_json::from_str(&answer.body).expect("JSON");
        assert!(body["detail"].is_string(), "{path}: {body}");
    }
}

#[tokio::test]
async fn requests_that_attack_are_refused_or_find_nothing() {
    let (client, words, _folder) = prepared().await;
    for (id, request, headers, body, status) in ATTACKS {
        let text =
            words.iter().fold((*request).to_owned(), |text, (word, id)| text.replace(word, id));
        let (method, path) = text.split_once(' ').expect("a method and a path");
        let mut builder = Request::builder().method(method).uri(path);
        let headers: Vec<&str> = headers.split('|').collect();
        for pair in headers.chunks_exact(2) {
            builder = builder.header(pair[0], pair[1]);
        }
        if !headers.contains(&"host") {
            builder = builder.header("host", HOST);
        }
        let answer = client.send(builder.body(Body::from(*body)).expect("a request")).await;
        let place = format!("{id} {request} {headers:?} {body}: {}", answer.body);
        assert_eq!(answer.status.as_u16(), *status, "{place}");
        assert!(!answer.body.contains(SECRET), "{place}");
        if answer.status == StatusCode::FORBIDDEN {
            assert!(!answer.headers.contains_key("access-control-allow-origin"), "{place}");
        }
        match (*id, answer.status) {
            ("S8", StatusCode::OK) => {
                let found = answer.json();
                assert!(found == json!([]) || found == json!({"items": []}), "{place}");
            }
            ("S21", StatusCode::OK) => assert_eq!(answer.names(), ["end"], "{place}"),
            _ => {}
        }
    }
    let kept = client.post("/threads/search", json!({"metadata": {"mark": 1}})).await.json();
    assert_eq!(kept.as_array().map(Vec::len), Some(1));
}

/// An allowed origin is named, and credentials are never allowed.
#[tokio::test]
async fn s17_an_allowed_origin_may_read_without_credentials() {
    let (client, _, _folder) = prepared().await;
    for (origin, status) in [("https://trusted.example", 200), ("http://localhost:3000", 200)] {
        let request = Request::get("/info").header("host", HOST).header("origin", origin);
        let answer = client.send(request.body(Body::empty()).expect("a request")).await;
        assert_eq!(answer.status.as_u16(), status, "{origin}");
        assert_eq!(answer.headers["access-control-allow-origin"], origin);
        assert_eq!(answer.headers["vary"], "Origin");
        assert!(!answer.headers.contains_key("access-control-allow-credentials"));
    }
}

/// The position of a run is a number within it: that of another run leads to nothing of that run.
#[tokio::test]
async fn s21_a_position_of_another_run_shows_nothing_of_it() {
    let (client, words, _folder) = prepared().await;
    let thread = client.thread().await;
    let run = json!({"assistant_id": "echo", "input": {"msg": "mine"}});
    let own = client.post(&format!("{thread}/runs/stream"), run).await;
    let location = own.headers["location"].to_str().expect("text");
    let other = format!("/runs/{}/stream", words[1].1);
    for (_, _, id) in client.get(&format!("{other}?stream_mode=values")).await.events() {
        let request = Request::get(location).header("host", HOST);
        let request = request.header("last-event-id", id.unwrap_or_default());
        let answer = client.send(request.body(Body::empty()).expect("a request")).await;
        assert!(!answer.body.contains(SECRET), "{}", answer.body);
    }
}

/// Line breaks and fields in values are data of one event.
#[tokio::test]
async fn s22_values_cannot_make_events() {
    let (client, _, _folder) = prepared().await;
    let stream = async |msg: &str| {
        let thread = client.thread().await;
        let run = json!({"assistant_id": "echo", "input": {"msg": msg}, "stream_mode": "values"});
        client.post(&format!("{thread}/runs/stream"), run).await
    };
    let plain = stream("plain").await.names();
    let text = "x\n\nevent: error\ndata: {\"error\": 1}\nid: 9-9\r\n\r\revent: end\u{2028}: x\0";
    let attacked = stream(text).await;
    assert_eq!(attacked.names(), plain, "{}", attacked.body);
    let values = attacked.events().into_iter().rfind(|event| event.0 == "values");
    assert_eq!(values.expect("values").1["msg"], text);
    let lines = attacked.body.lines().filter(|line| line.starts_with("event:")).count();
    assert_eq!(lines, plain.len());
}

/// Serves on a free port of the loopback device.
async fn listen(server: impl FnOnce(Server) -> Server) -> SocketAddr {
    let runtime = graphs::runtime().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(server(Server::new(runtime)).serve(listener, std::future::pending()));
    address
}

/// Sends bytes and returns the status of the answer; `None` if the connection ends without one.
async fn sent(socket: &mut TcpStream, bytes: &[u8]) -> Option<u16> {
    socket.write_all(bytes).await.expect("written");
    let mut answer = [0; 512];
    let length = socket.read(&mut answer).await.unwrap_or(0);
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    answer.split(' ').nth(1).and_then(|status| status.parse().ok())
}

const GET: &str = "GET /ok HTTP/1.1\r\nhost: localhost\r\n";
const POST: &str = "POST /threads HTTP/1.1\r\nhost: localhost\r\n";

#[tokio::test]
async fn s39_heads_and_bodies_have_limits() {
    let address = listen(|server| server).await;
    let names = |names: usize| (0..names).map(|n| format!("x-{n}: 1\r\n")).collect::<String>();
    for (head, status) in [
        (format!("{GET}\r\n"), Some(200)),
        (format!("{GET}{}\r\n", names(101)), Some(431)),
        (format!("{GET}x: {}\r\n\r\n", "a".repeat(40 << 10)), Some(431)),
        (format!("{POST}content-length: 104857600\r\n\r\n"), Some(413)),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), None),
    ] {
        let mut socket = TcpStream::connect(address).await.expect("it listens");
        let found = sent(&mut socket, head.as_bytes()).await;
        let start: String = head.chars().take(80).collect();
        match status {
            Some(_) => assert_eq!(found, status, "{start}"),
            None => assert_ne!(found, Some(200), "{start}"),
        }
    }
    let client = Client::new().await;
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let nested = format!(r#"{{"metadata": {{"a": {deep}}}}}"#);
    assert_eq!(client.post_text("/threads", &nested).await.status, 422);
    let large = "a".repeat(17 << 20);
    assert_eq!(client.post_text("/threads", &large).await.status, 413, "without a length");
    let long = format!("/threads/{}", "a".repeat(17 << 10));
    assert_eq!(client.get(&long).await.status, 414);
}

#[tokio::test(start_paused = true)]
async fn s39_slow_heads_and_bodies_are_cut_off() {
    let address = listen(|server| server).await;
    for (bytes, seconds, status) in
        [(GET.to_owned(), 10, None), (format!("{POST}content-length: 2\r\n\r\n{{"), 30, Some(408))]
    {
        let mut socket = TcpStream::connect(address).await.expect("it listens");
        let begun = Instant::now();
        let ended = timeout(Duration::from_secs(60), sent(&mut socket, bytes.as_bytes())).await;
        let ended = ended.expect("it is cut off");
        let took = begun.elapsed().as_secs();
        assert!((seconds..seconds + 5).contains(&took), "{bytes:?} took {took} s");
        assert!(ended == status || status.is_none() && ended == Some(408), "{bytes:?}: {ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s39_further_connections_wait() {
    let address = listen(|server| server.connections_max(2)).await;
    let mut first = TcpStream::connect(address).await.expect("it listens");
    assert_eq!(sent(&mut first, format!("{GET}\r\n").as_bytes()).await, Some(200));
    let mut second = TcpStream::connect(address).await.expect("it listens");
    assert_eq!(sent(&mut second, format!("{GET}\r\n").as_bytes()).await, Some(200));
    let mut third = TcpStream::connect(address).await.expect("the system accepts it");
    let request = format!("{GET}\r\n");
    let mut answer = std::pin::pin!(sent(&mut third, request.as_bytes()));
    let waits = timeout(Duration::from_millis(100), &mut answer).await;
    assert!(waits.is_err(), "it waits while the others are open: {waits:?}");
    drop(second);
    assert_eq!(answer.await, Some(200));
}

/// Without a token a server does not listen on an address that other machines reach.
#[tokio::test]
async fn s47_a_public_address_needs_a_token() {
    let listener = TcpListener::bind("0.0.0.0:0").await.expect("a port");
    let server = Server::new(graphs::runtime().await);
    let refused = server.serve(listener, std::future::pending()).await.expect_err("refused");
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    assert!(refused.to_string().contains("add one, or listen on 127.0.0.1"), "{refused}");
}

#[tokio::test]
async fn s39_a_server_that_is_full_or_stops_says_when_to_try_again() {
    let runtime = graphs::runtime().await;
    let full = Client::of(Server::new(runtime.clone()).waiting_max(0), runtime.clone());
    let run = json!({"assistant_id": "echo", "input": {"msg": "a"}});
    let thread = full.thread().await;
    for path in ["/runs", "/runs/wait", "/runs/stream", "/runs/batch"] {
        let body = if path == "/runs/batch" { json!([run]) } else { run.clone() };
        let refused = full.post(path, body).await;
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{path}");
        assert_eq!(refused.headers["retry-after"], "1", "{path}");
    }
    let runs: Value = full.get(&format!("{thread}/runs")).await.json();
    assert_eq!(runs, json!([]), "nothing was accepted");
    runtime.shutdown(Duration::ZERO).await.expect("shuts down");
    let stops = Client::over(runtime);
    let refused = stops.post(&format!("{thread}/runs/wait"), run).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "{}", refused.body);
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(stops.get("/ok").await.status, StatusCode::OK);
}
