//! A server in a program with routes of its own, which determines itself who makes a request.

use crate::client::token;
use crate::graphs;
use crate::protocol::socket::{Served, Socket};
use axum::Router;
use axum::routing::get;
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use weftwork_server::{Parts, Refusal, Server};
use weftwork_types::{OrgId, Principal, Right, Rights};

/// Text of an error that no client may see.
const INNER: &str = "no row of customer 4711";

#[derive(Debug, thiserror::Error)]
#[error("{INNER}")]
struct NoCustomer;

/// The own authentication of a program: a header names the customer, and the person in it.
async fn authenticate(head: Parts) -> Result<Principal, Refusal> {
    // Waits, as for a database.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let customer = head.headers.get("x-customer");
    let customer = customer.ok_or_else(|| Refusal::unauthorized("expected `x-customer`"))?;
    let customer = customer.to_str()?;
    let principal = |org: &str| Ok(Principal::new(OrgId::new(org)?, "ada"));
    match customer {
        "closed" => Err(Refusal::forbidden("the account is closed")),
        "lost" => Err(NoCustomer)?,
        "broken" => panic!("{INNER}"),
        "server" => principal("server:local"),
        "reader" => {
            principal("one").map(|who| Principal::with_rights(who, Rights::of(&[Right::Read])))
        }
        org => principal(org),
    }
}

/// The answer to a request.
#[derive(Debug)]
struct Answer {
    status: u16,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text);
        serde_json::from_str(self.text.trim()).expect("JSON")
    }
}

/// Sends a request over a connection of its own.
async fn send(at: SocketAddr, request: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let body = body.to_string();
    let length = body.len().to_string();
    // Bodies of HTTP/1.0 have no chunks.
    let mut text = format!("{request} HTTP/1.0\r\n");
    let own = [("host", "localhost"), ("connection", "close"), ("content-length", &*length)];
    for (name, value) in own.iter().chain(headers) {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut socket = TcpStream::connect(at).await.expect("it listens");
    socket.write_all(format!("{text}\r\n{body}").as_bytes()).await.expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.expect("a text");
    let (head, text) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, text: text.to_owned() }
}

/// Serves the routes of a program and those of a server, until the returned value stops it.
async fn program(authenticated: bool) -> Served {
    let server = Server::new(graphs::runtime().await);
    let server = match authenticated {
        true => server.authenticate(authenticate),
        false => server.open_to_all(),
    };
    // The function decides alone.
    let server = server.token(token("one"), Principal::local()).expect("valid");
    let server = server.embed().expect("has clients");
    let own = Router::new().route("/hello", get(async || "hello"));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let app = own.merge(server.router());
    let end = async move {
        stopped.await.unwrap_or_default();
        server.stop();
    };
    let serving = axum::serve(listener, app).with_graceful_shutdown(end);
    let ended = tokio::spawn(async move { serving.await });
    Served { address, stop: Some(stop), ended }
}

/// Headers of a request that is refused, with the status and the text of the refusal.
type Refused<'a> = (&'a [(&'a str, &'a str)], u16, &'a str);

fn of(customer: &str) -> [(&str, &str); 1] {
    [("x-customer", customer)]
}

#[tokio::test]
async fn each_principal_of_the_program_has_its_own_threads() {
    let program = program(true).await;
    let at = program.address;
    let hello = send(at, "GET /hello", &[], &Value::Null).await;
    assert_eq!((hello.status, &*hello.text), (200, "hello"));
    let input = json!({"assistant_id": "echo", "input": {"msg": "a"}, "if_not_exists": "create"});
    for customer in ["one", "two"] {
        let run = format!("POST /threads/t-{customer}/runs/wait");
        assert_eq!(send(at, &run, &of(customer), &input).await.json()["msg"], "a");
        let streamed = format!("POST /threads/t-{customer}/runs/stream");
        let streamed = send(at, &streamed, &of(customer), &input).await;
        assert!(streamed.text.contains("event: values"), "{streamed:?}");
    }
    for (customer, other) in [("one", "two"), ("two", "one")] {
        let found = send(at, "POST /threads/search", &of(customer), &json!({})).await.json();
        let found: Vec<_> = found.as_array().expect("a list").iter().collect();
        assert_eq!(found.len(), 1, "{found:?}");
        for request in ["GET /threads/t-{}", "GET /threads/t-{}/state", "DELETE /threads/t-{}"] {
            let request = request.replace("{}", other);
            assert_eq!(send(at, &request, &of(customer), &Value::Null).await.status, 404);
        }
    }
    // Rights of the function hold, too.
    let run = "POST /threads/t-one/runs/wait";
    assert_eq!(send(at, run, &of("reader"), &input).await.status, 403);
    assert!(send(at, "GET /threads/t-one", &of("reader"), &Value::Null).await.status == 200);
}

#[tokio::test]
async fn every_door_refuses_whom_the_function_refuses_and_tells_no_inner_error() {
    let program = program(true).await;
    let at = program.address;
    let doors = [
        "GET /info",
        "POST /threads/search",
        "POST /runs/wait",
        "POST /chat/desk",
        "GET /threads/t/stream/events",
        "POST /threads/t/commands",
        "POST /store/items/search",
        "GET /interrupts",
        "GET /metrics",
        "GET /unknown",
    ];
    let tokens = token("one");
    let refused: [Refused<'_>; 6] = [
        (&[], 401, "expected `x-customer`"),
        (&[("x-api-key", &tokens)], 401, "expected `x-customer`"),
        (&of("closed"), 403, "the account is closed"),
        (&of("lost"), 401, "the request does not prove who makes it"),
        (&of("server"), 403, "the organisation of the client is reserved"),
        (&of("broken"), 500, "the authentication of the server failed"),
    ];
    for door in doors {
        for (headers, status, detail) in refused {
            let answer = send(at, door, headers, &json!({})).await;
            let expected = json!({"detail": detail});
            assert_eq!(answer.status, status, "{door}: {answer:?}");
            assert_eq!(serde_json::from_str::<Value>(&answer.text).expect("JSON"), expected);
        }
    }
    for open in ["GET /ok", "GET /openapi.json"] {
        assert_eq!(send(at, open, &[], &Value::Null).await.status, 200, "{open}");
    }
    // A page of another origin is refused before the function is asked.
    let foreign = [("x-customer", "broken"), ("origin", "https://evil.example")];
    assert_eq!(send(at, "GET /info", &foreign, &Value::Null).await.status, 403);
}

#[tokio::test]
async fn streams_have_the_principal_of_their_request_and_end_with_the_program() {
    let mut program = program(true).await;
    let at = program.address;
    assert!(Socket::open(&program, "t").await.is_err(), "a token alone is refused");
    let input = json!({"assistant_id": "echo", "input": {"msg": "a"}, "if_not_exists": "create"});
    send(at, "POST /threads/t/runs/wait", &of("one"), &input).await.json();
    let stream = TcpStream::connect(at).await.expect("it listens");
    let url = format!("ws://{at}/threads/t/stream/events");
    let mut request = url.into_client_request().expect("a request");
    request.headers_mut().insert("x-customer", "one".parse().expect("a value"));
    let (mut socket, answer) = client_async(request, stream).await.expect("opens");
    assert_eq!(answer.status(), 101);
    // A stream of events, which has no end of its own.
    let body = json!({"channels": ["values"], "since": 0}).to_string();
    let head = "POST /threads/t/stream/events HTTP/1.1\r\nhost: localhost\r\nx-customer: one\r\n";
    let mut events = TcpStream::connect(at).await.expect("it listens");
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    events.write_all(request.as_bytes()).await.expect("sent");
    let mut begin = [0; 12];
    events.read_exact(&mut begin).await.expect("an answer");
    assert_eq!(&begin, b"HTTP/1.1 200");
    program.stop.take().expect("one").send(()).expect("serves");
    let ended = tokio::time::timeout(Duration::from_secs(30), program.ended).await;
    ended.expect("open streams do not hold the program").expect("no panic").expect("ends");
    events.read_to_end(&mut Vec::new()).await.expect("ends");
    let closed = loop {
        if let Message::Close(frame) = socket.next().await.expect("a message").expect("sound") {
            break frame.expect("a reason");
        }
    };
    assert_eq!(u16::from(closed.code), 1012, "the server stops");
}

#[tokio::test]
async fn without_the_function_the_tokens_decide() {
    let program = program(false).await;
    let at = program.address;
    assert_eq!(send(at, "GET /info", &of("one"), &Value::Null).await.status, 401);
    let token = token("one");
    let headers = [("x-api-key", &*token)];
    assert_eq!(send(at, "GET /info", &headers, &Value::Null).await.status, 200);
}
