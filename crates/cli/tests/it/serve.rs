//! Tests of `weft serve`.

use crate::home::{Came, Home};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command};

/// A process that serves, and its output.
pub(crate) struct Served {
    child: Child,
    out: BufReader<ChildStdout>,
    errors: BufReader<ChildStderr>,
    pub(crate) address: String,
}

/// Status and body of an answer.
pub(crate) type Answer = (u16, Value);

impl Served {
    /// Starts a program, and returns the lines before the one with the address.
    pub(crate) fn start(home: &Home, program: &Path, args: &[&str]) -> (Self, Vec<String>) {
        let mut child = home.program(program, args).spawn().expect("it starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let errors = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut served = Self { child, out, errors, address: String::new() };
        let mut before = Vec::new();
        loop {
            match served.line() {
                line if line.starts_with("listening on http://") => {
                    served.address = line["listening on http://".len()..].to_owned();
                    return (served, before);
                }
                line => before.push(line),
            }
        }
    }

    /// Reads a line of standard output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        if self.out.read_line(&mut line).expect("read") == 0 {
            let mut errors = String::new();
            self.errors.read_to_string(&mut errors).expect("read");
            panic!("the server ended: {errors}");
        }
        line.trim_end().to_owned()
    }

    /// Reads lines of standard error until one contains a text.
    pub(crate) fn note(&mut self, text: &str) -> String {
        let mut line = String::new();
        while self.errors.read_line(&mut line).expect("read") > 0 {
            if line.contains(text) {
                return line;
            }
            line.clear();
        }
        panic!("the server ended without the note `{text}`");
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request with headers, each with a line break. An answer of HTTP 1.0 is not in chunks.
    pub(crate) fn send(&self, request: &str, headers: &str, body: &Value) -> Answer {
        let mut socket = TcpStream::connect(&self.address).expect("it listens");
        let body = body.to_string();
        let length = body.len();
        let host = if headers.contains("host:") { "" } else { "host: localhost\r\n" };
        let text =
            format!("{request} HTTP/1.0\r\n{host}{headers}content-length: {length}\r\n\r\n{body}");
        socket.write_all(text.as_bytes()).expect("written");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("read");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = serde_json::from_str(body).unwrap_or(Value::Null);
        (status.expect("a status"), body)
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    pub(crate) fn terminate(self) -> Came {
        let id = self.child.id().to_string();
        let done = Command::new("kill").args(["-TERM", &id]).status().expect("kill starts");
        assert!(done.success());
        self.end()
    }

    pub(crate) fn end(mut self) -> Came {
        let mut out = String::new();
        let mut errors = String::new();
        self.out.read_to_string(&mut out).expect("read");
        self.errors.read_to_string(&mut errors).expect("read");
        Came { status: self.child.wait().expect("it ends").code(), out, errors }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A test that failed leaves no process.
        drop(self.child.kill());
    }
}

/// Starts `weft serve` on a free port.
fn serve(home: &Home, more: &[&str]) -> (Served, Vec<String>) {
    let args = [&["serve", "--listen", "127.0.0.1:0"][..], more].concat();
    Served::start(home, Path::new(crate::home::PROGRAM), &args)
}

fn home() -> Home {
    Home::new().set("WEFT_MODEL", "scripted").set("WEFT_STORE", "memory")
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

#[test]
fn requests_need_the_token_that_is_printed_once_or_given() {
    let none = json!({});
    let (served, before) = serve(&home(), &[]);
    let [token] = &before[..] else { panic!("{before:?}") };
    let token = token.strip_prefix("token ").expect("a token").to_owned();
    assert!(token.len() >= 32, "{token}");
    assert_eq!(served.send("GET /ok", "", &none).0, 200);
    assert_eq!(served.send("POST /threads", "", &none).0, 401);
    assert_eq!(served.send("POST /threads", &bearer(&token), &none).0, 200);
    let came = served.terminate();
    assert_eq!(came.status, Some(0), "{came:?}");
    assert!(came.errors.ends_with("stopped\n"), "{came:?}");
    assert!(!came.out.contains(&token) && !came.errors.contains(&token), "{came:?}");

    let given = "a-token-of-sixteen-or-more";
    let (served, before) = serve(&home(), &["--token", given]);
    assert!(before.is_empty(), "it is not printed: {before:?}");
    assert_eq!(served.send("GET /info", &bearer(&token), &none).0, 401);
    assert_eq!(served.send("GET /info", &format!("x-api-key: {given}\r\n"), &none).0, 200);
    let (status, found) = served.send("POST /assistants/search", &bearer(given), &none);
    let found = found.as_array().expect("a list");
    let names: BTreeSet<_> = found.iter().filter_map(|one| one["graph_id"].as_str()).collect();
    assert_eq!((status, names), (200, BTreeSet::from(["desk", "supervisor", "swarm"])));
}

#[test]
fn runs_that_a_client_deleted_are_not_listed() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    for said in ["Hello", "Where is order A1001?"] {
        let came = home.weft(&["run", "desk", "--thread", "t", "--input", said]);
        assert_eq!(came.status, Some(0), "{came:?}");
    }
    let listed = |more: &[&str]| {
        let came = home.weft(&[&["runs", "list", "--json"], more].concat());
        let rows = came.out.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        rows.map(|row: Value| row["new"]["at"]["run"].clone()).collect::<Vec<_>>()
    };
    let before = listed(&[]);
    let [second, first] = &before[..] else { panic!("{before:?}") };
    let token = "a-token-of-sixteen-or-more";
    let (served, _) = serve(&home, &["--token", token]);
    let request = format!("DELETE /threads/t/runs/{}", first.as_str().expect("an id"));
    assert_eq!(served.send(&request, &bearer(token), &json!({})).0, 204);
    assert_eq!(served.terminate().status, Some(0));
    assert_eq!(listed(&[]), std::slice::from_ref(second));
    assert_eq!(listed(&["--thread", "t"]), std::slice::from_ref(second));
    assert_eq!(listed(&["--all"]), before);
}

#[test]
fn hosts_are_allowed_by_name_and_requests_without_token_on_loopback_only() {
    let none = json!({});
    let (served, before) = serve(&home(), &["--no-auth", "--allow-host", "agents.example"]);
    assert!(before.is_empty(), "{before:?}");
    let origin = "origin: http://evil.example\r\n";
    for (headers, status) in [
        ("", 200),
        ("host: agents.example\r\n", 200),
        ("host: agents.example.evil\r\n", 403),
        ("host: 10.0.0.1\r\n", 403),
        ("host: localhost\r\nhost: evil.example\r\n", 400),
        ("host: localhost\r\nhost: localhost\r\n", 400),
        (origin, 403),
        ("origin: https://agents.example\r\n", 200),
    ] {
        assert_eq!(served.send("GET /info", headers, &none).0, status, "{headers}");
    }
}

#[test]
fn a_server_that_others_reach_or_whose_token_can_be_guessed_does_not_start() {
    let home = home();
    for (args, says) in [
        (&["--listen", "0.0.0.0:0", "--no-auth"][..], "0.0.0.0:0 is not one"),
        (&["--listen", "[::]:0", "--no-auth"], "[::]:0 is not one"),
        (&["--listen", "127.0.0.1:0", "--token", "short"], "at least 16"),
        (&["--listen", "127.0.0.1:0", "--token", "x", "--no-auth"], "cannot be used with"),
    ] {
        let came = home.weft(&[&["serve"], args].concat());
        assert_eq!(came.status, Some(2), "{came:?}");
        assert!(came.errors.contains(says) && !came.out.contains("listening"), "{came:?}");
    }
}

#[test]
fn an_address_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let came = home().weft(&["serve", "--listen", &address]);
    assert_eq!(came.status, Some(2), "{came:?}");
    assert!(came.errors.contains(&format!("cannot listen on {address}")), "{came:?}");
}

/// The peak of the resident memory of a process in bytes.
#[cfg(target_os = "linux")]
fn peak_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kilobytes = peak.trim().strip_suffix(" kB").and_then(|number| number.parse::<u64>().ok());
    kilobytes.expect("a number") << 10
}

#[cfg(target_os = "linux")]
#[test]
fn large_bodies_take_little_memory() {
    let (served, _) = serve(&home(), &["--no-auth"]);
    let numbers = json!({"assistant_id": "desk", "input": {"messages": vec![1; 7_000_000]}});
    let message = json!({"role": "user", "content": "hi"});
    let messages = json!({"assistant_id": "desk", "input": {"messages": vec![message; 400_000]}});
    for body in [numbers, messages] {
        std::thread::scope(|scope| {
            let send = || scope.spawn(|| served.send("POST /runs/wait", "", &body).0);
            let sent = [send(), send(), send(), send()];
            let statuses = sent.map(|sent| sent.join().expect("answered"));
            assert_eq!(statuses, [413; 4]);
        });
    }
    let peak = peak_memory(served.id());
    assert!(peak < 200 << 20, "{peak} bytes");
    assert_eq!(served.send("GET /ok", "", &json!({})).0, 200);
}
