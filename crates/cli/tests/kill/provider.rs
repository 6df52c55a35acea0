//! A model provider in a process of its own: its count of calls outlives every kill.
//!
//! It speaks the OpenAI protocol, streams tool calls in fragments, and takes 5 to 50 ms for each
//! answer. What it answers depends on nothing but the messages.

use crate::random::Random;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weftwork::types::canonical;

/// Names the file to which requests are written, in the environment of the provider's process.
const LOG: &str = "WEFT_TEST_PROVIDER_LOG";
const SEED: &str = "WEFT_TEST_PROVIDER_SEED";
/// Begins the lines of the provider's output that are meant for the test.
const TOLD: &str = "told: ";

/// The provider's process, as the test sees it. Ends when dropped.
#[derive(Debug)]
pub(crate) struct Provider {
    child: Child,
    log: PathBuf,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
}

/// A request on record.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    pub(crate) story: String,
    pub(crate) number: u64,
    pub(crate) prompt: String,
}

impl Provider {
    /// Starts the process; each line of the reader tells of a request or an answer as it happens.
    pub(crate) fn start(
        log: &Path,
        seed: u64,
    ) -> (Self, impl Iterator<Item = String> + Send + use<>) {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "provider::provider_process", "--nocapture"]);
        command.env(LOG, log).env(SEED, seed.to_string());
        // The process ends itself when the pipe to it closes.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("starts");
        let mut told = reported_lines(child.stdout.take().expect("a pipe"));
        let address = told.next().expect("the provider says where it listens");
        (Self { child, log: log.to_owned(), address }, told)
    }

    /// Every request so far.
    pub(crate) fn requests(&self) -> Vec<Logged> {
        let text = std::fs::read_to_string(&self.log).expect("the provider's log");
        let lines = text.lines().map(|line| {
            let mut words = line.split(' ').map(str::to_owned);
            let mut word = || words.next().expect("a word");
            let number = word().parse().expect("a number");
            let story = word();
            let prompt = word();
            Logged { story, number, prompt }
        });
        lines.collect()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn reported_lines(stdout: ChildStdout) -> impl Iterator<Item = String> + Send {
    let lines = BufReader::new(stdout).lines().map_while(Result::ok);
    lines.filter_map(|line| {
        // The test harness begins a line of its own.
        let at = line.find(TOLD)?;
        Some(line[at + TOLD.len()..].to_owned())
    })
}

/// Entry point of the provider's process; a test that passes at once in other processes.
#[test]
fn provider_process() {
    let Ok(log) = std::env::var(LOG) else { return };
    let Ok(seed) = std::env::var(SEED) else { return };
    let log = OpenOptions::new().create(true).append(true).open(log).expect("a log");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    say(&listener.local_addr().expect("an address").to_string());
    std::thread::spawn(|| {
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        std::process::exit(0);
    });
    let server = Server {
        log: Mutex::new(log),
        requests: AtomicU64::new(0),
        seed: seed.parse().expect("a number"),
    };
    std::thread::scope(|scope| {
        for connection in listener.incoming().map_while(Result::ok) {
            // A client that is killed is what this is about.
            scope.spawn(|| server.serve(connection).ok());
        }
    });
}

fn say(line: &str) {
    writeln!(std::io::stdout(), "{TOLD}{line}").expect("the test listens");
}

#[derive(Debug)]
struct Server {
    log: Mutex<File>,
    requests: AtomicU64,
    seed: u64,
}

impl Server {
    fn serve(&self, mut connection: TcpStream) -> std::io::Result<()> {
        connection.set_nodelay(true)?;
        let Some((path, body)) = read(&connection)? else { return Ok(()) };
        let story = path.split('/').nth(1).unwrap_or_default().to_owned();
        let body: Value = serde_json::from_slice(&body).expect("a request in JSON");
        let number = self.count(&story, &body);
        say(&format!("{story} asked {number}"));
        let mut random = Random::new(self.seed, number);
        let mut left = 5 + random.below(46);
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        let pieces = pieces(number, &body);
        for (index, piece) in pieces.iter().enumerate() {
            let last = index + 1 == pieces.len();
            let wait = if last { left } else { random.below(left + 1) };
            left -= wait;
            std::thread::sleep(Duration::from_millis(wait));
            if index == 0 {
                connection.write_all(head.as_bytes())?;
            }
            let piece = format!("data: {piece}\n\n");
            let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
            connection.write_all(chunk.as_bytes())?;
        }
        connection.write_all(b"0\r\n\r\n")?;
        say(&format!("{story} answered {number}"));
        Ok(())
    }

    /// Puts a request on record, in one write, before anything of the answer is sent.
    fn count(&self, story: &str, body: &Value) -> u64 {
        let prompt = canonical::hash(&without_ids(&body["messages"]));
        let mut log = self.log.lock().expect("no thread died");
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        log.write_all(format!("{number} {story} {prompt}\n").as_bytes()).expect("writes");
        number
    }
}

/// The path and the body of a request.
fn read(connection: &TcpStream) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let mut reader = BufReader::new(connection);
    let mut path = None;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        match (&path, line.is_empty()) {
            (None, _) => path = Some(line.split(' ').nth(1).unwrap_or_default().to_owned()),
            (Some(path), true) => {
                let mut body = vec![0; length];
                reader.read_exact(&mut body)?;
                return Ok(Some((path.clone(), body)));
            }
            (Some(_), false) => {}
        }
    }
}

/// Messages without the ids of their tool calls, which say nothing.
fn without_ids(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, _)| !matches!(key.as_str(), "id" | "tool_call_id"));
            kept.map(|(key, value)| (key.clone(), without_ids(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_ids).collect(),
        scalar => scalar.clone(),
    }
}

/// The answer to a request, piece by piece.
fn pieces(number: u64, body: &Value) -> Vec<String> {
    let chunk = |choices: Value| {
        let object = "chat.completion.chunk";
        let id = request_id(number);
        json!({"id": id, "object": object, "model": body["model"], "choices": choices})
    };
    let choice = |delta: Value, finish: Value| {
        chunk(json!([{"index": 0, "delta": delta, "finish_reason": finish}]))
    };
    let (deltas, finish) = deltas(number, body);
    let mut out = vec![choice(json!({"role": "assistant", "content": ""}), Value::Null)];
    out.extend(deltas.into_iter().map(|delta| choice(delta, Value::Null)));
    out.push(choice(json!({}), finish.into()));
    let mut usage = chunk(json!([]));
    usage["usage"] = json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110});
    out.push(usage);
    let done = ["[DONE]".to_owned()];
    out.iter().map(Value::to_string).chain(done).collect()
}

fn deltas(number: u64, body: &Value) -> (Vec<Value>, &'static str) {
    let last = body["messages"].as_array().and_then(|messages| messages.last());
    let last = last.expect("a message");
    let content = last["content"].as_str().unwrap_or_default();
    if last["role"] == "tool" {
        let words = format!("The desk says: {content}");
        let words = words.split_inclusive(' ').map(|word| json!({"content": word}));
        return (words.collect(), "stop");
    }
    let (name, args) = match content.to_lowercase().contains("refund") {
        true => ("refund_order", r#"{"order_id": "A1001", "amount": 25}"#),
        false => ("lookup_order", r#"{"order_id": "A1001"}"#),
    };
    let call = |rest: Value| json!({"tool_calls": [rest]});
    let function = json!({"name": name, "arguments": ""});
    let id = format!("call_{number}");
    let mut out =
        vec![call(json!({"index": 0, "id": id, "type": "function", "function": function}))];
    let halves = [&args[..args.len() / 3], &args[args.len() / 3..]];
    out.extend(halves.map(|part| call(json!({"index": 0, "function": {"arguments": part}}))));
    (out, "tool_calls")
}

/// The provider's own id of a request.
fn request_id(number: u64) -> String {
    format!("chatcmpl-{number}")
}

/// The number in the provider's own id of a request.
pub(crate) fn number_of(request_id: &str) -> u64 {
    let number = request_id.strip_prefix("chatcmpl-").and_then(|number| number.parse().ok());
    number.expect("an id of this provider")
}
