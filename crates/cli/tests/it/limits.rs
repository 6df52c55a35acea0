//! Tests of deadlines and budgets on the command line.

use crate::home::Home;
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

#[expect(clippy::disallowed_methods, reason = "the test measures wall time")]
fn now() -> Instant {
    Instant::now()
}

/// A provider that sends a byte of its answer a second. It reports the time of the request, and then
/// that of the end of the connection.
fn trickling() -> (String, Receiver<Instant>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let (times, received) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).expect("a request") > 0);
        times.send(now()).expect("a receiver");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("written");
        stream.set_read_timeout(Some(Duration::from_secs(1))).expect("set");
        let answer = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
        for byte in answer.bytes().cycle() {
            let chunk = [b"1\r\n", &[byte][..], b"\r\n"].concat();
            let written = stream.write_all(&chunk);
            // The rest of the request, the end of the connection, or a second of nothing.
            let is_open = match stream.read(&mut request) {
                Ok(0) => false,
                Ok(_) => true,
                Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
            };
            if written.is_err() || !is_open {
                break;
            }
        }
        times.send(now()).expect("a receiver");
    });
    (url, received)
}

#[test]
fn a_run_whose_model_trickles_ends_at_its_deadline() {
    let (url, times) = trickling();
    let home = Home::new().provider(&url);
    let input = ["run", "desk", "--input", "Hello", "--deadline", "2s", "--json"];
    let came = home.weft(&input);
    let exited = now();
    assert_eq!(came.status, Some(1), "{came:?}");
    let wait = Duration::from_secs(60);
    let asked = times.recv_timeout(wait).expect("a request");
    let closed = times.recv_timeout(wait).expect("the connection is closed");
    let took = exited.duration_since(asked);
    let open = closed.duration_since(asked);
    // Without the deadline it would go on for as long as the model sends; a busy machine needs a while.
    assert!(took < wait / 2 && open < wait / 2, "{took:?} {open:?}");
    let lines: Vec<Value> =
        came.out.lines().map(|line| serde_json::from_str(line).expect("json")).collect();
    let fact = lines.iter().find(|line| line["type"] == "usage_report").expect("a fact");
    assert_eq!(fact["fact"]["status"], "cancelled", "{fact}");
    let outcome = lines.last().expect("an outcome");
    assert_eq!(outcome["outcome"], "failed", "{outcome}");
    let reached = &outcome["fault"]["details"]["limit"];
    assert_eq!(reached["unit"], "ms until the deadline", "{outcome}");
    assert_eq!(reached["used"], reached["limit"], "{outcome}");
    assert!(
        reached["limit"].as_u64().is_some_and(|limit| (1..=2_000).contains(&limit)),
        "{outcome}"
    );
    let used = &outcome["used"];
    assert_eq!(used["model_calls"], 1, "{outcome}");
    assert_eq!(used["tokens"]["estimated"], true, "{outcome}");
    assert!(used["tokens"]["input"].as_u64() > Some(0), "{outcome}");
}

const RUN: [&str; 6] = ["run", "desk", "--thread", "t", "--input", "What is 6 times 7?"];

#[test]
fn a_used_up_budget_allows_no_call_in_any_process_until_it_is_raised() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let came = home.weft(&[&RUN[..], &["--budget", "calls=1,tools=5"]].concat());
    assert_eq!(came.status, Some(1), "{came:?}");
    let used = "used 1 of 1 model call, 1 of 5 tool calls, ";
    assert!(came.errors.contains(used) && came.errors.contains("W0601"), "{came:?}");

    let came = home.weft(&["threads", "resume", "t", "--json"]);
    assert_eq!(came.status, Some(1), "{came:?}");
    assert!(!came.out.contains("usage_report"), "no further call: {came:?}");
    let came = home.weft(&["threads", "resume", "t"]);
    assert!(came.errors.contains(used), "{came:?}");

    let came = home.weft(&["threads", "resume", "t", "--budget", "calls=2"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert!(came.out.contains("42"), "{came:?}");
    assert!(came.errors.contains("used 2 of 2 model calls"), "{came:?}");
}

#[test]
fn each_limit_holds_and_a_run_within_them_completes() {
    let twice = "What is 6 times 7? What is the weather in Paris?";
    for (said, limits, unit) in [
        (RUN[5], "tokens=20", "20 tokens"),
        (RUN[5], "calls=1", "1 of 1 model calls"),
        (twice, "tools=1", "1 of 1 tool calls"),
    ] {
        let home = Home::new().set("WEFT_MODEL", "scripted");
        let came = home.weft(&[&RUN[..5], &[said, "--budget", limits]].concat());
        assert_eq!(came.status, Some(1), "{limits}: {came:?}");
        assert!(came.errors.contains("W0601") && came.errors.contains(unit), "{limits}: {came:?}");
    }
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let limits = "tokens=100000,usd=1,calls=9,tools=9";
    let came = home.weft(&[&RUN[..], &["--budget", limits, "--deadline", "5m"]].concat());
    assert_eq!(came.status, Some(0), "{came:?}");
    assert!(came.errors.contains("used 2 of 9 model calls, 1 of 9 tool calls, "), "{came:?}");
    assert!(came.errors.contains("0 of 1 USD"), "{came:?}");
}

#[test]
fn an_answer_in_a_chat_has_what_the_run_that_asked_left_of_its_budget() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let input = ["--input", "Refund order A1001, amount 25.", "--budget", "calls=1"];
    let came = home.weft(&[&["run", "desk", "--thread", "t"], &input[..]].concat());
    assert_eq!(came.status, Some(3), "{came:?}");
    let mut chat = home.command(&["chat", "--thread", "t"]);
    let mut chat = chat.stdin(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut pipe = chat.stdin.take().expect("its input");
    pipe.write_all(b"y\n").expect("written");
    drop(pipe);
    let came = chat.wait_with_output().expect("it ends");
    let errors = String::from_utf8(came.stderr).expect("text");
    assert!(errors.contains("error[W0601]"), "{errors}");
    assert!(errors.contains("used 1 of 1 model call"), "{errors}");
}

#[test]
fn wrong_limits_are_refused_by_name() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    for (limits, why) in [
        ("call=4", "`call` is no limit; expected tokens, usd, calls, tools or time"),
        ("calls=0", "`0` is no limit of calls; expected a whole number above 0"),
        ("usd=free", "`free` is no limit of usd; expected an amount such as 0.25"),
    ] {
        for command in [&RUN[..], &["chat"], &["threads", "resume", "t"]] {
            let came = home.weft(&[command, &["--budget", limits]].concat());
            assert_eq!(came.status, Some(2), "{came:?}");
            assert!(came.errors.contains(why), "{came:?}");
        }
    }
    let came = home.weft(&["chat", "--deadline", "soon"]);
    let why = "expected whole numbers with the units w, d, h, m, s and ms";
    assert!(came.status == Some(2) && came.errors.contains(why), "{came:?}");
    let came = home.weft(&["chat", "--deadline", "0s"]);
    assert!(came.status == Some(2) && came.errors.contains("a time above 0"), "{came:?}");
}

#[test]
fn frames_and_the_usage_of_their_run_are_on_two_streams() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    for limits in [&["--budget", "calls=9,time=1m30s"][..], &["--budget", "calls=9,time=90000ms"]] {
        let shown = home.weft(&[&RUN[..], &["--mode", "updates"], limits].concat());
        assert_eq!(shown.status, Some(0), "{shown:?}");
        assert!(shown.errors.contains("used 2 of 9 model calls, 1 tool call, "), "{shown:?}");
        assert!(shown.errors.contains(" of 90 s"), "{shown:?}");
        for line in shown.out.lines() {
            let frame: Value = serde_json::from_str(line).expect("json");
            assert_eq!(frame["mode"], "updates", "{line}");
        }
        assert!(!shown.out.is_empty(), "{shown:?}");
    }
    let unlimited = home.weft(&[&RUN[..], &["--mode", "updates"]].concat());
    assert!(!unlimited.errors.contains("used "), "{unlimited:?}");
}

#[test]
fn a_wall_time_that_is_used_up_is_a_detail_of_the_fault() {
    let (url, _times) = trickling();
    let home = Home::new().provider(&url);
    let came = home.weft(&["run", "desk", "--input", "Hello", "--budget", "time=500ms", "--json"]);
    assert_eq!(came.status, Some(1), "{came:?}");
    let outcome: Value =
        serde_json::from_str(came.out.lines().last().expect("an outcome")).expect("json");
    assert_eq!(outcome["fault"]["code"], "W0601", "{outcome}");
    let expected = json!({"unit": "ms of wall time", "used": 500, "limit": 500});
    assert_eq!(outcome["fault"]["details"]["limit"], expected, "{outcome}");
}

#[test]
fn no_command_is_suggested_for_a_thread_that_ends_with_the_process() {
    let home = Home::new().set("WEFT_MODEL", "scripted").set("WEFT_STORE", "memory");
    let ends = "the store is in memory: the thread ends with this process";
    for (said, limits, status) in
        [("Refund order A1001, amount 25.", "calls=9", 3), (RUN[5], "calls=1", 1)]
    {
        let came = home.weft(&["run", "desk", "--input", said, "--budget", limits]);
        assert_eq!(came.status, Some(status), "{came:?}");
        assert!(came.errors.contains(ends), "{came:?}");
        assert!(!came.errors.contains("threads resume"), "{came:?}");
        assert!(!came.errors.contains("runs requeue"), "{came:?}");
    }
}

#[test]
fn the_check_of_the_installation_names_the_budget_of_threads_and_its_origin() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let came = home.weft(&["doctor", "--thread-budget", "usd=2,tokens=100000,time=1m30s"]);
    let budget = "thread budget tokens=100000,usd=2,time=90s from --thread-budget";
    assert!(came.out.contains(budget), "{came:?}");
    let came = home.weft(&["doctor"]);
    assert!(!came.out.contains("thread budget"), "{came:?}");
}

#[test]
fn a_chat_has_its_limits_for_each_answer() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let mut chat = home.command(&["chat", "desk", "--budget", "calls=1"]);
    chat.stdin(std::process::Stdio::piped());
    let mut chat = chat.spawn().expect("it starts");
    let mut input = chat.stdin.take().expect("its input");
    input.write_all(b"Hello!\nWhat is 6 times 7?\n").expect("written");
    drop(input);
    let came = chat.wait_with_output().expect("it ends");
    let errors = String::from_utf8(came.stderr).expect("text");
    assert!(came.status.success(), "{errors}");
    assert_eq!(errors.matches("used 1 of 1 model call").count(), 2, "{errors}");
    assert_eq!(
        errors.matches("error[W0601]").count(),
        1,
        "only the second needs two calls: {errors}"
    );
}
