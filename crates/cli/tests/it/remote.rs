//! Tests of `weft chat --url` at servers that misbehave: broken connections, requests without an
//! answer, and texts that control terminals.

use crate::home::{Came, Home, PROGRAM};
use crate::terminal::Terminal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The longest time for which a request may take to arrive.
const PATIENCE: Duration = Duration::from_secs(60);
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const ESCAPE: &str = "\x1b]0;title\x07";

/// A request to a fake server.
#[derive(Debug, Clone)]
struct Request {
    /// Method and target.
    line: String,
    body: Value,
}

impl Request {
    fn read(connection: &TcpStream) -> Self {
        let mut reader = BufReader::new(connection);
        let mut first = None;
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a request");
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            first.get_or_insert_with(|| line.trim_end_matches(" HTTP/1.1").to_owned());
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a body");
        let body = serde_json::from_slice(&body).unwrap_or_default();
        Self { line: first.expect("a first line"), body }
    }
}

/// An answer of a fake server.
enum Reply {
    Json(Value),
    Status(u16),
    /// Frames, after which the connection is closed.
    Frames(Vec<Value>),
    /// Frames, after which the connection stays open.
    Open(Vec<Value>),
    /// Nothing, and the connection is closed.
    Close,
    /// Nothing.
    Hang,
}

/// A server with an answer for each request, which counts them.
struct Fake {
    url: String,
    requests: Arc<(Mutex<Vec<Request>>, Condvar)>,
}

impl Fake {
    fn start(answer: impl Fn(usize, &Request) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::<(Mutex<Vec<Request>>, Condvar)>::default();
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for connection in listener.incoming() {
                let mut connection = connection.expect("a connection");
                let request = Request::read(&connection);
                let number = {
                    let (seen, changed) = &*seen;
                    let mut seen = seen.lock().expect("not poisoned");
                    seen.push(request.clone());
                    changed.notify_all();
                    seen.len()
                };
                let reply = answer(number, &request);
                let text = match &reply {
                    Reply::Json(value) => head("200 OK", "application/json") + &value.to_string(),
                    Reply::Status(status) => head(&format!("{status} Status"), "text/plain"),
                    Reply::Frames(frames) | Reply::Open(frames) => {
                        let done = frames.last().is_some_and(|last| last["type"] == "finish");
                        let frames = frames.iter().map(|frame| format!("data: {frame}\n\n"));
                        let end = if done { "data: [DONE]\n\n" } else { "" };
                        head("200 OK", "text/event-stream") + &frames.collect::<String>() + end
                    }
                    Reply::Close | Reply::Hang => String::new(),
                };
                // A client that has left does not read.
                connection.write_all(text.as_bytes()).unwrap_or_default();
                if matches!(reply, Reply::Open(_) | Reply::Hang) {
                    open.push(connection);
                }
            }
        });
        Self { url, requests }
    }

    fn lines(&self) -> Vec<String> {
        let requests = self.requests.0.lock().expect("not poisoned");
        requests.iter().map(|request| request.line.clone()).collect()
    }

    /// Waits until there were as many requests.
    fn wait(&self, count: usize) {
        let (requests, changed) = &*self.requests;
        let requests = requests.lock().expect("not poisoned");
        let few = |requests: &mut Vec<Request>| requests.len() < count;
        let waited = changed.wait_timeout_while(requests, PATIENCE, few).expect("not poisoned");
        assert!(!waited.1.timed_out(), "{:?}", *waited.0);
    }

    fn terminal(&self, args: &[&str]) -> Terminal {
        let args = [&["chat", "desk", "--url", &self.url][..], args].concat();
        Terminal::start(&Home::new(), Path::new(PROGRAM), &args, (30, 100))
    }

    /// Sends lines to a chat with the server.
    fn say(&self, lines: &str) -> Came {
        say(&Home::new(), &["--url", &self.url], lines)
    }
}

fn head(status: &str, kind: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: {kind}\r\n\r\n")
}

fn say(home: &Home, args: &[&str], lines: &str) -> Came {
    let mut command = home.command(&[&["chat", "desk"], args].concat());
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("it listens");
    child.wait_with_output().expect("it ends").into()
}

fn start() -> Value {
    json!({"type": "start", "messageId": "m", "messageMetadata": {"threadId": "t"}})
}

fn text(delta: &str) -> Value {
    json!({"type": "text-delta", "id": "1", "delta": delta})
}

fn finish() -> Value {
    json!({"type": "finish", "finishReason": "stop"})
}

fn messages(answer: &str) -> Value {
    json!([
        {"id": "u", "role": "user", "parts": [{"type": "text", "text": "Hello"}]},
        {"id": "a", "role": "assistant", "parts": [{"type": "text", "text": answer}]},
    ])
}

#[test]
fn no_text_of_a_server_controls_the_terminal() {
    let all = || {
        let call = json!({"type": "tool-input-available", "toolCallId": "c",
            "toolName": format!("find{ESCAPE}"), "input": {"a": ESCAPE}});
        vec![
            start(),
            json!({"type": "text-delta", "id": ESCAPE, "delta": format!("answer{ESCAPE}")}),
            json!({"type": "reasoning-delta", "id": ESCAPE, "delta": ESCAPE}),
            call,
            json!({"type": "tool-output-available", "toolCallId": "c", "output": ESCAPE}),
            json!({"type": "tool-output-error", "toolCallId": "d", "errorText": ESCAPE}),
            json!({"type": "data-retry", "data": {"node": ESCAPE}}),
            json!({"type": "data-store", "data": {"available": false, "code": ESCAPE}}),
            json!({"type": "data-store", "data": {"available": true}}),
            json!({"type": "data-tool-result", "data": {"toolCallId": "c", "result": ESCAPE}}),
            json!({"type": format!("data-{ESCAPE}"), "data": ESCAPE}),
            json!({"type": "abort", "reason": ESCAPE}),
            json!({"type": "error", "errorText": format!("failed{ESCAPE}")}),
            json!({"type": "finish", "finishReason": "error"}),
        ]
    };
    let fake = Fake::start(move |_, _| Reply::Frames(all()));
    let came = fake.say("Hello\n");
    assert!(came.out.contains("answer\\u{1b}]0;title\\u{7}"), "{came:?}");
    assert!(came.errors.contains("(W0204)") && came.errors.contains("failed\\u{1b}"), "{came:?}");
    assert!(!format!("{}{}", came.out, came.errors).contains(['\x1b', '\x07']), "{came:?}");
    // Frames that cannot be read are quoted.
    for frame in [json!({"type": ESCAPE}), json!({"type": "finish", "finishReason": ESCAPE})] {
        let fake = Fake::start(move |_, _| Reply::Frames(vec![start(), frame.clone()]));
        let came = fake.say("Hello\n");
        assert!(came.errors.contains("error[W0718]"), "{came:?}");
        assert!(!format!("{}{}", came.out, came.errors).contains(['\x1b', '\x07']), "{came:?}");
    }
}

#[test]
fn an_answer_whose_connection_broke_is_followed_again_from_its_beginning() {
    let fake = Fake::start(|number, _| match number {
        1 => Reply::Frames(vec![start(), text("The ans")]),
        2 => Reply::Close,
        3 => Reply::Frames(vec![start(), text("The answer is 42.")]),
        _ => Reply::Frames(vec![start(), text("The answer is 42."), text(" Bye."), finish()]),
    });
    let came = fake.say("Hello\n");
    assert_eq!(came.status, Some(0), "{came:?}");
    assert!(came.out.contains("The answer is 42. Bye."), "{came:?}");
    let stream = "GET /chat/desk/t/stream?protocol=ui-message-stream";
    let post = "POST /chat/desk?protocol=ui-message-stream";
    assert_eq!(fake.lines()[..4], [post, stream, stream, stream], "{came:?}");
    assert!(came.errors.contains("following the answer again"), "{came:?}");
}

#[test]
fn an_answer_that_ended_after_its_connection_broke_is_shown() {
    let fake = Fake::start(|_, request| match request.line.as_str() {
        "GET /chat/desk/t" => Reply::Json(messages("The answer is 42.")),
        line if line.contains("/stream") => Reply::Status(204),
        _ => Reply::Frames(vec![start(), text("The ans")]),
    });
    let came = fake.say("Hello\n");
    assert_eq!(came.status, Some(0), "{came:?}");
    assert!(came.out.contains("The answer is 42."), "{came:?}");
}

#[test]
fn connections_that_always_break_are_not_followed_for_ever() {
    let fake = Fake::start(|_, request| match request.line.as_str() {
        "GET /chat/desk/t" => Reply::Json(messages("The answer is 42.")),
        _ => Reply::Frames(vec![start(), text("The ans")]),
    });
    let came = fake.say("Hello\n");
    let streams = fake.lines().iter().filter(|line| line.contains("/stream")).count();
    assert_eq!(streams, 3, "{came:?}");
    assert_eq!(came.status, Some(1), "{came:?}");
    assert!(came.errors.contains("the answer is no longer followed"), "{came:?}");
    assert!(came.errors.contains("error[W0805]"), "{came:?}");
}

#[test]
fn states_that_this_version_does_not_know_are_shown_as_sent() {
    let fake = Fake::start(|_, _| {
        let thread = |id: &str, status: &str| json!({"thread_id": id, "status": status});
        Reply::Json(json!([thread("t1", "idle"), thread("t2", "hibernating")]))
    });
    let mut chat = fake.terminal(&[]);
    chat.enter("you>", "/threads");
    chat.until("both states", |lines| {
        let shows = |id: &str, state: &str| {
            lines.iter().any(|line| line.contains(id) && line.ends_with(state))
        };
        shows("t1", "completed") && shows("t2", "hibernating")
    });
}

#[test]
fn ctrl_c_ends_the_wait_for_a_request() {
    let fake = Fake::start(|_, _| Reply::Hang);
    let mut chat = fake.terminal(&[]);
    chat.enter("you>", "Hello");
    fake.wait(1);
    chat.keys(CTRL_C);
    chat.see("stopped waiting; press Ctrl-C again to leave the chat");
    chat.last("you>");
    chat.keys(CTRL_C);
    let (status, screen) = chat.end();
    assert_eq!(status, Some(130), "{screen}");
}

#[test]
fn a_second_ctrl_c_exits_while_the_request_to_stop_is_in_flight() {
    let fake = Fake::start(|_, request| match request.line.ends_with("/cancel") {
        true => Reply::Hang,
        false => Reply::Open(vec![start(), text("The ans\n")]),
    });
    let mut chat = fake.terminal(&[]);
    chat.enter("you>", "Hello");
    chat.see("The ans");
    chat.keys(CTRL_C);
    chat.see("stopping; press Ctrl-C again to exit at once");
    fake.wait(2);
    chat.keys(CTRL_C);
    assert_eq!(chat.end().0, Some(130));
    assert!(
        fake.lines().iter().any(|line| line == "POST /chat/desk/t/cancel"),
        "{:?}",
        fake.lines()
    );
}

#[test]
fn keys_typed_during_an_answer_are_not_shown_before_the_next_prompt() {
    let (typed, is_typed) = std::sync::mpsc::channel();
    let fake = Fake::start(move |number, _| match number {
        1 => Reply::Frames(vec![start(), text("The ans\n")]),
        _ => {
            is_typed.recv().expect("the keys");
            Reply::Frames(vec![start(), text("The answer.\n"), finish()])
        }
    });
    let mut chat = fake.terminal(&[]);
    chat.enter("you>", "Hello");
    fake.wait(2);
    chat.keys("Thanks");
    typed.send(()).expect("the server waits");
    chat.last("you> Thanks");
    let shown = chat.lines().iter().filter(|line| line.contains("Thanks")).count();
    assert_eq!(shown, 1, "{:?}", chat.lines());
}

fn two_questions() -> Value {
    let part = |id: &str, call: &str, question: &str| {
        [
            json!({"type": "tool-ask_human", "toolCallId": call, "state": "input-available",
                "input": {"question": question}}),
            json!({"type": "data-question", "data": {"interruptId": id, "kind": "question",
                "toolCallId": call, "node": "tool", "expiresAt": null}}),
        ]
    };
    let first = part("0000000000000000000000000000002a", "q1", "What is your name?");
    let second = part("0000000000000000000000000000002b", "q2", "Where do you live?");
    let parts = [first, second].concat();
    json!([{"id": "a", "role": "assistant", "parts": parts}])
}

#[test]
fn a_command_at_a_question_discards_no_earlier_answer() {
    let fake = Fake::start(|_, request| match request.line.split(['?', ' ']).nth(1) {
        Some("/chat/desk/t") => Reply::Json(two_questions()),
        Some("/chat/desk/t/stream") => Reply::Status(204),
        Some("/interrupts") => Reply::Json(json!([])),
        _ => Reply::Frames(vec![start(), text("Hello Ada."), finish()]),
    });
    let mut chat = fake.terminal(&["--thread", "t"]);
    chat.see("? What is your name?");
    chat.keys("Ada\r");
    chat.see("? Where do you live?");
    chat.keys("/inbox\r");
    chat.see("nothing waits for an answer");
    chat.until("the question again", |lines| {
        lines.iter().filter(|line| line.contains("Where do you live?")).count() == 2
    });
    chat.keys("Oslo\r");
    chat.see("Hello Ada.");
    chat.last("you>");
    chat.keys(CTRL_D);
    let (status, screen) = chat.end();
    assert_eq!(status, Some(0), "{screen}");
    assert!(
        screen.contains(&format!("continue with: weft chat desk --url {} --thread t", fake.url)),
        "{screen}"
    );
    let requests = fake.requests.0.lock().expect("not poisoned");
    let posted = requests.iter().find(|request| request.line.starts_with("POST")).expect("sent");
    let parts = posted.body["messages"][0]["parts"].as_array().expect("parts");
    let outputs: Vec<_> = parts.iter().map(|part| part["output"].clone()).collect();
    assert_eq!(outputs, ["Ada", "Oslo"], "{posted:?}");
}

#[test]
fn a_server_elsewhere_is_reached_through_the_proxy_and_clear_text_is_reported_before() {
    let proxy = Fake::start(|_, _| Reply::Status(401));
    let home = Home::new().config(&format!("[egress]\nproxy = \"{}\"\n", proxy.url));
    let args = ["--url", "http://localhost.evil.com/", "--token", "a-token-of-sixteen"];
    let came = say(&home, &args, "Hello\n");
    let line = "POST http://localhost.evil.com/chat/desk?protocol=ui-message-stream";
    assert_eq!(proxy.lines(), [line], "{came:?}");
    let warning = came.errors.find("the token is sent without encryption").expect("a warning");
    let refused = came.errors.find("error[W0717]").expect("a refusal");
    assert!(warning < refused, "{came:?}");
    // A server on this machine is reached without it.
    let fake = Fake::start(|_, _| Reply::Frames(vec![start(), text("Hi."), finish()]));
    let came = say(&home, &["--url", &fake.url, "--token", "a-token-of-sixteen"], "Hello\n");
    assert!(came.out.contains("Hi.") && !came.errors.contains("encryption"), "{came:?}");
    assert_eq!(proxy.lines().len(), 1, "{came:?}");
}
