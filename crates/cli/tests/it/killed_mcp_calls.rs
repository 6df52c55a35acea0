//! Servers that are killed with SIGKILL while a client streams a call of MCP.

use crate::home::{Home, PROGRAM};
use crate::serve::Served;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use weftwork_testkit::{LoopbackServer, Reply};

const TOKEN: &str = "a-token-of-the-operator";
const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";

/// Number of kills.
fn kills() -> usize {
    if std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full") { 40 } else { 20 }
}

/// Place of a kill.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// The client has notifications of progress, and the model is silent.
    During,
    /// The client has the response.
    After,
}

fn chunk(text: &str, end: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": end});
    format!("data: {}\n\n", json!({"id": "c", "choices": [choice]}))
}

fn reply(place: Place, number: usize) -> Reply {
    let kind = [("content-type", "text/event-stream")];
    if place == Place::During && number == 0 {
        return Reply::pieces(200, &kind).piece(chunk("Part", None)).hang();
    }
    let text = format!("{}data: [DONE]\n\n", chunk(&format!("Answer {number}."), Some("stop")));
    Reply::full(200, &kind, text)
}

fn serve(home: &Home) -> Served {
    let args = ["serve", "--listen", "127.0.0.1:0", "--token", TOKEN];
    Served::start(home, Path::new(PROGRAM), &args).0
}

/// A client of one of the versions.
#[derive(Debug, Clone)]
enum Client {
    Modern,
    Legacy { session: String },
}

impl Client {
    fn headers(&self, name: &str) -> String {
        let own = match self {
            Self::Modern => format!(
                "mcp-protocol-version: {MODERN}\r\nmcp-method: tools/call\r\nmcp-name: {name}\r\n"
            ),
            Self::Legacy { session } => {
                format!("mcp-protocol-version: {LEGACY}\r\nmcp-session-id: {session}\r\n")
            }
        };
        format!(
            "authorization: Bearer {TOKEN}\r\naccept: application/json, text/event-stream\r\n{own}"
        )
    }

    /// The body of a call that may come again: that of an older client by its session and its id.
    fn body(&self) -> Value {
        let mut meta = json!({"progressToken": 1});
        if matches!(self, Self::Modern) {
            meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
            meta["weftwork/idempotencyKey"] = "once".into();
        }
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
            "params": {"name": "golf", "arguments": {"message": "Hello"}, "_meta": meta}})
    }

    /// Sends the call, and reads its stream up to a text. The connection stays open with the stream: a
    /// client of the newer version that leaves cancels its run.
    fn read_until(&self, served: &Served, last: &str) -> Stream {
        let mut socket = TcpStream::connect(&served.address).expect("it listens");
        let body = self.body().to_string();
        let text = format!(
            "POST /mcp HTTP/1.0\r\nhost: localhost\r\n{}content-length: {}\r\n\r\n{body}",
            self.headers("golf"),
            body.len()
        );
        socket.write_all(text.as_bytes()).expect("written");
        let mut read = Vec::new();
        let mut part = [0; 4_096];
        loop {
            let length = socket.read(&mut part).expect("read");
            assert!(length > 0, "the stream ended: {}", String::from_utf8_lossy(&read));
            read.extend_from_slice(&part[..length]);
            let text = String::from_utf8_lossy(&read);
            if text.contains(last) {
                return Stream { text: text.into_owned(), _socket: socket };
            }
        }
    }
}

/// The stream of a call.
struct Stream {
    text: String,
    _socket: TcpStream,
}

/// Begins a session of an older client.
fn session(served: &Served) -> Client {
    let mut socket = TcpStream::connect(&served.address).expect("it listens");
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {}}})
    .to_string();
    let text = format!(
        "POST /mcp HTTP/1.0\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(text.as_bytes()).expect("written");
    let mut read = String::new();
    socket.read_to_string(&mut read).expect("read");
    let (_, rest) = read.split_once("mcp-session-id: ").expect("a session");
    Client::Legacy { session: rest.lines().next().expect("a line").to_owned() }
}

/// Returns the result in a stream.
fn result_in(stream: &Stream) -> Value {
    let data = stream.text.lines().filter_map(|line| line.strip_prefix("data: "));
    let mut messages = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let last = messages.find(|message| message.get("result").is_some());
    last.expect("a result")["result"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_whole_after_its_server_was_killed_and_nothing_is_made_twice() {
    for number in 0..kills() {
        let place = if number % 3 == 2 { Place::After } else { Place::During };
        let model = LoopbackServer::start(move |number, _| reply(place, number)).await;
        let model = model.expect("a server");
        tokio::task::block_in_place(|| {
            let home = Home::new().provider(&model.url("/v1"));
            fs::create_dir_all(home.path("agents/golf")).expect("is made");
            fs::write(home.path("agents/golf/agent.yaml"), "type: context\n").expect("is written");
            let came = home.weft(&["agents", "expose", "golf", "--mcp"]);
            assert_eq!(came.status, Some(0), "{came:?}");
            let served = serve(&home);
            let client = if number % 2 == 0 { Client::Modern } else { session(&served) };
            let last = match place {
                Place::During => "notifications/progress",
                Place::After => "\"result\"",
            };
            let stream = client.read_until(&served, last);
            if place == Place::During {
                while model.received().is_empty() {
                    std::thread::yield_now();
                }
            }
            served.kill();
            drop(stream);

            // The same request again has the same run, whose answer is asked for once more at most.
            let served = serve(&home);
            let result = result_in(&client.read_until(&served, "\"result\""));
            let calls = model.received().len();
            assert_eq!(calls, if place == Place::During { 2 } else { 1 }, "{place:?}");
            let expected = format!("Answer {}.", calls - 1);
            assert_eq!(result["content"][0]["text"], expected, "{result}");
            assert_eq!(result_in(&client.read_until(&served, "\"result\"")), result);
            assert_eq!(model.received().len(), calls, "nothing is asked again");
            let (status, threads) = served.send(
                "POST /threads/search",
                &format!("authorization: Bearer {TOKEN}\r\n"),
                &json!({}),
            );
            assert_eq!(
                (status, threads.as_array().map(Vec::len)),
                (200, Some(1)),
                "one conversation"
            );
        });
    }
}
