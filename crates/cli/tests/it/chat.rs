//! Tests of `weft chat` in a terminal, over a store and at a server.

use crate::home::{Home, PROGRAM};
use crate::serve::Served;
use crate::terminal::Terminal;
use crate::trial::program;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};

const SIZE: (u16, u16) = (50, 120);
const TOKEN: &str = "a-token-of-sixteen-or-more";
const UP: &str = "\x1b[A";
const LEFT: &str = "\x1b[D";
const END: &str = "\x1b[F";
const BACKSPACE: &str = "\x7f";
const ALT_ENTER: &str = "\x1b\r";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const APPROVE: &str = "approve exactly this call? [y/n/edit]";

fn home() -> Home {
    Home::new().set("WEFT_MODEL", "scripted")
}

/// A home, with a server over its store if the chat is at a server.
struct Place {
    home: Home,
    server: Option<Served>,
}

impl Place {
    fn store() -> Self {
        Self { home: home(), server: None }
    }

    fn server() -> Self {
        let home = home();
        let args = ["serve", "--listen", "127.0.0.1:0", "--token", TOKEN];
        let (served, _) = Served::start(&home, &program(), &args);
        Self { home, server: Some(served) }
    }

    fn both() -> [Self; 2] {
        [Self::store(), Self::server()]
    }

    fn chat(&self, args: &[&str]) -> Terminal {
        let url = self.server.as_ref().map(|served| format!("http://{}", served.address));
        let more = url.as_ref().map(|url| ["--url", url, "--token", TOKEN]);
        let args = [&["chat"][..], args, more.as_ref().map_or(&[], |more| &more[..])].concat();
        Terminal::start(&self.home, &program(), &args, SIZE)
    }

    /// Returns the messages of the thread `t` by their role.
    fn said(&self, role: &str) -> Vec<String> {
        let came = self.home.program(&program(), &["threads", "state", "t"]).output();
        let state: Value = serde_json::from_slice(&came.expect("it runs").stdout).expect("JSON");
        let messages = state["messages"].as_array().expect("messages").clone();
        let of = messages.iter().filter(|message| message["role"] == role);
        of.map(|message| message["parts"][0]["text"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    fn decisions(&self) -> Vec<Value> {
        let came = self.home.weft(&["approvals", "list", "--thread", "t", "--json"]);
        let lines = came.out.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        lines.filter(|line: &Value| line["type"] == "record").collect()
    }
}

#[test]
fn a_line_is_edited_and_found_again_in_the_next_session() {
    for place in Place::both() {
        let mut chat = place.chat(&["desk", "--thread", "t"]);
        chat.last("you>");
        chat.keys("What is 6 times 9?");
        chat.see("you> What is 6 times 9?");
        chat.keys(&format!("{LEFT}{BACKSPACE}7{END}"));
        chat.see("you> What is 6 times 7?");
        chat.keys("\r");
        chat.see("42");
        chat.last("you>");
        chat.keys(CTRL_D);
        let (status, screen) = chat.end();
        assert_eq!(status, Some(0), "{screen}");
        assert!(!screen.contains("^["), "{screen}");
        assert!(screen.contains("continue with: weft chat "), "{screen}");

        let mut chat = place.chat(&["desk", "--thread", "t"]);
        chat.last("you>");
        // The last exchange of the thread is shown.
        chat.see("42");
        chat.keys(UP);
        chat.last("you> What is 6 times 7?");
        chat.keys(&format!("{LEFT}{BACKSPACE}8\r"));
        chat.see("48");
        chat.last("you>");
        chat.keys(CTRL_D);
        assert_eq!(chat.end().0, Some(0));
        assert_eq!(place.said("user"), ["What is 6 times 7?", "What is 6 times 8?"]);
    }
}

#[test]
fn a_message_has_several_lines() {
    for place in Place::both() {
        let mut chat = place.chat(&["desk", "--thread", "t"]);
        chat.last("you>");
        chat.keys("Hello,\\\r");
        chat.keys("this is");
        chat.last("this is");
        chat.keys(ALT_ENTER);
        chat.keys("important.");
        chat.last("important.");
        chat.keys("\r");
        chat.last("you>");
        // Pasted lines are one message, too.
        chat.keys("\x1b[200~one\ntwo\x1b[201~");
        chat.last("two");
        chat.keys("\r");
        chat.last("you>");
        chat.keys(CTRL_D);
        assert_eq!(chat.end().0, Some(0));
        assert_eq!(place.said("user"), ["Hello,\nthis is\nimportant.", "one\ntwo"]);
    }
}

#[test]
fn an_edited_call_is_made_with_its_arguments_and_wrong_ones_are_refused() {
    for place in Place::both() {
        let mut chat = place.chat(&["desk", "--thread", "t"]);
        chat.enter("you>", "Refund order A1001, amount 25.");
        chat.see("? refund_order needs approval (external side effect): it moves money");
        chat.last(APPROVE);
        chat.enter(APPROVE, "edit");
        let args = r#"arguments: {"order_id":"A1001","amount":25}"#;
        chat.last(args);
        // The runtime refuses an amount that is no number, and the question stays.
        chat.keys(&format!("{BACKSPACE}{BACKSPACE}{BACKSPACE}\"a\"}}\r"));
        chat.see("error[");
        chat.last(APPROVE);
        chat.enter(APPROVE, "edit");
        // What was typed is there again.
        chat.last(r#"arguments: {"order_id":"A1001","amount":"a"}"#);
        let erase = BACKSPACE.repeat(4);
        chat.keys(&format!("{erase}5"));
        // An object that is not closed goes on.
        chat.keys("\r}");
        chat.last("}");
        chat.keys("\r");
        chat.see(r#"edited: refund_order {"order_id":"A1001","amount":5}"#);
        chat.see("← refund_order");
        chat.last("you>");
        chat.keys(CTRL_D);
        let (status, screen) = chat.end();
        assert_eq!(status, Some(0), "{screen}");
        assert!(screen.contains("\"amount\":5"), "{screen}");
        let decisions = place.decisions();
        let decided = decisions.iter().filter_map(|record| record["outcome"].get("decided"));
        let args: Vec<_> = decided.map(|decision| &decision["args"]).collect();
        assert_eq!(args, [&json!({"order_id": "A1001", "amount": 5})], "{decisions:?}");
    }
}

#[test]
fn a_rejection_has_a_reason_that_the_model_reads() {
    for place in Place::both() {
        let mut chat = place.chat(&["desk", "--thread", "t"]);
        chat.enter("you>", "Refund order A1001, amount 25.");
        chat.enter(APPROVE, "sure");
        chat.see("type `y`, `n`, `n REASON`, `edit` to change the arguments");
        chat.enter(APPROVE, "n");
        chat.enter("reason for the model, or nothing:", "ask the boss");
        chat.see(
            "Refund order was not done: a person refused the call of refund_order: ask the boss.",
        );
        chat.last("you>");
        chat.keys(CTRL_D);
        assert_eq!(chat.end().0, Some(0));
        let decisions = place.decisions();
        let [one] = &decisions[..] else { panic!("{decisions:?}") };
        assert_eq!(one["outcome"]["decided"]["comment"], "ask the boss");
    }
}

#[test]
fn what_was_typed_before_a_call_was_shown_does_not_approve_it() {
    let place = Place::store();
    let mut chat = place.chat(&["desk", "--thread", "t"]);
    chat.last("you>");
    chat.keys("Refund order A1001, amount 25.\ry\r");
    chat.last(APPROVE);
    chat.keys("n, I have to read it\r");
    chat.see("Refund order was not done: a person refused the call of refund_order");
    chat.keys(CTRL_D);
    let decisions = place.decisions();
    let [one] = &decisions[..] else { panic!("{decisions:?}") };
    assert_eq!(one["outcome"]["decided"]["approved"], false);
}

#[test]
fn the_editor_of_the_user_changes_arguments() {
    let place = Place::store();
    let home = place.home.set("EDITOR", "sed -i s/25/7/");
    let place = Place { home, server: None };
    let mut chat = place.chat(&["desk", "--thread", "t"]);
    // The variable PATH has no folder here; the shell has a usual one.
    chat.enter("you>", "Refund order A1001, amount 25.");
    chat.enter(APPROVE, "editor");
    chat.see(r#"edited: refund_order {"order_id":"A1001","amount":7}"#);
    chat.last("you>");
}

#[test]
fn ctrl_c_stops_an_answer_and_twice_at_an_empty_prompt_leaves() {
    for place in Place::both() {
        let mut chat = place.chat(&["trial", "--thread", "t"]);
        chat.enter("you>", "Please wait long.");
        chat.see("→ wait_long");
        chat.keys(CTRL_C);
        chat.see("stopping; press Ctrl-C again to exit at once");
        chat.last("you>");
        chat.see("stopped");
        // The chat goes on.
        chat.enter("you>", "Please find the order.");
        chat.see("A-1");
        chat.last("you>");
        // A line is discarded.
        chat.keys("never mind");
        chat.see("you> never mind");
        chat.keys(CTRL_C);
        chat.last("you>");
        chat.keys(CTRL_C);
        chat.see("press Ctrl-C again to leave the chat");
        chat.last("you>");
        chat.keys(CTRL_C);
        let (status, screen) = chat.end();
        assert_eq!(status, Some(130), "{screen}");
        assert_eq!(place.said("user"), ["Please wait long.", "Please find the order."]);

        // One that stopped an answer is the first one.
        let mut chat = place.chat(&["trial", "--thread", "t"]);
        chat.enter("you>", "Please wait long.");
        chat.see("→ wait_long");
        chat.keys(CTRL_C);
        chat.see("stopped");
        chat.last("you>");
        chat.keys(CTRL_C);
        assert_eq!(chat.end().0, Some(130));
    }
}

#[test]
fn commands_list_open_and_leave_threads() {
    for place in Place::both() {
        let mut chat = place.chat(&["desk", "--thread", "t"]);
        chat.enter("you>", "/inbox");
        chat.see("nothing waits for an answer");
        chat.enter("you>", "Refund order A1001, amount 25.");
        chat.last(APPROVE);
        chat.enter(APPROVE, "/open");
        chat.enter("you>", "What is 6 times 7?");
        chat.see("42");
        chat.enter("you>", "/threads");
        chat.see("waits for an answer");
        chat.enter("you>", "/inbox");
        chat.see("refund_order {\"order_id\":\"A1001\"");
        chat.enter("you>", "/open 1");
        chat.see("you> Refund order A1001, amount 25.");
        chat.enter(APPROVE, "y");
        chat.see("status refunded");
        chat.enter("you>", "/open nothing-like-this");
        chat.see("error[");
        chat.enter("you>", "/halp");
        chat.see("unknown command `/halp`");
        chat.last("you>");
        chat.keys("/he\t");
        chat.last("you> /help");
        chat.keys("\r");
        chat.see("Alt-Enter");
        chat.enter("you>", "/model");
        chat.see(if place.server.is_some() {
            "chooses the model"
        } else {
            "model scripted:rules ("
        });
        chat.enter("you>", "/quit");
        let (status, screen) = chat.end();
        assert_eq!(status, Some(0), "{screen}");
        assert!(screen.ends_with("--thread t"), "{screen}");
    }
}

#[test]
fn a_question_stays_open_when_the_chat_is_left_and_is_asked_again() {
    for place in Place::both() {
        let mut chat = place.chat(&["desk", "--thread", "t"]);
        chat.enter("you>", "Refund order A1001, amount 25.");
        chat.last(APPROVE);
        chat.keys(CTRL_D);
        assert_eq!(chat.end().0, Some(3));
        let mut chat = place.chat(&["--thread", "t"]);
        chat.enter(APPROVE, "y");
        chat.see("status refunded");
        chat.last("you>");
    }
}

#[test]
fn each_answer_of_the_scripted_model_says_so_and_without_colours_nothing_is_styled() {
    let label = "scripted model";
    let place = Place { home: home().set("NO_COLOR", "1"), server: None };
    let mut chat = place.chat(&["desk", "--thread", "t"]);
    chat.enter("you>", "Where is order A1001?");
    chat.enter("you>", "What is 6 times 7?");
    chat.see("42");
    chat.last("you>");
    chat.keys(CTRL_D);
    let lines = chat.lines();
    assert_eq!(lines.iter().filter(|line| line.contains(label)).count(), 3, "{lines:?}");
    let raw = String::from_utf8_lossy(&chat.raw).into_owned();
    let sequences = raw.split("\x1b[").skip(1);
    let ends = sequences
        .map(|rest| rest.find(|end: char| end.is_ascii_alphabetic()).map(|at| &rest[at..=at]));
    assert!(ends.flatten().all(|end| end != "m"), "{raw:?}");

    let place = Place::store();
    let mut chat = place.chat(&["desk", "--thread", "t"]);
    chat.last("you>");
    assert!(String::from_utf8_lossy(&chat.raw).contains("\x1b[1;33m"), "with colours");
}

/// Reads a request to its end.
fn read_request(connection: &TcpStream) {
    let mut reader = BufReader::new(connection);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a request");
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        if line.is_empty() {
            break;
        }
    }
    reader.read_exact(&mut vec![0; length]).expect("a body");
}

/// A model whose answer has two parts; the second one waits for the test.
fn slow_model(first: &'static str, second: &'static str) -> (String, Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let (go_on, waits) = channel::<()>();
    std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("a connection");
        read_request(&connection);
        let chunk = |delta: Value, finish: Value| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
            let chunk = json!({"id": "c", "object": "chat.completion.chunk", "model": "desk",
                "choices": [choice]});
            format!("data: {chunk}\n\n")
        };
        let head =
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n";
        let text = chunk(json!({"role": "assistant", "content": first}), Value::Null);
        connection.write_all(format!("{head}{text}").as_bytes()).expect("written");
        waits.recv().expect("the test goes on");
        let text = chunk(json!({"content": second}), Value::Null);
        let end = chunk(json!({}), json!("stop"));
        connection.write_all(format!("{text}{end}data: [DONE]\n\n").as_bytes()).expect("written");
    });
    (url, go_on)
}

#[test]
fn an_answer_is_broken_between_words_at_the_width_that_the_terminal_has_now() {
    for at_server in [false, true] {
        let first = "Extraordinarily comprehensive explanations sometimes consume considerably more \
                     horizontal space than narrow terminals provide, and ";
        let second = "afterwards everything continues with remarkably shorter lines because somebody \
                      changed the window.\n";
        let (url, go_on) = slow_model(first, second);
        let home = Home::new().provider(&url);
        let server = at_server.then(|| {
            let args = ["serve", "--listen", "127.0.0.1:0", "--token", TOKEN];
            Served::start(&home, Path::new(PROGRAM), &args).0
        });
        let place = Place { home, server };
        let mut chat = place.chat(&["desk"]);
        chat.enter("you>", "Explain it.");
        chat.see("provide,");
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let before = chat.lines();
        let known = words(&format!("{first}{second}").trim_end().replace('\n', " "));
        let start = before.iter().position(|line| line.starts_with("Extraordinarily"));
        let start = start.expect("the answer");
        assert!(before[start..].len() > 1, "it is broken: {before:?}");
        chat.resize(50, 40);
        go_on.send(()).expect("the model waits");
        chat.last("you>");
        let lines = chat.lines();
        let after = lines.iter().position(|line| line.contains("remarkably")).expect("the rest");
        for line in &lines[after..] {
            assert!(line.chars().count() <= 40, "{line}");
            let whole = words(line).iter().all(|word| known.contains(word) || word == "you>");
            assert!(whole, "a word is broken: {line}\n{}", lines.join("\n"));
        }
        chat.enter("you>", "/quit");
        assert_eq!(chat.end().0, Some(0));
    }
}

#[test]
fn a_token_is_saved_and_a_wrong_one_is_refused() {
    let place = Place::server();
    let url = format!("http://{}", place.server.as_ref().expect("a server").address);
    let weft = |args: &[&str]| place.home.weft(&[&["chat", "--url", &url], args].concat());
    let came = weft(&[]);
    assert_eq!(came.status, Some(2), "{came:?}");
    assert!(came.errors.contains("error[W0717]") && came.errors.contains("status 401"), "{came:?}");
    let came = weft(&["--token", "another-token-of-sixteen", "--save-token"]);
    assert_eq!(came.status, Some(2), "a wrong token is not saved: {came:?}");
    let came = weft(&["--token", TOKEN, "--save-token"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    let came = weft(&[]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert!(!came.errors.contains(TOKEN) && !came.out.contains(TOKEN), "{came:?}");
    for (url, says) in [
        ("ftp://x", "the scheme is `ftp`"),
        ("http://u:p@x", "has a user name"),
        ("http://127.0.0.1:9", "error[W0803]"),
    ] {
        let came = place.home.weft(&["chat", "desk", "--thread", "t", "--url", url]);
        assert_ne!(came.status, Some(0), "{came:?}");
        assert!(came.errors.contains(says), "{came:?}");
    }
}

#[test]
fn a_program_that_is_no_server_of_agents_is_named() {
    for (body, says) in [
        ("<html>", "/assistants/search is not JSON"),
        ("{}", "the assistants are not a list"),
        ("[]", "name the agent to chat with"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let answer = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().expect("a connection");
            read_request(&connection);
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
            connection.write_all(head.as_bytes()).expect("written");
        });
        let came = home().weft(&["chat", "--url", &url]);
        answer.join().expect("it answered");
        let (code, status) = if body == "[]" { ("W0708", 2) } else { ("W0718", 1) };
        assert_eq!(came.status, Some(status), "{came:?}");
        assert!(came.errors.contains(says) && came.errors.contains(code), "{came:?}");
    }
}

#[test]
fn a_pipe_talks_to_a_server_line_by_line() {
    let place = Place::server();
    let url = format!("http://{}", place.server.as_ref().expect("a server").address);
    let args = ["chat", "desk", "--url", &url, "--token", TOKEN];
    let mut command = place.home.command(&args);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().expect("it starts");
    let lines = b"/help\nRefund order A1001, amount 25.\nn, ask the boss\n";
    child.stdin.take().expect("a pipe").write_all(lines).expect("it listens");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("approve exactly this call? [y/n]\nn, ask the boss\n"), "{out}");
    assert!(out.contains("you> /help\n"), "a message: {out}");
    assert!(out.contains("a person refused the call of `refund_order`: ask the boss"), "{out}");
}

#[test]
fn a_question_of_a_member_names_it() {
    for place in Place::both() {
        let mut chat = place.chat(&["supervisor", "--thread", "t"]);
        chat.enter("you>", "Refund order A1002, amount 40.");
        chat.see("? [desk] refund_order needs approval (external side effect): it moves money");
        chat.enter(APPROVE, "/open");
        chat.enter("you>", "/inbox");
        chat.see("[desk] refund_order {\"order_id\":\"A1002\"");
        chat.enter("you>", "/open 1");
        chat.see("? [desk] refund_order needs approval");
        chat.enter(APPROVE, "y");
        chat.see("status refunded");
        chat.enter("you>", "What is 6 plus?");
        chat.see("? [calculator] Which b should I use for add?");
        chat.enter("your answer:", "7");
        chat.see("13");
        chat.last("you>");
        chat.keys(CTRL_D);
        let (status, screen) = chat.end();
        assert_eq!(status, Some(0), "{screen}");
    }
}

#[test]
fn the_history_of_typed_messages_is_named_and_deleted_with_a_thread() {
    let place = Place::store();
    let mut chat = place.chat(&["desk", "--thread", "t"]);
    chat.enter("you>", "Where is order A1001?");
    chat.see("you> Where is order A1001?");
    chat.last("you>");
    chat.keys(CTRL_D);
    assert_eq!(chat.end().0, Some(0));
    let history = place.home.path(".local/share/weftwork/chat-history");
    assert!(std::fs::read_to_string(&history).expect("a history").contains("A1001"));
    let fork = place.home.weft(&["threads", "fork", "t", "copy"]);
    assert_eq!(fork.status, Some(0), "{fork:?}");
    let came = place.home.weft(&["threads", "delete", "copy", "--yes"]);
    let named = format!("{}; --history deletes it", history.display());
    assert!(came.status == Some(0) && came.errors.contains(&named), "{came:?}");
    let came = place.home.weft(&["threads", "delete", "t", "--yes", "--history"]);
    assert!(came.status == Some(0) && !history.exists(), "{came:?}");
    // Also later, when the thread is not there any more.
    std::fs::write(&history, "Where is order A1001?").expect("writes");
    let came = place.home.weft(&["threads", "delete", "t", "--yes", "--history"]);
    assert!(came.status == Some(2) && !history.exists(), "{came:?}");
}
