//! Servers that are killed with SIGKILL while a client streams a response of OpenAI's API.

use crate::home::{Home, PROGRAM};
use crate::serve::Served;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use weftwork_testkit::{LoopbackServer, Reply};

pub(crate) const TOKEN: &str = "a-token-of-the-operator";
const KEY: &str = "idempotency-key: once\r\n";

/// Number of kills.
pub(crate) const KILLS: usize = 20;

/// Place of a kill.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Place {
    /// The client has a part of the text, and the model is silent.
    During,
    /// The client has the last event.
    After,
}

fn chunk(text: &str, end: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": end});
    format!("data: {}\n\n", json!({"id": "c", "choices": [choice]}))
}

/// The answer of the model to a call: the first one hangs in the middle of its text, if it is to be killed
/// there.
pub(crate) fn reply(place: Place, number: usize) -> Reply {
    let kind = [("content-type", "text/event-stream")];
    if place == Place::During && number == 0 {
        return Reply::pieces(200, &kind).piece(chunk("Part", None)).hang();
    }
    let text = format!("{}data: [DONE]\n\n", chunk(&format!("Answer {number}."), Some("stop")));
    Reply::full(200, &kind, text)
}

pub(crate) fn serve(home: &Home) -> Served {
    let args = ["serve", "--listen", "127.0.0.1:0", "--token", TOKEN];
    Served::start(home, Path::new(PROGRAM), &args).0
}

/// The header with the token.
pub(crate) fn headers() -> String {
    format!("authorization: Bearer {TOKEN}\r\n")
}

/// Asks for a stream, and reads it up to a text.
pub(crate) fn read_until(served: &Served, request: &str, body: &Value, last: &str) -> String {
    let mut socket = TcpStream::connect(&served.address).expect("it listens");
    let body = body.to_string();
    let length = body.len();
    let text = format!(
        "{request} HTTP/1.0\r\nhost: localhost\r\n{}{KEY}content-length: {length}\r\n\r\n{body}",
        headers()
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
            return text.into_owned();
        }
    }
}

/// The id of the first response in a stream.
fn id_in(stream: &str) -> String {
    let (_, rest) = stream.split_once("\"id\":\"resp_").expect("an id");
    format!("resp_{}", rest.split('"').next().expect("a text"))
}

/// Reads a response until it has ended.
fn ended(served: &Served, id: &str) -> Value {
    loop {
        let (status, body) =
            served.send(&format!("GET /v1/responses/{id}"), &headers(), &json!({}));
        assert_eq!(status, 200, "{body}");
        if !["queued", "in_progress"].contains(&body["status"].as_str().expect("a status")) {
            return body;
        }
        std::thread::yield_now();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_is_whole_after_its_server_was_killed_and_nothing_is_made_twice() {
    for number in 0..KILLS {
        let place = if number % 3 == 2 { Place::After } else { Place::During };
        let model = LoopbackServer::start(move |number, _| reply(place, number)).await;
        let model = model.expect("a server");
        tokio::task::block_in_place(|| {
            let home = Home::new().provider(&model.url("/v1"));
            fs::create_dir_all(home.path("agents/golf")).expect("is made");
            fs::write(home.path("agents/golf/agent.yaml"), "type: context\n").expect("is written");
            let came = home.weft(&["agents", "expose", "golf", "--openai"]);
            assert_eq!(came.status, Some(0), "{came:?}");
            let served = serve(&home);
            let body = json!({"model": "golf", "input": "Hello", "stream": true});
            let last = match place {
                Place::During => "output_text.delta",
                Place::After => "\"type\":\"response.completed\"",
            };
            let id = id_in(&read_until(&served, "POST /v1/responses", &body, last));
            served.kill();

            let served = serve(&home);
            let response = ended(&served, &id);
            let calls = model.received().len();
            assert_eq!(calls, if place == Place::During { 2 } else { 1 }, "{place:?}");
            let expected = format!("Answer {}.", calls - 1);
            assert_eq!(response["status"], "completed", "{response}");
            assert_eq!(response["output"].as_array().map(Vec::len), Some(1), "{response}");
            assert_eq!(response["output"][0]["content"][0]["text"], expected, "{response}");
            assert_eq!(ended(&served, &id), response, "each reader gets the same");
            // A client that repeats its request with the same key has the same response.
            let body = json!({"model": "golf", "input": "Hello"});
            let headers = format!("{}{KEY}", headers());
            let (status, again) = served.send("POST /v1/responses", &headers, &body);
            assert_eq!((status, &again["id"]), (200, &json!(id)), "{again}");
            assert_eq!(again["output"], response["output"]);
            assert_eq!(model.received().len(), calls, "nothing is asked again");
        });
    }
}
