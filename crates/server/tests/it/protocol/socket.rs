//! Commands and events by WebSocket.

use super::{WAIT, graphs, is_end, new_thread, until_end};
use crate::client::CHANNELS;
use crate::reference;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async};
use weftwork_runtime::Runtime;
use weftwork_server::Server;

/// A server on a port of its own, which stops when it is dropped.
pub(crate) struct Served {
    pub(crate) address: std::net::SocketAddr,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) ended: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Served {
    pub(crate) async fn new(runtime: Runtime) -> Self {
        Self::of(Server::new(runtime)).await
    }

    pub(crate) async fn of(server: Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async move { stopped.await.unwrap_or_default() };
        let ended = tokio::spawn(server.serve(listener, stopped));
        Self { address, stop: Some(stop), ended }
    }
}

pub(crate) struct Socket {
    stream: WebSocketStream<TcpStream>,
    last: u64,
}

impl Socket {
    pub(crate) async fn open(server: &Served, thread: &str) -> Result<Self, tungstenite::Error> {
        Self::open_with(server, thread, "no-token").await
    }

    /// Opens a connection with a token.
    pub(crate) async fn open_with(
        server: &Served,
        thread: &str,
        token: &str,
    ) -> Result<Self, tungstenite::Error> {
        let stream = TcpStream::connect(server.address).await.expect("connects");
        let url = format!("ws://{}/threads/{thread}/stream/events", server.address);
        let mut request = url.into_client_request()?;
        let token = token.parse().expect("a value of a header");
        request.headers_mut().insert("x-api-key", token);
        Ok(Self { stream: client_async(request, stream).await?.0, last: 0 })
    }

    pub(crate) async fn send_text(&mut self, text: String) {
        self.stream.send(Message::Text(text.into())).await.expect("sends");
    }

    /// Waits for the next message, which is not one of the connection itself.
    pub(crate) async fn next(&mut self) -> Value {
        loop {
            let message = tokio::time::timeout(WAIT, self.stream.next()).await.expect("a message");
            match message.expect("open").expect("sound") {
                Message::Text(text) => return serde_json::from_str(&text).expect("JSON"),
                Message::Close(frame) => panic!("closed: {frame:?}"),
                _ => {}
            }
        }
    }

    /// Sends a command and waits for its answer; events before it are dropped.
    async fn command(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = self.last;
        self.send_text(json!({"id": id, "method": method, "params": params}).to_string()).await;
        loop {
            let message = self.next().await;
            if message["id"] == id {
                return message;
            }
            assert_eq!(message["type"], "event", "{message}");
        }
    }

    async fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.command(method, params).await;
        assert_eq!(answer["type"], "success", "{answer}");
        answer["result"].clone()
    }

    async fn run(&mut self) -> Vec<Value> {
        until_end(async || self.next().await).await
    }

    /// Waits until the connection is closed; returns the code.
    pub(crate) async fn closed(&mut self) -> Option<u16> {
        loop {
            let message =
                tokio::time::timeout(WAIT * 10, self.stream.next()).await.expect("an end");
            match message {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code.into()),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }
}

#[tokio::test]
async fn a_question_is_asked_answered_and_continued_over_a_socket() {
    let server = Served::new(reference::runtime().await).await;
    let thread = new_thread();
    let mut socket = Socket::open(&server, &thread).await.expect("opens");
    let filter = json!({"channels": CHANNELS});
    let id = socket.result("subscription.subscribe", filter.clone()).await;
    assert!(id["subscription_id"].is_string());
    let start = json!({"assistant_id": "inter", "input": {"q": "ok"}});
    // Events may precede the answer to the command.
    socket.send_text(json!({"id": 90, "method": "run.start", "params": start}).to_string()).await;
    let mut tape = Vec::new();
    while !tape.last().is_some_and(is_end) {
        let message = socket.next().await;
        if message["type"] == "event" {
            tape.push(message);
        }
    }
    let asked = tape.iter().find(|event| event["method"] == "input.requested").expect("asked");
    let question = asked["params"]["data"]["interrupt_id"].clone();
    let answer = json!({"namespace": [], "interrupt_id": question, "response": "yes"});
    let respond = json!({"id": 91, "method": "input.respond", "params": answer});
    socket.send_text(respond.to_string()).await;
    let ended = tape.len();
    while !tape[ended..].last().is_some_and(is_end) {
        let message = socket.next().await;
        if message["type"] == "event" {
            tape.push(message);
        }
    }
    for (index, last) in tape.iter().enumerate() {
        let mut socket = Socket::open(&server, &thread).await.expect("opens");
        let since = json!({"channels": CHANNELS, "since": last["seq"]});
        socket.result("subscription.subscribe", since).await;
        for expected in &tape[index + 1..] {
            assert_eq!(socket.next().await, *expected, "after {last}");
        }
    }
    let run = client_run(&tape);
    let mut socket = Socket::open(&server, &thread).await.expect("opens");
    let cut = json!({"run_id": run, "last_event_id": tape[tape.len() - 3]["event_id"]});
    let restored = socket.result("subscription.reconnect", cut).await;
    assert_eq!(restored["restored"], true);
    assert_eq!(restored["current_namespaces"], json!([{"namespace": [], "status": "completed"}]));
    socket.result("subscription.subscribe", filter).await;
    assert_eq!([socket.next().await, socket.next().await], tape[tape.len() - 2..]);
}

/// The run of the last event.
fn client_run(tape: &[Value]) -> String {
    let id = tape.last().and_then(|event| event["event_id"].as_str()).expect("an id");
    id.split(':').next().expect("a run").to_owned()
}

#[tokio::test]
async fn subscriptions_begin_end_and_are_limited() {
    let server = Served::new(reference::runtime().await).await;
    let thread = new_thread();
    let mut socket = Socket::open(&server, &thread).await.expect("opens");
    let start = json!({"assistant_id": "echo", "input": {"msg": "a"}});
    let run = socket.result("run.start", start.clone()).await["run_id"].clone();
    let lifecycle = json!({"channels": ["lifecycle"]});
    let id = socket.result("subscription.subscribe", lifecycle.clone()).await;
    assert_eq!(socket.run().await.len(), 2);
    assert_eq!(socket.result("subscription.unsubscribe", id.clone()).await, json!({}));
    let again = socket.command("subscription.unsubscribe", id.clone()).await;
    assert_eq!(again["error"], "no_such_subscription");
    let missing = json!({"run_id": run, "subscriptions": [id["subscription_id"]]});
    let missing = socket.command("subscription.reconnect", missing).await;
    assert_eq!(missing["error"], "no_such_subscription");
    let nobody = json!({"run_id": "00000000-0000-4000-8000-000000000000"});
    assert_eq!(socket.command("subscription.reconnect", nobody).await["error"], "no_such_run");
    // A subscription that is open begins again after an event.
    let named = json!({"channels": ["lifecycle"], "since": 0});
    let id = socket.result("subscription.subscribe", named).await;
    let first = socket.run().await;
    let back = json!({"run_id": run, "last_event_id": first[0]["event_id"],
        "subscriptions": [id["subscription_id"]]});
    socket.result("subscription.reconnect", back).await;
    assert_eq!(socket.run().await, first[1..]);
    for (text, says) in [
        ("{bad".to_owned(), "valid JSON"),
        ("[1]".to_owned(), "integer id"),
        (
            json!({"id": 5, "method": "subscription.subscribe", "params": {}}).to_string(),
            "`channels`",
        ),
        (
            json!({"id": 5, "method": "subscription.unsubscribe", "params": {}}).to_string(),
            "subscription_id",
        ),
    ] {
        socket.send_text(text).await;
        let refused = socket.next().await;
        assert_eq!(refused["error"], "invalid_argument");
        assert!(refused["message"].as_str().is_some_and(|text| text.contains(says)), "{refused}");
    }
    assert_eq!(socket.command("smell", json!({})).await["error"], "unknown_command");
    let idle = json!({"channels": ["tools"]});
    for _ in 0..31 {
        socket.result("subscription.subscribe", idle.clone()).await;
    }
    let refused = socket.command("subscription.subscribe", idle).await;
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("32")), "{refused}");
}

#[tokio::test]
async fn a_message_that_is_too_large_ends_the_connection() {
    let server = Served::new(reference::runtime().await).await;
    let mut socket = Socket::open(&server, &new_thread()).await.expect("opens");
    let large = json!({"id": 1, "method": "run.start", "params": {"x": "y".repeat(5 << 20)}});
    // The server may close the connection before it has read all of it.
    drop(socket.stream.send(Message::Text(large.to_string().into())).await);
    let code = socket.closed().await;
    assert!(code.is_none_or(|code| code == 1009), "{code:?}");
    let refused = Socket::open(&server, &"x".repeat(257)).await.err().expect("refused");
    assert!(refused.to_string().contains("422"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_answers_no_ping_is_disconnected() {
    let server = Served::new(reference::runtime().await).await;
    let mut socket = Socket::open(&server, &new_thread()).await.expect("opens");
    // Pings are answered when messages are read.
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;
    // The answer to a ping that is read too late may fail before the end is read.
    let code = socket.closed().await;
    assert!(code.is_none_or(|code| code == 1008), "{code:?}");
}

#[tokio::test]
async fn sockets_end_when_the_server_stops() {
    let (runtime, words) = graphs::runtime().await;
    let mut server = Served::new(runtime).await;
    let thread = new_thread();
    let mut socket = Socket::open(&server, &thread).await.expect("opens");
    socket.result("subscription.subscribe", json!({"channels": ["messages"]})).await;
    let talk = json!({"assistant_id": "talk",
        "input": {"messages": [{"role": "user", "content": "?"}]}});
    socket.result("run.start", talk).await;
    words.add_permits(1);
    assert_eq!(socket.next().await["params"]["data"]["event"], "message-start");
    server.stop.take().expect("a server").send(()).expect("it runs");
    assert_eq!(socket.closed().await, Some(1012));
}
